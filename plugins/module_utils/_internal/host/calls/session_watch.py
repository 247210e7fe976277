# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Wait on this host until there may be capacity for a session."""

from __future__ import annotations

import time

from ...adapters.state import StateDirectory
from ...core.model.call.base import States
from ...core.model.call.session_watch import Watch, WatchAnswer
from ..facts import signature

EVERY = 0.5
"""Seconds between two reads of the disk."""


def call(request: Watch, _check_mode: bool) -> WatchAnswer:
    """Return whether anything has changed before the time was over. Raises StateError."""
    state = StateDirectory(request.state_directory)
    deadline = time.monotonic() + request.seconds
    moved = False
    while not moved and time.monotonic() < deadline:
        moved = signature(state, request.session_name) != request.signature
        if not moved:
            time.sleep(min(EVERY, max(0.0, deadline - time.monotonic())))
    return WatchAnswer(changed=False, moved=moved)


STATES: States = {Watch: call}
