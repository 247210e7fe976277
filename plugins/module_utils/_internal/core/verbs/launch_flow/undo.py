# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Undo a launch that failed on the way: remove what it has made, and record the outcome of one from the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...model.calls import Remove
from ...model.launch_state import LaunchState
from ...model.record import ERROR, PENDING, Record, kept_by
from ...model.record import advance as revise
from ..teardown import tombstones_for
from .launch import ADVICE, Launch


def failed(launch: Launch, failures: list[str], unreachable: list[str]) -> LaunchState:
    """Undo what was made of a session that could not be started; what works of a running session stays."""
    state, name = launch.state, launch.state.session_name
    sick = list(launch.sick_hosts())
    record = _failed_record(launch, failures, unreachable, sick)
    state.again = bool(unreachable or sick) and state.fresh and not launch.is_last
    state.failures, state.failed_record, state.replicas = failures, record, []
    if not state.fresh:
        if state.from_queue:
            return launch.over(ERROR, failures)
        return launch.fail(
            f"The session {name} could not be repaired; what works of it stays as it is.", *failures, ADVICE
        )
    if state.hands_on:
        state.promised = ERROR
    own = dict.fromkeys(state.reachable, Remove(name, launch.record.id, keep_record=record is not None, undo=True))
    if record is not None:
        # A session that came from the queue keeps its record and its id. Hosts record its outcome before its parts
        # go, so that no record has the status RUNNING when they are gone.
        own = {host: replace(request, record=record, recorded=launch.recorded(host)) for host, request in own.items()}
    return launch.step("undo", "Remove what this launch has made", [launch.call(own)])


def after_undo(launch: Launch) -> LaunchState:
    """Remember hosts that have to be cleaned later, if nothing of the session is kept; then end or start again."""
    # Of a session that did not come from the queue nothing stays, and a host that became unreachable meanwhile is
    # cleaned when it is back.
    if launch.state.failed_record is None and (following := remember(launch, "undone")):
        return following
    return undone(launch)


def remember(launch: Launch, then: str) -> LaunchState | None:
    """Remember which hosts have to be cleaned later; None if there are none. then: what follows, hold or undone."""
    found = tombstones_for(launch.answers)
    launch.state.warnings = found.report if found.unreachable else []
    launch.state.after_removal = then
    launch.state.unremoved = found.report if found.failed and then == "hold" else []
    if not found.is_needed:
        return None
    title = "Remember what has to be cleaned later where it is known"
    return launch.step("remember", title, found.calls())


def undone(launch: Launch) -> LaunchState:
    """Start again or end when what was made is removed, or the outcome of the session is kept."""
    state, record = launch.state, launch.state.failed_record
    if state.again:
        return launch.look_again()
    if state.from_queue:
        return launch.over(ERROR if record is None else record.status, state.failures)
    return launch.fail(
        f"The session {state.session_name} could not be launched; what this launch had made is removed.",
        *state.failures,
        ADVICE,
    )


def keep(launch: Launch, reasons: list[str], sick: Sequence[str], waits_for: str = "") -> LaunchState:
    """Keep on every host the outcome of a session that came from the queue and of which nothing was made.

    waits_for: another cause than sick hosts for which the session waits on instead of failing, as the beginning of a
    sentence.
    """
    record = _failed_record(launch, reasons, [], sick, waits_for)
    launch.state.failures, launch.state.failed_record = reasons, record
    if record is None:
        return launch.over(ERROR, reasons)
    title = "Keep on every host the outcome of a session from the queue"
    return launch.step("keep", title, launch.to_record(record))


def _failed_record(
    launch: Launch, failures: list[str], unreachable: Sequence[str], sick: Sequence[str], waits_for: str = ""
) -> Record | None:
    """Return the outcome of a session that came from the queue: it waits on, or it has ended; None for others."""
    record = launch.record
    if record.queue is None or not failures:
        return None
    # One of its hosts may have made the next revision, RUNNING, without being able to say so.
    record = replace(record, revision=record.revision + 1)
    changes: dict[str, Any] = {"plan": None, "hosts": (), "report": tuple(failures)}
    if unreachable or sick:
        waits_for = f"{', '.join(unreachable or sick)} {'could not be reached' if unreachable else 'failed'}"
    if waits_for:
        waiting = revise(record, PENDING, f"{waits_for} while it was being started.", **changes)
        return kept_by(waiting, launch.state.known)
    return revise(record, ERROR, "It could not be started.", **changes)
