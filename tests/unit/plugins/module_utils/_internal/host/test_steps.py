# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tracker through which all changes of a host go."""

from __future__ import annotations

import time
from functools import partial

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.steps import (
    Step,
    StepFailed,
    descriptions,
    difference,
    perform,
    seconds_until,
)


def refuse(what: str) -> None:
    raise SessionError(what)


def test_stages_run_in_order() -> None:
    log: list[str] = []
    perform(
        [
            [Step("create", "link", "a", partial(log.append, "a"))],
            [],
            [Step("create", "link", "b", lambda: log.append("b"))],
        ]
    )
    assert log == ["a", "b"]


def test_a_failure_undoes_what_was_done_in_reverse_and_starts_no_further_stage() -> None:
    log: list[str] = []

    def step(name: str) -> Step:
        return Step("create", "thing", name, partial(log.append, f"+{name}"), partial(log.append, f"-{name}"))

    bad = Step("create", "thing", "bad", partial(refuse, "no room"), partial(log.append, "-bad"))
    with pytest.raises(StepFailed, match="Could not create thing bad: no room"):
        perform([[step("a")], [step("b")], [bad], [step("never")]])
    assert log == ["+a", "+b", "-b", "-a"]


def test_every_failure_of_a_stage_is_told_and_its_successes_are_undone() -> None:
    log: list[str] = []
    stage = [
        Step("start", "container", "one", partial(refuse, "first")),
        Step("start", "container", "two", partial(log.append, "+two"), partial(log.append, "-two")),
        Step("start", "container", "three", partial(refuse, "third")),
    ]
    with pytest.raises(StepFailed) as caught:
        perform([stage])
    assert str(caught.value).splitlines() == [
        "Could not start container one: first",
        "Could not start container three: third",
    ]
    assert log == ["+two", "-two"]


@pytest.mark.parametrize(("other", "is_of_host"), [(OSError(28, "Full"), True), (SessionError("No image."), False)])
def test_a_stage_fails_for_reasons_of_the_host_where_all_of_its_steps_do(other: Exception, is_of_host: bool) -> None:
    def fail(error: Exception) -> None:
        raise error

    stage = [Step("create", "file", "f", partial(fail, error)) for error in (OSError(28, "Full"), other)]
    with pytest.raises(StepFailed) as caught:
        perform([stage])
    assert caught.value.is_of_host == is_of_host


def test_a_failing_undo_does_not_stop_the_others() -> None:
    log: list[str] = []
    stages = [
        [Step("create", "link", "a", lambda: None, partial(log.append, "-a"))],
        [Step("create", "link", "b", lambda: None, partial(refuse, "stuck"))],
        [Step("create", "link", "c", partial(refuse, "bad"))],
    ]
    with pytest.raises(StepFailed, match="Could not undo 'create link b': stuck"):
        perform(stages)
    assert log == ["-a"]


def test_descriptions_and_difference_come_from_the_same_steps() -> None:
    stages = [
        [Step("create", "network", "n", lambda: None, after={"subnet": "s"})],
        [Step("remove", "link", "l", lambda: None, before="up")],
    ]
    assert descriptions(stages) == ["create network n", "remove link l"]
    assert difference(stages) == {
        "before": {"network n": None, "link l": "up"},
        "after": {"network n": {"subnet": "s"}, "link l": None},
    }


def test_the_seconds_are_told_before_and_from_a_kind_of_things_on() -> None:
    def stage(*kinds: str, seconds: float = 0.0) -> list[Step]:
        return [Step("make", kind, "x", partial(time.sleep, seconds)) for kind in kinds]

    stages = [stage("link"), [], stage("network", seconds=0.02), stage("file", "container"), stage("record")]
    taken = perform(stages)
    assert len(taken) == 5
    assert taken[2] >= 0.02
    assert seconds_until("container", stages, [1.0, 2.0, 4.0, 8.0, 16.0]) == (7.0, 24.0)
    assert seconds_until("volume", stages, [1.0, 2.0, 4.0, 8.0, 16.0]) == (31.0, 0)
    assert seconds_until("container", stages, []) == (0, 0)
    assert seconds_until("container", stages, [0.00012, 0.0, 0.0, 0.00087]) == (0.0, 0.001), "milliseconds are enough"
