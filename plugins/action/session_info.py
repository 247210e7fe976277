# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Combine the facts of all hosts of a resource group, on the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import DEFAULT_GROUP
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import EVERYBODY
from ansible_collections.cluster_compute.session.plugins.plugin_utils.controller_action import ControllerAction
from ansible_collections.cluster_compute.session.plugins.plugin_utils.group_overview import read_overview
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import PlainHosts, reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.queries import select
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import read_asker


class ActionModule(ControllerAction):
    """The action behind the module session_info."""

    OPTIONS: ClassVar[Mapping[str, object]] = {
        "hosts": {"type": "dict", "required": True},
        "resource_group": {"type": "str", "default": DEFAULT_GROUP},
        "session_name": {"type": "str", "default": ""},
        "for_everybody": {"type": "bool", "default": False},
        "query": {"type": "str", "default": ""},
    }
    REFUSED = "Nothing can be said of the sessions."
    reads_all_hosts = True

    def answer(self, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> Mapping[str, object]:
        """Return the overview, of all sessions or of one."""
        hostvars = PlainHosts(variables["hostvars"])
        own = hostvars[variables["inventory_hostname"]]
        asker = EVERYBODY if arguments["for_everybody"] else read_asker(variables, reader(self._templar))
        groups = variables.get("groups") or {}
        found = read_overview(arguments["resource_group"], arguments["hosts"], hostvars, own, groups, asker)
        name = arguments["session_name"]
        overview = encode(found.only(name) if name else found)
        query = arguments["query"]
        return {"overview": overview, **({"selected": select("query", query, overview)} if query else {})}
