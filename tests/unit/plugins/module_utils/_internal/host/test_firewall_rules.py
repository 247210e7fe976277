# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    OverlayTunnel,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules import isolation
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import (
    engine_settings,
    firewall_rules,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.steps import descriptions
from ansible_collections.cluster_compute.session.tests.support.adapters.engine_server import engine_server


@pytest.mark.parametrize(
    ("text", "uses_nftables"),
    [
        ('{"firewall-backend": "nftables"}', True),
        ('{"firewall-backend": "iptables"}', False),
        ("{}", False),
        ("[]", False),
        ("{", False),
        (None, False),
    ],
)
def test_before_the_engine_runs_its_settings_tell(
    text: str | None, uses_nftables: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "daemon.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(engine_settings, "FILE", path)
    assert firewall_rules.will_use_nftables() is uses_nftables


@pytest.mark.parametrize(
    ("api", "backend", "form"),
    [
        ("1.41", None, "iptables"),  # 20.10.24
        ("1.45", None, "iptables"),  # 26.1.5
        ("1.51", {"Driver": "iptables"}, "iptables"),  # 28.5.2
        ("1.55", {"Driver": "iptables", "Info": [["EnableUserlandProxy", "true"]]}, "iptables"),  # 29.6.1
        ("1.52", {"Driver": "nftables"}, "nft"),
        ("1.52", {"Driver": "nftables+firewalld", "Info": [["ReloadedAt", "2025-07-16T16:59:14Z"]]}, "nft"),
    ],
)
def test_rules_have_the_form_of_the_engine_s_own(
    api: str, backend: dict[str, Any] | None, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers to ``GET /info`` are recorded; those of the last two are of Docker's documentation and tests."""
    monkeypatch.setattr(firewall, "_run", lambda command, stdin=None: '{"nftables": []}' if "-j" in command else "")
    monkeypatch.setattr(firewall, "_has", lambda _name: True)
    monkeypatch.setattr(firewall, "kinds", lambda: [firewall.IPTABLES])
    wanted = isolation.isolation_of_probe(5000, 4789, ("192.0.2.1", "192.0.2.2"), "192.0.2.1", ("eth0",))
    with engine_server(tmp_path) as server:
        server.version = api
        server.answer("GET /info", value={} if backend is None else {"FirewallBackend": backend})
        (step,) = firewall_rules.rule_steps(wanted, Engine.connect(path=str(server.path)).uses_nftables())
    assert set(step.after) == {form}
    assert "drop" in str(step.after).lower()


def test_a_session_that_waits_needs_no_rules_nor_one_that_all_are_kept_out_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "overlays.json"
    monkeypatch.setattr(firewall_rules, "OVERLAYS", path)
    tunnel = OverlayTunnel(5000, 4789, ("127.0.0.1",))
    record = replace(new_record("x", "alice", {"name": "train"}), status="PENDING", tunnel=tunnel)
    running = replace(record, status="RUNNING")
    assert firewall_rules.isolation_of_stub(record) is None
    assert firewall_rules.isolation_of_stub(replace(running, tunnel=None)) is None
    found = firewall_rules.isolation_of_stub(running)
    assert found is not None
    assert found.tunnel is not None
    assert (found.tunnel.interfaces, found.egress, found.inner) == (("lo",), None, None)
    path.write_text('{"port": 4789, "first": 4096, "last": 4999, "interface": "eth0"}')
    assert firewall_rules.isolation_of_stub(running) == found
    path.write_text('{"port": 4789, "first": 4096, "last": 5000, "interface": null}')
    assert firewall_rules.isolation_of_stub(running) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"port": 4789, "first": 4096}', '{"port": "x"}'])
def test_a_damaged_file_of_overlays_is_as_good_as_none(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "overlays.json"
    path.write_text(text)
    monkeypatch.setattr(firewall_rules, "OVERLAYS", path)
    assert firewall_rules.read_overlays() is None


def test_standing_rules_that_a_stopped_run_left_without_their_file_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "overlays.json"
    monkeypatch.setattr(firewall_rules, "OVERLAYS", path)
    owner, name = isolation.STANDING
    table = SimpleNamespace(owners=lambda: dict([isolation.STANDING]))
    monkeypatch.setattr(firewall, "nft_owners", dict)
    monkeypatch.setattr(firewall, "tables", lambda: {firewall.IPTABLES: table})

    def planned() -> list[str]:
        return descriptions(firewall_rules.overlay_stages(None, nftables=False))

    assert planned() == [f"remove firewall rules {name}"]
    assert owner not in firewall.sessions(), "no teardown takes them away"
    path.write_text("{}")
    assert planned() == [f"remove file {path}", f"remove firewall rules {name}"]
    table.owners = dict
    path.unlink()
    assert planned() == []
