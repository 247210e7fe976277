# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read the user's request from Ansible's variables, on the controller."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping
from typing import Any

from ..module_utils._internal.core.model.read_fields import parse_owner, parse_users
from ..module_utils._internal.core.model.record import DEFAULT_GROUP
from ..module_utils._internal.core.model.request import parse_request, read_variable
from ..module_utils._internal.core.rules.access import SHARED_WITH, Asker
from ..module_utils._internal.core.rules.access import VARIABLE as ADMINS
from ..module_utils._internal.core.rules.scope import VARIABLE as GROUP
from ..module_utils._internal.core.rules.scope import Scope
from ..module_utils._internal.core.values.errors import InvalidInput
from ..module_utils._internal.core.values.parse import is_given
from .plain import PlainHosts

OF_AWX = ("awx_job_id", "awx_user_name", "tower_user_name")
"""Variables with which AWX describes a job and the user who started it (its documentation, "Extra variables")."""
AWX = "awx"
"""The user of a request that comes from an AWX schedule."""
DEFAULT_ADMINS = ("root",)
"""Root on the controller can read the keys of the hosts, so nothing is hidden from this user."""


def resource_group(variables: Mapping[str, Any], groups: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    """Return the resource group and its hosts. Raises InvalidInput if the group is unknown or empty."""
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

    The variables of the group's hosts in the inventory also count, not only those of localhost. template: reads a
    variable (`plain.reader`). Raises InvalidInput if the group is unknown or empty.
    """
    variables = {"session_resource_group": template(task_vars.get("session_resource_group"))}
    group, hosts = resource_group(variables, task_vars["groups"])
    known = PlainHosts(task_vars["hostvars"])[hosts[0]]  # reading them templates them
    return group, {name: known[name] for name in known if name.startswith(prefix)}


def session_name(variables: Mapping[str, Any]) -> str:
    """Return the checked name of the session, for verbs that need no other part of a request. Raises InvalidInput."""
    return parse_request({"session_name": variables.get("session_name"), "session_image": "none"}).name


def asker_of(variables: Mapping[str, Any], admins: object) -> Asker:
    """Return who runs Ansible: the AWX user, else the login name. admins: value of ``cluster_compute_admins``.

    An AWX job that no user has started, such as that of a schedule, belongs to `AWX`. Raises InvalidInput.
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
    """Return who runs this task. template: reads a variable (`plain.reader`). Raises InvalidInput."""
    known = {name: template(task_vars[name]) for name in (*OF_AWX, ADMINS) if name in task_vars}
    return asker_of(known, known.get(ADMINS))


def _login_name() -> str:
    """Return the name of the user of this process. The environment is not used, because any user can set it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user without an entry in passwd, as in a container
        return f"uid-{os.getuid()}"


def session_owner(variables: Mapping[str, Any], asker: Asker, group: object = None) -> tuple[str, tuple[str, ...]]:
    """Return the owner of the session, session_owner or else the user of this run, and with whom it is shared.

    group: value of ``cluster_compute_shared_with``. An AWX survey always sets session_shared_with, so a value with that
    name in an inventory would never apply. Raises InvalidInput, also if the user of this run could not change the
    session afterwards.
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
