# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Check the request for an app and the site's table of apps, on the controller."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.apps import (
    parse_app_request,
    parse_name,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import CoreError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.parse import is_given
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import PlainHosts, PlainVariables, reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import resource_group

REFUSED = "The app cannot be opened; no host was touched."


class ActionModule(ActionBase):
    """The action behind the module session_apps."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the request. Fails with everything that is wrong with it."""
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            {"only": {"type": "str", "choices": ["open", "name"], "default": "open"}}
        )
        try:
            variables = self._given(task_vars or {})
            if arguments["only"] == "name":
                named = variables.get("app")
                return {"changed": False, "request": {"name": parse_name(named) if is_given(named) else ""}}
            request = parse_app_request(variables)
        except CoreError as error:
            return {"failed": True, "msg": f"{REFUSED}\n{error}"}
        return {"changed": False, "request": encode(request)}

    def _given(self, task_vars: dict[str, Any]) -> PlainVariables:
        """Return the variables of the group's first host, because the site's table may be in the inventory."""
        variables = {"session_resource_group": reader(self._templar)(task_vars.get("session_resource_group"))}
        _group, hosts = resource_group(variables, task_vars["groups"])
        return PlainHosts(task_vars["hostvars"])[hosts[0]]
