# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run the calls to a host that the state of a verb names.

Three of the calls need something from the controller: its clock, its secrets and files, or the other hosts.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.cluster_compute.session.plugins.action.session_host import ActionModule as HostAction
from ansible_collections.cluster_compute.session.plugins.action.session_output import ActionModule as OutputAction
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import CONTROLLER
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.call_limits import (
    ANSWER_SECONDS,
    seconds_for,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.images import (
    REGISTRIES,
    parse_registries,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import CoreError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.image_names import (
    is_pack,
    registry_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    HostCall,
    calls_of,
    combined,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.controller_images import save_image
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.verbs import VERBS
from ansible_collections.cluster_compute.session.plugins.plugin_utils.workdir import write_pack

COLLECTION = "cluster_compute.session."
SLICE = 5.0
"""Seconds for which a host watches in one call, and the longest time for which others watch after one has changed."""
OTHER_NAMES = {"env": "job_env", "timeout": "launch_ready_timeout"}
"""Arguments whose variables have another name than the role and the argument."""
WITH_SECRET = ("serving", "received")
"""States of session_images that need the secret for the hosts' tokens, which no state of a verb contains."""


def variable_of(role: str, name: str) -> str:
    """Return the variable of a verb's role that gives an argument of a call."""
    return OTHER_NAMES.get(name) or f"{role}_{name}"


class PreflightCall(HostAction):
    """The call host_preflight: notes the time on the controller before and after it."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer, and the times between which the host read its clock."""
        before = time.time()
        result = super().run(tmp, task_vars)
        return {**result, "controller": [before, time.time()]}


class ImagesCall(HostAction):
    """The call session_images: adds logins of registries, tokens, and the archive of images."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer."""
        task_vars = task_vars or {}
        given = dict(self._task.args)
        secret = str(given.pop("secret", ""))
        state = given.get("state")
        try:
            if state in ("resolved", "pulled"):
                references = [*given.get("images", ()), *(pull["digest"] for pull in given.get("pulls", ()))]
                given["logins"] = json.dumps(self._logins(references, task_vars.get(REGISTRIES)))
            if state in WITH_SECRET:
                transfer = given["transfer"]
                both = f"{transfer['sender']} {transfer['receiver']} {transfer['image']}"
                given["token"] = hmac.new(secret.encode(), both.encode(), hashlib.sha256).hexdigest()
            if state == "loaded" and not self._task.check_mode:
                self._get_ready(self._python(task_vars))
                path = str(given["archive"])
                if is_pack(given["transfer"]["reference"]):
                    path = write_pack(path, given["transfer"]["reference"], constants.DEFAULT_LOCAL_TMP)
                elif path == CONTROLLER:
                    path = save_image(given["transfer"]["reference"], constants.DEFAULT_LOCAL_TMP, Display().display)
                given["archive"] = self._bring(path, seconds_for("session_images", given))
        except CoreError as error:
            return {"failed": True, "msg": str(error)}
        self._task.args = given
        return super().run(tmp, task_vars)

    def _logins(self, references: Iterable[str], registries: object) -> dict[str, dict[str, str]]:
        """Return the logins of the registries that are used now. registries: of the site. Raises InvalidInput."""
        known = parse_registries(reader(self._templar)(registries))
        return {name: known[name] for name in sorted(set(map(registry_of, references))) if name in known}

    def _bring(self, path: str, seconds: float) -> str:
        """Copy the archive into the directory that Ansible removes after the module, and return its path there.

        seconds: how long that may take. Raises CoreError.
        """
        if not os.path.isfile(path):
            raise CoreError(f"session_image_archive is {path!r}: The controller has no such file any more.")
        with self._waiting(ANSWER_SECONDS):
            self._make_tmp_path()
        folder = self._connection._shell.tmpdir
        there = str(self._connection._shell.join_path(folder, "images.tar"))
        try:
            with self._waiting(seconds, folder):
                self._transfer_file(path, there)
                self._fixup_perms2((folder, there))
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as error:
            raise CoreError(f"The archive {path} could not be copied to this host: {error}") from error
        return there


class WatchCall(HostAction):
    """The call session_watch: hosts watch in parallel, and the first one that changes ends it for all.

    They meet in the directory that all workers of one ansible-playbook share on the controller.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the last answer of the host."""
        arguments = dict(self._task.args)
        begin = time.monotonic()
        deadline = begin + float(arguments["seconds"])
        pause = begin + float(arguments.get("pause", 1))
        rendezvous = Path(constants.DEFAULT_LOCAL_TMP) / f"watch-{arguments['rendezvous_key']}"
        result: dict[str, Any] = {"changed": False, "moved": False}
        while not rendezvous.exists() and time.monotonic() < deadline:
            seconds = max(0.1, min(SLICE, deadline - time.monotonic()))
            self._task.args = {**arguments, "seconds": seconds}
            result = super().run(tmp, task_vars)
            if result.get("moved") or result.get("failed"):
                rendezvous.touch()
        time.sleep(max(0.0, min(pause, deadline) - time.monotonic()))
        return result


ACTIONS: dict[str, type[HostAction]] = {
    "host_preflight": PreflightCall,
    "session_images": ImagesCall,
    "session_output": OutputAction,
    "session_watch": WatchCall,
}
"""The calls that need something from the controller."""


class ActionModule(ActionBase):
    """The action behind the module session_step."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the results of the host's calls as one. Skips a host without calls."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _result, arguments = self.validate_argument_spec(
            {
                "verb": {"type": "str", "required": True, "choices": list(VERBS)},
                "step": {"type": "str"},
            }
        )
        # Nothing in a state is a template, and templating it would take long on each host.
        state = task_vars[f"{arguments['verb']}_state"]
        calls: list[HostCall] = []
        if state.get("step") and arguments["step"] in (None, state["step"]):
            calls = calls_of(state, task_vars["inventory_hostname"])
        if not calls:
            return {"skipped": True, "skip_reason": "This host has nothing to do in this step."}
        results: list[Mapping[str, Any]] = []
        for step_call in calls:
            variables = {name: variable_of(arguments["verb"], name) for name in step_call.of_role}
            given = {**step_call.arguments, **self._read(variables, task_vars)}
            results.append(self._call(step_call.module, given, task_vars))
            if results[-1].get("failed"):
                break
        return combined(results)

    def _read(self, variables: Mapping[str, str], task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that come from the role's variables, which may differ from host to host."""
        found = {name: reader(self._templar)(task_vars.get(variable)) for name, variable in variables.items()}
        return {name: value for name, value in found.items() if value not in (None, "")}

    def _call(self, module: str, given: dict[str, Any], task_vars: dict[str, Any]) -> Mapping[str, Any]:
        """Return the result of the action behind a module, as if a task had called it."""
        if module == "session_images" and given.get("state") in WITH_SECRET:
            given["secret"] = reader(self._templar)(task_vars["launch_image_secret"])
        task = self._task.copy()
        task.action, task.args = COLLECTION + module, given
        action = ACTIONS.get(module, HostAction)(
            task, self._connection, self._play_context, self._loader, self._templar, self._shared_loader_obj
        )
        action.asks = False
        return dict(action.run(task_vars=task_vars))
