# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions that change their size and outlive their hosts.

Only a lab shows what other replicas see meanwhile, real packets to and from a host that is cut off, and one that comes
back. What a launch decides and what a host does is shown by unit and contract tests.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    DEMO,
    HOSTS,
    NETWORK,
    STATE,
    Replica,
    Run,
    Snapshot,
    clear,
    in_parallel,
    launch,
    on,
    play,
    record,
    replicas,
    script,
    teardown,
    try_on,
)

REQUEST: dict[str, Any] = {
    "session_name": "elastic",
    "session_image": DEMO,
    "session_cpus": "0.5",
    "session_memory": "64m",
    "session_max_size": 12,
    "session_on_host_loss": "replace",
    "session_max_duration": "9h",
    "session_end_warning": "1m",
    "session_mounts": ["/srv/shared:/shared"],
    "session_command": ["sleep", "infinity"],
}
FULL = {host: {"cluster_compute_cpus": REQUEST["session_cpus"]} for host in HOSTS}
"""Variables by which every host has room for one replica."""
NOWHERE = {"n3": {"ansible_host": f"{NETWORK}.0.98"}}
"""Variables by which the controller alone does not reach n3: nothing has this address."""
OTHERS = ("n1", "n2")
PROGRAM, LOG = "/usr/local/lib/cluster-compute/host.pyz", "/var/log/cluster-compute.log"


@pytest.fixture(scope="module")
def spread(untouched_lab: Snapshot) -> Iterator[None]:
    """A session with a replica on each host, and room for more on each without the variables of `FULL`."""
    try:
        script("n1", "echo for all >/srv/shared/news")
        run = launch({**REQUEST, "session_size": 3}, hosts=FULL).ok()
        assert run.placed == {"main1": "n1", "sub1": "n2", "sub2": "n3"}
        yield
    finally:
        clear("elastic", "other")
        script("n1", "rm /srv/shared/news")


def starts() -> dict[str, tuple[str, str]]:
    """Return when the first process of each replica was started, and its container."""
    found = replicas("elastic")
    return {name: (each.inspected["Id"], each.inspected["State"]["StartedAt"]) for name, each in found.items()}


def reach_each_other(names: list[str]) -> None:
    """Let every replica log in to every other by its name, which its hosts file alone has, and read their folder."""

    def look(each: Replica) -> None:
        assert each.run("cat", "/shared/news") == "for all\n"
        for name in names:
            assert each.run("ssh", name, "hostname").strip() == name
        listed = [line.split()[0] for line in each.run("cat", "/etc/cluster-compute/hostfile").splitlines()]
        assert listed == names

    found = replicas("elastic")
    assert list(found) == names
    in_parallel(look, list(found.values()))
    assert on("n1", "find", "/srv/shared", "-name", ".cluster-compute-*") == "", "of the probe nothing is left"


@contextmanager
def cut_off() -> Iterator[None]:
    """Let no packet pass between n3 and the other hosts."""
    rules = "".join(
        f"iptables -{{0}} INPUT -s {ADDRESSES[host]} -j DROP\niptables -{{0}} OUTPUT -d {ADDRESSES[host]} -j DROP\n"
        for host in OTHERS
    )
    script("n3", rules.format("I"))
    try:
        yield
    finally:
        script("n3", rules.format("D"))


def sent_to(host: str, address: str) -> int:
    """Return how many packets a host has sent to the tunnels of another, as a rule counts that only counts."""
    rows = on(host, "iptables", "-nvxL", "OUTPUT").splitlines()
    return sum(int(row.split()[0]) for row in rows if "counted" in row and address in row)


@contextmanager
def counted(address: str) -> Iterator[None]:
    """Count what n1 and n2 send to the tunnel of another host."""
    rule = f"OUTPUT -d {address} -p udp --dport 4789 -m comment --comment counted"
    in_parallel(lambda host: script(host, f"iptables -I {rule}"), OTHERS)
    try:
        yield
    finally:
        in_parallel(lambda host: script(host, f"iptables -D {rule}"), OTHERS)


def words(run: Run) -> str:
    """Return what a run printed, however its lines were broken."""
    return " ".join(run.output.split())


def replace_lost(**more: Any) -> Run:
    """Give the replicas of lost hosts to others."""
    return play("replace_lost", {"session_name": "elastic"}, **more)


@contextmanager
def broken_between(one: str, other: str) -> Iterator[None]:
    """Let no packet pass between two hosts, which both reach the third."""
    peer = ADDRESSES[other]
    rules = f"iptables -{{0}} INPUT -s {peer} -j DROP\niptables -{{0}} OUTPUT -d {peer} -j DROP\n"
    script(one, rules.format("I"))
    try:
        yield
    finally:
        script(one, rules.format("D"))


