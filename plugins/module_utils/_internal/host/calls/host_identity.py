# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Create the identity of this host."""

from __future__ import annotations

from typing import Any

from ...adapters.state import StateDirectory
from .. import steps
from ..identity import identity_stage


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Return what changed. Raises StateError if the state belongs to another machine."""
    stages = [identity_stage(StateDirectory(arguments["state_directory"]), arguments["host"])]
    if not check_mode:
        steps.perform(stages)
    return steps.result(stages)
