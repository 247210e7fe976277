# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Cleanup, a step of several verbs: hosts record the end of sessions, and remove parts that no session owns any
more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model.answers import Answer
from ..model.record import ENDED
from .verb import REMOVAL, Call, State, call, step

STEP = NAME, TITLE = "cleanup", "Remove objects that no longer have an owner"
UNOWNED = {"state": "absent", "keep_data": True, "unless_reserved": True}
"""Arguments with which a host removes parts that no session owns any more."""


def cleanup_step(actions: Mapping[str, Any], then: str) -> State:
    """Return the part of a state that names the step. then: the title of the decision that follows."""
    return step(*STEP, then, calls_for(actions))


def calls_for(actions: Mapping[str, Any]) -> list[Call]:
    """Return the calls of the step. Another run between its two kinds of calls finds the rest to do.

    actions: as returned by cluster.group.
    """
    records = {
        # Only hosts with a record of a session need to learn that it has ended.
        host: {
            "records": [record for record in actions["records"] if record["status"] not in ENDED or record["id"] in ids]
            + actions["stubs"].get(host, []),
            "recorded": ids,
            "settled": [key for key in actions["settled"] if key in ids],
        }
        for host, ids in actions["recorded"].items()
        if actions["records"] or actions["forget"] or {*actions["settled"]} & {*ids} or host in actions["stubs"]
    }
    kept = [name for name in REMOVAL if name != "output_size"]
    calls = [call("session_record", records, {"forget": actions["forget"]}, (), kept)]
    for number in range(max((len(host_removals) for host_removals in actions["removals"].values()), default=0)):
        removals = {
            host: host_removals[number]
            for host, host_removals in actions["removals"].items()
            if len(host_removals) > number
        }
        calls.append(_removal(removals))
    return calls


def _removal(removals: Mapping[str, Mapping[str, Any]]) -> Call:
    """Return the call that removes one session from some hosts, unless it was changed there meanwhile."""
    own = {
        host: {
            **{key: removal[key] for key in ("session_id", "keep_record", "undo")},
            **({} if removal["revision"] is None else {"judged_revision": removal["revision"]}),
        }
        for host, removal in removals.items()
    }
    return call("session_host", own, UNOWNED, (), REMOVAL)


def problems_of(answers: Mapping[str, Answer]) -> list[str]:
    """Return what could not be cleaned up, in full sentences."""
    return [
        f"Parts that no session owns could not be removed from {host}: {answer.why_not}"
        for host, answer in answers.items()
        if answer.failed or answer.unreachable or answer.actions is None
    ]
