# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What automation is told of a verb that is over."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import DrainAnswer
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.events import (
    DRAIN,
    LONGEST_LINE,
    MOST_LINES,
    MOST_SESSIONS,
    UNDRAIN,
    cloud_event,
    drained,
    happened,
    parse_receiver,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput

AWAY, BROKEN = DrainAnswer(unreachable=True, msg="ssh: timed out"), DrainAnswer(failed=True, msg="The disk is full")
EMPTY, BUSY = DrainAnswer(sessions=()), DrainAnswer(sessions=("train", "web"))


def outcome(name: str, status: str) -> dict[str, Any]:
    return {"session_name": name, "status": status, "report": [f"{name} is {status}."]}


def job(status: str, *failures: str, succeeded: bool = False) -> dict[str, Any]:
    ended = {"status": status, "succeeded": succeeded}
    report = ["Job 1234 of session train: fit --token=s3cret: now", "main1 on h1: exit code 0"]
    return {"session_name": "train", "report": report, "failures": list(failures), "outcome": ended}


@pytest.mark.parametrize(
    ("verb", "state", "ends"),
    [
        ("launch", {"session_name": "train", "outcome": outcome("train", "RUNNING")}, "succeeded"),
        ("launch", {"session_name": "train", "outcome": outcome("train", "PENDING")}, "waiting"),
        ("launch", {"session_name": "train", "outcome": outcome("train", "ERROR")}, "failed"),
        ("launch", {"session_name": "train", "failure": "No.\nNever."}, "failed"),
        ("teardown", {"session_name": "train", "report": []}, "succeeded"),
        ("teardown", {"session_name": "train", "report": ["x"], "failure": "x"}, "failed"),
        ("repair", {"session_name": "", "lines": ["h1: made"], "problems": []}, "succeeded"),
        ("repair", {"session_name": "", "lines": [], "problems": ["h1: full"]}, "failed"),
        ("schedule", {"outcomes": [outcome("a", "RUNNING"), outcome("b", "ERROR")]}, "failed"),
        ("schedule", {"outcomes": [outcome("a", "RUNNING")]}, "succeeded"),
        ("launch", {"session_name": "train", "outcome": outcome("train", "CANCELLED")}, "failed"),
        ("run_job", job("ENDED", succeeded=True), "succeeded"),
        ("run_job", job("ENDED", "exit code 3"), "failed"),
        ("run_job", job("RUNNING"), "waiting"),
        ("run_job", job("RUNNING", "sub1: exit code 3"), "failed"),
        ("run_job", job("LOST"), "failed"),
    ],
)
def test_how_it_ended_is_told(verb: str, state: dict[str, Any], ends: str) -> None:
    found = happened(verb, state)
    assert found is not None
    assert (found.verb, found.outcome) == (verb, ends)
    assert found.session == state.get("session_name", "")
    assert found.status == state.get("outcome", {}).get("status", "")
    assert json.loads(json.dumps(encode(found))) == vars(found)


def test_where_nothing_happened_nothing_is_told() -> None:
    assert happened("repair", {"lines": [], "problems": []}) is None
    assert happened("schedule", {"outcomes": []}) is None
    assert happened("logs", {"report": ["x"]}) is None
    assert happened("check_pairs", {"failure": "No host has room."}) is None


def test_who_came_from_the_queue_is_told_and_what_became_of_whom() -> None:
    found = happened("schedule", {"outcomes": [outcome("a", "RUNNING"), outcome("b", "PENDING")]})
    assert found is not None
    assert found.sessions == {"a": "RUNNING", "b": "PENDING"}
    assert found.report == ["a is RUNNING.", "b is PENDING."]


def test_what_a_session_runs_and_writes_is_not_told() -> None:
    found = happened("run_job", job("ENDED", succeeded=True))
    assert found is not None
    assert found.report == ["Job 1234 of session train", "main1 on h1: exit code 0"]
    failure = "sub1 does not run.\nIts last output:\n| password=s3cret\n| \x0b| more\nh2: The disk is full."
    found = happened("launch", {"session_name": "train", "failure": failure})
    assert found is not None
    assert found.report == ["sub1 does not run.", "Its last output:", "h2: The disk is full."]


def test_a_report_is_bounded_and_printable() -> None:
    found = happened("teardown", {"session_name": "train", "report": ["\x1b[31m" + "x" * 999] * 99})
    assert found is not None
    assert len(found.report) == MOST_LINES
    assert all(len(line) == LONGEST_LINE and line.isprintable() for line in found.report)


@pytest.mark.parametrize(
    ("verb", "answers", "wait_seconds", "ends", "hosts"),
    [
        (DRAIN, [EMPTY, EMPTY], 0, "succeeded", {"h1": [], "h2": []}),
        (DRAIN, [BUSY, EMPTY], 0, "waiting", {"h1": ["train", "web"], "h2": []}),
        (DRAIN, [BUSY], 9, "failed", {"h1": ["train", "web"]}),
        (DRAIN, [EMPTY], 9, "succeeded", {"h1": []}),
        (DRAIN, [BUSY, AWAY], 0, "failed", {"h1": ["train", "web"]}),
        (UNDRAIN, [BUSY], 9, "succeeded", {"h1": ["train", "web"]}),
        (UNDRAIN, [BROKEN, EMPTY], 0, "failed", {"h2": []}),
    ],
)
def test_what_became_of_hosts_that_were_drained_is_told(
    verb: str, answers: list[DrainAnswer], wait_seconds: int, ends: str, hosts: dict[str, list[str]]
) -> None:
    named = {f"h{number}": answer for number, answer in enumerate(answers, 1)}
    event, failures = drained(verb, named, wait_seconds)
    assert (event.verb, event.outcome, event.hosts) == (verb, ends, hosts)
    assert bool(failures) == (ends == "failed")
    assert (event.report, event.session, event.sessions) == (failures, "", {})


def test_why_hosts_are_not_drained_is_told_in_sentences() -> None:
    event, failures = drained(DRAIN, {"h1": AWAY, "h2": BROKEN, "h3": BUSY}, 9, ["No queue.\nIt is damaged."])
    assert event.report[:2] == ["No queue.", "It is damaged."]
    assert failures == [
        "No queue.\nIt is damaged.",
        "h1 may not be drained. It could not be reached.",
        "h2 may not be drained. The disk is full.",
        "h3 is drained, and after 9 seconds (drain_wait_seconds) sessions still hold a place there: train, web.",
    ]
    assert drained(UNDRAIN, {"h1": AWAY}, 0)[1] == ["h1 may still be drained. It could not be reached."]


def test_what_is_told_of_many_hosts_is_bounded_and_printable() -> None:
    """An event with all that it may have goes through a pipe that nobody reads."""
    names = tuple(f"{number:03}" + "s" * 60 for number in range(999))
    many = {f"{number:03}" + "h" * 60: DrainAnswer(sessions=names) for number in range(999)}
    event, failures = drained(DRAIN, many, 9, ["x" * 999])
    assert len(failures) == 1000
    assert (len(event.hosts), sum(map(len, event.hosts.values()))) == (MOST_SESSIONS, MOST_SESSIONS)
    assert len(json.dumps(encode(cloud_event(event, "i", "t", "g")))) < 2**16
    hostile, _failures = drained(DRAIN, {"h1": DrainAnswer(sessions=("\x1b[31m" + "x" * 999,))}, 0)
    ((name,),) = hostile.hosts.values()
    assert name.isprintable()
    assert len(name) == LONGEST_LINE


def test_it_is_sent_as_a_cloud_event() -> None:
    found = happened("launch", {"session_name": "train", "outcome": outcome("train", "RUNNING")})
    assert found is not None
    event = cloud_event(found, "11111111-2222-3333-4444-555555555555", "2026-01-02T03:04:05Z", "gpu_pool")
    assert encode(event) == {
        "specversion": "1.0",
        "id": "11111111-2222-3333-4444-555555555555",
        "source": "/cluster_compute/gpu_pool",
        "type": "cluster_compute.session.launch.succeeded",
        "time": "2026-01-02T03:04:05Z",
        "subject": "train",
        "datacontenttype": "application/json",
        "data": vars(found),
    }
    assert "subject" not in encode(cloud_event(replace(found, session=""), "i", "t", "g"))


def test_a_receiver_is_an_address_with_or_without_a_token() -> None:
    receiver = parse_receiver({"url": "https://eda.example.com/x", "token": "s3cret"})
    assert receiver is not None
    assert (receiver.url, receiver.token) == ("https://eda.example.com/x", "s3cret")
    assert "s3cret" not in repr(receiver)
    assert parse_receiver(None) is parse_receiver("") is None


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("https://eda.example.com", "cluster_compute_events is"),
        ({"url": "ftp://x"}, "cluster_compute_events.url is 'ftp://x'"),
        ({}, "cluster_compute_events.url"),
        ({"url": "https://"}, "cluster_compute_events.url is 'https://'"),
        ({"url": "https://[::1"}, "cluster_compute_events.url"),
        ({"url": "http://x", "tokn": "s3cret"}, "cluster_compute_events.tokn"),
        ({"url": "http://x", "token": "s3cret s3cret"}, "cluster_compute_events.token"),
    ],
)
def test_what_is_none_is_refused_by_name_without_its_token(value: object, named: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_receiver(value)
    assert named in str(raised.value)
    assert "s3cret" not in str(raised.value)
