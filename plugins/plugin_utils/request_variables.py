# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read the user's request from Ansible's variables, on the controller."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.fields import DEFAULT_GROUP
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.read_fields import parse_owner
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.request import parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.values import is_given


def resource_group(variables: Mapping[str, Any], groups: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    """Return the resource group and its hosts. Raises InvalidInput where the group is unknown or empty."""
    value = variables.get("session_resource_group")
    group = value.strip() if isinstance(value, str) and is_given(value) else DEFAULT_GROUP
    hosts = groups.get(group)
    if hosts:
        return group, list(hosts)
    implied = ("all", "ungrouped")
    known = ", ".join(sorted(name for name, members in groups.items() if members and name not in implied)) or "none"
    fault = "is empty" if hosts is not None else "does not exist"
    raise InvalidInput.single(
        "session_resource_group", group, f"This group of the inventory {fault}. Groups that have hosts: {known}."
    )


def group_variables(
    prefix: str, task_vars: Mapping[str, Any], template: Callable[[Any], Any]
) -> tuple[str, dict[str, Any]]:
    """Return the resource group, and the variables of its first host whose names begin with *prefix*.

    What the inventory says of the group's hosts counts as well, not only what localhost has. template: of the action's
    templar. Raises InvalidInput where the group is unknown or empty.
    """
    variables = {"session_resource_group": template(task_vars.get("session_resource_group"))}
    group, hosts = resource_group(variables, task_vars["groups"])
    known = task_vars["hostvars"][hosts[0]]  # reading them templates them
    return group, {name: known[name] for name in known if name.startswith(prefix)}


def session_name(variables: Mapping[str, Any]) -> str:
    """Return the checked name of the session, for verbs that need nothing else of a request. Raises InvalidInput."""
    return parse_request({"session_name": variables.get("session_name"), "session_image": "none"}).name


def session_owner(variables: Mapping[str, Any]) -> str:
    """Return who asks for the session: session_owner, else the user of AWX, else who runs Ansible.

    Raises InvalidInput.
    """
    for variable in ("session_owner", "awx_user_name", "tower_user_name"):
        value = variables.get(variable)
        if is_given(value):
            return parse_owner(variable, value)
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without an entry in passwd, as in a container
        return f"uid-{os.getuid()}"
