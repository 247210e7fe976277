# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Put together, on the controller, what a repair found and did on every host."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils.core.answers import why_not


class ActionModule(ActionBase):
    """The action behind the module session_report."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the lines, and those of them that tell of something that went wrong."""
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            {
                "findings": {"type": "list", "elements": "str", "default": []},
                "missing": {"type": "list", "elements": "str", "default": []},
                "results": {"type": "list", "elements": "dict", "required": True},
            }
        )
        lines = list(arguments["findings"])
        problems = list(arguments["missing"])
        for step in arguments["results"]:
            for host, result in step.items():
                result = result or {}
                told = (result.get("sessions") or {}).values()
                of_session = [f"session {one['name']}: {action}" for one in told for action in one["actions"]]
                named = {action for one in told for action in one["actions"]}
                others = [action for action in result.get("actions") or () if action not in named]
                lines += [f"{host}: {line}" for line in [*others, *of_session]]
                faults = [f"session {one['name']}: {one['problem']}" for one in told if one["problem"]]
                if result.get("unreachable") or ("actions" not in result and result.get("msg")):
                    faults.append(why_not(result))
                problems += [f"{host}: {fault}" for fault in faults]
        return {"changed": False, "lines": list(dict.fromkeys(lines)), "problems": list(dict.fromkeys(problems))}
