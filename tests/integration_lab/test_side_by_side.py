# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two sessions on the same hosts keep to themselves; the second was launched on an underlay that carries less."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    Replica,
    Snapshot,
    clear,
    differences,
    in_parallel,
    launch,
    on,
    record,
    replicas,
    snapshot,
    teardown,
)

BASE: dict[str, Any] = {
    "session_size": 2,
    "session_max_replicas_per_host": 1,
    "session_hosts": "n1,n3",
    "session_image": BUSYBOX,
    "session_cpus": "0.5",
    "session_memory": "64m",
    "session_capabilities": "NET_RAW",  # for ping
    "session_command": ["sh", "-c", "mkdir /tmp/www; hostname >/tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"],
}
Sessions = dict[str, dict[str, Replica]]


@contextmanager
def _smaller_underlay() -> Iterator[None]:
    """Let packets of a host be of 1,400 bytes at most."""
    try:
        on("n1", "ip", "link", "set", "dev", "eth0", "mtu", "1400")
        yield
    finally:
        on("n1", "ip", "link", "set", "dev", "eth0", "mtu", "1500")


@pytest.fixture(scope="module")
def sessions(untouched_lab: Snapshot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Launch two sessions on the same two hosts, the second while the underlay carries less."""
    # A connection that is kept from before would go on with packets that are too large by now.
    fresh = {"ansible_control_path_dir": str(tmp_path_factory.mktemp("ssh"))}
    try:
        launch({**BASE, "session_name": "left"}).ok()
        with _smaller_underlay():
            launch({**BASE, **fresh, "session_name": "right", "session_ports": "18080:8080"}).ok()
        found = {name: replicas(name) for name in ("left", "right")}
        assert all(
            {name: replica.host for name, replica in some.items()} == {"main1": "n1", "sub1": "n3"}
            for some in found.values()
        )
        yield found
    finally:
        clear("left", "right")


def _addresses(replica: Replica) -> dict[str, str]:
    found = replica.run("ip", "-4", "-o", "address")
    return {line.split()[1]: line.split()[3].split("/")[0] for line in found.splitlines() if " lo " not in line}


def _fetch(replica: Replica, target: str, port: int = 8080) -> str:
    """Return the page that *target* serves, by the last line of its answer, or nothing where it cannot be had."""
    request = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 {target} {port}"
    lines = str(replica.attempt("sh", "-c", request).stdout).split()
    return lines[-1] if lines else ""


def test_subnets_identifiers_and_keys_are_different(sessions: Sessions) -> None:
    plans = [record(name)["plan"] for name in sessions]
    subnets = [ipaddress.ip_network(plan[kind]["subnet"]) for plan in plans for kind in ("network", "egress")]
    assert len(subnets) == 4
    assert not [
        (subnet, other) for subnet in subnets for other in subnets if subnet is not other and subnet.overlaps(other)
    ]
    for host in ("n1", "n3"):
        links = json.loads(on(host, "ip", "-j", "-d", "link", "show", "type", "vxlan"))
        assert len({link["linkinfo"]["info_data"]["id"] for link in links}) == 2


def test_each_resolves_its_own_members_only(sessions: Sessions) -> None:
    for name, members in sessions.items():
        own = {replica.name: _addresses(replica)["eth1"] for replica in members.values()}
        for replica in members.values():
            lines = [line.split() for line in replica.run("cat", "/etc/hosts").splitlines() if "local" not in line]
            mapped = {f"{member}.": f"::ffff:{address}" for member, address in own.items()}
            assert {line[1]: line[0] for line in lines} == own | mapped, name
            assert len(lines) == 4


def test_members_reach_each_other_and_nobody_of_the_other_session(sessions: Sessions) -> None:
    for members in sessions.values():
        for replica in members.values():
            for name in members:
                assert _fetch(replica, name) == name
    targets = {
        name: [address for some in members.values() for address in _addresses(some).values()]
        for name, members in sessions.items()
    }
    attempts = [
        (replica, address)
        for name, members in sessions.items()
        for replica in members.values()
        for other, addresses in targets.items()
        if other != name
        for address in addresses
    ]
    assert len(attempts) == 2 * 2 * 4
    reached = in_parallel(
        lambda pair: pair[0].attempt("ping", "-c", "1", "-W", "1", pair[1]).returncode == 0 or _fetch(*pair) != "",
        attempts,
    )
    assert [attempt for attempt, answered in zip(attempts, reached) if answered] == []


def test_the_published_port_of_main1_is_where_the_owner_logs_in(sessions: Sessions) -> None:
    main = sessions["right"]["main1"]
    url = f"http://{ADDRESSES[main.host]}:18080/"
    assert on(
        "n2", "python3", "-c", f"import urllib.request as u; print(u.urlopen('{url}', timeout=5).read().decode())"
    ).split() == ["main1"]
    assert _fetch(sessions["left"]["sub1"], ADDRESSES[main.host], 18080) == "main1"


def test_an_underlay_with_a_smaller_mtu_is_found_and_proven(sessions: Sessions) -> None:
    found = sessions["right"]
    with _smaller_underlay():
        for replica in found.values():
            assert replica.run("cat", "/sys/class/net/eth1/mtu").strip() == "1350"
        for replica, other in ((found["main1"], "sub1"), (found["sub1"], "main1")):
            pid = replica.inspected["State"]["Pid"]
            enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "ping", "-n", "-q", "-c", "1", "-W", "2", "-M", "do"]
            address = replica.run("sh", "-c", f"grep -w {other} /etc/hosts").split()[0]
            on(replica.host, *enter, "-s", "1322", address)
            larger = on(replica.host, "sh", "-c", f"{' '.join(enter)} -s 1323 {address} || echo refused")
            assert larger.splitlines()[-1] == "refused"


def test_the_end_of_one_does_not_touch_the_other(sessions: Sessions) -> None:
    before = snapshot(["n1", "n3"])
    teardown("left").ok()
    after = snapshot(["n1", "n3"])
    gone = differences(before, after)
    assert gone
    for host in ("n1", "n3"):
        kept = {name: container for name, container in before[host]["containers"].items() if "right" in name}
        assert len(kept) == 1
        assert after[host]["containers"] == kept
    members = sessions["right"]
    assert _fetch(members["sub1"], "main1") == "main1"
