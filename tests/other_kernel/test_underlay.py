# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ends of tunnels on a bond, a VLAN, a loopback or dummy interface or in a VRF, under the firewall rules of a session.

Needs root and a kernel that has all of these: `make other-kernel` runs this file under one, in a virtual machine.
"""

from __future__ import annotations

import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import (
    firewall,
    image_stream,
    link,
    questions,
    wireguard,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.questions import Echo, Question
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.base import (
    plain_answer,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import read_call
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import (
    encode,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    new_record,
    prepared,
    started,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import (
    PlanInputs,
    build_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.isolation import chain_name
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Placement,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import steps
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import host_preflight
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.facts import sorted_ports
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session import links
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session.context import Context
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed
from ansible_collections.cluster_compute.session.tests.support.other_kernel.namespaces import inside, run

SESSION = "3614fdf3-0e04-4a3c-8f3e-2b1d6c7a9e10"
HOSTS = {"ua": 1, "ub": 2}


@dataclass(frozen=True)
class End:
    """Addresses of both hosts, and what has to be found of them there. ways: those by which rules let packets in."""

    address: str
    interface: str
    mtu: int
    ways: tuple[str, ...]
    vrf: str = ""

    def of(self, host: str) -> str:
        """Return a host's address."""
        return self.address.format(HOSTS[host])


PORTS = ("bond0", "bond0.7")
VLAN = End("10.7.0.{}", "bond0.7", 1400, ("bond0.7",))
DUMMY = End("10.9.0.{}", "bond0.7", 1400, PORTS)
LOOPBACK = End("10.8.0.{}", "bond0.7", 1400, PORTS)
VRF_PORT = End("10.3.0.{}", "e2", 1480, ("blue",), "blue")
VRF_IPV6 = End("2001:db8:3::{}", "e2", 1480, ("blue",), "blue")
VRF_ITSELF = End("10.4.0.{}", "e2", 1480, ("blue",), "blue")
VRF_DUMMY = End("10.5.0.{}", "e2", 1480, ("blue",), "blue")
IN_VRF = {"port of a VRF": VRF_PORT, "IPv6 in a VRF": VRF_IPV6, "VRF itself": VRF_ITSELF, "dummy in a VRF": VRF_DUMMY}
EVERY = {"VLAN of a bond": VLAN, "dummy": DUMMY, "loopback": LOOPBACK, **IN_VRF}


@pytest.fixture(scope="module")
def hosts() -> Iterator[None]:
    """Make two hosts with two cables that are a bond, and a third in a VRF."""
    try:
        run("ip netns add cct-ua; ip netns add cct-ub")
        for cable in ("e0", "e1", "e2"):
            run(f"ip link add name {cable} netns cct-ua type veth peer name {cable} netns cct-ub")
        for name, other in (("ua", "ub"), ("ub", "ua")):
            # As Docker Engine does on a host: it has the kernel follow connections.
            run(f"ip netns exec cct-{name} iptables -I FORWARD -m conntrack --ctstate NEW")
            run(
                f'i() {{ ip -n cct-{name} "$@"; }}\n'
                "i link set lo up\n"
                "i link add bond0 type bond mode active-backup miimon 100\n"
                "i link set e0 master bond0; i link set e1 master bond0; i link set bond0 up\n"
                "i link add link bond0 name bond0.7 mtu 1400 type vlan id 7; i link set bond0.7 up\n"
                f"i address add {VLAN.of(name)}/24 dev bond0.7\n"
                "i link add underlay type dummy; i link set underlay up\n"
                f"i address add {DUMMY.of(name)}/32 dev underlay\n"
                f"i route add {DUMMY.of(other)}/32 via {VLAN.of(other)}\n"
                f"i address add {LOOPBACK.of(name)}/32 dev lo\n"
                f"i route add {LOOPBACK.of(other)}/32 via {VLAN.of(other)}\n"
                "i link add blue type vrf table 10; i link set blue up\n"
                "i link set e2 master blue; i link set e2 mtu 1480 up\n"
                f"i address add {VRF_PORT.of(name)}/24 dev e2; i address add {VRF_IPV6.of(name)}/64 dev e2 nodad\n"
                f"i address add {VRF_ITSELF.of(name)}/32 dev blue\n"
                f"i route add {VRF_ITSELF.of(other)}/32 via {VRF_PORT.of(other)} vrf blue\n"
                "i link add inner type dummy; i link set inner master blue; i link set inner up\n"
                f"i address add {VRF_DUMMY.of(name)}/32 dev inner\n"
                f"i route add {VRF_DUMMY.of(other)}/32 via {VRF_PORT.of(other)} vrf blue"
            )
        yield
    finally:
        for name in HOSTS:
            subprocess.run(["ip", "netns", "delete", f"cct-{name}"], capture_output=True, check=False)


