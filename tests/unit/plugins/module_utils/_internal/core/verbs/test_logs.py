# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logs, driven by answers: which session is meant where hosts know several, what is read, and what is missing."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    OutputAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import ADMIN, Asker
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import (
    batch_job,
    parse_logs_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import logs
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    Answers,
    Outside,
    State,
    calls_of,
    hosts_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS

OLD, NEW, NOW = (f"00000000-0000-4000-8000-00000000000{number}" for number in range(3))
JOB = "0123456789ab"
AWAY = {"unreachable": True}


def session(key: str, status: str, end: float | None = None, **others: Any) -> dict[str, Any]:
    """Return what a host says of a session: id, status of its record, end of what it keeps."""
    nothing: dict[str, Any] = {
        "revision": 0,
        "owner": "",
        "shared_with": [],
        "hosts": [],
        "replicas": {},
        "members": {},
        "jobs": {},
    }
    return {"id": key, "status": status, "ended": end, **nothing, **others}


def known(*sessions: dict[str, Any]) -> dict[str, Any]:
    return {"sessions": list(sessions)}


def chosen(answers: Answers, check_mode: bool = False, asker: Asker = ADMIN, **variables: Any) -> State:
    """Return the state after the look; variables: those of the request, without their prefix."""
    request = encode(parse_logs_request({f"logs_{key}": value for key, value in variables.items()}))
    outside = Outside(now=0.0, draw=str, check_mode=check_mode, asker=asker)
    given = {"session_name": "train", "resource_group": "all", "request": request}
    return logs.advance(logs.begin(given, list(answers), outside), answers, outside)


def notes(state: State, answers: Answers) -> list[str]:
    """Return what is told at the end."""
    over = logs.advance(state, answers, Outside(now=0.0, draw=str))
    assert over["step"] == ""
    return list(over["notes"])


def source(replica: str, left_out: int = 0) -> dict[str, Any]:
    return {"replica": replica, "job": "", "lines": [], "left_out": left_out}


def test_one_that_is_recorded_comes_before_those_that_ended() -> None:
    found = chosen({"h1": known(session(OLD, "", 9.0)), "h2": known(session(NOW, "RUNNING"), session(NEW, "", 20.0))})
    assert (found["step"], hosts_of(found), calls_of(found, "h2")[0][1]["session_id"]) == ("read", ["h2"], NOW)


@pytest.mark.parametrize("groups", [("all", "pool"), ("pool", "all")])
def test_of_two_that_run_that_of_the_resource_group_is_meant(groups: tuple[str, str]) -> None:
    ids = (OLD, NOW)
    found = chosen(
        {f"h{key[-1]}": known(session(key, "RUNNING", resource_group=of)) for key, of in zip(ids, groups, strict=True)}
    )
    (host,) = hosts_of(found)
    assert calls_of(found, host)[0][1]["session_id"] == ids[groups.index("all")]


def test_else_the_one_that_ended_last() -> None:
    h1, h2 = known(session(OLD, "", 9.0), session(NEW, "", 19.0)), known(session(NEW, "", 20.0))
    found = chosen({"h1": h1, "h2": h2, "h3": known()})
    assert (hosts_of(found), calls_of(found, "h1")[0][1]["session_id"]) == (["h1", "h2"], NEW)
    assert found["notes"][0] == f"Session train ({NEW}) ended at 1970-01-01T00:00:20Z."


def test_one_that_waits_or_has_ended_says_so() -> None:
    assert chosen({"h1": known(session(NOW, "PENDING"))})["notes"] == [
        f"Session train ({NOW}) waits in the queue, so nothing of it runs."
    ]
    for status in ("ERROR", "TERMINATED"):
        found = chosen({"h1": known(session(NOW, status, 20.0)), "h2": known(session(NOW, status))})
        assert found["notes"] == [f"Session train ({NOW}) ended at 1970-01-01T00:00:20Z."]
    assert chosen({"h1": known(session(NOW, "RUNNING")), "h2": known(session(NOW, "", 20.0))})["notes"] == []


def test_a_batch_command_is_that_of_the_session_that_is_meant() -> None:
    job = batch_job(OLD)
    old = session(OLD, "", 9.0, jobs={job: {"on": {"main1": "h1"}, "command": ["train"]}})
    found = logs.choose(read_answers(OutputAnswer, {"h1": known(old)}), ADMIN, "train", "all", "", "batch", "job_id")
    assert (found.session_id, found.job) == (OLD, job)
    for status, why in (("PENDING", "is not started yet"), ("RUNNING", "No host that answered has started a batch")):
        answers = {"h1": known(old, session(NOW, status)), "h2": AWAY}
        with pytest.raises(InvalidInput, match=rf"logs_job is 'batch': .*{why}.*h2: .* It could not be reached\."):
            chosen(answers, job="batch")


def test_a_session_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"session_name is 'train'.*resource group all has no such session"):
        chosen({"h1": known()})
    with pytest.raises(InvalidInput, match=r"logs_session_id is .*h1: .* No engine\."):
        chosen({"h1": {"msg": "No engine."}}, session_id=OLD)


