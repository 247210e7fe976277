# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a failed replica means for its session under each failure policy."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.failure import (
    FAILURE_POLICIES,
    KEEP,
    RESTART,
    STRICT,
    Failure,
    end_of,
    may_restart,
)


def failure(replica: str, second: int = 0, restarts: int = 0, *, oom_killed: bool = False) -> Failure:
    return Failure(replica, "h1", 137, oom_killed, f"2026-01-02T03:04:{second:02}.5Z", restarts)


def test_only_restart_starts_again_and_no_more_often_than_allowed() -> None:
    times = [failure("sub1", restarts=restarts) for restarts in range(4)]
    assert [may_restart(RESTART, 2, failed) for failed in times] == [True, True, False, False]
    assert not may_restart(RESTART, 0, times[0])
    assert not any(may_restart(policy, 1000, times[0]) for policy in (KEEP, STRICT))


def test_what_its_host_stopped_is_not_started_again_and_ends_the_session() -> None:
    stopped = dataclasses.replace(failure("sub1"), stopped="It has written too much.")
    assert not may_restart(RESTART, 1000, stopped)
    assert end_of(RESTART, 1000, [stopped]) == stopped
    assert stopped.describe() == "Replica sub1 on h1 was stopped. It has written too much."


@pytest.mark.parametrize(
    ("policy", "limit", "replica", "restarts", "ends"),
    [
        (STRICT, 3, "sub1", 0, True),
        (STRICT, 3, "main1", 0, True),
        (KEEP, 3, "sub1", 0, False),
        (KEEP, 3, "main1", 0, True),
        (KEEP, 3, "main10", 0, False),
        (RESTART, 3, "main1", 2, False),
        (RESTART, 3, "main1", 3, True),
        (RESTART, 3, "sub1", 4, True),
        (RESTART, 0, "sub1", 0, True),
    ],
)
def test_which_failure_ends_a_session(policy: str, limit: int, replica: str, restarts: int, ends: bool) -> None:
    ended = failure(replica, restarts=restarts)
    assert end_of(policy, limit, [ended]) == (ended if ends else None)


@pytest.mark.parametrize("policy", FAILURE_POLICIES)
def test_without_a_failure_a_session_goes_on(policy: str) -> None:
    assert end_of(policy, 0, []) is None


def test_the_first_failure_ends_it_in_whatever_order_the_hosts_tell() -> None:
    first, second, third = failure("sub9", 1), failure("sub1", 2), failure("main1", 3)
    for order in itertools.permutations((first, second, third)):
        assert end_of(STRICT, 0, order) == first
        assert end_of(KEEP, 0, order) == third, "the others do not end it"
    at_once = [failure("sub2"), failure("sub1")]
    assert end_of(STRICT, 0, at_once) == end_of(STRICT, 0, at_once[::-1]) == at_once[1]


@pytest.mark.parametrize(("early", "late"), [("07.1Z", "07.12Z"), ("07Z", "07.5Z")])
def test_the_first_failure_is_told_to_the_fraction_of_a_second(early: str, late: str) -> None:
    first, second = (
        Failure(name, "h1", 1, False, f"2026-01-02T03:04:{end}", 0) for name, end in (("sub2", early), ("sub1", late))
    )
    assert end_of(STRICT, 0, [first, second]) == first


def test_of_those_that_may_not_be_restarted_the_first_ends_it() -> None:
    early, late = failure("sub1", 1, restarts=1), failure("sub2", 2, restarts=2)
    assert end_of(RESTART, 2, [early, late]) == late
    assert end_of(RESTART, 1, [late, early]) == early


def test_a_failure_in_words() -> None:
    assert failure("sub1").describe() == "Replica sub1 on h1 ended with exit code 137."
    assert failure("sub1", restarts=3, oom_killed=True).describe() == (
        "Replica sub1 on h1 ended with exit code 137, killed because it ran out of memory after 3 restarts."
    )
