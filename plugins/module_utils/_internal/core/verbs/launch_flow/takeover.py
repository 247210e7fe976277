# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Wait for another run that has a part of the session, or take over from one that was stopped."""

from __future__ import annotations

from ...model.calls import Release
from ...model.launch_state import Awaited, LaunchState
from ...model.record import PENDING
from .launch import Launch

GRACE = 30
"""Seconds beyond those for which another run holds a place, for a host that answers late."""


def await_launch(launch: Launch) -> LaunchState:
    """Wait for another run that launches a session of this name, or take over from one that has certainly ended."""
    state, launchers, now = launch.state, launch.state.launchers, launch.outside.now
    if launch.outside.check_mode:
        return launch.over(PENDING, state.report)
    has_ended = all(launch.outside.has_ended(held.lease_owner) for held in launchers.values())
    if has_ended and not launch.is_last:
        # Only the leases: with the records the next look finds what was made, and who removes it.
        own = {host: Release(held.claim, held.lease_owner) for host, held in launchers.items()}
        some = next(iter(own.values()))
        names = {host: some for host in state.name_hosts if host not in own}
        return launch.step("takeover", "Take over from a launch that was ended", [launch.call({**own, **names})])
    state.attempt -= 1  # a run at work comes to an end, and expired reservations are free
    left = max(held.left for held in launchers.values())
    # A run at work holds its place for longer with each wave of roles.
    awaited = [Awaited(host, held.stage, held.lease_owner, held.expires) for host, held in launchers.items()]
    if state.awaited != awaited:
        state.awaited_since = state.awaited_since if state.awaited else now
        state.awaited, state.awaited_until = awaited, now + left + GRACE
    if now > state.awaited_until:
        return launch.refuse(*state.report, "Launch the session again when that run has ended.")
    state.lines, state.saying = state.report, "Report what it waits for"
    # Rounds include each other, like those of a launch that waits for capacity: the longer it takes, the fewer.
    longer = max(min(left / 10, 10), (now - state.awaited_since) / 10, 1)
    following = launch.look_again()
    following.pause = min(longer, max(left, 10))
    return following


def take_over_change(launch: Launch) -> LaunchState | None:
    """First release what a stopped change of this session holds; None if there is nothing."""
    ended = {
        host: Release(lease.claim, lease.lease_owner, lease.record)
        for host, lease in launch.state.changing.items()
        if launch.outside.has_ended(lease.lease_owner)
    }
    if not ended or launch.outside.check_mode or launch.is_last:
        return None
    launch.state.attempt += 1
    return launch.step("takeover", "Take over from a change that was ended", [launch.call(ended)])
