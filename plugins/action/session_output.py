# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read the output of replicas, and show it as it arrives.

A separate worker follows each host of the task, in parallel as far as Ansible's forks allow. A worker calls its host
repeatedly, and the host answers as soon as something was written. Therefore nothing has to stay on a host, and a broken
connection is replaced.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.utils.display import Display
from ansible_collections.cluster_compute.session.plugins.action.session_host import ActionModule as HostAction
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.output import (
    DEFAULT_SIZE,
    Source,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import shown, speaker

SLICE = 5.0
"""Seconds after which a host answers although nothing was written."""
PATIENCE = 20.0
"""Seconds for which a host may be unreachable while it is followed."""


class ActionModule(HostAction):
    """The action behind the module session_output."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return all answers of the host, combined."""
        seconds = float(self._task.args.get("follow_seconds") or 0)
        if not seconds:
            return super().run(tmp, task_vars)
        return self._follow(time.monotonic() + seconds, tmp, task_vars)

    def _follow(self, deadline: float, tmp: str | None, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        sources: dict[tuple[str, str], Source] = {}
        result = None
        seen = time.monotonic()
        while True:
            left = max(0.0, deadline - time.monotonic())
            self._task.args["wait"] = min(SLICE, left)
            try:
                answer = super().run(tmp, task_vars)
            except AnsibleConnectionFailure:
                if result is None or left <= 0 or time.monotonic() - seen > PATIENCE:
                    raise
                time.sleep(min(1.0, left))
                continue
            if answer.get("failed"):
                return answer
            result, seen = answer, time.monotonic()
            self._task.args["positions"] = result["positions"]
            for found in result["sources"]:
                source = Source(**found)
                self._show(source)
                place = (source.replica, source.job)
                sources[place] = self._joined(sources.get(place), source)
            if left <= 0 or not result["running"]:
                return {**result, "sources": encode(list(sources.values()))}

    def _joined(self, known: Source | None, source: Source) -> Source:
        """Return new lines after the earlier ones, at most as many as one answer may have."""
        lines, left_out = [*known.lines, *source.lines] if known else list(source.lines), source.left_out
        left_out += known.left_out if known else 0
        held, most = 0, int(self._task.args.get("size") or DEFAULT_SIZE)
        for number in range(len(lines) - 1, -1, -1):
            held += len(lines[number][2]) + 1
            if held > most:
                return replace(source, lines=lines[number + 1 :], left_out=left_out + number + 1)
        return replace(source, lines=lines, left_out=left_out)

    def _show(self, source: Source) -> None:
        width, timestamps = int(self._task.args.get("width") or 0), self._task.args.get("timestamps")
        for moment, stream, text in source.lines:
            Display().display(shown(speaker(source), width, stream, text, moment if timestamps else ""))
