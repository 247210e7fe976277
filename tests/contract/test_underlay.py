# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where tunnels of sessions end on hosts as sites have them, and what stands in their way there."""

from __future__ import annotations

import copy
import json
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Engine,
    EngineError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.probe import Peer as ProbePeer
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules import isolation
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import preflight
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    ADDRESSES,
    CABLE,
    HERE,
    THERE,
    Host,
    Peer,
    Session,
    output_of,
    rules,
    until,
)
from ansible_collections.cluster_compute.session.tests.support.contract.preflight import (
    CALL,
    TOKEN,
    ask,
    listening,
    plan,
)

SECOND = "br-ask1"
ROUTED = {HERE: "10.212.0.1", THERE: "10.212.0.2"}
"""Addresses on the loopback interfaces, which routing brings there by either cable."""
BESIDE = {HERE: "10.211.0.1", THERE: "10.211.0.2"}


@pytest.fixture
def fabric(peer: Peer) -> Iterator[Peer]:
    """Lay a second cable to the peer, which carries less, and give both an address that is reached by either."""
    output_of("ip", "link", "add", SECOND, "type", "veth", "peer", "name", SECOND, "netns", str(peer.process.pid))
    for run, own, other in ((output_of, HERE, THERE), (peer.run, THERE, HERE)):
        run("ip", "link", "set", "lo", "up")
        run("ip", "address", "add", f"{BESIDE[own]}/24", "dev", SECOND)
        run("ip", "link", "set", SECOND, "mtu", "1480", "up")
        run("ip", "address", "add", f"{ROUTED[own]}/32", "dev", "lo")
        hops = ["nexthop", "via", ADDRESSES[other], "dev", CABLE, "nexthop", "via", BESIDE[other], "dev", SECOND]
        run("ip", "route", "add", f"{ROUTED[other]}/32", *hops)
    try:
        yield peer
    finally:
        output_of("ip", "link", "delete", SECOND)
        output_of("ip", "address", "delete", f"{ROUTED[HERE]}/32", "dev", "lo")


def planned(host: Host, addresses: dict[str, str], **request: Any) -> Session:
    """Return a session that is to have a replica here and one at the peer, whose tunnels end at these addresses."""
    session = host.plan(size=2, others=1, max_replicas_per_host=1, **request)
    made = copy.deepcopy(session.plan)
    own = host.call("host_info", underlay_address=addresses[HERE])["host"]
    assert own["usable"], own["problem"]
    for name, address in addresses.items():
        made["hosts"][name] |= {"underlay_address": address, "underlay_interface": own["underlay"]["interface"]}
    session.record = replace(session.record, plan=made)
    return session


def reach(session: Session, peer: Peer, addresses: dict[str, str]) -> None:
    """Give the peer the network of its replica."""
    network = session.plan["network"]
    mine, other = session.plan["replicas"]
    tunnel = ["id", str(network["vni"]), "local", addresses[THERE], "remote", addresses[HERE], "dstport"]
    peer.run("ip", "link", "add", "vx", "address", other["mac"], "type", "vxlan", *tunnel, str(network["port"]))
    peer.run("ip", "address", "add", f"{other['address']}/{network['subnet'].partition('/')[2]}", "dev", "vx")
    peer.run("ip", "link", "set", "vx", "up")
    peer.run("ip", "neigh", "add", mine["address"], "lladdr", mine["mac"], "dev", "vx")


def pings(session: Session, peer: Peer) -> bool:
    """Tell whether the peer's replica gets an answer from the one here."""
    done = peer.run("sh", "-c", f"ping -n -q -c 1 -w 2 {session.plan['replicas'][0]['address']} || true")
    return "1 received" in done


