# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Cleanup, a step of several verbs: hosts record the end of sessions, and remove parts that no session owns any
more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from ..model.answers import Answer
from ..model.calls import KeepRecords, Remove
from ..model.record import ENDED, Record, read_record
from .verb import REMOVAL, State, StepCall, call, step

STEP = NAME, TITLE = "cleanup", "Remove objects that no longer have an owner"
UNOWNED = Remove(keep_data=True, unless_reserved=True)
"""The call with which a host removes parts that no session owns any more."""


def cleanup_step(actions: Mapping[str, Any], then: str) -> State:
    """Return the part of a state that names the step. then: the title of the decision that follows."""
    return step(*STEP, then, calls_for(actions))


def calls_for(actions: Mapping[str, Any]) -> list[StepCall]:
    """Return the calls of the step. Another run between its two kinds of calls finds the rest to do.

    actions: as returned by cluster.group.
    """
    records = [read_record(record) for record in actions["records"]]
    stubs = {host: [read_record(record) for record in found] for host, found in actions["stubs"].items()}
    forget, settled = tuple(actions["forget"]), actions["settled"]
    keeps = {
        host: KeepRecords(
            (*(record for record in records if _is_for(record, ids)), *stubs.get(host, ())),
            tuple(ids),
            actions["looked"][host],
            forget=forget,
            settled=tuple(key for key in settled if key in ids),
        )
        for host, ids in actions["recorded"].items()
        if records or forget or {*settled} & {*ids} or host in stubs
    }
    calls = [call(keeps, [name for name in REMOVAL if name != "output_size"])]
    # A host has one removal in each call.
    turns = zip_longest(*actions["removals"].values())
    return calls + [_removal(dict(zip(actions["removals"], turn))) for turn in turns]


def _is_for(record: Record, ids: Collection[str]) -> bool:
    """Tell whether a host that knows these sessions has to learn of the record; of an end only if it knows it."""
    return record.status not in ENDED or record.id in ids


def _removal(removals: Mapping[str, Mapping[str, Any] | None]) -> StepCall:
    """Return the call that removes one session from each host that has one to remove, unless it was changed there."""
    own = {
        host: replace(
            UNOWNED,
            session_id=removal["session_id"],
            keep_record=removal["keep_record"],
            undo=removal["undo"],
            judged_revision=removal["revision"],
        )
        for host, removal in removals.items()
        if removal is not None
    }
    return call(own, REMOVAL)


def problems_of(answers: Mapping[str, Answer]) -> list[str]:
    """Return what could not be cleaned up, in full sentences."""
    return [
        f"Parts that no session owns could not be removed from {host}: {answer.why_not}"
        for host, answer in answers.items()
        if answer.failed or answer.unreachable or answer.actions is None
    ]
