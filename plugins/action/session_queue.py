# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tell, on the controller, who waits in the queue of a resource group, why, and who can start now."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import CoreError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.group import (
    SITE_VARIABLES,
    GroupFacts,
    chores,
    has_chores,
    pick,
    waiting_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.capacity import hosts_from_facts
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.queue import take_turns
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils.core.show.overview import queue_entry
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import launch_request


class ActionModule(ActionBase):
    """The action behind the module session_queue."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the queue in order, and what a launch of each session that can start needs."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _result, arguments = self.validate_argument_spec({"hosts": {"type": "dict", "required": True}})
        hostvars = task_vars["hostvars"]
        try:
            group = GroupFacts.read(arguments["hosts"], hostvars)
            own = hostvars[task_vars["inventory_hostname"]]
            settings = Settings.from_variables(pick(own, SITE_VARIABLES))
            view = group.survey()
            view.check_names()
            waiting, problems = waiting_of(view.pending())
            hosts = hosts_from_facts(group.facts, group.inventory)
            turns = take_turns(waiting, hosts, settings.topology_keys, group.known)
        except CoreError as error:
            return {"failed": True, "msg": f"The queue cannot be read.\n{error}"}
        if group.unreachable:
            problems.append(f"Hosts that could not be reached are left out: {', '.join(group.unreachable)}.")
        work = chores(group, view, view.abandoned)
        return {
            "changed": False,
            "chores": work,
            "tidy": not has_chores(work),
            "queue": [queue_entry(turn, view.records[turn.waiting.session_id]) for turn in turns],
            "launchable": [
                {
                    **launch_request(turn.waiting.request, view.records[turn.waiting.session_id]["owner"]),
                    "waits": view.records[turn.waiting.session_id],
                }
                for turn in turns
                if turn.placement is not None
            ],
            "warnings": problems,
        }