def test_two_controllers_on_two_sides_of_a_broken_network_do_not_run_a_session_twice(untouched_lab: Snapshot) -> None:
    """Each reaches one of the session's two hosts and the third, and both replace what is lost at the same moment."""

    def running() -> dict[str, str]:
        found = [each for name in ("main1", "sub1") for each in _named(name)]
        return {f"{each.name} on {each.host}": each.inspected["Id"] for each in found}

    try:
        launch({**REQUEST, "session_size": 2, "session_max_replicas_per_host": 1}).ok()
        before = running()
        main, sub = (replicas("elastic")[name].host for name in ("main1", "sub1"))
        (third,) = {"n1", "n2", "n3"} - {main, sub}
        without = {host: {host: {"ansible_host": f"{NETWORK}.0.98"}} for host in (main, sub)}
        with broken_between(main, sub):
            runs = dict(zip(without, in_parallel(lambda host: play("schedule_pending", hosts=without[host]), without)))
            assert f"{main} does not count as lost, as {third} still hear it." in words(runs[main])
            during = running()
            # The host of sub1 was let go of: its replica runs on, and no other host hears it.
            assert during.keys() - before.keys() == {f"sub1 on {third}"}, words(runs[sub])
            assert before.items() <= during.items()
            # Whoever reaches the host that was let go of and the one that has its place removes the old replica.
            again = play("schedule_pending", hosts=without[main])
            left = {key: during[key] for key in (f"main1 on {main}", f"sub1 on {third}")}
            assert running() == left, words(again)
        play("schedule_pending").ok()
        play("audit", {}, "--check").ok()
        assert running() == left
    finally:
        clear("elastic")


def test_it_grows_and_shrinks_and_nothing_that_stays_is_started_again(spread: None) -> None:
    before = starts()
    waits = launch(
        {**REQUEST, "session_size": 6, "session_on_no_capacity": "wait", "session_wait_seconds": 1}, hosts=FULL
    )
    assert "it stays in the queue." in words(waits)
    assert starts() == before
    play("schedule_pending").ok()
    assert {name: replicas("elastic")[name].host for name in before} == {"main1": "n1", "sub1": "n2", "sub2": "n3"}
    after = starts()
    assert {name: after[name] for name in before} == before
    names = ["main1", *(f"sub{number}" for number in range(1, 6))]
    reach_each_other(names)
    found = replicas("elastic")
    # What is started from now on knows the size, in replicas that have stayed as well.
    assert "WORLD_SIZE=6" in found["sub5"].run("ssh", "sub1", "env").splitlines()
    assert found["main1"].environment()["WORLD_SIZE"] == "3"
    ranks = found["main1"].run("mpirun", "--oversubscribe", "-np", "6", "hostname").split()
    assert sorted(ranks) == sorted(names)

    launch({**REQUEST, "session_size": 3}).ok()
    assert starts() == before
    reach_each_other(names[:3])


def test_a_host_that_only_the_controller_does_not_reach_is_not_lost(spread: None) -> None:
    before, revision = starts(), record("elastic")["revision"]
    # Two halves: n1 hears n2, and is alone in not hearing n3, which is not most of the others.
    gone = {**NOWHERE, "n2": {"ansible_host": f"{NETWORK}.0.97"}}
    with cut_off():
        run = replace_lost(hosts=gone)
    assert "n2 does not count as lost, as n1 still hear it." in words(run)
    assert "n3 does not count as lost" in words(run)
    assert (starts(), record("elastic")["revision"]) == (before, revision)


def test_one_that_is_cut_off_is_fenced_and_replaced_and_gives_up_when_it_is_back(spread: None) -> None:
    before, old = starts(), replicas("elastic")["sub2"]
    address = old.run("hostname", "-I").split()[0]
    with cut_off():
        # The launch of any other session sees to it.
        launch({"session_name": "other", "session_image": DEMO, "session_memory": "64m"}, hosts=NOWHERE).ok()
        found = replicas("elastic")
        # Both run, under one name; a third reaches the one alone, and the other nobody.
        assert on("n3", "docker", "inspect", "-f", "{{.State.Running}}", old.container).strip() == "true"
        new = {each.host: each for each in _named("sub2")}
        (host,) = set(new) - {"n3"}
        assert found["main1"].run("ssh", "sub2", "hostname", "-I").split()[0] == address
        assert new[host].inspected["Id"] != old.inspected["Id"]
    # The way is free again, and nobody listens.
    with counted(ADDRESSES["n3"]):
        assert old.attempt("ping", "-c", "2", "-w", "3", "main1").returncode != 0
        assert found["main1"].run("ssh", "sub2", "hostname", "-I").split()[0] == address
        assert new[host].run("ssh", "main1", "hostname").strip() == "main1"
        assert {each: sent_to(each, ADDRESSES["n3"]) for each in OTHERS} == {"n1": 0, "n2": 0}
    after = starts()
    assert {name: after[name] for name in ("main1", "sub1")} == {name: before[name] for name in ("main1", "sub1")}
    teardown("other").ok()
    on("n3", PROGRAM, "--disks")  # as the host's timer does, which the lab's hosts have not
    assert _left_on("n3") == "", on("n3", "cat", LOG)
    reach_each_other(["main1", "sub1", "sub2"])


