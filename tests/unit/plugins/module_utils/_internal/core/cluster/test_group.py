# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Batch sessions end with their command, and with nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import (
    MOST_ROUNDS,
    NOT_STARTED,
    GroupFacts,
    cleanup_work,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    QueueTicket,
    Record,
    advance,
    new_record,
    read_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import batch_job
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed

ID = "3614fdf3-6a1e-4f0e-9d4c-0f9d1f3c6a52"


def facts(
    status: str | None,
    code: int | None = None,
    problem: str = "",
    *,
    failed: bool = False,
    stopped: str = "",
    requeue: bool = False,
) -> GroupFacts:
    """Return what two hosts say of a session that runs on one of them; status: of its batch command.

    failed: whether a replica has failed as well. stopped: why its host stopped it. requeue: whether the command was
    stopped to begin anew. The other host has the rules that
    keep others out, and a job that was lost, as of a launch that was undone.
    """
    variables = {
        "session_name": "train",
        "session_image": "busybox",
        "session_batch_command": "train",
        "session_failure_policy": "strict",
    }
    record = new_record(ID, "alice", parse_request(variables).to_dict())
    plan = {
        "session": {"id": ID, "name": "train"},
        "hosts": {"h1": {}},
        "replicas": [{"name": "main1", "host": "h1"}],
        "network": None,
    }
    record = advance(record, "RUNNING", "Its replicas were started.", hosts=("h1",), plan=plan)
    replica = {"job": batch_job(ID), "replica": "main1", "status": status, "exit_code": code}
    outcome = {**replica, "timed_out": False, "stopped": requeue, "requeue": requeue, "problem": problem}
    nothing: dict[str, Any] = {"records": [], "objects": {}, "reservations": [], "tombstones": [], "containers": []}
    here = {**nothing, "records": [encode(record)], "batches": {ID: outcome} if status else {}}
    if failed:
        end = {"exit_code": 9, "oom_killed": False, "finished": "2026-01-01T00:00:00Z", "restarts": 0}
        end["stopped"] = stopped
        here["containers"] = [{"session_id": ID, "replica": "sub1", "failure": end}]
    there = {"objects": {ID: {"name": "train", "kinds": ["rules"]}}, "batches": {ID: {**outcome, "status": "LOST"}}}
    return GroupFacts(typed({"h1": here, "h2": {**nothing, **there}}), {}, ["h1", "h2"], [], {})


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (("ENDED", 0), "TERMINATED", "Its batch command has ended."),
        (("ENDED", 3), "ERROR", "Its batch command has ended. main1 on h1 ended with exit code 3."),
        (("LOST", None, "Gone."), "ERROR", "Its batch command has ended. main1 on h1: Gone."),
    ],
)
def test_a_session_ends_with_its_batch_command(outcome: tuple[Any, ...], status: str, reason: str) -> None:
    cluster = facts(*outcome).cluster_state()
    assert (cluster.records[ID].status, cluster.records[ID].report) == (status, (reason,))
    assert cluster.changed == {ID: cluster.records[ID]}
    for host in ("h1", "h2"):
        (removal,) = cluster.orphaned[host]
        assert (removal.keep_record, removal.revision) == (True, cluster.records[ID].revision)


def test_a_session_whose_batch_command_was_stopped_to_begin_anew_waits_again() -> None:
    cluster = facts("ENDED", 143, failed=True, requeue=True).cluster_state()
    waits = cluster.changed[ID]
    assert (waits.status, waits.plan, waits.hosts, waits.queue) == ("PENDING", None, (), QueueTicket(1))
    assert read_record(encode(waits)) == waits
    assert [cluster.orphaned[host][0].keep_record for host in ("h1", "h2")] == [True, True]


def test_a_session_whose_batch_command_its_host_cannot_start_waits_again_and_says_why() -> None:
    cluster = facts("ENDED", 126, "The host is at fault: /tmp is full.", requeue=True).cluster_state()
    waits = cluster.changed[ID]
    reason = "Its batch command was not started, and begins anew. The host is at fault: /tmp is full."
    assert (waits.status, waits.report, waits.hosts) == ("PENDING", (reason,), ())


@pytest.mark.parametrize("is_last", [False, True])
def test_a_batch_command_that_no_host_starts_ends_its_session_after_some_rounds(is_last: bool) -> None:
    problem = "The host is at fault: /tmp is full."
    group = facts("ENDED", 127, problem, requeue=True)
    (record,) = group.facts["h1"].records
    for _round in range(MOST_ROUNDS - 1 if is_last else MOST_ROUNDS - 2):
        record = advance(record, "PENDING", f"{NOT_STARTED} {problem}", plan=None, hosts=(), queue=QueueTicket(1))
        record = advance(record, "RUNNING", "Its replicas were started.", plan=group.facts["h1"].records[0].plan)
        record = replace(record, hosts=("h1",))
    group.facts["h1"] = replace(group.facts["h1"], records=(record,))
    found = group.cluster_state().changed[ID]
    if not is_last:
        assert found.status == "PENDING"
        return
    assert found.status == "ERROR"
    assert found.report == (
        f"Its batch command was not started in {MOST_ROUNDS} rounds. The last was main1 on h1, with exit code 127. "
        f"{problem}",
    )


