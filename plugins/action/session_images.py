# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Give the module session_images what only the controller has: logins of registries, tokens, the archive of images."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.cluster_compute.session.plugins.action.session_host import ActionModule as HostAction
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.call_limits import (
    ANSWER_SECONDS,
    seconds_for,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.images import (
    REGISTRIES,
    parse_registries,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.values.errors import CoreError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.values.image_names import registry_of
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import reader


class ActionModule(HostAction):
    """The action behind the module session_images."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result."""
        task_vars = task_vars or {}
        given = dict(self._task.args)
        secret = str(given.pop("secret", ""))
        state = given.get("state")
        try:
            if state in ("resolved", "pulled"):
                given["logins"] = json.dumps(self._logins(given, task_vars))
        except CoreError as error:
            return {"failed": True, "msg": str(error)}
        if state in ("serving", "received"):
            transfer = given["transfer"]
            both = f"{transfer['sender']} {transfer['receiver']} {transfer['image']}"
            given["token"] = hmac.new(secret.encode(), both.encode(), hashlib.sha256).hexdigest()
        if state == "loaded" and not self._task.check_mode:
            self._get_ready(self._python(task_vars))
            problem = self._bring(given)
            if problem:
                return {"failed": True, "msg": problem}
        self._task.args = given
        return super().run(tmp, task_vars)

    def _logins(self, given: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, dict[str, str]]:
        """Return the logins of those registries that are asked now. Raises InvalidInput."""
        known = parse_registries(reader(self._templar)(task_vars.get(REGISTRIES)))
        references = [*given.get("images", ()), *(pull["digest"] for pull in given.get("pulls", ()))]
        return {name: known[name] for name in sorted(set(map(registry_of, references))) if name in known}

    def _bring(self, given: dict[str, Any]) -> str:
        """Copy the archive into the folder that Ansible removes after the module; return why that failed."""
        path = str(given["archive"])
        if not os.path.isfile(path):
            return f"session_image_archive is {path!r}: The controller has no such file any more."
        with self._waiting(ANSWER_SECONDS):
            self._make_tmp_path()
        folder = self._connection._shell.tmpdir
        there = self._connection._shell.join_path(folder, "images.tar")
        try:
            with self._waiting(seconds_for("session_images", given), folder):
                self._transfer_file(path, there)
                self._fixup_perms2((folder, there))
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as error:
            return f"The archive {path} could not be copied to this host: {error}"
        given["archive"] = there
        return ""
