# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Return the SSH client configuration for the owner of a session, on the controller."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import GroupFacts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    FactsAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.client_configuration import (
    CONFIGURATION,
    check_directory,
    client_files,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.login import (
    find_login,
    login_address,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.plugin_utils.controller_action import ControllerAction
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import PlainHosts, reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import read_asker


class ActionModule(ControllerAction):
    """The action behind the module session_login."""

    OPTIONS: ClassVar[Mapping[str, object]] = {
        "hosts": {"type": "dict", "required": True},
        "session_name": {"type": "str", "required": True},
        "resource_group": {"type": "str", "required": True},
        "directory": {"type": "str", "required": True},
        "identity_file": {"type": "str", "default": ""},
    }
    REFUSED = "Login is not possible."
    reads_all_hosts = True

    def answer(self, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> Mapping[str, object]:
        """Return the two files and how to use them. Fails for a session to which no user can log in."""
        hostvars = PlainHosts(variables["hostvars"])
        directory = os.path.abspath(os.path.expanduser(arguments["directory"]))
        asker = read_asker(variables, reader(self._templar))
        group = GroupFacts.read(read_answers(FactsAnswer, arguments["hosts"]), hostvars)
        login = find_login(group, arguments["session_name"], arguments["resource_group"], asker)
        main_host = login.plan.replicas[0].host
        address = login_address(hostvars[main_host], main_host)
        check_directory(directory, *_contents(directory))
        identity_file = arguments["identity_file"]
        files = client_files(login.plan, login.public_keys, login.users, address, directory, identity_file)
        configuration = os.path.join(directory, CONFIGURATION)
        return {
            "directory": directory,
            "files": files,
            "session_id": login.plan.session.id,
            "main_host": main_host,
            "lines": [f"ssh -F {configuration} {replica.name}" for replica in login.plan.replicas],
        }


def _contents(directory: str) -> tuple[list[str], str]:
    """Return the content of a directory, if it exists, and its configuration. Raises InvalidInput for a
    non-directory."""
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
