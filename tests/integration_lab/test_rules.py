# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules in each of their forms, for IPv4 and IPv6 underlays: real packets through a host made of namespaces.

No distribution carries an engine yet that writes its rules with nftables, so the translation of a published port is
made by hand here; the rules of the session are those that a host with such an engine gets, put and removed by the same
code.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import tunnel_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.isolation import (
    egress_bridge,
    isolation_of,
    nft_rules,
    table_name,
)
from ansible_collections.cluster_compute.session.tests.support.integration_lab import packets
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import CHECKOUT, LAB, environment
from ansible_collections.cluster_compute.session.tests.support.integration_lab.packets import Shot, datagram, stream
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

SESSION = "4f8c2a10-1111-4222-8333-444455556666"
BRIDGE = egress_bridge(SESSION)
FOREIGN, HOST, INSIDE = (f"cclab.{LAB}.nft-{name}" for name in ("foreign", "host", "inside"))
VNI, PORT, TUNNEL_PORT = 5000, 9000, 4789
PLAN: dict[str, Any] = {
    "session": {"id": SESSION, "name": "train"},
    "request": {},
    "network": {"link": "ccx4f8c2a10", "vni": VNI, "port": TUNNEL_PORT, "tunnel": None},
    "egress": {"name": "cc-4f8c2a10-egress", "subnet": "10.213.4.0/28"},
    "hosts": {
        "h1": {"underlay_address": "192.0.2.11", "underlay_interface": "eth0"},
        "h2": {"underlay_address": "192.0.2.12", "underlay_interface": "eth0"},
    },
    "replicas": [
        {
            "host": "h1",
            "ports": [
                {"host_ip": "192.0.2.11", "host_port": 18080, "container_port": PORT, "protocol": protocol}
                for protocol in ("tcp", "udp")
            ],
        }
    ],
}
LAYOUT = {
    HOST: f"""
        link set dev lo up
        link add name {BRIDGE} type bridge
        address add 10.213.4.1/28 dev {BRIDGE}
        address add fd01::1/64 dev {BRIDGE} nodad
        link set dev {BRIDGE} up
        link add name in type veth peer name eth0 netns {INSIDE}
        link set dev in master {BRIDGE} up
        link add name eth0 type veth peer name eth0 netns {FOREIGN}
        address add 192.0.2.11/24 dev eth0
        address add fd00::11/64 dev eth0 nodad
        link set dev eth0 up
        """,
    # The same machine is a stranger, 66, and at another address the session's other host, 12.
    FOREIGN: """
        address add 192.0.2.66/24 dev eth0
        address add 192.0.2.12/24 dev eth0
        address add fd00::66/64 dev eth0 nodad
        address add fd00::12/64 dev eth0 nodad
        link set dev eth0 up
        route add 10.213.4.0/28 via 192.0.2.11
        route add fd01::/64 via fd00::11
        """,
    INSIDE: """
        address add 10.213.4.2/28 dev eth0
        link set dev eth0 up
        route add default via 10.213.4.1
        address add fd01::2/64 dev eth0 nodad
        route add default via fd01::1
        """,
}
ENGINE = f"""
table ip docker-bridges {{
    chain prerouting {{
        type nat hook prerouting priority dstnat; policy accept;
        ip daddr 192.0.2.11 meta l4proto {{ tcp, udp }} th dport 18080 dnat to 10.213.4.2:{PORT}
    }}
}}
"""
"""What an engine's translation of a published port comes down to."""
CHANGE = """
import json, sys
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import tunnel_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.isolation import isolation_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import firewall_rules, steps
plan = json.loads(sys.argv[2])
wanted = isolation_of(read_plan(plan), "h1", tunnel_of(plan))
put = sys.argv[1] == "put"
nftables = sys.argv[3] == "nft"
sessions = {wanted.session_id: "train"}
stage = firewall_rules.rule_steps(wanted, nftables) if put else firewall_rules.removal_steps(sessions)
steps.perform([stage])
print(json.dumps(steps.descriptions([stage])))
"""
ASK = """
import json, sys
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.questions import Question, ask
peer, port, vni, *own = sys.argv[1:]
asked = [Question(address, peer, int(port), int(vni)) for address in own]
print(json.dumps({question.local: answer for question, answer in ask(asked).items()}))
"""
"""Ask for the membership of several addresses at once."""
FORGE = """
import socket, struct, sys
sender, receiver, peer_port, ports, code = sys.argv[1:]
source, target = socket.inet_aton(sender), socket.inet_aton(receiver)
with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as channel:
    channel.bind((sender, 0))
    for port in map(int, ports.split(",")):
        data = struct.pack("!HHHH", port, int(peer_port), 32, 0) + bytes(24)
        quoted = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 0, 0, 64, 17, 0) + target + source + data
        packet = struct.pack("!BBHI", 3, int(code), 0, 0) + quoted
        total = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
        total = (total >> 16) + (total & 0xFFFF)
        check = 0xFFFF - ((total + (total >> 16)) & 0xFFFF)
        channel.sendto(packet[:2] + struct.pack("!H", check) + packet[4:], (receiver, 0))
"""
"""Send what answers a question, from the right address and to the right port, by somebody who did not see it."""

