# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Replace a running session by another: first test what can be tested while it still runs, then remove it."""

from __future__ import annotations

from dataclasses import replace

from ...model.calls import CheckProbes, Remove, WriteProbes
from ...model.fields import QUEUE
from ...model.launch_state import LaunchState
from ..verb import REMOVAL
from . import hold, undo
from .launch import Launch, failures_of


def begin(launch: Launch) -> LaunchState:
    """Find folders that are not the same everywhere while the session that is replaced still runs."""
    state = launch.state
    if not state.replaces:
        return hold.begin(launch)
    if not launch.record.plan["request"]["mounts"] or launch.outside.check_mode:
        return _replace(launch)
    own = {host: WriteProbes(launch.record, state.lease_owner, host) for host in state.hosts}
    return launch.step("offer", "Write into the folders that hosts share", [launch.call(own)])


def after_offer(launch: Launch) -> LaunchState:
    """Let hosts read what the others wrote into shared folders; if writing failed, clean up at once."""
    if _folder_failures(launch):
        return after_compare(launch)
    own = {host: CheckProbes(launch.record, launch.state.lease_owner, host) for host in launch.state.hosts}
    return launch.step("compare", "Read there what the other hosts have written", [launch.call(own)])


def after_compare(launch: Launch) -> LaunchState:
    """Record which folders are not shared, and remove what was written."""
    launch.state.folder_failures = _folder_failures(launch)
    own = dict.fromkeys(launch.state.hosts, Remove(session_id=launch.record.id, undo=True))
    return launch.step("withdraw", "Remove what was written", [launch.call(own)])


def _folder_failures(launch: Launch) -> list[str]:
    return failures_of(launch.answers, lambda answer: answer.actions)[0]


def after_withdraw(launch: Launch) -> LaunchState:
    """Fail if folders are not shared; else remove the session that is replaced."""
    if launch.state.folder_failures:
        return launch.fail(
            f"The session {launch.state.session_name} cannot be launched again; the running one was not touched.",
            *launch.state.folder_failures,
        )
    return _replace(launch)


def _replace(launch: Launch) -> LaunchState:
    own = dict.fromkeys(launch.state.known, Remove(launch.state.session_name, lease_owner=launch.state.lease_owner))
    return launch.step("replace", "Remove the session that this one replaces", [launch.call(own, REMOVAL)])


def after_replace(launch: Launch) -> LaunchState:
    """Remember hosts that could not be cleaned, then hold the place of the new session."""
    if launch.only_now:
        # The former one is gone: better a session that waits than none.
        launch.state.request = replace(launch.state.request, on_no_capacity=QUEUE)
    return undo.remember(launch, "hold") or after_remember(launch)


def after_remember(launch: Launch) -> LaunchState:
    """Continue after a removal, that of the session that is replaced or an undoing."""
    if launch.state.unremoved:
        return launch.fail(
            f"The session {launch.state.session_name} is not removed from every host.", *launch.state.unremoved
        )
    return hold.begin(launch) if launch.state.after_removal == "hold" else undo.undone(launch)
