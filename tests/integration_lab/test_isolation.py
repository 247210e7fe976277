# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nobody gets into a session who is not of it. Each way in is tried twice: with the rules, and with them removed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.isolation import (
    STANDING,
    chain_name,
    inner_bridge,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab import network
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab.names import Lab, hardware_address
from ansible_collections.cluster_compute.session.tests.support.integration_lab import packets
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    DEMO,
    DIRECTORY,
    HOSTS,
    LAB,
    NETWORK,
    Replica,
    clear,
    in_parallel,
    launch,
    on,
    play,
    record,
    replicas,
    script,
    try_on,
)
from ansible_collections.cluster_compute.session.tests.support.integration_lab.packets import Shot, datagram, stream

PROGRAM = "/usr/local/lib/cluster-compute/host.pyz"
FOREIGN = Lab(LAB, str(DIRECTORY)).host("foreign")
FOREIGN_ADDRESS = f"{NETWORK}.0.66"
PORT = 9000
TUNNEL_PORT = 4789
HEARD = "/tmp/heard"
FLOOD = 20000
SETTLE = 1.0
"""Seconds that a packet has to arrive; on one machine it takes less than a thousandth of that."""
BASE: dict[str, Any] = {
    "session_size": 2,
    "session_image": DEMO,
    "session_cpus": "0.2",
    "session_memory": "64m",
}
REQUESTS: dict[str, dict[str, Any]] = {
    "alpha": {
        "session_hosts": ["n1", "n3"],
        "session_max_replicas_per_host": 1,
        "session_ports": [
            f"18080:{PORT}",
            f"18080:{PORT}/udp",
            f"127.0.0.1:18081:{PORT}/udp",
            f"{ADDRESSES['n1']}:18082:{PORT}/udp",
        ],
    },
    "beta": {"session_hosts": ["n1", "n3"], "session_max_replicas_per_host": 1},
    "gamma": {"session_hosts": ["n2"]},
}
OTHERS = ["-s 192.0.2.1/32 -j DROP", '-m comment --comment "of somebody else" -j ACCEPT']
"""Rules of others in the chain for users. One lets everything in that gets there, so that nothing but the rules of
sessions stands between an attacker and a replica: neither the engine's own rules nor a policy."""


def _rules(host: str, command: str = "iptables") -> str:
    """Return all rules of a host, without counters and times."""
    text = on(host, f"{command}-save", "-t", "filter")
    return re.sub(r"\[\d+:\d+\]", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))


def _by_chain(rules: str) -> dict[str, list[str]]:
    """Return the rules in their order, by chain; engines repeat some of their own when they restart.

    What keeps containers out of all sessions was put back before the others.
    """
    lines = list(dict.fromkeys(line for line in rules.splitlines() if STANDING[0] not in line))
    chains = [line.split()[0][1:] for line in lines if line.startswith(":")]
    return {chain: [line for line in lines if line.startswith(f"-A {chain} ")] for chain in chains}


def _of_sessions(host: str, command: str = "iptables") -> list[str]:
    """Return those rules of a host that belong to sessions."""
    return [line for line in _rules(host, command).splitlines() if '"cluster-compute ' in line]


Shots = Callable[[bytes], list[Shot]]
"""What is sent, made from what shall be heard."""


@dataclass(frozen=True)
class Place:
    """Where somebody is: a network namespace on a host of the lab, or on this machine."""

    host: str
    namespace: str

    def fire(self, shots: list[Shot]) -> None:
        """Send packets from there."""
        argv = ["nsenter", f"--net={self.namespace}", "python3", "-c", packets.SENDER, json.dumps(shots)]
        if self.host:
            on(self.host, *argv)
        else:
            subprocess.run(argv, check=True, capture_output=True, timeout=60)


