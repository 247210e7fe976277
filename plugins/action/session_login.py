# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Write, on the controller, what the owner's SSH client has to know of a session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import CoreError, InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils.core.group import GroupFacts
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.answers import (
    FactsAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import ENDED, RUNNING, Record
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.values import is_given
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.check import validate_plan
from ansible_collections.cluster_compute.session.plugins.module_utils.core.show.client_configuration import (
    CONFIGURATION,
    check_directory,
    check_login,
    client_files,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import read_asker


class ActionModule(ActionBase):
    """The action behind the module session_login."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the two files and how to use them; fail for a session that nobody can log in to."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _result, arguments = self.validate_argument_spec(
            {
                "hosts": {"type": "dict", "required": True},
                "session_name": {"type": "str", "required": True},
                "resource_group": {"type": "str", "required": True},
                "directory": {"type": "str", "required": True},
                "identity_file": {"type": "str", "default": ""},
            }
        )
        directory = os.path.abspath(os.path.expanduser(arguments["directory"]))
        try:
            asker = read_asker(task_vars, self._templar.template)
            group = GroupFacts.read(read_answers(FactsAnswer, arguments["hosts"]), task_vars["hostvars"])
            name = arguments["session_name"]
            record = check_login(_record(group, name), name, arguments["resource_group"], asker)
            plan = record.plan
            validate_plan(plan)
            main = plan["replicas"][0]
            _check_main(group, main)
            public_keys, users = _known(group, plan)
            address = _address(task_vars["hostvars"][main["host"]], main["host"])
            check_directory(directory, *_contents(directory))
            files = client_files(plan, public_keys, users, address, directory, arguments["identity_file"])
        except CoreError as error:
            return {"failed": True, "msg": f"There is no way in.\n{error}"}
        configuration = os.path.join(directory, CONFIGURATION)
        return {
            "changed": False,
            "directory": directory,
            "files": files,
            "session_id": plan["session"]["id"],
            "main_host": main["host"],
            "lines": [f"ssh -F {configuration} {replica['name']}" for replica in plan["replicas"]],
        }


def _contents(directory: str) -> tuple[list[str], str]:
    """Return what is in a folder, if there is one, and its configuration. Raises InvalidInput for what is no folder."""
    try:
        entries = os.listdir(directory)
        if CONFIGURATION not in entries:
            return entries, ""
        with open(os.path.join(directory, CONFIGURATION), encoding="utf-8", errors="replace") as file:
            return entries, file.read()
    except FileNotFoundError:
        return [], ""
    except OSError as error:
        raise InvalidInput.single("login_directory", directory, f"It cannot be read: {error}.") from error


def _record(group: GroupFacts, name: str) -> Record | None:
    """Return the record of the session of this name; of one that has ended only where there is no other."""
    found = group.cluster_state().named(name)
    order = (lambda copy: copy.status == RUNNING, lambda copy: copy.status not in ENDED, lambda _copy: True)
    return next((copy for is_meant in order for copy in found if is_meant(copy)), None)


def _check_main(group: GroupFacts, main: Mapping[str, Any]) -> None:
    """Refuse a session whose main1 is out of reach or does not run. Raises InvalidInput."""
    host = main["host"]
    if host not in group.facts:
        why = group.why_missing.get(host, "It left the resource group.")
        raise InvalidInput.single(f"host {host}", "missing", f"It runs main1, where the owner logs in. {why}")
    states = [container.state for container in group.facts[host].containers if container.name == main["container"]]
    if states != ["running"]:
        raise InvalidInput.single(
            f"container {main['container']}", (states or ["missing"])[0], "It does not run. Run the repair playbook."
        )


def _known(group: GroupFacts, plan: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return all public keys of a session, and the users of its replicas as far as hosts tell.

    A host is right about its own replicas; one that was away may know keys of others that were made anew since.
    """
    session_id = plan["session"]["id"]
    public_keys: dict[str, Any] = {}
    users: dict[str, str] = {}
    for facts in group.facts.values():
        public_keys.update(facts.public_keys.get(session_id, {}))
        users.update(facts.users.get(session_id, {}))
    for replica in plan["replicas"]:
        if replica["host"] in group.facts:
            own = group.facts[replica["host"]].public_keys.get(session_id, {})
            public_keys.update({name: keys for name, keys in own.items() if name == replica["name"]})
    return public_keys, users


def _address(variables: Mapping[str, Any], host: str) -> str:
    """Return where users reach a host: what the site says, else where Ansible does."""
    for name in ("cluster_compute_login_address", "ansible_host"):
        if is_given(variables.get(name)):
            return str(variables[name]).strip()
    return host
