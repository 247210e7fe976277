# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Check the request on the controller, before any host is contacted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from ansible import context
from ansible.parsing.splitter import split_args
from ansible.utils.vars import load_extra_vars
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import PREFIX
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
    read_variable,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import SHARED_WITH
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import (
    VARIABLE as ADMINS,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.admission import (
    defaults_beside_accelerators,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.near_misses import (
    cut_values,
    near_misses,
    slips_of_roles,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.parse import is_given
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.launch import launch_request
from ansible_collections.cluster_compute.session.plugins.plugin_utils import queries
from ansible_collections.cluster_compute.session.plugins.plugin_utils.controller_action import ControllerAction
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import (
    OF_AWX,
    group_variables,
    read_asker,
    session_name,
    session_owner,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.role_variables import role_variables
from ansible_collections.cluster_compute.session.plugins.plugin_utils.workdir import LIMIT, read_workdir

OF_SITE = (
    "session_resource_group",
    "session_image",
    "session_image_pull",
    "session_image_archive",
    "session_image_from",
    "session_owner",
    "session_encrypted",
)
"""The user's variables that also apply to the session of a playbook with its own request."""


class ActionModule(ControllerAction):
    """The action behind the module session_request."""

    OPTIONS: ClassVar[Mapping[str, object]] = {
        "only": {"type": "str", "choices": ["launch", "name", "group"], "default": "launch"},
        "own": {"type": "dict"},
        "queries": {"type": "dict", "default": {}},
    }
    REFUSED = "The request cannot be used; no host was touched."

    def answer(self, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> Mapping[str, object]:
        """Return the parts of the request that other steps need. Fails with everything that is wrong with it."""
        for name, expression in arguments["queries"].items():
            if is_given(expression):
                queries.check(name, str(expression))
        group, given = group_variables(PREFIX, variables, reader(self._templar))
        warnings = self._refuse_near_misses(given, arguments)
        found = {"resource_group": group, **_with(warnings)}
        if arguments["own"]:
            given = {**{name: given[name] for name in OF_SITE if name in given}, **arguments["own"]}
        if arguments["only"] == "group" and not is_given(given.get("session_name")):
            owner = read_asker(variables, reader(self._templar)).name
            return {**found, "session_name": "", "owner": owner}
        if arguments["only"] != "launch":
            return {**found, "session_name": session_name(given)}
        request = parse_request(given)
        if request.workdir is not None:
            request, more = self._with_workdir(request, request.workdir.path, variables)
            warnings += more
        _group, site = group_variables(ADMINS, variables, reader(self._templar))
        asker = read_asker({**variables, **site}, reader(self._templar))
        _group, shared = group_variables(SHARED_WITH, variables, reader(self._templar))
        own = {name: read_variable(name, given) for name in ("recreate", "on_no_capacity", "wait_seconds", "min_size")}
        whose = session_owner(given, asker, shared.get(SHARED_WITH))
        wanted = encode(launch_request(request, *whose, **own))
        return {**wanted, **found, **_with([*warnings, *defaults_beside_accelerators(request)])}

    def _with_workdir(self, request: Request, path: str, variables: Mapping[str, Any]) -> tuple[Request, list[str]]:
        """Return the request with what is in its working directory, and warnings about that. Raises InvalidInput."""
        _group, site = group_variables(LIMIT, variables, reader(self._templar))
        is_awx = any(is_given(variables.get(name)) for name in OF_AWX)
        within = os.getcwd() if is_awx else None
        workdir, warnings = read_workdir(path, Settings.from_variables(site).workdir_size, within)
        return replace(request, workdir=workdir), warnings

    def _refuse_near_misses(self, variables: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
        """Reject extra variables that nothing reads, and return warnings about others. Raises InvalidInput.

        A verb without a request may be run by a playbook whose launch has its own variable such as cluster_size.
        """
        given = [name for name, value in variables.items() if is_given(value)]
        launches = arguments["only"] == "launch" and not arguments["own"]
        extra = load_extra_vars(self._loader)
        problems = cut_values(_words()) + near_misses(extra, given, launches) + slips_of_roles(extra, role_variables())
        if problems:
            raise InvalidInput(problems)
        return [str(problem) for problem in near_misses(extra, given, True)]


def _with(warnings: list[str]) -> dict[str, list[str]]:
    return {"warnings": warnings} if warnings else {}


def _words() -> list[list[str]]:
    """Return the words of each extra variable that is neither a file nor JSON or YAML."""
    options = map(str, context.CLIARGS.get("extra_vars") or ())
    return [split_args(option) for option in options if option and option[0] not in "@[{"]
