# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tell whether every host has done its part of a step; if not, which did not, and why."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils.core.record import (
    ERROR,
    PENDING,
    Record,
    advance,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.answers import why_not


class ActionModule(ActionBase):
    """The action behind the module session_gate."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return whether every host has done its part, and the reasons of those that have not."""
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            {
                "hosts": {"type": "list", "elements": "str", "required": True},
                "witnesses": {"type": "list", "elements": "str", "default": []},
                "results": {"type": "dict", "required": True},
                "proof": {"type": "str", "required": True},
                "before": {"type": "dict"},
                "record": {"type": "dict"},
            }
        )
        before = arguments["before"]
        if before is not None and not before["passed"]:
            return dict(before)
        failures = {}
        unreachable = []
        for name in dict.fromkeys([*arguments["hosts"], *arguments["witnesses"]]):
            result = arguments["results"].get(name) or {}
            if result.get("unreachable"):
                if name not in arguments["hosts"]:
                    continue
                unreachable.append(name)
            if arguments["proof"] not in result:
                failures[name] = f"{name}: {why_not(result)}"
        return {
            "changed": False,
            "passed": not failures,
            "failures": list(failures.values()),
            "failed_hosts": list(failures),
            "unreachable_hosts": unreachable,
            "failed_record": _failed_record(arguments["record"], list(failures.values()), unreachable),
        }


def _failed_record(record: Record | None, failures: list[str], unreachable: list[str]) -> Record | None:
    """Return what becomes of a session that came from the queue: it waits on, or it has ended; None for others."""
    if record is None or record["queue"] is None or not failures:
        return None
    # One of its hosts may have made the next revision, RUNNING, without being able to say so.
    record = {**record, "revision": record["revision"] + 1}
    changes: dict[str, Any] = {"plan": None, "hosts": [], "report": failures}
    if unreachable:
        reason = f"{', '.join(unreachable)} could not be reached while it was being started."
        return advance(record, PENDING, reason, **changes)
    return advance(record, ERROR, "It could not be started.", **changes)