def test_an_address_that_routing_brings_is_the_end_of_a_tunnel(host: Host, fabric: Peer) -> None:
    own = host.call("host_info", underlay_address=ROUTED[HERE])["host"]
    assert own["usable"], own["problem"]
    assert (own["underlay"]["address"], own["underlay"]["mtu"]) == (ROUTED[HERE], 1480)
    assert own["underlay"]["interface"] in (CABLE, SECOND)
    session = planned(host, ROUTED).start()
    reach(session, fabric, ROUTED)
    # By one cable, by the other one, and by one way there and another back.
    for there in (CABLE, SECOND):
        via = (ADDRESSES if there == CABLE else BESIDE)[HERE]
        fabric.run("ip", "route", "replace", f"{ROUTED[HERE]}/32", "via", via, "dev", there)
        for back in (CABLE, SECOND):
            via = (ADDRESSES if back == CABLE else BESIDE)[THERE]
            output_of("ip", "route", "replace", f"{ROUTED[THERE]}/32", "via", via, "dev", back)
            assert until(lambda: pings(session, fabric), 5), (there, back)
    # Nobody else is let in: not by where containers are, and not from another address.
    accepted = [rule for rule in rules() if "RETURN" in rule and ROUTED[THERE] in rule]
    assert len(accepted) == 2
    assert all(f"-i {cable} " in "".join(accepted) for cable in (CABLE, SECOND))
    fabric.run("ip", "address", "add", "10.212.0.3/32", "dev", "lo")
    fabric.run("ip", "link", "delete", "vx")
    reach(session, fabric, {**ROUTED, THERE: "10.212.0.3"})
    assert not pings(session, fabric)
    assert session.repair()["changed"] is True  # one route is left of two
    assert session.repair()["changed"] is False


def test_packets_may_go_and_come_by_another_interface_than_the_one_that_has_the_address(
    host: Host, fabric: Peer
) -> None:
    ends = {HERE: BESIDE[HERE], THERE: ADDRESSES[THERE]}
    fabric.run("ip", "route", "add", f"{BESIDE[HERE]}/32", "via", ADDRESSES[HERE], "dev", CABLE)
    session = planned(host, ends).start()
    reach(session, fabric, ends)
    assert until(lambda: pings(session, fabric), 5)


def test_a_routed_address_without_a_way_is_told(host: Host, fabric: Peer) -> None:
    output_of("ip", "route", "delete", f"{ROUTED[THERE]}/32")
    problem = host.call("host_info", underlay_address=ROUTED[HERE])["host"]["problem"]
    assert f"The address {ROUTED[HERE]} is on lo" in problem
    assert "no route to them" in problem


def test_hosts_try_each_other_under_the_rules_of_a_session(
    host: Host, fabric: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = plan(ROUTED, tmp_path, mtu=1430)
    wanted["storage"] = {}
    before = rules()

    def there(state: str, **given: Any) -> dict[str, Any]:
        arguments = {"state": state, "token": TOKEN, "roots": [], "plan": wanted, "host": THERE, **given}
        return dict(json.loads(fabric.run(sys.executable, "-c", CALL, json.dumps(arguments))))

    here = listening(wanted)
    accepted = [rule for rule in rules() if rule not in before and "RETURN" in rule and ROUTED[THERE] in rule]
    assert len(accepted) == 2, "as a session's rules are"
    assert firewall.sessions() == {}
    other = there("listening")
    known = {
        "ports": {HERE: here["port"], THERE: other["port"]},
        "udp_ports": {HERE: here["udp"], THERE: other["udp"]},
    }
    ask(host, "reached", plan=wanted, host=HERE, server=here["server"], **known)
    there("reached", server=other["server"], **known)
    assert ask(host, "ended", server=here["server"]) == {"heard": {"tunnel": {"1": 1430}, "plain": {"1": 128}}}
    assert there("ended", server=other["server"])["heard"] == {"tunnel": {"0": 1430}, "plain": {"0": 128}}
    assert rules() == before

    def refuse(*_arguments: object) -> None:
        raise EngineError("The engine is off.")

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "connect", refuse)
        own = ProbePeer(0, "198.18.0.1", "02:00:00:00:00:01", ROUTED[HERE])
        preflight._put_rules(own, [], wanted["settings"] | {"vni": 7777})
    assert [rule for rule in rules() if rule not in before]
    firewall.remove(isolation.PROBE[0])


# ---- who has the port -----------------------------------------------------------------------------------------------


