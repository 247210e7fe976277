# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tell, on the controller, what a teardown has to remember of hosts that did not take part in it."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.plugin_utils.answers import why_not


class ActionModule(ActionBase):
    """The action behind the module session_bury."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the tombstones to set and to forget, and what to tell the user."""
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec({"results": {"type": "dict", "required": True}})
        results = {name: result or {} for name, result in arguments["results"].items()}
        done = {name: result for name, result in results.items() if "sessions" in result}
        away = [name for name, result in results.items() if result.get("unreachable")]
        failed = [name for name in results if name not in done and name not in away]
        known = {one["id"]: one for result in done.values() for one in result["sessions"]}
        buried = {one["id"]: one for result in done.values() for one in result["tombstones"]}
        later = away + failed
        tombstones = [{"id": key, "name": known[key]["name"], "hosts": later} for key in sorted(known)] if later else []
        report = [f"{name}: {why_not(results[name])}" for name in failed]
        if failed:
            report.append("Correct this and tear the session down again.")
        if away:
            names = ", ".join(away)
            report.append(
                f"{names} could not be reached and will be cleaned when back, by whatever runs next."
                if known or buried
                else f"{names} could not be reached, and no other host knows of the session."
            )
        return {
            "changed": False,
            "tombstones": tombstones,
            "forget": sorted(key for key, one in buried.items() if not set(one["hosts"]) - set(done)),
            "report": report,
        }
