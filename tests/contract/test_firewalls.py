# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts with a firewall that drops what it does not know: ports are opened by the commands that preflight names."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.opening import (
    PEER,
    UFW,
    commands,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.open_ports import OPENED
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    ADDRESSES,
    HERE,
    THERE,
    Call,
    Host,
    Peer,
    output_of,
)
from ansible_collections.cluster_compute.session.tests.support.contract.preflight import (
    FIRST,
    LAST,
    ask,
    ask_peer,
    listening,
    plan,
)

TABLES = ("iptables", "ip6tables")


@pytest.fixture
def ufw(nothing_is_left: None) -> Iterator[None]:
    """Have ufw manage this host's firewall as it is when it is installed: nothing comes in."""
    before = {table: output_of(f"{table}-save") for table in TABLES}
    output_of("apt-get", "install", "--yes", "--quiet=2", "ufw")
    try:
        output_of("ufw", "--force", "enable")
        yield
    finally:
        subprocess.run(["ufw", "--force", "disable"], check=True, capture_output=True)
        output_of("apt-get", "purge", "--yes", "--quiet=2", "ufw")
        for table, text in before.items():
            subprocess.run([f"{table}-restore"], input=text, text=True, check=True)


def heard(host: Host, peer: Peer, shared: Path) -> tuple[bool, bool, bool]:
    """Return whether the other host reaches this one by overlay, at a port of encrypted sessions and of images."""
    wanted = plan(ADDRESSES, shared)
    there = partial(ask_peer, peer, wanted=wanted)
    here, other = listening(wanted), there("listening")
    known = {
        "ports": {HERE: here["port"], THERE: other["port"]},
        "udp_ports": {HERE: here["udp"], THERE: other["udp"]},
    }
    ask(host, "reached", plan=wanted, host=HERE, server=here["server"], **known)
    tcp = there("reached", server=other["server"], **known)["peers"]["0"]["problem"]
    found = ask(host, "ended", server=here["server"])["heard"]
    there("ended", server=other["server"])
    return "1" in found["tunnel"], "1" in found["plain"], not tcp


def test_the_commands_that_preflight_names_open_ufw(host: Host, peer: Peer, shared: Path, ufw: None) -> None:
    assert ask(host, "examined")["observed"]["firewall"] == UFW
    assert heard(host, peer, shared) == (False, False, False)
    for protocol, ports in (("udp", "4799"), ("udp", "51990-51991"), ("tcp", f"{FIRST}-{LAST}")):
        output_of(*commands(UFW, protocol, ports).replace(PEER, ADDRESSES[THERE]).split())
    assert heard(host, peer, shared) == (True, True, True)
    output_of("ufw", "reload")
    assert heard(host, peer, shared) == (True, True, True)


def test_the_preparation_opens_ufw_for_other_hosts_and_closes_it_again(
    host: Host, peer: Peer, shared: Path, ufw: None, keep_out: Call
) -> None:
    output_of("ufw", "allow", "from", "192.0.2.77", "to", "any", "port", "4799", "proto", "udp")
    before = output_of("ufw", "show", "added")
    ports = ["udp/4799", "udp/51990-51991", f"tcp/{FIRST}-{LAST}"]
    keep_out()
    for check_mode in (True, False):
        found = keep_out(check_mode=check_mode, peers=["192.0.2.77", ADDRESSES[THERE]], ports=ports)
        assert found["actions"] == [f"create file {OPENED}", "open ports in ufw"]
        assert heard(host, peer, shared) == ((not check_mode,) * 3)
    assert keep_out(peers=[ADDRESSES[THERE], "192.0.2.77"], ports=ports)["changed"] is False
    closed = keep_out(peers=[ADDRESSES[THERE]], ports=ports[:2])
    assert closed["actions"] == ["close ports in ufw", f"update file {OPENED}"]
    assert heard(host, peer, shared) == (True, True, False)
    keep_out(state="absent")
    assert heard(host, peer, shared) == (False, False, False)
    assert (output_of("ufw", "show", "added"), OPENED.exists()) == (before, False)


def test_a_policy_that_drops_what_nftables_accepts_is_seen(nothing_is_left: None) -> None:
    before = output_of("iptables", "-S", "FORWARD").split()[2]
    try:
        for policy in ("DROP", "ACCEPT"):
            output_of("iptables", "-P", "FORWARD", policy)
            assert firewall.drops_forwarded() is (policy == "DROP")
    finally:
        output_of("iptables", "-P", "FORWARD", before)


def test_a_session_works_with_ufw_and_after_it_has_written_its_rules_again(host: Host, ufw: None) -> None:
    session = host.launch(size=2)
    for again in (["ufw", "reload"], ["ufw", "--force", "disable"], ["ufw", "--force", "enable"]):
        output_of(*again)
        assert session.run_in("main1", "ssh", "sub1", "hostname").strip() == "sub1"
        assert session.repair()["actions"] == []
