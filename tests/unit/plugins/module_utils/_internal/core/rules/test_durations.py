# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""For how long a session may run and be idle: the arithmetic of a host's looks, and what follows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode, encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.times import (
    Counters,
    Limits,
    PartTimes,
    Sample,
    Times,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.durations import (
    BETWEEN_LOOKS,
    LONGEST_LOOK,
    after_look,
    describe,
    is_idle,
    limits_of,
    over,
    together,
    warning,
    why_over,
)
from hypothesis import given
from hypothesis import strategies as st

NOTHING = {"main1": Counters(1.0, 100.0)}


def looks(*samples: Sample, before: Times | None = None) -> Times:
    """Return what is remembered after some looks."""
    for sample in samples:
        before = after_look(before, sample)
    assert before is not None
    return before


def at(clock: float, cpu: float = 1.0, traffic: float = 100.0, **more: object) -> Sample:
    """Return a look at one replica."""
    return Sample("boot", clock, 5.0, {"main1": Counters(cpu, traffic)}, **more)  # type: ignore[arg-type]


def test_time_is_counted_from_the_start_and_idle_time_from_the_first_look() -> None:
    times = looks(at(100), at(130), at(160))
    assert (times.ran, times.idle) == (65.0, 60.0)


@pytest.mark.parametrize(
    "used",
    [
        at(130, cpu=2.6),
        at(130, traffic=4000.0),
        at(130, in_use=True),
        at(130, cpu=0.5),
        Sample("boot", 130, 5.0, {**NOTHING, "sub1": Counters(0.0, 0.0)}),
        Sample("boot", 130, 5.0, None),
        at(100 + LONGEST_LOOK + 1),
        Sample("another", 30, 5.0, NOTHING),
    ],
    ids=["work", "traffic", "a job", "restarted", "a new replica", "nobody looked", "a gap", "a boot"],
)
def test_what_counts_as_use(used: Sample) -> None:
    before = looks(at(70), at(100))
    assert before.idle == 30.0
    assert looks(used, before=before).idle == 0.0


def test_what_hardly_works_is_idle() -> None:
    assert looks(at(100), at(130, cpu=2.4, traffic=3000.0)).idle == 30.0


def test_a_look_right_after_another_says_nothing_but_of_jobs_and_logins() -> None:
    before = looks(at(100), at(130))
    assert looks(at(131, cpu=99.0), before=before) == before
    assert looks(at(131, in_use=True), before=before).idle == 0.0


def test_a_reboot_ends_nothing_early_and_loses_only_what_the_host_was_down_for() -> None:
    before = Times("boot", 90000.0, ran=3000.0, idle=500.0)
    after = looks(Sample("another", 20.0, 0.0, {}), Sample("another", 50.0, 25.0, NOTHING), before=before)
    assert (after.ran, after.idle) == (3030.0, 0.0)
    assert looks(Sample("another", 40.0, 30.0, NOTHING), before=before).ran == 3030.0
    # Hosts of a lab share the clock of the machine, which began long before they did.
    assert looks(Sample("another", 90020.0, 15.0, NOTHING), before=before).ran == 3015.0


@given(
    st.lists(st.tuples(st.floats(0, 2000), st.booleans(), st.booleans()), max_size=20),
)
def test_time_never_runs_backwards_nor_faster_than_the_clock(
    steps: list[tuple[float, bool, bool]],
) -> None:
    times, clock, boot, went_by = Times("0", 10.0), 10.0, 0, 0.0
    for seconds, reboots, in_use in steps:
        went_by += seconds
        boot, clock = (boot + 1, seconds) if reboots else (boot, clock + seconds)
        after = after_look(times, Sample(str(boot), clock, seconds, NOTHING, in_use))
        assert times.ran <= after.ran <= went_by + 1e-6
        assert after.idle <= after.ran + 1e-6
        times = after
    assert decode(Times, encode(times), "The times") == times


def test_a_part_ends_when_its_time_is_over_and_not_before() -> None:
    limits = Limits(max_duration=600, max_idle=300)
    assert over(limits, Times("", 0, ran=599.9)) == ""
    assert over(limits, Times("", 0, ran=600.0)) == "Its session_max_duration of 10m is over."
    assert not is_idle(limits, Times("", 0, ran=500.0, idle=299.0))
    assert is_idle(limits, Times("", 0, ran=500.0, idle=300.0))
    assert over(Limits(max_idle=300), Times("", 0, ran=1e9)) == ""
    assert not is_idle(Limits(max_duration=600), Times("", 0, idle=1e9))


def test_nothing_ends_before_its_programs_had_the_time_of_the_warning() -> None:
    limits = Limits(max_duration=600, end_warning=120)
    assert warning(limits, Times("", 0, ran=600 - 120 - BETWEEN_LOOKS - 1)) is None
    assert warning(limits, Times("", 0, ran=600 - 120 - BETWEEN_LOOKS)) == (180, "session_max_duration is 10m")
    assert warning(limits, Times("", 0, ran=500.0, warned=430.0)) == (100, "session_max_duration is 10m")
    late = Times("", 0, ran=5000.0)
    assert over(limits, late) == ""
    assert warning(limits, late) == (120, "session_max_duration is 10m")
    late = replace(late, warned=5000.0, ran=5090.0)
    assert over(limits, late) == ""
    assert warning(limits, late) == (30, "session_max_duration is 10m")
    assert over(limits, replace(late, ran=5120.0)) != ""
    assert not is_idle(Limits(max_idle=60, end_warning=30), Times("", 0, ran=99.0, idle=61.0))
    assert warning(Limits(max_duration=600), late) is None


def test_a_session_that_nobody_uses_ends_only_if_every_host_says_so() -> None:
    request = {"max_idle": 1800}
    idle, in_use = PartTimes(is_idle=True), PartTimes()
    assert why_over(request, [idle, idle]) == "Nobody has used it for 30m, its session_max_idle."
    assert why_over(request, [idle, in_use]) == ""
    assert why_over(request, [idle, None]) == ""
    assert why_over(request, []) == ""
    assert why_over({}, [None]) == ""
    assert why_over(request, [None, PartTimes(over="It is over.")]) == "It is over."


def test_a_session_is_told_of_as_a_whole() -> None:
    parts = [PartTimes(ran=100, idle=40), PartTimes(ran=90, idle=7)]
    assert together(parts) == PartTimes(ran=100, idle=7)
    assert together([*parts, None]) == PartTimes(ran=100, idle=None)
    assert together([None]) == PartTimes()
    limits = Limits(7200, 1800, 300)
    assert describe(limits, PartTimes(ran=4200, idle=60)) == (
        "2h after its start or after 30m without use, its programs being warned 5m before; it has run for 1h10m; "
        "not used for 1m"
    )
    assert describe(Limits(max_idle=60)) == "after 1m without use"
    assert describe(Limits()) == ""


def test_a_record_of_an_earlier_release_has_no_limits() -> None:
    wanted = parse_request({"session_name": "train", "session_image": "debian:12"})
    stored = wanted.to_dict()
    assert {"max_duration", "max_idle", "end_warning"}.isdisjoint(stored)
    assert not limits_of(stored).exist
    assert not limits_of(None).exist
    given_now = parse_request({"session_name": "train", "session_image": "debian:12", "session_max_idle": "90m"})
    assert limits_of(given_now.to_dict()) == Limits(max_idle=5400)
    assert type(given_now).from_dict(given_now.to_dict()) == given_now != wanted
