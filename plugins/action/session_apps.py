# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Check the request for an app and the site's table of apps, on the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.apps import (
    parse_app_request,
    parse_name,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.parse import is_given
from ansible_collections.cluster_compute.session.plugins.plugin_utils.controller_action import ControllerAction
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import PlainHosts, PlainVariables, reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import resource_group


class ActionModule(ControllerAction):
    """The action behind the module session_apps."""

    OPTIONS: ClassVar[Mapping[str, object]] = {"only": {"type": "str", "choices": ["open", "name"], "default": "open"}}
    REFUSED = "The app cannot be opened; no host was touched."

    def answer(self, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> Mapping[str, object]:
        """Return the request. Fails with everything that is wrong with it."""
        given = self._given(variables)
        if arguments["only"] == "name":
            named = given.get("app")
            return {"request": {"name": parse_name(named) if is_given(named) else ""}}
        return {"request": encode(parse_app_request(given))}

    def _given(self, task_vars: Mapping[str, Any]) -> PlainVariables:
        """Return the variables of the group's first host, because the site's table may be in the inventory."""
        variables = {"session_resource_group": reader(self._templar)(task_vars.get("session_resource_group"))}
        _group, hosts = resource_group(variables, task_vars["groups"])
        return PlainHosts(task_vars["hostvars"])[hosts[0]]
