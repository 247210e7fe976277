# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Plan changes first and perform them afterwards, with one tracker for all changes on a host.

``changed``, the diff, the list of actions and the performed changes come from the same steps, so they cannot disagree.
Check mode runs only the plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.values.deferred import dataclass
from ..core.values.errors import SessionError, is_of_host, message_of

if TYPE_CHECKING:
    from ..core.model.call.base import A

PARALLEL = 16
"""Number of parallel steps of one stage, which are requests to an engine that itself works in parallel."""


@dataclass(frozen=True)
class Change:
    """A difference. before and after: text, for the diff."""

    changed: bool
    before: str
    after: str


@dataclass(frozen=True)
class Step:
    """One change: what is done to which object, how it is done, and how it is undone if a later step fails."""

    action: str
    kind: str
    name: str
    do: Callable[[], object]
    undo: Callable[[], object] | None = None
    before: Any = None
    after: Any = None

    def describe(self) -> str:
        """Return the step as text for people, for example "create container train-sub1"."""
        return f"{self.action} {self.kind} {self.name}"


class StepFailed(SessionError):
    """A step failed, and the earlier changes of this run are undone. The message names the step and the cause."""

    def __init__(self, message: str, is_of_host: bool = False) -> None:
        super().__init__(message)
        self.is_of_host = is_of_host


Stage = Sequence[Step]


def perform(stages: Sequence[Stage], undo: bool = True) -> list[float]:
    """Perform the stages one after another, with the steps of a stage in parallel.

    Return the seconds of each stage. If a step fails, the other steps of its stage finish, everything done so far is
    undone in reverse order, and StepFailed names every failure. undo: False for a repair, which keeps the parts that
    work again.
    """
    from concurrent.futures import ThreadPoolExecutor  # not needed for the facts of a host

    done: list[Step] = []
    seconds = []
    for stage in stages:
        begin = time.monotonic()
        failures = []
        errors = []
        with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
            attempts = [(step, pool.submit(step.do)) for step in stage]
        for step, attempt in attempts:
            error = attempt.exception()
            if error is None:
                done.append(step)
            else:
                errors.append(error)
                failures.append(f"Could not {step.describe()}: {message_of(error)}")
        if failures:
            if undo:
                failures += _undo(done)
            raise StepFailed("\n".join(failures), all(map(is_of_host, errors)))
        seconds.append(time.monotonic() - begin)
    return seconds


def _undo(done: list[Step]) -> list[str]:
    failures = []
    for step in reversed(done):
        if step.undo is not None:
            try:
                step.undo()
            except Exception as error:  # the others still have to be undone, and all failures are reported
                failures.append(f"Could not undo '{step.describe()}': {message_of(error)}")
    return failures


def descriptions(stages: Sequence[Stage]) -> list[str]:
    """Return the actions of the stages, in order."""
    return [step.describe() for stage in stages for step in stage]


def difference(stages: Sequence[Stage]) -> Mapping[str, Mapping[str, object]]:
    """Return Ansible's diff structure, with the states of each changed object before and after."""
    steps = [step for stage in stages for step in stage]
    return {
        "before": {f"{step.kind} {step.name}": step.before for step in steps},
        "after": {f"{step.kind} {step.name}": step.after for step in steps},
    }


def made(actions: Sequence[str], answer: A) -> A:
    """Return an answer with what was made where nothing was before."""
    difference = {"before": "", "after": "".join(f"{action}\n" for action in actions)}
    return replace(answer, changed=bool(actions), actions=tuple(actions), diff=difference)


def seconds_until(kind: str, stages: Sequence[Stage], seconds: Sequence[float]) -> tuple[float, float]:
    """Return the seconds of the stages before the first one with objects of a kind, and of those from it on."""
    first = next((place for place, stage in enumerate(stages) if any(step.kind == kind for step in stage)), len(stages))
    return round(sum(seconds[:first]), 3), round(sum(seconds[first:]), 3)


def result(stages: Sequence[Stage], answer: A) -> A:
    """Return an answer with what the stages changed."""
    actions = tuple(descriptions(stages))
    return replace(answer, changed=bool(actions), actions=actions, diff=difference(stages))