@dataclass
class Site:
    """Three sessions that run, strangers around them, and what all of them hear."""

    replicas: dict[str, Replica]
    plans: dict[str, dict[str, Any]]
    places: dict[str, Place]
    foreign_file: Path

    def egress(self, name: str) -> str:
        """Return a replica's address on its egress bridge."""
        network_name = self.plans[name.split(" ")[0]]["egress"]["name"]
        return str(self.replicas[name].networks[network_name]["IPAddress"])

    def member(self, name: str) -> dict[str, Any]:
        """Return what the plan says of a replica."""
        session, replica = name.split(" ")
        return next(dict(entry) for entry in self.plans[session]["replicas"] if entry["name"] == replica)

    def listen(self, name: str) -> None:
        """Have a replica write down what it hears."""
        member = self.replicas[name]
        command = ["python3", "-c", packets.LISTENER, HEARD, str(PORT), str(TUNNEL_PORT)]
        on(member.host, "docker", "exec", "-d", member.container, *command)
        _await(lambda: "ready" in member.attempt("cat", HEARD).stdout)

    def everything_heard(self) -> str:
        """Return all that anybody has heard so far."""
        heard = in_parallel(lambda replica: replica.attempt("cat", HEARD).stdout, self.replicas.values())
        return "".join(heard) + self.foreign_file.read_text(encoding="utf-8")

    def fire(self, phase: str, attacks: dict[str, tuple[str, Shots]]) -> set[str]:
        """Try all the attacks, (place, what is sent) by name, and return those of which something was heard."""
        by_place: dict[str, list[Shot]] = {}
        for name, (place, shots) in attacks.items():
            by_place.setdefault(place, []).extend(shots(f"<{phase}/{name}>".encode()))
        in_parallel(lambda item: self.places[item[0]].fire(item[1]), by_place.items())
        time.sleep(SETTLE)
        heard = self.everything_heard()
        return {name for name in attacks if f"<{phase}/{name}>" in heard}