def test_one_that_lost_power_is_replaced_while_the_others_go_on(spread: None) -> None:
    # Back to a replica on each host: n3 is taken again, and not kept out any more.
    launch({**REQUEST, "session_size": 2}).ok()
    launch({**REQUEST, "session_size": 4}, hosts={host: FULL[host] for host in OTHERS}).ok()
    placed = {name: each.host for name, each in replicas("elastic").items()}
    gone = [name for name, host in placed.items() if host == "n3"]
    assert gone == ["sub2", "sub3"]
    before = starts()
    main = replicas("elastic")["main1"]
    script(main.host, f"docker exec {main.container} sh -c 'ssh sub1 sleep 600 & echo $! > /tmp/open'")
    play("lab_power_cut", {"lab_host": "n3"}).ok()
    try:
        began = time.monotonic()
        assert replace_lost().ok()
        print(f"at full size {time.monotonic() - began:.1f} s after the command")
        main.run("sh", "-c", "kill -0 $(cat /tmp/open)")
        now = {name: each.host for name, each in _elsewhere().items()}
        assert sorted(now) == sorted(placed)
        after = {
            name: (each.inspected["Id"], each.inspected["State"]["StartedAt"]) for name, each in _elsewhere().items()
        }
        assert {name: after[name] for name in before if name not in gone} == {
            name: before[name] for name in before if name not in gone
        }
    finally:
        play("lab_boot", {"lab_host": "n3"}).ok()
    _await_nothing_left("n3")
    reach_each_other(sorted(placed, key=lambda name: (name != "main1", name)))


def test_a_host_is_emptied_while_the_others_go_on(spread: None) -> None:
    before = {name: (each.host, each.inspected["Id"]) for name, each in replicas("elastic").items()}
    busy = before["sub1"][0]
    moving = [name for name, (host, _id) in before.items() if host == busy]
    try:
        play("drain_hosts", {"drain_hosts": busy, "drain_reason": "new memory", "drain_move": True}).ok()
        after = {name: (each.host, each.inspected["Id"]) for name, each in replicas("elastic").items()}
        assert busy not in {host for host, _id in after.values()}
        assert {name: place for name, place in after.items() if name not in moving} == {
            name: place for name, place in before.items() if name not in moving
        }
        reach_each_other(list(after))
    finally:
        play("undrain_hosts", {"drain_hosts": busy}).ok()


def test_its_hosts_end_it_by_themselves_when_its_time_is_over(spread: None) -> None:
    def pass_time(seconds: int) -> None:
        """Let a host believe that its part has run for so much longer, and do what its timer does."""
        more = (
            "import json, pathlib\n"
            f"for path in pathlib.Path('{STATE}/sessions').glob('*/times.json'):\n"
            f"    times = json.loads(path.read_text())\n"
            f"    path.write_text(json.dumps({{**times, 'ran': times['ran'] + {seconds}}}))\n"
        )
        in_parallel(lambda host: (on(host, "python3", "-", stdin=more), on(host, PROGRAM, "--disks")), HOSTS)

    hosts = record("elastic")["hosts"]
    pass_time(0)
    pass_time(9 * 3600)
    main = replicas("elastic")["main1"]
    assert json.loads(main.run("cat", "/etc/cluster-compute/end_warning.json"))["seconds_left"] == 60
    pass_time(60)
    assert replicas("elastic") == {}
    for host in hosts:
        (ended,) = [json.loads(line) for line in script(host, f"cat {STATE}/sessions/*/record.json").splitlines()]
        assert (ended["status"], ended["report"]) == ("TERMINATED", ["Its session_max_duration of 9h is over."])
    assert [_left_on(host) for host in HOSTS] == ["", "", ""]


def _named(name: str) -> list[Replica]:
    """Return all containers of a replica that there are, which are two while one is fenced."""
    found = []
    for host in ("n1", "n2", "n3"):
        found += [each for each in _on(host) if each.name == name]
    return found


def _elsewhere() -> dict[str, Replica]:
    return {each.name: each for host in OTHERS for each in _on(host)}


def _on(host: str) -> list[Replica]:
    ids = on(host, "docker", "ps", "-aq", "--filter", "label=cluster-compute.session-name=elastic").split()
    found = json.loads(on(host, "docker", "inspect", *ids)) if ids else []
    return [
        Replica(container["Config"]["Hostname"], host, container["Name"].lstrip("/"), container) for container in found
    ]


def _left_on(host: str) -> str:
    """Return what a host has of the session."""
    look = (
        "docker ps -aq --filter label=cluster-compute.session-name=elastic; ip -o link | grep -o 'ccx[0-9a-f]*' || true"
    )
    return try_on(host, ["sh", "-c", look]).stdout.strip()


def _await_nothing_left(host: str) -> None:
    """Wait until a host that has booted has given up by itself what others have."""
    deadline = time.monotonic() + 90
    while (left := _left_on(host)) and time.monotonic() < deadline:
        time.sleep(1)
    assert left == "", on(host, "cat", LOG)
