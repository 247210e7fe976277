# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A session's life: tried dry, launched, damaged and repaired, replaced, removed. The tests run in this order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    HOSTS,
    STATE,
    Replica,
    Run,
    Snapshot,
    clear,
    differences,
    launch,
    on,
    record,
    replicas,
    script,
    snapshot,
    teardown,
    try_on,
)

CANARY = "/tmp/cluster-compute-canary"
FOLDER = f"/srv/$(touch {CANARY}) 'quoted'"
ARGUMENT = f"$(touch {CANARY}) `touch {CANARY}` 'single' \"double\" ; touch {CANARY}"
REQUEST: dict[str, Any] = {
    "session_name": "trio",
    "session_size": 3,
    "session_max_replicas_per_host": 1,
    "session_image": BUSYBOX,
    "session_cpus": "0.5",
    "session_memory": "64m",
    "session_capabilities": "NET_RAW",  # for ping
    "session_mounts": [{"source": FOLDER, "target": "/data", "shared": False}],
    "session_command": ["sh", "-c", 'printf %s "$0" >/tmp/argument; exec sleep 8888', ARGUMENT],
}


@pytest.fixture(scope="module")
def folders(untouched_lab: Snapshot) -> Iterator[None]:
    """Make a data folder with a hostile name on every host."""
    for host in HOSTS:
        on(host, "mkdir", "-p", FOLDER)
        on(host, "tee", f"{FOLDER}/kept", stdin="kept\n")
    try:
        yield
    finally:
        for host in HOSTS:
            on(host, "rm", "-rf", FOLDER)


@pytest.fixture(scope="module")
def dry_run(folders: None) -> Run:
    """Launch in check mode, before there is anything."""
    before = snapshot()
    run = launch(REQUEST, "--check", "--diff").ok()
    assert differences(before, snapshot()) == []
    return run


@pytest.fixture(scope="module")
def trio(dry_run: Run) -> Iterator[Run]:
    """Launch three replicas, one on each host."""
    try:
        yield launch(REQUEST, "--diff").ok()
    finally:
        clear("trio")


@pytest.fixture
def intact(trio: Run) -> Iterator[Snapshot]:
    """Give the session as it was launched, and prove that it is whole again after the test."""
    before = snapshot()
    yield before
    _all_reach_all()
    assert differences(_without_starts(before), _without_starts(snapshot())) == []


def _without_starts(taken: Snapshot) -> Snapshot:
    """Leave out what a repair may change: when a container was started, and which one it is."""
    for kinds in taken.values():
        kinds["containers"] = {name: container[1] for name, container in kinds["containers"].items()}
        kinds["mounts"] = [
            path for path in kinds["mounts"] if not path.startswith(("/run/docker/", "/var/lib/docker/"))
        ]
        kinds["networks"] = sorted(line.split(" ", 1)[-1] for line in kinds["networks"])
        kinds["addresses"] = [address[1:] for address in kinds["addresses"]]
        kinds["links"] = sorted([link[1], link[2], link[3]] for link in kinds["links"])
        kinds["state"] = {
            path: [*entry[:3], entry[4]] for path, entry in kinds["state"].items() if not path.endswith(".restarts")
        }
    return taken


def _all_reach_all() -> dict[str, Replica]:
    found = replicas("trio")
    assert list(found) == ["main1", "sub1", "sub2"]
    for replica in found.values():
        replica.run("sh", "-ec", "".join(f"ping -c 1 -W 3 {name} >/dev/null\n" for name in found))
    return found


def _plain(run: Run) -> dict[str, list[str]]:
    """Return a run's actions without the session's id, and without files that depend on keys not made yet.

    A record is begun by one step and completed by a later one, which in check mode finds none begun.
    """
    identity = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=ccx)[0-9a-f]{8}|(?<=cc-)[0-9a-f]{8}")
    return {
        host: [
            identity.sub("ID", action).replace("update record", "create record")
            for action in actions
            if "/ssh/" not in action
        ]
        for host, actions in run.actions().items()
    }


def _link(host: str) -> str:
    found = [name for name in on(host, "ls", "/sys/class/net").split() if name.startswith("ccx")]
    assert len(found) == 1
    return found[0]


class TestLaunch:
    """The first launch, and what check mode had said of it."""

    def test_a_plain_launch_is_short_and_calls_each_host_three_times(self, trio: Run) -> None:
        assert len(trio.tasks) <= 8, trio.tasks
        assert {host: len(tasks) for host, tasks in trio.calls().items()} == dict.fromkeys(HOSTS, 3)

    def test_a_dry_run_says_what_is_done(self, dry_run: Run, trio: Run) -> None:
        assert dry_run.changed == trio.changed
        assert dry_run.placed == trio.placed == dict(zip(("main1", "sub1", "sub2"), HOSTS))
        assert _plain(dry_run) == _plain(trio)
        assert "create container trio-sub2" in _plain(trio)["n3"]
        assert "trio-sub2" in dry_run.differences()

    def test_hostile_paths_and_arguments_arrive_and_run_nowhere(self, trio: Run) -> None:
        for replica in replicas("trio").values():
            assert replica.run("cat", "/data/kept") == "kept\n"
            assert replica.run("cat", "/tmp/argument") == ARGUMENT
            assert replica.attempt("test", "-e", CANARY).returncode == 1
        assert [host for host in HOSTS if try_on(host, ["test", "-e", CANARY]).returncode != 1] == []