def _await(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@contextmanager
def _others() -> Iterator[None]:
    """Have somebody else's rules in the chain for users, and a host that forwards everything else."""

    def add(host: str) -> None:
        lines = [f"iptables -w -I DOCKER-USER {number} {rule}" for number, rule in enumerate(OTHERS, 1)]
        script(host, "\n".join([*lines, "iptables -w -P FORWARD ACCEPT"]))

    def remove(host: str) -> None:
        # A host that was booted has none of them any more.
        lines = [f"iptables -w -D DOCKER-USER {rule} || true" for rule in OTHERS]
        script(host, "\n".join([*lines, "iptables -w -P FORWARD DROP"]))

    try:
        in_parallel(add, HOSTS)
        yield
    finally:
        in_parallel(remove, HOSTS)


@contextmanager
def _foreign_machine(file: Path) -> Iterator[None]:
    """Put a machine that is none of the hosts on the network that joins them; it writes down what it hears."""
    network.attach_host(FOREIGN, FOREIGN_ADDRESS, f"{NETWORK}.0.0/24", 1500)
    try:
        argv = ["nsenter", f"--net=/run/netns/{FOREIGN.namespace}", sys.executable, "-c", packets.LISTENER]
        listener = subprocess.Popen([*argv, str(file), str(PORT)])
        try:
            _await(lambda: file.exists() and "ready" in file.read_text(encoding="utf-8"))
            yield
        finally:
            listener.kill()
            listener.wait()
    finally:
        network.detach_host(FOREIGN)


@contextmanager
def _strangers() -> Iterator[None]:
    """Run an ordinary container on each host."""
    try:
        in_parallel(lambda host: on(host, "docker", "run", "-d", "--name", "plain", DEMO, "sleep", "8888"), HOSTS)
        yield
    finally:
        in_parallel(lambda host: try_on(host, ["docker", "rm", "-f", "plain"]), HOSTS)


def _route(host: str, *argv: str) -> None:
    """Give a host, or the foreign machine, a route as somebody would who wants to get in."""
    if host in HOSTS:
        on(host, "ip", "route", "replace", *argv)
    else:
        subprocess.run(["ip", "-netns", FOREIGN.namespace, "route", "replace", *argv], check=True)


def _forget_routes() -> None:
    """Take the routes from the hosts that lead to the other's sessions; those into a link went with it."""
    routes = 'ip route show | grep " via .* dev eth0" | grep -v default | cut -d " " -f 1 | xargs -r -n 1 ip route del'
    in_parallel(lambda host: script(host, routes), HOSTS)


@pytest.fixture(scope="module")
def before(untouched_lab: object) -> Iterator[dict[str, str]]:
    """Give the rules of each host before the sessions; exactly those are there when they are gone."""
    with _others():
        rules = dict(zip(HOSTS, in_parallel(_rules, HOSTS)))
        yield rules


@pytest.fixture(scope="module")
def site(before: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Launch two sessions that span hosts and one that does not, and put strangers around them."""
    file = tmp_path_factory.mktemp("foreign") / "heard"
    with ExitStack() as stack:
        stack.enter_context(_foreign_machine(file))
        stack.enter_context(_strangers())
        stack.callback(lambda: clear(*REQUESTS))
        stack.callback(_forget_routes)
        runs = in_parallel(lambda item: launch({**BASE, "session_name": item[0], **item[1]}), REQUESTS.items())
        for run in runs:
            run.ok()
        yield _look(file)


def _look(file: Path) -> Site:
    """Say where everything is, give strangers their routes, have everybody listen."""
    found = {f"{session} {name}": replica for session in REQUESTS for name, replica in replicas(session).items()}
    plans = {session: record(session)["plan"] for session in REQUESTS}
    spots = {"foreign": Place("", f"/run/netns/{FOREIGN.namespace}")}
    for name, member in found.items():
        spots[name] = Place(member.host, f"/proc/{member.inspected['State']['Pid']}/ns/net")
    for host in HOSTS:
        on(host, "docker", "start", "plain")
        pid = on(host, "docker", "inspect", "-f", "{{.State.Pid}}", "plain").strip()
        spots[f"plain {host}"] = Place(host, f"/proc/{pid}/ns/net")
    site = Site(found, plans, spots, file)
    in_parallel(site.listen, found)
    alpha, gamma = plans["alpha"], plans["gamma"]
    for where in ("foreign", "n2"):
        _route(where, alpha["egress"]["subnet"], "via", ADDRESSES["n1"])
    for where in ("foreign", "n1"):
        _route(where, gamma["egress"]["subnet"], "via", ADDRESSES["n2"])
    # As if a host itself led into the sessions' own networks, which no host does.
    _route("n1", alpha["network"]["subnet"], "dev", alpha["network"]["link"])
    _route("n2", gamma["network"]["subnet"], "dev", inner_bridge(gamma["session"]["id"]))
    _route("foreign", alpha["network"]["subnet"], "via", ADDRESSES["n1"])
    _route("foreign", gamma["network"]["subnet"], "via", ADDRESSES["n2"])
    return site


# ---- ways in --------------------------------------------------------------------------------------------------------


def _both(address: str) -> Shots:
    return lambda data: [datagram(address, PORT, data), stream(address, PORT, data)]


def _inner(site: Site, target: str, data: bytes) -> bytes:
    """Return a VXLAN packet for alpha's overlay, as if another replica of it had sent what is inside."""
    source = "alpha sub1" if target == "alpha main1" else "alpha main1"
    sender, other = site.member(source), site.member(target)
    packet = packets.ipv4(sender["address"], other["address"], packets.udp(PORT, data))
    return packets.vxlan(site.plans["alpha"]["network"]["vni"], packets.ethernet(sender["mac"], other["mac"], packet))


def _ways_in(site: Site) -> dict[str, tuple[str, Shots]]:
    """Return all that nobody may do, by name: from where, and what is sent."""
    n1, n3 = ADDRESSES["n1"], ADDRESSES["n3"]

    def forged(target: str, to: str) -> Shots:
        return lambda data: [datagram(to, TUNNEL_PORT, _inner(site, target, data))]

    def tunnel(target: str, data: bytes) -> bytes:
        return packets.udp(TUNNEL_PORT, _inner(site, target, data))

    def spoofed(target: str, source: str, to: str, options: bytes = b"") -> Shots:
        return lambda data: [packets.raw(packets.ipv4(source, to, tunnel(target, data), options))]

    def fragments(data: bytes) -> list[Shot]:
        return [packets.raw(part) for part in packets.in_fragments(n3, n1, tunnel("alpha main1", data))]

    def loopback(data: bytes) -> list[Shot]:
        packet = packets.ipv4(FOREIGN_ADDRESS, "127.0.0.1", packets.udp(18081, data))
        own = hardware_address(FOREIGN_ADDRESS)
        return [packets.on_wire("eth0", packets.ethernet(own, hardware_address(n1), packet))]

    def lying(source: str, to: str) -> Shots:
        return lambda data: [packets.raw(packets.ipv4(source, to, packets.udp(PORT, data)))]

    return {
        "another session on the same host": ("beta main1", _both(site.egress("alpha main1"))),
        "another session on the same host, newer engine": ("beta sub1", _both(site.egress("alpha sub1"))),
        "an ordinary container on the same host": ("plain n1", _both(site.egress("alpha main1"))),
        "an ordinary container on the same host, newer engine": ("plain n3", _both(site.egress("alpha sub1"))),
        "an ordinary container on another host": ("plain n2", _both(site.egress("alpha main1"))),
        "another session on another host": ("alpha main1", _both(site.egress("gamma main1"))),
        "a foreign machine to main1": ("foreign", _both(site.egress("alpha main1"))),
        "a foreign machine to a sub": ("foreign", _both(site.egress("gamma sub1"))),
        "a foreign machine to the overlay": ("foreign", _both(site.member("alpha sub1")["address"])),
        "a foreign machine to the session's bridge": ("foreign", _both(site.member("gamma sub1")["address"])),
        "a foreign machine to the loopback address": ("foreign", loopback),
        "forged for the own host": ("beta main1", forged("alpha main1", n1)),
        "forged for the own host, newer engine": ("beta sub1", forged("alpha sub1", n3)),
        "forged for another host": ("beta main1", forged("alpha sub1", n3)),
        "forged for the bridge of the own host": ("plain n1", forged("alpha main1", "172.17.0.1")),
        "forged with a peer's address for the own host": ("plain n1", spoofed("alpha main1", n3, n1)),
        "forged with options before the header": ("plain n1", spoofed("alpha main1", n3, n1, b"\x01" * 8)),
        "forged in fragments": ("plain n1", fragments),
        "forged by a host that is no peer": ("plain n2", forged("alpha main1", n1)),
        "forged with a peer's address on a host that is none": ("plain n2", spoofed("alpha main1", n3, n1)),
        "forged by a foreign machine": ("foreign", forged("alpha main1", n1)),
        "a neighbour's address": ("beta main1", lying(site.egress("alpha sub1"), site.egress("alpha main1"))),
        "out with an address of nobody": ("beta main1", lying("192.0.2.77", FOREIGN_ADDRESS)),
    }


WAYS_IN = (
    "another session on the same host",
    "another session on the same host, newer engine",
    "an ordinary container on the same host",
    "an ordinary container on the same host, newer engine",
    "an ordinary container on another host",
    "another session on another host",
    "a foreign machine to main1",
    "a foreign machine to a sub",
    "a foreign machine to the overlay",
    "a foreign machine to the session's bridge",
    "a foreign machine to the loopback address",
    "forged for the own host",
    "forged for the own host, newer engine",
    "forged for another host",
    "forged for the bridge of the own host",
    "forged with a peer's address for the own host",
    "forged with options before the header",
    "forged in fragments",
    "forged by a host that is no peer",
    "forged with a peer's address on a host that is none",
    "forged by a foreign machine",
    "a neighbour's address",
    "out with an address of nobody",
)


def _open_ways(site: Site) -> dict[str, tuple[str, Shots]]:
    """Return what has to work, by name."""
    n1 = ADDRESSES["n1"]
    alpha, gamma = site.member("alpha main1"), site.member("gamma main1")

    def neighbour(data: bytes) -> list[Shot]:
        """Inside the session a replica may do everything, even send in another's name."""
        other = site.member("alpha sub1")
        packet = packets.ipv4("198.51.100.1", alpha["address"], packets.udp(PORT, data))
        return [packets.on_wire("eth1", packets.ethernet(other["mac"], alpha["mac"], packet))]

    def own_tunnel(data: bytes) -> list[Shot]:
        """A tunnel of its own between replicas is nobody's business, whatever identifier it has."""
        return [datagram(gamma["address"], TUNNEL_PORT, packets.vxlan(site.plans["alpha"]["network"]["vni"], data))]

    return {
        "published": ("foreign", lambda data: [datagram(n1, 18080, data)]),
        "published, TCP": ("foreign", lambda data: [stream(n1, 18080, data)]),
        "published at one address": ("foreign", lambda data: [datagram(n1, 18082, data)]),
        "inside, overlay": ("alpha sub1", _both(alpha["address"])),
        "inside, overlay, any port": ("alpha sub1", lambda data: [datagram(alpha["address"], TUNNEL_PORT, data)]),
        "inside, bridge": ("gamma sub1", _both(gamma["address"])),
        "inside, bridge, a tunnel": ("gamma sub1", own_tunnel),
        "inside, egress": ("gamma sub1", _both(site.egress("gamma main1"))),
        "inside, another's name": ("alpha sub1", neighbour),
        "out": ("beta main1", _both(FOREIGN_ADDRESS)),
    }


OPEN_WAYS = (
    "published",
    "published, TCP",
    "published at one address",
    "inside, overlay",
    "inside, overlay, any port",
    "inside, bridge",
    "inside, bridge, a tunnel",
    "inside, egress",
    "inside, another's name",
    "out",
)


REMOVE = (
    "from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall\n"
    "from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules import isolation\n"
    "for name in [*firewall.sessions(), isolation.STANDING[0]]: firewall.remove(name)\n"
)


@contextmanager
def _without_rules(hosts: tuple[str, ...] = HOSTS) -> Iterator[None]:
    """Take the rules of sessions from hosts, and have the hosts put them back."""
    rules = dict(zip(hosts, in_parallel(_of_sessions, hosts)))
    try:
        in_parallel(lambda host: on(host, "env", f"PYTHONPATH={PROGRAM}", "python3", "-c", REMOVE), hosts)
        assert in_parallel(_of_sessions, hosts) == [[] for _host in hosts]
        yield
    finally:
        listings = in_parallel(lambda host: on(host, PROGRAM), hosts)
    assert all(
        [line.split(" ", 2)[2] for line in text.splitlines()]
        == [f"create firewall rules {name}" for name in _sessions_in(rules[host])]
        for host, text in zip(hosts, listings)
    ), listings
    assert {host: sorted(_of_sessions(host)) for host in hosts} == {host: sorted(rules[host]) for host in hosts}


def _sessions_in(rules: list[str]) -> list[str]:
    """Return the names of the sessions that have rules, by id, after what keeps containers out of all of them."""
    found = {re.search(r'"cluster-compute (\S+) (\S+) ', line).groups() for line in rules}  # type: ignore[union-attr]
    return [name for _id, name in sorted(found, key=lambda owner: (owner != STANDING, owner))]


@pytest.fixture(scope="module")
def guarded(site: Site) -> set[str]:
    """Try every way in and every open way with the rules."""
    return site.fire("guarded", {**_ways_in(site), **_open_ways(site)})


@pytest.fixture(scope="module")
def unguarded(site: Site, guarded: set[str]) -> set[str]:
    """Try every way in without the rules."""
    ways = _ways_in(site)
    assert tuple(ways) == WAYS_IN
    with _without_rules():
        return site.fire("unguarded", ways)


@pytest.mark.parametrize("way", WAYS_IN)
def test_nobody_gets_in(way: str, guarded: set[str], unguarded: set[str]) -> None:
    assert way not in guarded
    assert way in unguarded, "the way is closed by something else than the rules"


@pytest.mark.parametrize("way", OPEN_WAYS)
def test_what_is_open_stays_open(way: str, guarded: set[str]) -> None:
    assert way in guarded


def test_a_neighbour_s_hardware_address_is_no_way_in(site: Site, guarded: set[str]) -> None:
    """The same frame arrives that is sent inside the session."""
    frame = _open_ways(site)["inside, another's name"][1]

    def by_egress(data: bytes) -> list[Shot]:
        return [{**shot, "to": "eth0"} for shot in frame(data)]

    attacks = {
        "own network": ("beta main1", frame),
        "own egress": ("beta main1", by_egress),
        "ordinary": ("plain n1", by_egress),
    }
    assert site.fire("frame", attacks) == set()
    assert "inside, another's name" in guarded


def test_a_host_without_replicas_keeps_its_containers_out_of_the_tunnel(site: Site, unguarded: set[str]) -> None:
    """Its peers could not: the packet bears the address of one of them."""
    way = "forged with a peer's address on a host that is none"
    attack = {way: _ways_in(site)[way]}
    with _without_rules(("n2",)):
        assert site.fire("n2 unguarded", attack) == {way}
    assert site.fire("n2 guarded", attack) == set()


def test_a_flood_gets_nowhere_and_the_session_works_on(site: Site, unguarded: set[str]) -> None:
    forged = packets.udp(TUNNEL_PORT, _inner(site, "alpha main1", b"<flood>"))
    shots = [
        {**packets.raw(packets.ipv4(ADDRESSES["n3"], ADDRESSES["n1"], forged)), "count": FLOOD},
        {**datagram(site.egress("alpha main1"), PORT, b"<flood>"), "count": FLOOD},
    ]
    with ThreadPoolExecutor(1) as pool:
        attempt = pool.submit(site.places["plain n1"].fire, shots)
        logins = 0
        while logins == 0 or not attempt.done():
            assert site.replicas["alpha main1"].run("ssh", "sub1", "hostname").strip() == "sub1"
            logins += 1
        attempt.result()
    assert site.fire("after the flood", {"inside": _open_ways(site)["inside, overlay"]}) == {"inside"}
    assert "<flood>" not in site.everything_heard()


# ---- the rules themselves -------------------------------------------------------------------------------------------


def test_rules_of_others_stay_where_they_are(site: Site, before: dict[str, str]) -> None:
    for host in HOSTS:
        others = [line for line in _rules(host).splitlines() if '"cluster-compute ' not in line and "cce" not in line]
        own = [line for line in others if line.startswith("-A DOCKER-USER")]
        known = [line for line in before[host].splitlines() if line.startswith("-A DOCKER-USER")]
        assert own == [line for line in known if '"cluster-compute ' not in line]
        assert [line.replace("-A DOCKER-USER ", "") for line in own[:2]] == OTHERS


def test_sessions_on_one_host_are_apart(site: Site) -> None:
    """A rule of one session names nothing of the other."""
    ids = {name: site.plans[name]["session"]["id"] for name in REQUESTS}
    for line in _of_sessions("n1"):
        named = {name for name, key in {**ids, "standing": STANDING[0]}.items() if key[:8] in line}
        assert len(named) == 1, line


def test_a_rule_that_was_removed_or_is_not_reached_is_put_back(site: Site) -> None:
    rules = {host: _of_sessions(host) for host in HOSTS}
    alpha = chain_name(site.plans["alpha"]["session"]["id"])
    script("n1", f"iptables -D {alpha}-in 2")
    script("n2", "iptables -I DOCKER-USER -j RETURN")
    script("n3", "while iptables -D FORWARD -j DOCKER-USER 2>/dev/null; do :; done")
    try:
        wanted = {
            "n1": ["update firewall rules alpha"],
            "n2": [f"update firewall rules {name}" for name in _sessions_in(rules["n2"])],
            "n3": [f"update firewall rules {name}" for name in _sessions_in(rules["n3"])[:1]],
        }
        run = play("repair", {}, "--diff").ok()
        # The first of a host's sessions puts the way to their rules back for all of them.
        assert run.actions() == wanted
        assert "-j DROP" in run.differences()
    finally:
        script("n2", "iptables -D DOCKER-USER -j RETURN")
    assert {host: sorted(_of_sessions(host)) for host in HOSTS} == {host: sorted(rules[host]) for host in HOSTS}
    assert "-A FORWARD -j DOCKER-USER" in _rules("n3")


def test_a_host_that_is_cleaned_keeps_others_out_of_what_runs_elsewhere(site: Site) -> None:
    """n2 carries nothing of alpha, and is left with a part of it, as after a launch that was killed and tried again."""
    rules = _of_sessions("n2")
    alpha = site.plans["alpha"]["session"]["id"]
    labels = [f"--label=cluster-compute.session-{key}" for key in (f"id={alpha}", "name=alpha")]
    on("n2", "docker", "network", "create", *labels, "left")
    assert play("gc").ok().changed_hosts == {"n2"}
    assert on("n2", "docker", "network", "ls", "--quiet", "--filter", "name=left") == ""
    assert _of_sessions("n2") == rules


def test_rules_are_there_after_an_engine_was_restarted(site: Site) -> None:
    hosts = ("n1", "n3")
    rules = in_parallel(_of_sessions, hosts)
    others = in_parallel(lambda host: on(host, "iptables", "-S", "DOCKER-USER"), hosts)
    in_parallel(lambda host: on(host, "service", "docker", "restart"), hosts)
    assert in_parallel(_of_sessions, hosts) == rules
    assert in_parallel(lambda host: on(host, "iptables", "-S", "DOCKER-USER"), hosts) == others
    for host in hosts:
        forward = on(host, "iptables", "-S", "FORWARD").splitlines()
        assert forward[1] == "-A FORWARD -j DOCKER-USER"
        on(host, "service", "cluster-compute", "start")
    _await(lambda: site.replicas["alpha main1"].attempt("ssh", "sub1", "true").returncode == 0)
    assert in_parallel(_of_sessions, hosts) == rules


def _power_cycle(host: str) -> None:
    play("lab_power_cut", {"lab_host": host}).ok()
    play("lab_boot", {"lab_host": host}).ok()


def test_rules_are_there_after_a_reboot_with_either_iptables(site: Site) -> None:
    rules = _of_sessions("n2")
    choose = "for program in iptables ip6tables; do update-alternatives {} >/dev/null; done"
    try:
        script("n2", choose.format("--set $program /usr/sbin/$program-legacy"))
        _power_cycle("n2")
        _await(lambda: site.replicas["gamma main1"].attempt("true").returncode == 0)
        _await(lambda: _comments(_of_sessions("n2")) == _comments(rules))
        assert _of_sessions("n2", "iptables-nft") == []
        lines = ["iptables -P FORWARD ACCEPT", "iptables -D DOCKER-USER -j RETURN"]
        script("n2", "\n".join([*lines, *(f"iptables -A DOCKER-USER {rule}" for rule in OTHERS)]))
        again = _look(site.foreign_file)
        attacks = {
            "forged": _ways_in(again)["forged with a peer's address on a host that is none"],
            "in": _ways_in(again)["a foreign machine to a sub"],
        }
        assert again.fire("legacy guarded", attacks) == set()
        with _without_rules(("n2",)):
            assert again.fire("legacy unguarded", attacks) == set(attacks)
    finally:
        script("n2", choose.format("--auto $program"))
        _power_cycle("n2")
    _await(lambda: _comments(_of_sessions("n2")) == _comments(rules))
    _await(lambda: site.replicas["gamma main1"].attempt("true").returncode == 0)


def _comments(rules: list[str]) -> list[str]:
    """Return the comments, which hold digests: the two kinds of iptables do not print rules alike."""
    return sorted(re.findall(r'"(cluster-compute [^"]*)"', "\n".join(rules)))


def test_teardown_leaves_the_rules_as_they_were(site: Site, before: dict[str, str]) -> None:
    clear(*REQUESTS)
    for host in ("n1", "n3"):
        # An engine that was restarted has made its chains in another order.
        assert _by_chain(_rules(host)) == _by_chain(before[host])
    for host in HOSTS:
        assert _sessions_in(_of_sessions(host)) == ["standing"]
