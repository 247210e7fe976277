# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Combine the facts of all hosts of a resource group, on the controller."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import DEFAULT_GROUP
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import EVERYBODY
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import CoreError
from ansible_collections.cluster_compute.session.plugins.plugin_utils.group_overview import read_overview
from ansible_collections.cluster_compute.session.plugins.plugin_utils.lockstep import refusal
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import PlainHosts, reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import read_asker


class ActionModule(ActionBase):
    """The action behind the module session_info."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the overview, of all sessions or of one."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        refused = refusal(self._task, task_vars)
        if refused is not None:
            return {"failed": True, "msg": refused}
        _result, arguments = self.validate_argument_spec(
            {
                "hosts": {"type": "dict", "required": True},
                "resource_group": {"type": "str", "default": DEFAULT_GROUP},
                "session_name": {"type": "str", "default": ""},
                "for_everybody": {"type": "bool", "default": False},
            }
        )
        hostvars = PlainHosts(task_vars["hostvars"])
        own = hostvars[task_vars["inventory_hostname"]]
        try:
            asker = EVERYBODY if arguments["for_everybody"] else read_asker(task_vars, reader(self._templar))
            groups = task_vars.get("groups") or {}
            found = read_overview(arguments["resource_group"], arguments["hosts"], hostvars, own, groups, asker)
        except CoreError as error:
            return {"failed": True, "msg": f"Nothing can be said of the sessions.\n{error}"}
        name = arguments["session_name"]
        return {"changed": False, "overview": encode(found.only(name) if name else found)}
