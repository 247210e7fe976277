# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Plan changes first, perform them afterwards: one tracker through which everything on a host goes.

``changed``, the diff, the list of actions and what is really done come from the same steps, so they cannot disagree;
check mode is the plan alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..core.values.errors import SessionError, is_of_host, message_of

PARALLEL = 16
"""Steps of one stage that run side by side: requests to an engine, which itself works in parallel."""


@dataclass(frozen=True)
class Change:
    """What is different afterwards; before and after: text, for the diff."""

    changed: bool
    before: str
    after: str


@dataclass(frozen=True)
class Step:
    """One change: what is done to which thing, how it is done, and how it is undone if a later step fails."""

    action: str
    kind: str
    name: str
    do: Callable[[], object]
    undo: Callable[[], object] | None = None
    before: Any = None
    after: Any = None

    def describe(self) -> str:
        """Return the step as people read it, for example "create container train-sub1"."""
        return f"{self.action} {self.kind} {self.name}"


class StepFailed(SessionError):
    """A step failed; what this run had made before is undone. The message names the step and the cause."""

    def __init__(self, message: str, is_of_host: bool = False) -> None:
        super().__init__(message)
        self.is_of_host = is_of_host


Stage = Sequence[Step]


def perform(stages: Sequence[Stage], undo: bool = True) -> list[float]:
    """Perform the stages one after another, the steps of a stage side by side; return the seconds that each took.

    When a step fails, the others of its stage are let finish, everything done so far is undone in reverse order, and
    StepFailed names every failure. undo: False for a repair, which takes nothing away from what works again.
    """
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
            except Exception as error:  # the others have to be undone all the same, and all failures are told
                failures.append(f"Could not undo '{step.describe()}': {message_of(error)}")
    return failures


def descriptions(stages: Sequence[Stage]) -> list[str]:
    """Return what the stages do, in their order."""
    return [step.describe() for stage in stages for step in stage]


def difference(stages: Sequence[Stage]) -> dict[str, dict[str, Any]]:
    """Return Ansible's diff structure: for each touched thing what it is before and after."""
    steps = [step for stage in stages for step in stage]
    return {
        "before": {f"{step.kind} {step.name}": step.before for step in steps},
        "after": {f"{step.kind} {step.name}": step.after for step in steps},
    }


def seconds_until(kind: str, stages: Sequence[Stage], seconds: Sequence[float]) -> tuple[float, float]:
    """Return the seconds of the stages before the first that has to do with things of a kind, and those from it on."""
    first = next((place for place, stage in enumerate(stages) if any(step.kind == kind for step in stage)), len(stages))
    return round(sum(seconds[:first]), 3), round(sum(seconds[first:]), 3)


def result(stages: Sequence[Stage]) -> dict[str, Any]:
    """Return what a module says of the stages: changed, actions, diff."""
    actions = descriptions(stages)
    return {"changed": bool(actions), "actions": actions, "diff": difference(stages)}