OTHER = "vxlan_sys_4789"


@pytest.fixture
def planned_before(host: Host) -> Iterator[Session]:
    """Return a session that was planned before another program had the port, as Open vSwitch, Cilium and Calico do."""
    found = host.plan(size=2, others=1, max_replicas_per_host=1)
    output_of("ip", "link", "add", OTHER, "type", "vxlan", "external", "dstport", "4789")
    output_of("ip", "link", "set", OTHER, "up")
    yield found
    output_of("ip", "link", "delete", OTHER)


def test_who_holds_the_port_of_overlays_is_named(host: Host, planned_before: Session) -> None:
    why = host.call("host_info")["host"]["no_overlay"]
    assert "UDP port 4789" in why
    assert f"(cluster_compute_vxlan_port), is held by the link {OTHER}" in why
    assert planned_before.bring("held")["granted"]
    with pytest.raises(SessionError, match=f"is held by the link {OTHER}.*cluster_compute_vxlan_port") as failed:
        planned_before.bring("started")
    assert failed.value.args[1]["sick"] is True, "the next plan leaves the host out"
    wanted = plan({HERE: "127.0.0.1", THERE: "127.0.0.2"}, Path("/srv"))
    wanted["settings"]["port"], wanted["storage"] = 4789, {}
    with pytest.raises(SessionError, match=f"is held by the link {OTHER}"):
        ask(host, "listening", plan=wanted, host=HERE)
    alone = host.launch(name="alone", size=2)
    assert set(alone.containers()) == {"main1", "sub1"}


def test_a_program_that_holds_the_port_is_named_and_the_links_of_sessions_are_nothing_in_the_way(host: Host) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 4789))
        own = host.call("host_info")["host"]["no_overlay"]
        name = Path("/proc/self/comm").read_text(encoding="ascii").strip()
        assert f"is held by the program {name} (process {Path('/proc/self').resolve().name})" in own
    assert host.call("host_info")["host"]["no_overlay"] == ""
    host.launch(size=2, others=1, max_replicas_per_host=1)
    assert host.call("host_info")["host"]["no_overlay"] == ""


# ---- the table of connections ---------------------------------------------------------------------------------------

SEND = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
    for port in range(20000, 20000 + int(sys.argv[2])):
        channel.sendto(b"x", (sys.argv[1], port))
"""
MANY, PART = 400, 40


def sent(session: Session, target: str) -> None:
    """Have the replica here begin many connections to an address, each to a port of its own."""
    pid = session.containers()["main1"]["State"]["Pid"]
    output_of("nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-c", SEND, target, str(MANY))


def arrived(run: Callable[..., str], target: str) -> int:
    """Return how many packets came to an address that begin a connection."""
    (line,) = [line for line in run("iptables", "-nvxL", "INPUT").splitlines() if target in line and "20000" in line]
    return int(line.split()[0])


def test_a_session_cannot_fill_the_table_of_connections(
    host: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "connections_of", lambda most: PART if most else 0)
    session, other = host.launch(), host.launch(name="other")
    counted = ["INPUT", "-p", "udp", "--dport", f"20000:{20000 + MANY}", "-d"]
    peer.run("iptables", "-A", *counted, ADDRESSES[THERE], "-j", "ACCEPT")
    # Behind the rules of sessions, where what they let pass is counted.
    output_of("iptables", "-A", *counted, ADDRESSES[HERE], "-j", "ACCEPT")
    try:
        sent(session, ADDRESSES[THERE])
        assert 0 < arrived(peer.run, ADDRESSES[THERE]) <= PART
        sent(session, ADDRESSES[HERE])
        assert arrived(output_of, ADDRESSES[HERE]) < PART, "what goes to the host itself is no other part"
        before = arrived(output_of, ADDRESSES[HERE])
        sent(other, ADDRESSES[HERE])
        assert before < arrived(output_of, ADDRESSES[HERE]) <= before + PART, "nobody takes another's part"
    finally:
        output_of("iptables", "-D", *counted, ADDRESSES[HERE], "-j", "ACCEPT")
    assert session.repair()["changed"] is False
