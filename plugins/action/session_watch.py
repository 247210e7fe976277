# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Wait, on the controller and on every host, until one of the hosts has changed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible import constants
from ansible_collections.cluster_compute.session.plugins.action.session_host import ActionModule as HostAction

SLICE = 5.0
"""Seconds for which a host is asked to watch at a time; so long after one has changed the others stop at the latest."""


class ActionModule(HostAction):
    """The action behind the module session_watch: hosts watch side by side, and the first that moves ends it for all.

    They meet in the folder that all workers of one ansible-playbook share on the controller.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the host said last."""
        arguments = dict(self._task.args)
        begin = time.monotonic()
        deadline = begin + float(arguments["seconds"])
        pause = begin + float(arguments.get("pause", 1))
        rendezvous = Path(constants.DEFAULT_LOCAL_TMP) / f"watch-{arguments['rendezvous_key']}"
        result: dict[str, Any] = {"changed": False, "moved": False}
        while not rendezvous.exists() and time.monotonic() < deadline:
            seconds = max(0.1, min(SLICE, deadline - time.monotonic()))
            self._task.args = {**arguments, "seconds": seconds}
            result = super().run(tmp, task_vars)
            if result.get("moved") or result.get("failed"):
                rendezvous.touch()
        time.sleep(max(0.0, min(pause, deadline) - time.monotonic()))
        return result
