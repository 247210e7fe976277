# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tunnel of an encrypted session between hosts that are network namespaces, and who else is on their network.

Needs root and a kernel with WireGuard: `make other-kernel` runs this file under one, in a virtual machine.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import link, wireguard
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import (
    StateDirectory,
    write_file,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import (
    encode,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    RUNNING,
    advance,
    new_record,
    prepared,
    started,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.admission import (
    check_request_against_hosts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import (
    PlanInputs,
    build_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.change import (
    changed_plan,
    find_places,
    target_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.check import validate_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Placement,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import boot, removal, steps, verify
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.facts import sorted_ports
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.prepare import make_keys
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session import links
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session.context import Context
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed
from ansible_collections.cluster_compute.session.tests.support.other_kernel.namespaces import (
    inside,
    run,
)

SESSION = "3614fdf3-0e04-4a3c-8f3e-2b1d6c7a9e10"
UNDERLAY = {"a": "192.0.2.1", "b": "192.0.2.2", "evil": "192.0.2.3", "c": "192.0.2.4"}
MARK = "c1a551f1ed5ec2e7c1a551f1ed5ec2e7"
"""What is sent from replica to replica, in hexadecimal, to be looked for on the way."""


class NoEngine:
    """An engine that has nothing of the session; there are no containers here."""

    def session_containers(self, _labels: object = None) -> list[Any]:
        """Return no containers."""
        return []

    def examinations(self, _prefix: str) -> list[Any]:
        """Return no containers of images."""
        return []

    def networks(self, _labels: object = None) -> list[Any]:
        """Return no networks."""
        return []


class World:
    """Two hosts, each with a replica's network namespace, a third that has none, one stranger, and a session's plan."""

    def __init__(self, folder: Path) -> None:
        """Make the network and the plan; of the session nothing is made yet."""
        run("ip link add name cct-br type bridge; ip link set dev cct-br up")
        for name, address in UNDERLAY.items():
            run(
                f"ip netns add cct-{name}\n"
                f"ip link add name cct-v{name} type veth peer name eth0 netns cct-{name}\n"
                f"ip link set dev cct-v{name} master cct-br up\n"
                f"ip -n cct-{name} link set dev lo up; ip -n cct-{name} link set dev eth0 up\n"
                f"ip -n cct-{name} address add {address}/24 dev eth0"
            )
        # One host uses no IPv6 elsewhere.
        run("ip netns exec cct-b sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6'")
        self.asked = {"name": "train", "image": "x", "size": 2, "encrypted": True, "max_replicas_per_host": 1}
        request = parse_request({f"session_{key}": value for key, value in self.asked.items()})
        facts = {host: self.facts(host) for host in ("a", "b")}
        placement = place(request, hosts_from_facts(typed(facts), {}))
        assert isinstance(placement, Placement)
        check_request_against_hosts(request, typed(facts), placement)
        self.plan = json.loads(
            json.dumps(encode(build_plan(request, placement, SESSION, PlanInputs(typed(facts), Settings()))))
        )
        validate_plan(self.plan)
        self.network = self.plan["network"]
        self.tunnel = self.network["tunnel"]["link"]
        self.inner_port = self.network["tunnel"]["vxlan_port"]
        self.members = {replica["host"]: replica for replica in self.plan["replicas"]}
        self.record = started(prepared(new_record(SESSION, "alice", request.to_dict()), self.plan))
        self.states = {host: StateDirectory(str(folder / host)) for host in ("a", "b", "c")}
        self.keys: dict[str, Any] = {}

    def facts(self, host: str) -> dict[str, Any]:
        """Return what host_info tells of a host, as far as it has something to do with networks."""
        return inside(
            host,
            lambda: {
                "usable": True,
                "capacity": {"cpus": 1000, "memory": 2**34},
                "underlay": encode(link.underlay(UNDERLAY[host], link.details())),
                "subnets": link.subnets(link.details()),
                "vnis": link.vnis(link.details()),
                "ports": encode(sorted_ports(link.listening_ports())),
                "encryption": wireguard.problem(),
            },
        )

    def make_keys(self, host: str, regenerate: bool = False) -> None:
        """Make a host's keys and tell them to whoever is converged from now on."""
        public, made = make_keys(self.states[host].session(SESSION), read_plan(self.plan), host, regenerate, False)
        assert "tunnel.key" in made
        self.keys.update(public)

    def change(self, size: int, lost: str = "") -> None:
        """Plan what becomes of the session with another size, or without a host that is lost; c is there as well."""
        plan = read_plan(self.plan)
        request = parse_request({f"session_{key}": value for key, value in {**self.asked, "size": size}.items()})
        target = target_of(plan, request, [entry.name for entry in plan.replicas if entry.host == lost])
        facts = typed({host: self.facts(host) for host in self.states if host != lost})
        homes = find_places(plan, request, target, hosts_from_facts(facts, {}), facts) if target.homeless else {}
        assert isinstance(homes, dict), homes
        fenced = [UNDERLAY[lost]] if lost else []
        changed = changed_plan(plan, request, target, homes, PlanInputs(facts, Settings()), fenced)
        self.plan = json.loads(json.dumps(encode(changed)))
        validate_plan(self.plan)
        self.members = {replica["host"]: replica for replica in self.plan["replicas"]}
        self.record = advance(self.record, RUNNING, "It changes.", plan=self.plan, hosts=tuple(self.plan["hosts"]))
        self.keys = {name: keys for name, keys in self.keys.items() if name not in target.gone}

    def peers(self, host: str) -> dict[str, str]:
        """Return who can send something through a host's tunnel: address to public key."""
        found = inside(host, lambda: wireguard.read(self.tunnel))
        assert found is not None
        return {address: key for key, address in found.peers}

    def converge(self, host: str) -> list[str]:
        """Make on a host what is missing of the links; return what was done."""

        def do() -> list[str]:
            no_engine: Any = None
            ledger = LedgerFile(str(self.states[host].root))
            context = Context(no_engine, self.states[host], ledger, self.record, host, "")
            stages = [
                links.tunnel_steps(context, self.keys),
                links.link_steps(context),
                links.peer_steps(context),
            ]
            steps.perform(stages)
            return steps.descriptions(stages)

        return inside(host, do)

    def attach(self, host: str) -> None:
        """Give a replica its interface on the overlay."""
        member, name = self.members[host], f"cct-c{host}"
        run(
            f"ip netns add {name} 2>/dev/null || true\n"
            f"ip -n cct-{host} link add name mv link {self.network['link']} type macvlan mode bridge\n"
            f"ip -n cct-{host} link set dev mv address {member['mac']} netns {name}\n"
            f"ip -n {name} link set dev mv up; ip -n {name} address add {member['address']}/28 dev mv"
        )

    def ping(self, source: str, target: str, *options: str, seconds: int = 30) -> int:
        """Send packets with the mark from one replica to the other and return ping's exit code."""
        argv = ["ip", "netns", "exec", f"cct-c{source}", "ping", "-n", "-q", "-c", "2", "-p", MARK, "-w", str(seconds)]
        argv += [*options, self.members[target]["address"]]
        return subprocess.run(argv, capture_output=True, check=False).returncode

    def names(self, host: str) -> set[str]:
        """Return the names of the links that a host has."""
        return set(inside(host, lambda: [entry.name for entry in link.details()]))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Make everything, with the overlay up, and remove it all."""
    try:
        made = World(tmp_path_factory.mktemp("state"))
        for host in ("a", "b"):
            made.make_keys(host)
        wanted = [f"create link {made.tunnel}", f"create link {made.network['link']}"]
        for host in ("a", "b"):
            assert made.converge(host)[:2] == wanted
            assert made.converge(host) == []
            made.attach(host)
        yield made
    finally:
        for name in ("a", "b", "c", "evil", "ca", "cb", "cc"):
            subprocess.run(["ip", "netns", "delete", f"cct-{name}"], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", "dev", "cct-br"], capture_output=True, check=False)


class Spy:
    """Collects the frames that pass an interface while the block runs."""

    def __init__(self, interface: str, namespace: str | None = None) -> None:
        """Listen on *interface*."""

        def listen() -> socket.socket:
            channel = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            channel.bind((interface, 0))
            channel.settimeout(0.1)
            return channel

        self.frames: list[bytes] = []
        self._channel = inside(namespace, listen) if namespace else listen()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._collect)

    def _collect(self) -> None:
        while not self._ends.is_set():
            try:
                self.frames.append(self._channel.recv(65536))
            except OSError:
                continue

    def __enter__(self) -> Spy:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """End a second later than the block."""
        time.sleep(1)
        self._ends.set()
        self._thread.join()
        self._channel.close()

    @property
    def marked(self) -> int:
        """How many frames hold the mark."""
        return sum(bytes.fromhex(MARK) in frame for frame in self.frames)

    @property
    def ports(self) -> set[int]:
        """To which UDP ports over IPv4 something went."""
        udp = [frame for frame in self.frames if frame[12:14] == b"\x08\x00" and frame[23] == 17]
        return {struct.unpack("!H", frame[36:38])[0] for frame in udp}


def test_full_packets_pass_and_nobody_between_reads_them(world: World) -> None:
    size = world.network["mtu"] - 28
    with Spy("cct-vb") as spy:
        assert world.ping("a", "b", "-M", "do", "-s", str(size)) == 0
        assert world.ping("b", "a", "-M", "do", "-s", str(size)) == 0
    assert spy.ports == {world.network["port"]}
    assert spy.marked == 0
    assert max(len(frame) for frame in spy.frames) == 1500 + 14
    assert world.ping("a", "b", "-M", "do", "-s", str(size + 1), seconds=2) != 0
    for host in ("a", "b"):
        inside(host, lambda host=host: verify._prove_tunnel(read_plan(world.plan), world.tunnel, host))  # type: ignore[misc]
    with Spy("cct-vb") as spy:
        run(f"ip netns exec cct-a ping -n -q -c 1 -w 5 -p {MARK} {UNDERLAY['b']}")
    assert spy.marked > 0


def forge(world: World, source: str, target: str, port: int, device: str = "", vni: int = 0, spied: str = "") -> bool:
    """Send a VXLAN packet in plain from a namespace to an address; return whether it got into the overlay on b."""
    frame = (
        bytes.fromhex(world.members["b"]["mac"].replace(":", "") + "024200000001" + "88b5") + bytes.fromhex(MARK) * 4
    )
    packet = bytes([8, 0, 0, 0]) + ((vni or world.network["vni"]) << 8).to_bytes(4, "big") + frame

    def send() -> None:
        family = socket.AF_INET6 if ":" in target else socket.AF_INET
        scope = (0, socket.if_nametoindex(device) if device else 0)
        with socket.socket(family, socket.SOCK_DGRAM) as channel:
            channel.sendto(packet, (target, port, *scope) if family == socket.AF_INET6 else (target, port))

    with Spy(spied or world.network["link"], "b") as spy:
        inside(source, send)
    return spy.marked > 0


def test_packets_in_plain_get_nowhere(world: World) -> None:
    run(
        "ip netns exec cct-b sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'\n"
        "ip -n cct-b address add fe80::9/64 dev eth0 nodad; ip -n cct-evil address add fe80::8/64 dev eth0 nodad\n"
        "ip -n cct-b address add 2001:db8::2/64 dev eth0 nodad\n"
        "ip -n cct-evil address add 2001:db8::3/64 dev eth0 nodad"
    )
    for source in ("evil", "a"):
        for port in (world.network["port"], world.inner_port):
            assert not forge(world, source, UNDERLAY["b"], port)
    assert not forge(world, "evil", "2001:db8::2", world.inner_port)
    assert not forge(world, "evil", "fe80::9", world.inner_port, "eth0")
    # What is sent is right: it is taken from the tunnel, and from anywhere by a device without a link-local endpoint.
    assert forge(world, "a", world.plan["hosts"]["b"]["tunnel_address"], world.inner_port, world.tunnel)
    vni = world.network["vni"] - 1
    run(
        f"ip -n cct-b link add name open type vxlan id {vni} local 2001:db8::2 dstport {world.inner_port} nolearning\n"
        "ip -n cct-b link set dev open up"
    )
    assert forge(world, "evil", "2001:db8::2", world.inner_port, vni=vni, spied="open")
    run("ip -n cct-b link delete dev open")


def test_keys_made_anew_change_the_link_in_place(world: World) -> None:
    world.make_keys("b", regenerate=True)
    assert world.converge("b") == [f"update link {world.tunnel}"]
    assert world.ping("a", "b", seconds=2) != 0
    assert world.converge("a") == [f"update link {world.tunnel}"]
    assert world.ping("a", "b") == 0


def test_a_host_that_was_rebooted_needs_nobody(world: World) -> None:
    for host, state in world.states.items():
        session = state.session(SESSION)
        session.write_record(world.record)
        write_file(session.host_file, f"{host}\n")
        write_file(session.public_keys_file, session.public_keys_text(world.keys))
    run(f"ip -n cct-b link delete dev {world.tunnel}")
    assert world.names("b") == {"lo", "eth0"}  # what lay on the tunnel has gone with it
    assert inside("b", lambda: boot._make_links(world.states["b"])) == 0
    assert world.converge("b") == []
    world.attach("b")
    # It speaks first, or the other one would keep to the old keys for 15 seconds.
    assert world.ping("a", "b", seconds=10) == 0


def tunnel_key(world: World, host: str) -> str:
    """Return the public key of a host's tunnel."""
    return str(wireguard.read_public_key(world.states[host].session(SESSION).tunnel_key_file))


def works(world: World, *pairs: tuple[str, str]) -> None:
    """See that replicas on pairs of hosts reach each other, and that nobody between reads what they send."""
    with Spy("cct-va") as spy:
        for source, target in pairs:
            assert world.ping(source, target) == 0
    assert spy.marked == 0
    assert spy.ports == {world.network["port"]}


def test_the_key_of_a_host_that_is_lost_goes_and_those_that_stay_go_on(world: World) -> None:
    first = (world.plan, world.record, dict(world.keys), dict(world.members))
    old = tunnel_key(world, "b")
    world.change(2, lost="b")
    assert list(world.plan["hosts"]) == ["a", "c"]
    assert world.plan["hosts"]["c"]["tunnel_address"] not in ("", None)
    world.make_keys("c")
    assert world.converge("a") == [f"update link {world.tunnel}"]  # c has b's address in it, and another key
    assert old not in world.peers("a").values()
    # It was only cut off, and its replica runs on: nobody takes what it sends, and nobody sends it anything.
    with Spy(world.network["link"], "a") as spy:
        assert world.ping("b", "a", seconds=2) != 0
    assert spy.marked == 0
    world.converge("c")
    world.attach("c")
    works(world, ("a", "c"), ("c", "a"))
    assert world.peers("a") == {world.plan["hosts"]["c"]["tunnel_address"]: tunnel_key(world, "c")}

    # It comes back clean, and the session grows onto it.
    run("ip -n cct-cb link delete dev mv")
    inside("b", lambda: link.delete_link(world.tunnel))
    world.states["b"].session(SESSION).tunnel_key_file.unlink()
    world.change(3)
    assert set(world.plan["hosts"]) == {"a", "b", "c"}
    world.make_keys("b")
    stays = [
        "ip",
        "netns",
        "exec",
        "cct-ca",
        "ping",
        "-n",
        "-q",
        "-i",
        "0.02",
        "-w",
        "8",
        world.members["c"]["address"],
    ]
    with subprocess.Popen(stays, stdout=subprocess.PIPE, text=True) as sending:
        time.sleep(2)
        for host in ("a", "c", "b"):
            world.converge(host)
        said = sending.communicate()[0]
    assert float(said.partition("% packet loss")[0].split()[-1]) < 5, said
    world.attach("b")
    works(world, ("a", "b"), ("b", "c"), ("c", "a"))
    assert old not in {*world.peers("a").values(), *world.peers("c").values()}
    world.change(2)
    for host in ("a", "c"):
        world.converge(host)
        assert tunnel_key(world, "b") not in world.peers(host).values()
    works(world, ("a", "c"))
    assert world.ping("b", "a", seconds=2) != 0
    world.plan, world.record, world.keys, world.members = first


def test_without_a_public_key_there_is_no_tunnel(world: World) -> None:
    known = dict(world.keys)
    world.keys.pop(world.members["a"]["name"])
    with pytest.raises(steps.StepFailed, match="cannot be made without the public keys of every host"):
        world.converge("b")
    world.keys.update(known)


def test_a_foreign_link_is_not_touched_and_removal_leaves_nothing(world: World) -> None:
    for host, state in world.states.items():
        state.session(SESSION).record_file.unlink(missing_ok=True)

        def remove(state: StateDirectory = state) -> list[str]:
            engine: Any = NoEngine()
            ledger = LedgerFile(str(state.root), forgiving=True)
            stages = removal.removal_stages(engine, state, ledger, "train", None, [SESSION])
            steps.perform(stages)
            return steps.descriptions(stages)

        assert inside(host, remove)[:2] == [f"remove link {world.network['link']}", f"remove link {world.tunnel}"]
        assert world.names(host) == {"lo", "eth0"}
        assert not state.session(SESSION).path.exists()
    for kind, reason in (("wireguard", "belongs to somebody else; it is not touched"), ("dummy", "not ours to change")):
        run(f"ip -n cct-b link add name {world.tunnel} type {kind}")
        with pytest.raises(link.LinkError, match=reason):
            world.converge("b")
        assert world.tunnel in world.names("b")
        run(f"ip -n cct-b link delete dev {world.tunnel}")
