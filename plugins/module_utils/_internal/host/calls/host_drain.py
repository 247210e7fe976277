# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Drain this host, or accept new sessions on it again."""

from __future__ import annotations

import time
from functools import partial

from ...adapters.ledger import LedgerFile
from ...adapters.state import StateDirectory
from ...core.model import health
from ...core.model.call.base import Answer, States
from ...core.model.call.host_drain import Drain, DrainAnswer, Undrain
from ...core.model.decode import encode
from .. import steps


def _drained(request: Drain, check_mode: bool) -> DrainAnswer:
    """Take no new sessions, and wait for those that are here."""
    state = StateDirectory(request.state_directory)
    before = state.read_drain()
    stage: list[steps.Step] = []
    if before is None or (before.reason, before.by) != (request.reason, request.by):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        drain = health.Drain(request.reason, request.by, now)
        action = "create" if before is None else "update"
        stage = [
            steps.Step(
                action,
                "drain",
                drain.reason,
                partial(state.write_drain, drain),
                before=before and encode(before),
                after={"reason": drain.reason, "by": drain.by},
            )
        ]
    return _done(state, stage, check_mode, request.wait_seconds)


def _undrained(request: Undrain, check_mode: bool) -> DrainAnswer:
    """Take new sessions again."""
    state = StateDirectory(request.state_directory)
    before = state.read_drain()
    stage: list[steps.Step] = []
    if before is not None:
        stage = [steps.Step("remove", "drain", before.reason, state.drain_file.unlink, before=encode(before))]
    return _done(state, stage, check_mode)


def _done(state: StateDirectory, stage: list[steps.Step], check_mode: bool, wait_seconds: int = 0) -> DrainAnswer:
    """Perform the stage, wait until no session holds resources here, and return the result."""
    if not check_mode:
        steps.perform([stage])
    deadline = time.monotonic() + (0 if check_mode else wait_seconds)
    while (names := _names(state)) and time.monotonic() < deadline:
        time.sleep(1)
    return steps.result([stage], DrainAnswer(sessions=tuple(names)))


def _names(state: StateDirectory) -> list[str]:
    """Return the names of the sessions that hold resources on this host."""
    held = LedgerFile(str(state.root), forgiving=True).read().values()
    return sorted({reservation.claim.session_name for reservation in held if reservation.claim.replicas})


STATES: States = {Drain: _drained, Undrain: _undrained}


def call(request: Drain | Undrain, check_mode: bool) -> Answer:
    """Return what changed, and the names of the sessions that hold resources here. Raises SessionError, OSError."""
    return STATES[type(request)](request, check_mode)
