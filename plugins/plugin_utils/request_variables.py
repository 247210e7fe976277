# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read the user's request from Ansible's variables, on the controller."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping
from typing import Any

from ..module_utils.core.model.read_fields import parse_owner, parse_users
from ..module_utils.core.model.record import DEFAULT_GROUP
from ..module_utils.core.model.request import parse_request, read_variable
from ..module_utils.core.rules.access import SHARED_WITH, Asker
from ..module_utils.core.rules.access import VARIABLE as ADMINS
from ..module_utils.core.rules.scope import VARIABLE as GROUP
from ..module_utils.core.rules.scope import Scope
from ..module_utils.core.values.errors import InvalidInput
from ..module_utils.core.values.parse import is_given
from .plain import PlainHosts

OF_AWX = ("awx_job_id", "awx_user_name", "tower_user_name")
"""What AWX tells of a job and of who started it (its documentation, "Extra variables")."""
AWX = "awx"
"""Who asks where a schedule of AWX does."""
DEFAULT_ADMINS = ("root",)
"""Who runs Ansible as root reads the keys of the hosts on the controller, so nothing is kept from them."""


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


def read_scope(task_vars: Mapping[str, Any], template: Callable[[Any], Any]) -> Scope:
    """Return what belongs to this run. template: of the action's templar. The group need not be known or have hosts."""
    value = template(task_vars.get(GROUP))
    group = value.strip() if isinstance(value, str) and is_given(value) else DEFAULT_GROUP
    return Scope(group, {name: list(hosts) for name, hosts in (task_vars.get("groups") or {}).items()})


def group_variables(
    prefix: str, task_vars: Mapping[str, Any], template: Callable[[Any], Any]
) -> tuple[str, dict[str, Any]]:
    """Return the resource group, and the variables of its first host whose names begin with *prefix*.

    What the inventory says of the group's hosts counts as well, not only what localhost has. template: what reads a
    variable (`plain.reader`). Raises InvalidInput where the group is unknown or empty.
    """
    variables = {"session_resource_group": template(task_vars.get("session_resource_group"))}
    group, hosts = resource_group(variables, task_vars["groups"])
    known = PlainHosts(task_vars["hostvars"])[hosts[0]]  # reading them templates them
    return group, {name: known[name] for name in known if name.startswith(prefix)}


def session_name(variables: Mapping[str, Any]) -> str:
    """Return the checked name of the session, for verbs that need nothing else of a request. Raises InvalidInput."""
    return parse_request({"session_name": variables.get("session_name"), "session_image": "none"}).name


def asker_of(variables: Mapping[str, Any], admins: object) -> Asker:
    """Return who runs Ansible: the user of AWX, else the login name. admins: value of ``cluster_compute_admins``.

    A job of AWX that nobody has started, as a schedule does, is `AWX`'s own. Raises InvalidInput.
    """
    known = [parse_owner(variable, variables[variable]) for variable in OF_AWX[1:] if is_given(variables.get(variable))]
    if len(set(known)) > 1:
        message = f"AWX gives one user two names alike; tower_user_name is {known[1]!r}. Neither can be set for a job."
        raise InvalidInput.single("awx_user_name", known[0], message)
    if not known and is_given(variables.get("awx_job_id")):
        known = [AWX]
    name = known[0] if known else _login_name()
    return Asker(name, name in (parse_users(ADMINS, admins) if is_given(admins) else DEFAULT_ADMINS))


def read_asker(task_vars: Mapping[str, Any], template: Callable[[Any], Any]) -> Asker:
    """Return who runs this task. template: what reads a variable (`plain.reader`). Raises InvalidInput."""
    known = {name: template(task_vars[name]) for name in (*OF_AWX, ADMINS) if name in task_vars}
    return asker_of(known, known.get(ADMINS))


def _login_name() -> str:
    """Return the name of the user whose process this is; what the environment says of it anybody can set."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user without an entry in passwd, as in a container
        return f"uid-{os.getuid()}"


def session_owner(variables: Mapping[str, Any], asker: Asker, group: object = None) -> tuple[str, tuple[str, ...]]:
    """Return whose session it is, session_owner or else who asks, and with whom it is shared.

    group: value of ``cluster_compute_shared_with``. A survey of AWX answers session_shared_with in any case, so that
    what an inventory says by that name would never count. Raises InvalidInput, also where who asks for it could not
    touch it afterwards.
    """
    value = variables.get("session_owner")
    own = read_variable("shared_with", variables)
    shared_with = tuple(sorted({*own, *(parse_users(SHARED_WITH, group) if is_given(group) else ())}))
    if not is_given(value):
        return asker.name, shared_with
    owner = parse_owner("session_owner", value)
    if asker.refusal("", owner, shared_with) is not None:
        message = f"You are {asker.name}. Name yourself in session_shared_with, or you could not tear it down."
        raise InvalidInput.single("session_owner", owner, message)
    return owner, shared_with
