# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Add the runtime entry for replicas to this host's engine, or remove it."""

from __future__ import annotations

from typing import Any

from ...adapters.engine import Engine
from .. import engine_runtime, steps


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Return what changed. Raises EngineError, RuntimeEntryError."""
    engine = Engine.connect()
    is_present = arguments["state"] == "present"
    stages = engine_runtime.present_stages(engine) if is_present else engine_runtime.absent_stages(engine)
    if not check_mode:
        steps.perform(stages)
    return steps.result(stages)
