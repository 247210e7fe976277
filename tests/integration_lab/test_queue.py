# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions that wait: kept by every host, launched in order, never overtaken at a cost, cancelled, limited."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.integration_lab.driver import (
    BUSYBOX,
    HOSTS,
    STATE,
    Run,
    Snapshot,
    clear,
    differences,
    launch,
    on,
    play,
    replicas,
    script,
    snapshot,
    teardown,
)

BASE: dict[str, Any] = {
    "session_size": 3,
    "session_max_replicas_per_host": 1,
    "session_image": BUSYBOX,
    "session_cpus": "1.5",
    "session_memory": "64m",
    "session_command": "sleep 8888",
}


@pytest.fixture(autouse=True)
def nothing_stays(untouched_lab: Snapshot) -> Iterator[None]:
    """Compare the hosts after each test with what they were before."""
    yield
    assert differences(untouched_lab, snapshot()) == []


def kept(name: str) -> dict[str, dict[str, Any]]:
    """Return the copies of a session's record, by host."""
    found = {}
    for host in HOSTS:
        for line in script(host, f"cat {STATE}/sessions/*/record.json 2>/dev/null || true").splitlines():
            record = json.loads(line)
            if record["name"] == name:
                found[host] = record
    return found


def schedule(*options: str, **more: Any) -> Run:
    """Run schedule_pending."""
    return play("schedule_pending", {}, *options, **more)


def shown(run: Run) -> list[str]:
    """Return the lines that schedule_pending ends with."""
    return [line for one in run.of("Say what was launched and who waits on") for line in one["values"]["msg"]]


def in_queue(run: Run) -> list[str]:
    """Return the names of the sessions that wait on, in order."""
    return [line.split()[1] for line in shown(run) if line[0].isdigit()]


def remove(*names: str) -> None:
    """Tear sessions down."""
    clear(*names)


def test_a_session_without_room_waits_on_every_host_and_survives_each_of_them() -> None:
    launch({**BASE, "session_name": "holder"}).ok()
    try:
        foretold = launch({**BASE, "session_name": "later"}, "--check").ok()
        assert kept("later") == {}
        run = launch({**BASE, "session_name": "later", "session_env": {"GREETING": "hello"}}).ok()
        assert foretold.said[0] == run.said[0] == "Session later is PENDING, position 1 in the queue."
        assert any(line.startswith("n2 ") and "1.5" in line for line in run.said)
        copies = kept("later")
        assert set(copies) == set(HOSTS)
        assert len({json.dumps(one, sort_keys=True) for one in copies.values()}) == 1
        assert copies["n1"]["status"] == "PENDING"
        again = launch({**BASE, "session_name": "later", "session_env": {"GREETING": "hello"}}).ok()
        assert again.changed_hosts == set()
        assert "waits in the queue, so" in play("logs", {"session_name": "later"}).ok().output
        # Two of three hosts lose all they know, and the controller never knew anything.
        for host in ("n1", "n3"):
            script(host, f"rm -r {STATE}/sessions/{copies['n1']['id']}")
        assert in_queue(schedule().ok()) == ["later"]
        teardown("holder").ok()
        run = schedule("--check").ok()
        assert replicas("later") == {}
        run = schedule().ok()
        assert in_queue(run) == []
        found = replicas("later")
        assert len(found) == 3
        assert found["sub1"].environment()["GREETING"] == "hello"
        record = kept("later")["n1"]
        assert (record["id"], record["status"]) == (copies["n1"]["id"], "RUNNING")
        assert [one["status"] for one in record["history"]] == ["PENDING", "PREPARING", "RUNNING"]
        assert schedule().ok().changed_hosts == set()
    finally:
        remove("holder", "later")


def test_the_order_is_priority_then_age_and_cancelling_is_teardown() -> None:
    launch({**BASE, "session_name": "holder"}).ok()
    names = ("first", "second", "urgent", "third")
    try:
        for name in names:
            launch({**BASE, "session_name": name, "session_priority": 5 if name == "urgent" else 0}).ok()
        run = schedule().ok()
        assert in_queue(run) == ["urgent", "first", "second", "third"]
        assert any("cpus" in line for line in shown(run))
        cancelled = teardown("second").ok()
        assert cancelled.changed_hosts == set(HOSTS)
        assert kept("second") == {}
        teardown("holder").ok()
        run = schedule().ok()
        assert in_queue(run) == ["first", "third"]
        assert len(replicas("urgent")) == 3
    finally:
        remove("holder", *names)


def test_backfill_takes_nothing_from_the_head() -> None:
    small = {**BASE, "session_size": 1, "session_cpus": "0.5", "session_max_replicas_per_host": ""}
    launch({**BASE, "session_name": "holder", "session_size": 2, "session_hosts": "n1,n2"}).ok()
    names = ["holder", "head", "greedy", "modest"]
    try:
        # The head wants 1.5 CPUs on each host; n3 has them, n1 and n2 do not yet.
        launch({**BASE, "session_name": "head"}).ok()
        # 1 CPU on n3 is free now and the head's later; half of one is free beside it.
        run = launch({**small, "session_name": "greedy", "session_cpus": "1", "session_hosts": "n3"}).ok()
        assert run.said[0] == "Session greedy is PENDING, position 2 in the queue."
        assert "session head" in run.said[1]
        run = launch({**small, "session_name": "modest", "session_hosts": "n3"}).ok()
        assert run.placed == {"main1": "n3"}
        assert in_queue(schedule().ok()) == ["head", "greedy"]
        teardown("holder").ok()
        assert in_queue(schedule().ok()) == ["greedy"]
        assert len(replicas("head")) == 3
    finally:
        remove(*names)


