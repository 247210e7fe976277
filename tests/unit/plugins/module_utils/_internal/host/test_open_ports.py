# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports that are opened in a firewall, with a stand-in for firewalld. ufw itself is seen in the contract tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.opening import (
    FIREWALLD,
    UFW,
    rules,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import open_ports
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.steps import StepFailed, perform

PORTS = ["udp/4789", "tcp/8480-8489"]
SITES = 'rule family="ipv4" source address="192.0.2.9" port port="4789" protocol="udp" accept'
PROGRAM = """#!/usr/bin/python3
# Keeps rules for later boots in one file, and those in force in another. Another program changes the first alone.
import pathlib, sys
is_offline = sys.argv[0].endswith("firewall-offline-cmd")
lines = pathlib.Path(f"FOLDER/{'later' if is_offline or '--permanent' in sys.argv else 'now'}")
if not is_offline and sys.argv[1] != "--state" and pathlib.Path("FOLDER/stopped").exists():
    sys.exit("FirewallD is not running")
known = lines.read_text().splitlines()
option, _equals, rule = sys.argv[-1].partition("=")
if pathlib.Path("FOLDER/broken").exists() and "8480" in rule and option.startswith("--add"):
    sys.exit("ALREADY_BROKEN")
if option == "--state":
    sys.exit(252 if pathlib.Path("FOLDER/stopped").exists() else 0)
if option == "--list-rich-rules":
    print("\\n".join(known))
elif option == "--add-rich-rule":
    lines.write_text("\\n".join([*known, rule]))
elif option == "--remove-rich-rule":
    lines.write_text("\\n".join(line for line in known if line != rule))
"""


@pytest.fixture
def firewalld(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have firewalld with one rule of the site; return the folder with its rules."""
    for program in (tmp_path / "firewall-cmd", tmp_path / "firewall-offline-cmd"):
        program.write_text(PROGRAM.replace("FOLDER", str(tmp_path)), encoding="utf-8")
        program.chmod(0o755)
    for name in ("later", "now"):
        (tmp_path / name).write_text(SITES, encoding="utf-8")
    monkeypatch.setattr(firewall, "UFW_SETTINGS", tmp_path / "ufw.conf")
    monkeypatch.setattr(firewall, "_PATH", str(tmp_path))
    monkeypatch.setitem(firewall._ENVIRONMENT, "PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(open_ports, "OPENED", tmp_path / "opened.json")
    return tmp_path


def opened(folder: Path) -> list[list[str]]:
    """Return the rules in force, and those for later boots."""
    return [(folder / name).read_text(encoding="utf-8").split("\n") for name in ("now", "later")]


def actions(peers: list[str], ports: list[str] = PORTS) -> list[str]:
    """Open ports; return what was done."""
    stages = open_ports.stages(peers, ports)
    perform(stages)
    return [step.describe() for stage in stages for step in stage]


def test_firewalld_lets_other_hosts_in_now_and_later_and_the_site_s_own_rules_stay(firewalld: Path) -> None:
    file = f"file {firewalld}/opened.json"
    assert actions(["192.0.2.9", "2001:db8::/64"]) == [f"create {file}", "open ports in firewalld"]
    own = [rule for rule in rules(FIREWALLD, ["192.0.2.9", "2001:db8::/64"], PORTS) if rule != SITES]
    assert len(own) == 3
    assert opened(firewalld) == [[SITES, *own]] * 2
    assert actions(["2001:db8::/64", "192.0.2.9"]) == []
    assert actions(["2001:db8::/64"], PORTS[:1]) == ["close ports in firewalld", f"update {file}"]
    assert opened(firewalld) == [[SITES, own[1]]] * 2
    assert actions([]) == ["close ports in firewalld", f"remove {file}"]
    assert opened(firewalld) == [[SITES]] * 2
    assert actions([]) == []


def test_a_rule_that_is_refused_leaves_nothing_open(firewalld: Path) -> None:
    (firewalld / "broken").touch()
    with pytest.raises(StepFailed, match="8480"):
        actions(["192.0.2.0/24"])
    (firewalld / "broken").unlink()
    assert actions([])[-1].startswith("remove file")
    assert opened(firewalld) == [[SITES]] * 2


def test_rules_of_a_firewall_that_is_gone_are_forgotten(firewalld: Path) -> None:
    (firewalld / "opened.json").write_text(json.dumps([[UFW, "allow from 192.0.2.9 to any port 4789 proto udp"]]))
    assert actions([]) == [f"remove file {firewalld}/opened.json"]
    for program in firewalld.glob("firewall-*"):
        program.unlink()
    assert actions(["192.0.2.9"]) == [], "nothing drops what comes"


def test_a_firewalld_that_was_stopped_forgets_what_it_was_opened_for(firewalld: Path) -> None:
    actions(["192.0.2.0/24"])
    (firewalld / "stopped").touch()
    file = f"file {firewalld}/opened.json"
    assert actions([]) == ["close ports in firewalld", f"remove {file}"]
    assert opened(firewalld)[1] == [SITES]


def test_what_a_run_that_was_killed_has_opened_is_completed_and_closed(firewalld: Path) -> None:
    file = f"file {firewalld}/opened.json"
    actions(["192.0.2.0/24"])
    (firewalld / "now").write_text(SITES, encoding="utf-8")
    assert actions(["192.0.2.0/24"]) == ["open ports in firewalld"]
    (firewalld / "later").write_text(SITES, encoding="utf-8")
    assert actions([]) == ["close ports in firewalld", f"remove {file}"]
    assert opened(firewalld) == [[SITES]] * 2


def test_an_address_or_a_port_that_cannot_be_is_named() -> None:
    for peers, ports, said in (
        (["h2"], PORTS, "peers is 'h2': It must be an address or a subnet"),
        (["0.0.0.0/0"], PORTS, "peers is '0.0.0.0/0': It must be an address or a subnet"),
        (["192.0.2.9"], ["4789"], "ports is '4789': It must be such as udp/4789"),
    ):
        with pytest.raises(InvalidInput, match=said):
            rules(UFW, peers, ports)
    assert rules("", ["192.0.2.9"], PORTS) == []
    assert 'address="2001:db8::/32"' in rules(FIREWALLD, ["2001:db8::/32"], PORTS)[0]
    assert rules(UFW, ["192.0.2.9"], ["udp/61000 - 61999", "tcp/8480-8480"]) == [
        "allow from 192.0.2.9 to any port 61000:61999 proto udp",
        "allow from 192.0.2.9 to any port 8480 proto tcp",
    ]
    assert rules(UFW, ["192.0.2.9/32", "192.0.2.9/24"], ["tcp/8480-8489"]) == [
        "allow from 192.0.2.9 to any port 8480:8489 proto tcp",
        "allow from 192.0.2.0/24 to any port 8480:8489 proto tcp",
    ]
