# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Set the kernel parameters that many replicas need."""

from __future__ import annotations

from ...core.model.call.base import Answer, States
from ...core.model.call.host_kernel import SetKernel
from ...core.rules.neighbours import neighbour_limits, parse_max_replicas
from .. import kernel_settings, steps


def call(request: SetKernel, check_mode: bool) -> Answer:
    """Return what changed. Raises CoreError for an invalid limit, and SessionError."""
    stages = kernel_settings.setting_stages(neighbour_limits(parse_max_replicas(request.max_replicas)))
    if not check_mode:
        steps.perform(stages)
    return steps.result(stages, Answer())


STATES: States = {SetKernel: call}
