# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Drain this host, or accept new sessions on it again."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from ...adapters.ledger import LedgerFile
from ...adapters.state import StateDirectory
from ...core.model.decode import encode
from ...core.model.health import Drain
from .. import steps

DRAINED, UNDRAINED = STATES = ("drained", "undrained")


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Return what changed, and the names of the sessions that hold resources here. Raises SessionError, OSError."""
    state = StateDirectory(arguments["state_directory"])
    before = state.read_drain()
    found = [] if before is None else [encode(before)]
    stage: list[steps.Step] = []
    if arguments["state"] == UNDRAINED:
        if before is not None:
            stage = [steps.Step("remove", "drain", before.reason, state.drain_file.unlink, before=found[0])]
    elif before is None or (before.reason, before.by) != (arguments["reason"], arguments["by"]):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        drain = Drain(arguments["reason"], arguments["by"], now)
        action = "create" if before is None else "update"
        stage = [
            steps.Step(
                action,
                "drain",
                drain.reason,
                partial(state.write_drain, drain),
                before=before and found[0],
                after={"reason": drain.reason, "by": drain.by},
            )
        ]
    if not check_mode:
        steps.perform([stage])
    waits = arguments["state"] == DRAINED and not check_mode
    deadline = time.monotonic() + (arguments["wait_seconds"] if waits else 0)
    while (names := _names(state)) and time.monotonic() < deadline:
        time.sleep(1)
    return {**steps.result([stage]), "sessions": names}


def _names(state: StateDirectory) -> list[str]:
    """Return the names of the sessions that hold resources on this host."""
    held = LedgerFile(str(state.root), forgiving=True).read().values()
    return sorted({reservation.claim.session_name for reservation in held if reservation.claim.replicas})
