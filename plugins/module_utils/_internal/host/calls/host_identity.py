# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Create the identity of this host."""

from __future__ import annotations

from ...adapters.state import StateDirectory
from ...core.model.call.base import Answer, States
from ...core.model.call.host_identity import CreateIdentity
from .. import steps
from ..identity import identity_stage


def call(request: CreateIdentity, check_mode: bool) -> Answer:
    """Return what changed. Raises StateError if the state belongs to another machine."""
    stages = [identity_stage(StateDirectory(request.state_directory), request.host)]
    if not check_mode:
        steps.perform(stages)
    return steps.result(stages, Answer())


STATES: States = {CreateIdentity: call}