def each(do: Callable[[str], Any]) -> dict[str, Any]:
    """Call *do* in the network of each host."""
    return {name: inside(name, lambda name=name: do(name)) for name in HOSTS}  # type: ignore[misc]


def facts_of(end: End, host: str) -> dict[str, Any]:
    """Return what host_info reports of a host's networks."""
    there = link.details()
    return {
        "usable": True,
        "capacity": {"cpus": 1000, "memory": 2**34},
        "underlay": encode(link.underlay(end.of(host), there)),
        "subnets": link.subnets(there),
        "vnis": link.vnis(there),
        "ports": encode(sorted_ports(link.listening_ports())),
    }


class Session:
    """A session with a replica on each host, as far as networks go."""

    def __init__(self, end: End, folder: Path) -> None:
        """Plan it; nothing is made yet."""
        asked = {"name": "train", "image": "x", "size": 2, "max_replicas_per_host": 1, "on_host_loss": "replace"}
        request = parse_request({f"session_{key}": value for key, value in asked.items()})
        facts = typed(each(lambda host: facts_of(end, host)))
        assert {name: encode(found.underlay) for name, found in facts.items()} == {
            name: {"address": end.of(name), "interface": end.interface, "mtu": end.mtu} for name in HOSTS
        }
        placement = place(request, hosts_from_facts(facts, {}))
        assert isinstance(placement, Placement)
        self.plan = build_plan(request, placement, SESSION, PlanInputs(facts, Settings()))
        self.record = started(prepared(new_record(SESSION, "alice", request.to_dict()), encode(self.plan)))
        self.network = self.plan.network
        assert self.network is not None
        self.members = {replica.host: replica for replica in self.plan.replicas}
        self.states = {name: StateDirectory(str(folder / name)) for name in HOSTS}

    def converge(self, host: str, nftables: bool = False) -> list[str]:
        """Make what is missing of the session's rules and links on a host; return what was done."""
        no_engine: Any = None
        ledger = LedgerFile(str(self.states[host].root))
        context = Context(no_engine, self.states[host], ledger, self.record, host, "")
        stages = [links.rule_steps(context, nftables), links.link_steps(context), links.peer_steps(context)]
        steps.perform(stages)
        return steps.descriptions(stages)

    def attach(self, host: str) -> None:
        """Give the host the replica's interface on the overlay."""
        member, name = self.members[host], self.network.link  # type: ignore[union-attr]
        run(
            f"ip link add name mv link {name} type macvlan mode bridge; ip link set dev mv address {member.mac} up\n"
            f"ip address add {member.address}/28 dev mv"
        )

    def remove(self, host: str) -> None:
        """Remove links and rules, as far as they are there."""
        for name in set(link.session_links()):
            link.delete_link(name)
        firewall.remove(SESSION)


def ends(*names: str) -> pytest.MarkDecorator:
    """Have a test run with these kinds of ends."""
    return pytest.mark.parametrize("end", [EVERY[name] for name in names], ids=names)


@pytest.fixture
def session(end: End, hosts: None, tmp_path: Path) -> Iterator[Session]:
    """Make a session between the two hosts."""
    made = Session(end, tmp_path)
    try:
        each(made.converge)
        each(made.attach)
        yield made
    finally:
        each(made.remove)


