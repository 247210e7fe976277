# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""How long a call to a host may take before the host counts as hanging.

An operation that is known to hang is given up much sooner (`adapters.bounded.waiting_for`); these limits are for
everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

READS = ("host_info", "host_preflight", "host_suspect", "host_identity", "session_record")
READS_SECONDS = 240.0
SECONDS = 900.0
"""For a call that makes or removes things, beyond the time that the call itself is given."""
LONG = {
    "session_repair": 3600.0,
    "session_job": 1800.0,
    "ssh_runtime": 3600.0,
    "session_images": 21600.0,
    "replica_exec": 86400.0,
}
"""Calls that go through all sessions of a host, wait for another process that works on a session, build, carry images,
or run what a user wrote."""
GIVEN = ("timeout", "deadline_seconds", "turns_seconds", "wait_seconds", "seconds", "follow_seconds", "wait")
"""Arguments that set how long a call may wait."""

ANSWER_SECONDS = 60.0
"""For the connection to a host and back, beyond what the call may take on the host."""
ASK_AFTER = 20.0
"""Time after which a host that works on a call is asked for a sign of life."""
ALIVE_SECONDS = 40.0
"""Time for the sign of life; a host without one counts as hanging, however long its call may take."""
ASK_AGAIN = 300.0
"""Time from one sign of life to the next question."""
SUSPECT_SECONDS = 30.0
"""For a host that has not answered a call recently: for its first answer."""


def seconds_for(call: str, arguments: Mapping[str, Any]) -> float:
    """Return for how many seconds a host may work on *call*."""
    base = READS_SECONDS if call in READS else LONG.get(call, SECONDS)
    given = (arguments.get(name) for name in GIVEN)
    return base + sum(float(value) for value in given if isinstance(value, (int, float)) and value > 0)