def test_a_job_that_no_session_has_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"logs_job is '0123456789ab': Session train has no such job. It has none."):
        chosen({"h1": known(session(NOW, "RUNNING"))}, job=JOB)
    old = session(OLD, "", 9.0, jobs={JOB: {"on": {"main1": "h1"}, "command": ["x"]}})
    found = chosen({"h1": known(old, session(NOW, "RUNNING"))}, job=JOB)
    assert calls_of(found, "h1")[0][1]["session_id"] == OLD


def test_what_is_asked_for_is_read_and_in_check_mode_not_followed() -> None:
    answers = {"h1": known(session(NOW, "RUNNING", members={"main1": "running", "sub10": "running"}))}
    arguments = calls_of(chosen(answers, follow_seconds=60, grep="^e", tail=0), "h1")[0][1]
    assert (arguments["follow_seconds"], arguments["grep"], arguments["tail"], arguments["width"]) == (60, "^e", 0, 5)
    assert set(arguments) <= set(ARGUMENTS["session_output"]["argument_spec"])
    assert "replicas" not in arguments
    arguments = calls_of(chosen(answers, True, follow_seconds=60), "h1")[0][1]
    assert ("follow_seconds" in arguments, "tail" in arguments) == (False, False)
    jobs = {JOB: {"on": {"sub10": "h1"}, "command": ["x"]}}
    answers["h1"]["sessions"][0]["jobs"] = jobs
    assert [calls_of(chosen(answers, job=job), "h1")[0][1]["width"] for job in ("", JOB, "none")] == [18, 18, 5]


def test_what_is_missing_is_told() -> None:
    members = {"main1": "running", "sub1": "running"}
    ended = {"sub2": {"exit_code": 137, "oom_killed": True}}
    answers = {
        "h1": known(session(NOW, "RUNNING", members=members, replicas=ended)),
        "h2": known(session(NOW, "RUNNING", members={"sub3": "running"})),
        "h3": AWAY,
    }
    state = chosen(answers, size="64k")
    away = "h3: What its replicas wrote is missing. It could not be reached."
    end = "Replica sub2 was removed; it had ended with exit code 137, killed because it ran out of memory."
    assert state["notes"] == [away, end]
    assert notes(state, {"h1": {"sources": [source("main1", 7)]}, "h2": {"msg": "No engine."}}) == [
        away,
        end,
        "h2: What its replicas wrote is missing. No engine.",
        "main1: 7 older lines are left out; logs_size allows 65536 bytes of a replica.",
        "Replica sub1 on h1 has no container. Whatever it wrote went with the container.",
    ]
    wanted = chosen({"h1": answers["h1"]}, replicas="main1,sub9")
    assert notes(wanted, {"h1": {"sources": [source("main1")]}}) == [
        end,
        "Nothing is known of a replica sub9 of this session.",
    ]


def test_nobody_reads_what_others_wrote() -> None:
    mine: dict[str, Any] = {"owner": "eve"}
    theirs: dict[str, Any] = {"owner": "alice", "shared_with": ["bob"]}
    now = session(NOW, "RUNNING", revision=2, jobs={JOB: {"on": {}}}, **theirs)
    hosts = {"h1": known(now, session(OLD, "", 9.0, **mine)), "h2": known({**now, "owner": "", "shared_with": []})}
    eve = Asker("eve", is_admin=False)
    alone = {"h1": known(now)}
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (hosts, {}),
        (hosts, {"job": JOB}),
        (alone, {"session_id": NOW}),
        (alone, {"job": "0" * 12}),
    ]
    for answers, given in cases:
        with pytest.raises(InvalidInput, match=r"session_name is 'train': It belongs to alice.* You are eve"):
            chosen(answers, asker=eve, **given)
    read = chosen({"h1": known(session(OLD, "", 9.0, **mine))}, asker=eve)
    assert calls_of(read, "h1")[0][1]["session_id"] == OLD
    assert calls_of(chosen(hosts, asker=Asker("bob", is_admin=False)), "h1")[0][1]["session_id"] == NOW
    with pytest.raises(InvalidInput, match="Nobody knows any more whose it is"):
        chosen({"h1": known(session(OLD, "", 9.0))}, asker=eve)


def test_the_newest_copy_says_who_may() -> None:
    before, after = (session(NOW, "RUNNING", revision=n, owner="alice", shared_with=["bob"][: 3 - n]) for n in (2, 3))
    with pytest.raises(InvalidInput, match=r"You are bob"):
        chosen({"h1": known(before), "h2": known(after)}, asker=Asker("bob", is_admin=False))


def test_jobs_are_listed_of_sessions_that_are_theirs() -> None:
    mine = session(NOW, "RUNNING", revision=2, owner="eve", jobs={JOB: {"on": {}}})
    other = session(OLD, "", 9.0, owner="alice", jobs={"1" * 12: {"on": {}}})
    with pytest.raises(InvalidInput, match=f"It has {JOB}\\.$"):
        chosen({"h1": known(mine, other)}, asker=Asker("eve", is_admin=False), job="0" * 12)