def passed(host: str, end: End) -> dict[str, int]:
    """Return how many packets a session's rules took on a host: by the interface, and "" for those dropped."""
    program = "ip6tables-save" if ":" in end.address else "iptables-save"
    saved = run(f"ip netns exec cct-{host} {program} -c -t filter")
    found = {}
    for words in (line.split() for line in saved.splitlines()):
        if words[1:3] == ["-A", f"{chain_name(SESSION)}-in"] and words[-1] in ("RETURN", "DROP"):
            found[words[words.index("-i") + 1] if "-i" in words else ""] = int(words[0][1:].partition(":")[0])
    return found


def forge(source: str, target: str, vni: int, vrf: str) -> None:
    """Send a packet of an overlay from another address."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as channel:
        if vrf:
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, vrf.encode())
        channel.bind((source, 0))
        channel.sendto(bytes([8, 0, 0, 0]) + (vni << 8).to_bytes(4, "big") + bytes(60), (target, 4789))


@ends(*EVERY)
def test_full_packets_of_a_session_pass_its_rules(end: End, session: Session) -> None:
    network, main = session.network, session.members["ua"]
    assert network is not None
    assert network.mtu is not None
    assert network.mtu == end.mtu - (70 if ":" in end.address else 50)
    assert each(session.converge) == {"ua": [], "ub": []}
    ping = f"ip netns exec cct-ub ping -n -q -c 2 -w 20 -M do -s {network.mtu - 28} {main.address}"
    run(ping)
    counted = passed("ua", end)
    assert set(counted) == {*end.ways, ""}
    assert sum(counted.values()) >= 2
    assert counted[""] == 0
    # Nobody else gets in, by the same way and in the same form.
    stranger, bits = end.address.format(7), 128 if ":" in end.address else 32
    run(f"ip -n cct-ub address add {stranger}/{bits} dev {end.interface}{' nodad' if bits == 128 else ''}")
    try:
        inside("ub", lambda: forge(stranger, end.of("ua"), network.vni or 0, end.vrf))
    finally:
        run(f"ip -n cct-ub address delete {stranger}/{bits} dev {end.interface}")
    assert passed("ua", end)[""] > 0


@ends("port of a VRF")
def test_rules_of_nftables_let_packets_in_as_well(end: End, session: Session) -> None:
    each(lambda _host: firewall.remove(SESSION))
    made = each(lambda host: session.converge(host, nftables=True))
    assert list(made.values()) == [["create firewall rules train"]] * 2
    ping = f"ip netns exec cct-ub ping -n -q -c 2 -w 20 {session.members['ua'].address}"
    run(ping)
    table = inside("ua", firewall.nft_owners)[SESSION][1]
    (rule,) = [
        line
        for line in run(f"ip netns exec cct-ua nft -a list table inet {table}").splitlines()
        if " accept " in line and "udp dport 4789" in line
    ]
    run(f"ip netns exec cct-ua nft delete rule inet {table} input handle {rule.split()[-1]}")
    with pytest.raises(AssertionError, match="0 received"):
        run(ping.replace("-w 20", "-w 2"))


@ends("port of a VRF", "IPv6 in a VRF", "VRF itself")
def test_hosts_answer_who_asks_for_its_membership_or_a_sign_of_life(end: End, session: Session) -> None:
    network = session.network
    assert network is not None
    assert network.port is not None
    assert network.vni is not None
    own, other = end.of("ub"), end.of("ua")
    wanted = Question(own, other, network.port, network.vni)
    assert inside("ub", lambda: questions.ask([wanted])) == {wanted: True}
    signs = {Echo(other, local=own)}
    assert inside("ub", lambda: questions.echo(signs)) == signs


@ends("loopback", "port of a VRF", "IPv6 in a VRF", "VRF itself")
def test_preflight_tries_the_way(end: End, hosts: None) -> None:
    mtu = end.mtu - (70 if ":" in end.address else 50)
    planned = {name: {"address": end.of(name), "mtu": end.mtu, "session_mtu": mtu} for name in HOSTS}
    known: dict[str, Any] = {
        "plan": {
            "probe": {"hosts": planned, "vni": 7777, "offsets": [1], "left_out": {}},
            "settings": {
                "port": 4789,
                "ports": [7610, 7611],
                "encrypted": [51990, 51990],
                "probe_id": str(uuid.uuid4()),
                "seconds": 0.1,
                "size": 2**20,
            },
            "storage": {},
        },
        "token": uuid.uuid4().hex,
        "roots": [],
        "ports": {},
        "udp_ports": {},
    }

    def call(state: str, host: str, **more: Any) -> Mapping[str, Any]:
        arguments = {**known, **more, "state": state, "host": host}
        return plain_answer(host_preflight.call(read_call("host_preflight", arguments), False))

    servers: dict[str, Any] = {host: {"server": {}} for host in HOSTS}
    try:
        for host in HOSTS:
            servers[host] = inside(host, lambda host=host: call("listening", host))  # type: ignore[misc]
        known["ports"] = {name: found["port"] for name, found in servers.items()}
        known["udp_ports"] = {name: found["udp"] for name, found in servers.items()}
        tcp = each(lambda host: call("reached", host, server=servers[host]["server"])["peers"])
        measured = inside("ua", lambda: call("measured", "ua", target="ub")["measured"])
    finally:
        heard = each(lambda host: call("ended", host, server=servers[host]["server"])["heard"])
    for found in tcp.values():
        assert [peer["problem"] for peer in found.values()] == [""]
    assert heard == {
        "ua": {"tunnel": {"1": mtu}, "plain": {"1": 128}},
        "ub": {"tunnel": {"0": mtu}, "plain": {"0": 128}},
    }
    assert min(measured["there"], measured["back"]) > 0


@ends("port of a VRF", "IPv6 in a VRF", "dummy in a VRF")
def test_images_are_passed_on(end: End, hosts: None) -> None:
    secret = uuid.uuid4().hex * 2

    def serve() -> tuple[int, str]:
        listener = image_stream.listen(end.of("ua"), 8480, 8481)
        port = int(listener.getsockname()[1])
        context, fingerprint = image_stream.identity()
        image_stream.serve_in_background(listener, context, secret, lambda: iter([b"layer"]))
        return port, fingerprint

    port, fingerprint = inside("ua", serve)
    incoming = inside("ub", lambda: image_stream.Incoming(end.of("ua"), port, fingerprint, secret, source=end.of("ub")))
    try:
        assert b"".join(incoming) == b"layer"
    finally:
        incoming.close()


@ends("port of a VRF", "IPv6 in a VRF")
def test_another_vxlan_outside_of_the_vrf_holds_the_port(end: End, hosts: None, tmp_path: Path) -> None:
    made = Session(end, tmp_path)
    local = "::1" if ":" in end.address else "127.0.0.1"
    run(
        f"ip -n cct-ua link add name other type vxlan id 9 local {local} dstport 4789\n"
        "ip -n cct-ua link set dev other up"
    )
    try:
        assert "other" in inside("ua", lambda: link.why_no_port(4789, link.details(), end.of("ua")))
        with pytest.raises(
            steps.StepFailed, match=r"4789.* is held by the link other, a VXLAN outside of the VRF blue"
        ):
            inside("ua", lambda: made.converge("ua"))
        assert made.network is not None
        assert inside("ua", lambda: link.read_vxlan(str(made.network.link))) is None  # type: ignore[union-attr]
    finally:
        run("ip -n cct-ua link delete dev other")
        each(made.remove)


@ends("port of a VRF")
def test_encrypted_sessions_are_refused_in_a_vrf(end: End, hosts: None) -> None:
    assert inside("ua", lambda: wireguard.problem(VLAN.of("ua"))) == ""
    why = inside("ua", lambda: wireguard.problem(end.of("ua")))
    assert f"{end.of('ua')} is in the VRF blue" in why