def test_only_the_host_of_main1_can_say_that_a_batch_command_has_ended() -> None:
    for outcome, hosts, leaving in (
        (("RUNNING",), ["h1"], {ID: "h1"}),
        (("RUNNING",), ["h2"], {}),
        ((None,), ["h1"], {ID: "h1"}),
        (("ENDED", 0), ["h1"], {}),
    ):
        group = facts(*outcome)
        assert group.to_requeue(group.cluster_state(), hosts) == leaving
    group = facts("RUNNING")
    cluster = group.cluster_state()
    del group.facts["h1"]
    assert group.to_requeue(cluster, ["h1"]) == {ID: "h1"}


def test_what_fails_after_the_batch_command_has_ended_is_no_failure() -> None:
    assert facts("ENDED", 0, failed=True).cluster_state().records[ID].status == "TERMINATED"
    for outcome in (("RUNNING",), ("LOST", None, "Gone.")):
        (why,) = facts(*outcome, failed=True).cluster_state().records[ID].report
        assert why.startswith("Replica sub1 ")


def test_a_command_that_ended_with_its_replica_says_why_the_host_stopped_that() -> None:
    (why,) = facts("ENDED", 137, failed=True, stopped="It has written too much.").cluster_state().records[ID].report
    assert why == "Replica sub1 on h1 was stopped. It has written too much. Its failure policy is strict."


@pytest.mark.parametrize("queue", [None, QueueTicket(1)])
def test_a_line_may_expire_when_everybody_knows_that_the_session_has_ended(queue: QueueTicket | None) -> None:
    ended = replace(facts("ENDED", 0).cluster_state().records[ID], queue=queue)
    nothing: dict[str, Any] = {"objects": {}, "reservations": [], "tombstones": [], "containers": []}
    before = [replace(ended, status="RUNNING", hosts=("h1",), revision=1)]

    def settled(*hosts: str, known: list[Record] | None = None, **more: Any) -> list[str]:
        records = {"h1": [ended], "h2": known or []}
        answers = {host: {**nothing, **more, "records": [encode(copy) for copy in records[host]]} for host in hosts}
        group = GroupFacts(typed(answers), {}, ["h1", "h2"], [], {})
        cluster = group.cluster_state()
        work = cleanup_work(group, cluster, {}, expires=True)
        assert (work.settled if work else []) == group.settled(cluster)
        return group.settled(cluster)

    assert settled("h1", "h2") == [ID]
    assert settled("h1") == ([] if queue else [ID]), "who has waited is known to all"
    assert settled("h2", known=[ended]) == [], "one of its hosts is away"
    assert settled("h1", "h2", known=before) == []
    assert settled("h1", "h2", objects={ID: {"name": "train", "kinds": ["rules"]}}) == []
    assert settled("h1", "h2", damaged=["The ledger is damaged."]) == []


@pytest.mark.parametrize("outcome", [("RUNNING",), (None,)])
def test_one_whose_command_still_runs_is_left_alone(outcome: tuple[Any, ...]) -> None:
    cluster = facts(*outcome).cluster_state()
    assert cluster.records[ID].status == "RUNNING"
    assert (cluster.changed, cluster.orphaned) == ({}, {})


@pytest.mark.parametrize(
    ("here", "there", "why"),
    [
        ({"is_idle": True}, {"is_idle": True}, "Nobody has used it for 30m, its session_max_idle."),
        ({"is_idle": True}, {}, None),
        ({"is_idle": True}, None, None),
        ({}, {"over": "Its time is over."}, "Its time is over."),
    ],
)
def test_a_session_ends_by_its_time_as_its_hosts_say(
    here: dict[str, Any], there: dict[str, Any] | None, why: str | None
) -> None:
    wanted = parse_request({"session_name": "train", "session_image": "busybox", "session_max_idle": "30m"})
    plan = {
        "session": {"id": ID, "name": "train"},
        "hosts": {"h1": {}, "h2": {}},
        "replicas": [{"name": "main1", "host": "h1"}, {"name": "sub1", "host": "h2"}],
        "network": None,
    }
    record = new_record(ID, "alice", wanted.to_dict())
    record = advance(record, "RUNNING", "Its replicas were started.", hosts=("h1", "h2"), plan=plan)
    answers = {"h1": {"records": [encode(record)], "times": {ID: here}}}
    if there is not None:
        answers["h2"] = {"records": [encode(record)], "times": {ID: there}}
    group = GroupFacts(typed(answers), {}, ["h1", "h2"], [], {})
    cluster = group.cluster_state()
    if why is None:
        assert (cluster.records[ID].status, cluster.changed) == ("RUNNING", {})
    else:
        assert (cluster.changed[ID].status, cluster.changed[ID].report) == ("TERMINATED", (why,))
        assert sorted(cluster.orphaned) == ["h1", "h2"]


@pytest.mark.parametrize("runs", [("h1",), ("h2",), ("h1", "h2"), ()])
def test_a_session_ran_before_where_replicas_run_that_a_newer_record_has_elsewhere(runs: tuple[str, ...]) -> None:
    plan: dict[str, Any] = {"session": {"id": ID, "name": "train"}, "replicas": [], "network": None}
    old = advance(new_record(ID, "alice", {"name": "train"}), "RUNNING", "It runs.", hosts=("h1", "h2"), plan=plan)
    new = advance(old, "RUNNING", "h3 takes the place of h2.", hosts=("h1", "h3"))
    container = {"session_id": ID, "replica": "main1"}
    answers = {host: {"containers": [container] if host in runs else []} for host in ("h1", "h2", "h3")}
    group = GroupFacts(typed(answers), {}, ["h1", "h2", "h3"], [], {})
    assert group._running_before(new, {"h1": old, "h2": old, "h3": new}) == (old if "h2" in runs else None)
    assert group._running_before(new, {"h1": new, "h2": new, "h3": new}) is None
