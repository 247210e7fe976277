# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Add the runtime entry for replicas to this host's engine, or remove it."""

from __future__ import annotations

from ...adapters.engine import Engine
from ...core.model.call.base import Answer, States
from ...core.model.call.host_runtime import AddRuntime, RemoveRuntime
from .. import engine_runtime, steps


def _present(_request: AddRuntime, check_mode: bool) -> Answer:
    """Add it."""
    return _performed(engine_runtime.present_stages(Engine.connect()), check_mode)


def _absent(_request: RemoveRuntime, check_mode: bool) -> Answer:
    """Remove it."""
    return _performed(engine_runtime.absent_stages(Engine.connect()), check_mode)


def _performed(stages: list[steps.Stage], check_mode: bool) -> Answer:
    if not check_mode:
        steps.perform(stages)
    return steps.result(stages, Answer())


STATES: States = {AddRuntime: _present, RemoveRuntime: _absent}


def call(request: AddRuntime | RemoveRuntime, check_mode: bool) -> Answer:
    """Return what changed. Raises EngineError, RuntimeEntryError."""
    return STATES[type(request)](request, check_mode)
