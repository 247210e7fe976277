# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run the module host_preflight as session_host is run, and note the time on the controller before and after."""

from __future__ import annotations

import time
from typing import Any

from ansible_collections.cluster_compute.session.plugins.action.session_host import ActionModule as HostAction


class ActionModule(HostAction):
    """The action behind the module host_preflight."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result, and between which times the host said what its clock shows."""
        before = time.time()
        result = super().run(tmp, task_vars)
        return {**result, "controller": [before, time.time()]}
