# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read the user's request from Ansible's variables, on the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils.core.request import (
    DEFAULT_GROUP,
    Request,
    given,
    parse_request,
)

PREFIX = "session_"
KNOWN_ELSEWHERE = ("session_regenerate_keys",)
"""Variables of a launch whose names begin with the prefix and that are no part of a request."""


def resource_group(variables: Mapping[str, Any], groups: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    """Return the resource group and its hosts. Raises InvalidInput where the group is unknown or empty."""
    asked = variables.get("session_resource_group")
    group = asked.strip() if isinstance(asked, str) and given(asked) else DEFAULT_GROUP
    hosts = groups.get(group)
    if hosts:
        return group, list(hosts)
    implied = ("all", "ungrouped")
    known = ", ".join(sorted(name for name, members in groups.items() if members and name not in implied)) or "none"
    fault = "is empty" if hosts is not None else "does not exist"
    raise InvalidInput.single(
        "session_resource_group", group, f"This group of the inventory {fault}. Groups that have hosts: {known}."
    )


def session_variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables whose names begin with ``session_``; reading them templates them."""
    return {name: variables[name] for name in variables if name.startswith(PREFIX)}


def launchable_request(variables: Mapping[str, Any]) -> Request:
    """Return the request that *variables* describe, if it asks for nothing that a launch cannot give.

    Raises InvalidInput with every problem.
    """
    request = parse_request(variables, known=KNOWN_ELSEWHERE)
    for role in request.roles:
        if role.resources.accelerators:
            asked = ", ".join(f"{name}={count}" for name, count in role.resources.accelerators)
            raise InvalidInput.single(
                "session_accelerators",
                asked,
                f"Role {role.name} asks for accelerators, and this release does not hand any to containers. Leave them "
                "out.",
            )
    return request


def session_name(variables: Mapping[str, Any]) -> str:
    """Return the checked name of the session, for verbs that need nothing else of a request. Raises InvalidInput."""
    return parse_request({"session_name": variables.get("session_name"), "session_image": "none"}).name