def test_a_launch_that_waits_starts_when_there_is_room() -> None:
    launch({**BASE, "session_name": "holder"}).ok()
    found: list[Run] = []
    waiting = {**BASE, "session_name": "patient", "session_wait": True, "session_wait_seconds": 120}
    waiter = threading.Thread(target=lambda: found.append(launch(waiting)))
    try:
        waiter.start()
        script("n3", f"until grep -qs patient {STATE}/sessions/*/record.json; do sleep 0.2; done")
        teardown("holder").ok()
        waiter.join()
        run = found[0].ok()
        assert [row["status"] for row in run.table.values()] == ["RUNNING"] * 3
        assert any("waits" in task.lower() or "Wait until" in task for task in run.tasks)
        late = launch({**BASE, "session_name": "late", "session_wait": True, "session_wait_seconds": 3})
        assert late.code != 0
        assert "got no room within 3 seconds" in late.failures
        assert set(kept("late")) == set(HOSTS)
    finally:
        waiter.join()
        remove("holder", "patient", "late")


def test_a_session_that_cannot_be_started_leaves_the_queue_and_says_why() -> None:
    launch({**BASE, "session_name": "holder"}).ok()
    try:
        launch({**BASE, "session_name": "doomed", "session_command": ["no-such-program"]}).ok()
        launch({**BASE, "session_name": "behind"}).ok()
        teardown("holder").ok()
        run = schedule()
        assert run.code != 0
        assert "doomed" in run.failures
        assert any("no-such-program" in line for line in shown(run))
        assert {one["status"] for one in kept("doomed").values()} == {"ERROR"}
        assert len(kept("doomed")) == len(HOSTS)
        assert replicas("doomed") == {}
        schedule().ok()
        assert len(replicas("behind")) == 3
    finally:
        remove("holder", "doomed", "behind")


def test_what_fits_on_no_host_is_refused_and_does_not_wait() -> None:
    run = launch({**BASE, "session_name": "huge", "session_cpus": "2.5"})
    assert run.code != 0
    assert "session_cpus" in run.failures
    assert "the largest offers 2 to sessions" in run.failures


def test_limits_are_told_together_with_used_requested_and_limit() -> None:
    limits = {
        "modes": ["single-node"],
        "replicas_per_session": 2,
        "sessions_per_owner": 1,
        "cpus_per_owner": 3,
    }
    site = {host: {"cluster_compute_limits": limits} for host in HOSTS}
    one = {**BASE, "session_size": 1, "session_owner": "alice"}
    try:
        launch({**one, "session_name": "own"}, hosts=site).ok()
        run = launch({**BASE, "session_name": "more", "session_owner": "alice"}, hosts=site)
        assert run.code != 0
        for text in (
            "session_mode is 'multi-node'",
            "Requested are 3 replicas; the limit of group cluster_compute_hosts is 2 a session.",
            "sessions of owner alice in group cluster_compute_hosts: 1 used, 1 requested, the limit is 1.",
            "CPUs of owner alice in group cluster_compute_hosts: 1.5 used, 4.5 requested, the limit is 3.",
        ):
            assert text in run.failures, run.failures
        launch({**one, "session_name": "bobs", "session_owner": "bob"}, hosts=site).ok()
        assert launch({**one, "session_name": "own"}, hosts=site).ok().changed_hosts == set()
    finally:
        remove("own", "more", "bobs")


def test_a_queue_is_read_without_the_host_that_is_away() -> None:
    launch({**BASE, "session_name": "holder", "session_size": 2, "session_hosts": "n1,n2"}).ok()
    try:
        launch({**BASE, "session_name": "pair", "session_size": 2, "session_hosts": "n1,n2"}).ok()
        play("lab_power_cut", {"lab_host": "n3"}).ok()
        try:
            assert in_queue(schedule().ok()) == ["pair"]
            teardown("holder")
            assert in_queue(schedule().ok()) == []
            assert len(replicas_on("pair", ("n1", "n2"))) == 2
        finally:
            play("lab_boot", {"lab_host": "n3"}).ok()
        # The copy that n3 kept of the time before must not start the session once more.
        assert in_queue(schedule().ok()) == []
        run = launch({**BASE, "session_name": "pair", "session_size": 2, "session_hosts": "n1,n2"}).ok()
        assert run.placed == {"main1": "n1", "sub1": "n2"}
        assert {host: one["status"] for host, one in kept("pair").items()} == dict.fromkeys(HOSTS, "RUNNING")
    finally:
        for name in ("holder", "pair"):
            teardown(name)
        play("gc").ok()
        play("gc").ok()


def replicas_on(name: str, hosts: tuple[str, ...]) -> list[str]:
    """Return the containers of a session on some hosts, without asking the others."""
    label = f"label=cluster-compute.session-name={name}"
    return [line for host in hosts for line in on(host, "docker", "ps", "-q", "--filter", label).splitlines() if line]
