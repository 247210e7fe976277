# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Cleanup, a step of several verbs: hosts record the end of sessions, and remove parts that no session owns any
more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import zip_longest

from ..cluster.group import CleanupWork
from ..cluster.state import Removal
from ..model.answers import Answer
from ..model.calls import KeepRecords, Remove
from ..model.record import ENDED, Record
from ..model.verb_state import StepCall
from .verb import REMOVAL, call

NAME = "cleanup"
STEP = NAME, "Remove objects that no longer have an owner"
UNOWNED = Remove(keep_data=True, unless_reserved=True)
"""The call with which a host removes parts that no session owns any more."""


def calls_for(work: CleanupWork) -> list[StepCall]:
    """Return the calls of the step. Another run between its two kinds of calls finds the rest to do."""
    records, forget, settled = work.records, tuple(work.forget), work.settled
    keeps = {
        host: KeepRecords(
            (*(record for record in records if _is_for(record, ids)), *work.stubs.get(host, ())),
            tuple(ids),
            work.looked[host],
            forget=forget,
            settled=tuple(key for key in settled if key in ids),
        )
        for host, ids in work.recorded.items()
        if records or forget or {*settled} & {*ids} or host in work.stubs
    }
    calls = [call(keeps, [name for name in REMOVAL if name != "output_size"])]
    # A host has one removal in each call.
    turns = zip_longest(*work.removals.values())
    return calls + [_removal(dict(zip(work.removals, turn))) for turn in turns]


def _is_for(record: Record, ids: Collection[str]) -> bool:
    """Tell whether a host that knows these sessions has to learn of the record; of an end only if it knows it."""
    return record.status not in ENDED or record.id in ids


def _removal(removals: Mapping[str, Removal | None]) -> StepCall:
    """Return the call that removes one session from each host that has one to remove, unless it was changed there."""
    own = {
        host: replace(
            UNOWNED,
            session_id=removal.session_id,
            keep_record=removal.keep_record,
            undo=removal.undo,
            judged_revision=removal.revision,
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