class TestRepair:
    """What is missing is put back, what is there is left alone, and only that is called a change.

    tests/contract/test_repair.py shows each kind of damage by itself.
    """

    def test_one_that_fails_removes_nothing_and_the_next_leaves_alone_what_is_intact(self, intact: Snapshot) -> None:
        identities = {name: replica.inspected["Id"] for name, replica in replicas("trio").items()}
        on("n3", "docker", "kill", "trio-sub2")
        on("n3", "mv", FOLDER, "/srv/aside")
        try:
            run = launch(REQUEST)
            assert run.code != 0
            assert "n3: " in run.failures
            assert "could not be repaired" in run.failures
            assert FOLDER in run.failures
            found = replicas("trio")
            assert {name: replica.inspected["Id"] for name, replica in found.items()} == identities
            assert found["sub1"].inspected["State"]["Status"] == "running"
        finally:
            on("n3", "mv", "/srv/aside", FOLDER)
        # Another host loses a replica, files and the way to a peer; n1 is intact.
        on("n2", "docker", "rm", "-f", "trio-sub1")
        script("n2", f"echo damage | tee -a {STATE}/sessions/*/replicas/sub1/environment")
        script("n2", f"rm {STATE}/sessions/*/replicas/sub1/hostfile")
        entries = on("n2", "bridge", "fdb", "show", "dev", _link("n2")).splitlines()
        gone = next(line for line in entries if f" dst {ADDRESSES['n1']} " in line).split()
        on("n2", "bridge", "fdb", "del", gone[0], "dev", _link("n2"), "dst", ADDRESSES["n1"], "self")
        dry_run = launch(REQUEST, "--check").ok()
        run = launch(REQUEST).ok()
        actions = run.actions()
        assert dry_run.actions() == actions
        assert dry_run.changed_hosts == run.changed_hosts == {"n2", "n3"}
        assert sorted(action.rsplit("/", 1)[-1] for action in actions["n2"]) == [
            "create container trio-sub1",
            "environment",
            "hostfile",
            f"update peers of link {_link('n2')}",
        ]
        assert actions["n3"] == ["restart container trio-sub2"]
        started = found["main1"].inspected["State"]["StartedAt"]
        assert replicas("trio")["main1"].inspected["State"]["StartedAt"] == started


class TestReplacement:
    """Another request for the same name."""

    def test_with_the_word_it_is_made_anew_and_the_number_of_tasks_stays(self, trio: Run) -> None:
        old = record("trio")["plan"]
        keys = set(_public_keys())
        run = launch(
            {**REQUEST, "session_size": 6, "session_max_replicas_per_host": 2, "session_recreate": True}, "--diff"
        )
        new = record("trio")["plan"]
        assert run.ok().changed_hosts == set(HOSTS)
        assert len(replicas("trio")) == len(run.placed) == 6
        assert new["session"]["id"] != old["session"]["id"]
        assert not keys & set(_public_keys())
        assert re.search(r"size|replicas", run.differences())
        for host in HOSTS:
            assert on(host, "ls", f"{STATE}/sessions").split() == [new["session"]["id"]]
        # Twice the replicas on the same hosts, and one step for each thing that a replacement has to do.
        assert len([task for task in run.tasks if task.endswith(" : Continue")]) == len(REPLACEMENT)
        assert set(map(tuple, run.calls().values())) == {("Collect facts of the hosts", *REPLACEMENT)}


REPLACEMENT = (
    "Write into the folders that hosts share",
    "Read there what the other hosts have written",
    "Remove what was written",
    "Remove the session that this one replaces",
    "Hold the place on every host of the plan, and make the keys",
    "Start the session, and check that it runs",
)
"""What hosts do in a launch that replaces a session with folders, beyond looking."""


def _public_keys() -> list[str]:
    found = [
        line for host in HOSTS for line in script(host, f"cat {STATE}/sessions/*/replicas/*/ssh/*.pub").splitlines()
    ]
    assert found
    return found


class TestRemoval:
    """The end."""

    def test_it_goes_once_and_the_data_stays(self, trio: Run, untouched_lab: Snapshot) -> None:
        dry_run = teardown("trio", "--check", "--diff").ok()
        run = teardown("trio", "--diff").ok()
        assert dry_run.changed_hosts == run.changed_hosts == set(HOSTS)
        assert dry_run.actions() == run.actions()
        assert {host: len(tasks) for host, tasks in run.calls().items()} == dict.fromkeys(HOSTS, 1)
        assert differences(untouched_lab, snapshot()) == []
        for host in HOSTS:
            assert on(host, "cat", f"{FOLDER}/kept") == "kept\n"
        again = teardown("trio").ok()
        assert set(again.recap) >= set(HOSTS)
        assert again.changed_hosts == set()