Shots = Callable[[bytes], list[Shot]]


def _run(namespace: str, *argv: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["nsenter", f"--net=/run/netns/{namespace}", *argv],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment(PYTHONPATH=str(CHECKOUT / ".collections")),
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def _change(verb: str, form: str, plan: dict[str, Any] | None = None) -> list[str]:
    """Put or remove the rules of *plan* (PLAN) in the namespace that is the host, and return what was done."""
    whole = encode(typed_plan(plan or PLAN))
    return list(json.loads(_run(HOST, sys.executable, "-c", CHANGE, verb, json.dumps(whole), form)))


def _rules() -> list[str]:
    """Return all rules and chains of the host; iptables leaves its own chains there once it was used."""
    found = _run(HOST, "nft", "list", "tables", "inet").splitlines()
    for command in ("iptables-save", "ip6tables-save"):
        lines = _run(HOST, command, "-t", "filter").splitlines()
        found += [f"{command} {line}" for line in lines if line.startswith("-") or " - " in line]
    return found


@pytest.fixture(scope="module")
def ears(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Make a host of namespaces, with somebody who listens in each of them; give what they write down."""
    folder = tmp_path_factory.mktemp("ears")
    files = {name: folder / name for name in LAYOUT}
    listeners: list[subprocess.Popen[bytes]] = []
    try:
        for name in LAYOUT:
            subprocess.run(["ip", "netns", "add", name], check=True)
        for name, batch in LAYOUT.items():
            _run(name, "ip", "-batch", "-", stdin="\n".join(map(str.strip, batch.strip().splitlines())) + "\n")
        for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            _run(HOST, "sh", "-c", f"echo 1 >/proc/sys/net/{name}")
        _run(HOST, "nft", "-f", "-", stdin=ENGINE)
        for name, file in files.items():
            argv = [sys.executable, "-c", packets.LISTENER, str(file), str(PORT), str(TUNNEL_PORT)]
            listeners.append(subprocess.Popen(["nsenter", f"--net=/run/netns/{name}", *argv]))
        deadline = time.monotonic() + 20
        while not all(file.exists() and "ready" in file.read_text(encoding="ascii") for file in files.values()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield files
    finally:
        for listener in listeners:
            listener.kill()
            listener.wait()
        for name in LAYOUT:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def _fire(ears: dict[str, Path], phase: str, ways: dict[str, tuple[str, Shots]]) -> set[str]:
    for place in LAYOUT:
        fired = [shot for name, (where, shots) in ways.items() if where == place for shot in shots(_mark(phase, name))]
        _run(place, sys.executable, "-c", packets.SENDER, json.dumps(fired))
    time.sleep(0.5)
    heard = "".join(file.read_text(encoding="ascii") for file in ears.values())
    return {name for name in ways if _mark(phase, name).decode() in heard}


def _mark(phase: str, name: str) -> bytes:
    return f"<{phase}/{name}>".encode()


def _tunnel(source: str, vni: int = VNI) -> Shots:
    return lambda data: [
        packets.raw(packets.ipv4(source, "192.0.2.11", packets.udp(TUNNEL_PORT, packets.vxlan(vni, data))))
    ]


def _fragments(data: bytes) -> list[Shot]:
    tunnel = packets.udp(TUNNEL_PORT, packets.vxlan(VNI, data))
    return [packets.raw(fragment) for fragment in packets.in_fragments("192.0.2.12", "192.0.2.11", tunnel)]


def _out(data: bytes) -> list[Shot]:
    return [packets.raw(packets.ipv4("198.51.100.7", "192.0.2.66", packets.udp(PORT, data)))]


CLOSED: dict[str, tuple[str, Shots]] = {
    "in, UDP": (FOREIGN, lambda data: [datagram("10.213.4.2", PORT, data)]),
    "in, TCP": (FOREIGN, lambda data: [stream("10.213.4.2", PORT, data)]),
    "tunnel, from a stranger": (FOREIGN, _tunnel("192.0.2.66")),
    "tunnel, from a container as a peer": (INSIDE, _tunnel("192.0.2.12")),
    "tunnel, in fragments": (INSIDE, _fragments),
    "tunnel, for another host": (
        INSIDE,
        lambda data: [datagram("192.0.2.12", TUNNEL_PORT, packets.vxlan(VNI, data))],
    ),
    "out, with another's address": (INSIDE, _out),
    "in, IPv6": (FOREIGN, lambda data: [stream("fd01::2", PORT, data)]),
    "out, IPv6": (INSIDE, lambda data: [stream("fd00::66", PORT, data)]),
}
OPEN: dict[str, tuple[str, Shots]] = {
    "published, UDP": (FOREIGN, lambda data: [datagram("192.0.2.11", 18080, data)]),
    "published, TCP": (FOREIGN, lambda data: [stream("192.0.2.11", 18080, data)]),
    "tunnel, from a peer": (FOREIGN, _tunnel("192.0.2.12")),
    "tunnel, of somebody else": (FOREIGN, _tunnel("192.0.2.66", VNI + 1)),
    "out": (INSIDE, lambda data: [stream("192.0.2.66", PORT, data)]),
}


def _tunnel6(source: str, vni: int = VNI, options: bool = False) -> Shots:
    """Return a tunnel packet over IPv6, as a frame: a container needs no IPv6 of its own to send one."""

    def shots(data: bytes) -> list[Shot]:
        packet = packets.ipv6(source, "fd00::11", TUNNEL_PORT, packets.vxlan(vni, data), options)
        return [packets.on_wire("eth0", packets.ethernet("06:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", packet))]

    return shots


PLAN6 = {
    **PLAN,
    "hosts": {
        name: {**host, "underlay_address": host["underlay_address"].replace("192.0.2.", "fd00::")}
        for name, host in PLAN["hosts"].items()
    },
}
CLOSED6: dict[str, tuple[str, Shots]] = {
    "tunnel, from a stranger": (FOREIGN, _tunnel6("fd00::66")),
    "tunnel, from a container as a peer": (INSIDE, _tunnel6("fd00::12")),
    "tunnel, behind a header of options": (INSIDE, _tunnel6("fd00::12", options=True)),
}
OPEN6: dict[str, tuple[str, Shots]] = {
    "tunnel, from a peer": (FOREIGN, _tunnel6("fd00::12")),
    "tunnel, of somebody else": (FOREIGN, _tunnel6("fd00::66", VNI + 1)),
    "published, TCP": OPEN["published, TCP"],
}


@pytest.mark.parametrize("form", ["nft", "iptables"])
@pytest.mark.parametrize(
    ("plan", "closed", "opened"), [(PLAN, CLOSED, OPEN), (PLAN6, CLOSED6, OPEN6)], ids=["ipv4", "ipv6"]
)
def test_the_rules_close_what_is_closed_and_nothing_else(
    ears: dict[str, Path],
    form: str,
    plan: dict[str, Any],
    closed: dict[str, tuple[str, Shots]],
    opened: dict[str, tuple[str, Shots]],
    request: pytest.FixtureRequest,
) -> None:
    phase = request.node.name
    before = _rules()
    assert _change("put", form, plan) == ["create firewall rules train"]
    assert _fire(ears, f"{phase} guarded", {**closed, **opened}) == set(opened)
    assert _change("put", form, plan) == []
    assert _change("remove", form) == ["remove firewall rules train"]
    assert _rules() == before
    assert _fire(ears, f"{phase} unguarded", closed) == set(closed)


def _ask(plan: dict[str, Any], *own: str) -> dict[str, bool]:
    """Return what the host answers to these addresses; it says little in a second (Linux, icmp_ratelimit)."""
    network, host = plan["network"], plan["hosts"]["h1"]["underlay_address"]
    wanted = [host, str(network["port"]), str(network["vni"]), *own]
    return dict(json.loads(_run(FOREIGN, sys.executable, "-c", ASK, *wanted)))


@pytest.mark.parametrize("form", ["nft", "iptables"])
@pytest.mark.parametrize(
    ("plan", "net", "network"),
    [
        (PLAN, "192.0.2.", {}),
        (PLAN6, "fd00::", {}),
        (PLAN, "192.0.2.", {"tunnel": {"link": "ccw4f8c2a10"}, "port": PORT}),
    ],
    ids=["ipv4", "ipv6", "encrypted"],
)
def test_who_asks_for_its_membership_is_told_it_by_the_rules_alone(
    ears: dict[str, Path], form: str, plan: dict[str, Any], net: str, network: dict[str, Any]
) -> None:
    member, other = f"{net}12", f"{net}66"
    given = {**plan, "network": {**plan["network"], **network}}
    guarded = {**given, "request": {"on_host_loss": "replace"}}
    try:
        _change("put", form, given)
        assert _ask(given, member, other) == {}
        _change("put", form, guarded)
        assert _ask(given, member, other) == {member: True}
        _change("put", form, {**guarded, "fenced": [other]})
        assert _ask(given, member, other) == {member: True, other: False}
        assert _ask({**given, "network": {**given["network"], "vni": VNI + 1}}, member, other) == {}
    finally:
        _change("remove", form)


def test_a_host_of_many_sessions_is_told_of_each(ears: dict[str, Path]) -> None:
    many = """
import sys
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.questions import Question, ask
print(len(ask([Question("192.0.2.12", "192.0.2.11", int(sys.argv[1]), vni) for vni in range(9)])))
"""
    rule = [
        "INPUT",
        "-p",
        "udp",
        "--dport",
        str(TUNNEL_PORT),
        "-j",
        "REJECT",
        "--reject-with",
        "icmp-proto-unreachable",
    ]
    _run(HOST, "iptables", "-A", *rule)
    try:
        assert _run(FOREIGN, sys.executable, "-c", many, str(TUNNEL_PORT)).strip() == "9"
    finally:
        _run(HOST, "iptables", "-D", *rule)


@pytest.mark.parametrize("code", [2, 9])
def test_nobody_answers_who_did_not_see_the_question(ears: dict[str, Path], code: int) -> None:
    argv = [sys.executable, "-c", ASK, "192.0.2.11", str(TUNNEL_PORT), str(VNI), "192.0.2.12"]
    with subprocess.Popen(
        ["nsenter", f"--net=/run/netns/{FOREIGN}", *argv],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(PYTHONPATH=str(CHECKOUT / ".collections")),
    ) as asks:
        ports: list[str] = []
        while asks.poll() is None and not ports:
            found = _run(FOREIGN, "ss", "-Hlun", "src", "192.0.2.12").split()
            ports = [word.rpartition(":")[2] for word in found if word.startswith("192.0.2.12:")]
        _run(
            HOST, sys.executable, "-c", FORGE, "192.0.2.11", "192.0.2.12", str(TUNNEL_PORT), ",".join(ports), str(code)
        )
        assert asks.poll() is None, "it was too late"
        answers, _none = asks.communicate(timeout=30)
    assert (ports != [], json.loads(answers)) == (True, {})


def test_a_table_that_is_whole_stays_and_one_that_is_not_is_put_again(ears: dict[str, Path]) -> None:
    table = table_name(SESSION, "train")
    assert _change("put", "nft") == ["create firewall rules train"]
    whole = _run(HOST, "nft", "list", "table", "inet", table)
    assert _change("put", "nft") == []
    try:
        for damage in (
            f"insert rule inet {table} input accept",
            f"flush chain inet {table} forward",
            f"add chain inet {table} input {{ policy drop; }}",
        ):
            _run(HOST, "nft", damage)
            assert _change("put", "nft") == ["update firewall rules train"]
            assert _run(HOST, "nft", "list", "table", "inet", table) == whole
        other = {**PLAN, "network": {**PLAN["network"], "vni": VNI + 1}}
        assert _change("put", "nft", other) == ["update firewall rules train"]
        assert str(VNI) not in _run(HOST, "nft", "list", "table", "inet", table)
    finally:
        _change("remove", "nft")
    chains = nft_rules(isolation_of(typed_plan(PLAN), "h1", tunnel_of(PLAN)))
    assert {chain for chain in chains if f"chain {chain} {{" in whole} == {"input", "forward"}
