# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Do on a host what the state of a verb names for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.action.host_preflight import ActionModule as PreflightAction
from ansible_collections.cluster_compute.session.plugins.action.session_host import ActionModule as HostAction
from ansible_collections.cluster_compute.session.plugins.action.session_images import ActionModule as ImagesAction
from ansible_collections.cluster_compute.session.plugins.action.session_output import ActionModule as OutputAction
from ansible_collections.cluster_compute.session.plugins.action.session_watch import ActionModule as WatchAction
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs.verb import calls_of, combined
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.verbs import VERBS

COLLECTION = "cluster_compute.session."
ACTIONS: dict[str, type[HostAction]] = {
    "host_preflight": PreflightAction,
    "session_images": ImagesAction,
    "session_output": OutputAction,
    "session_watch": WatchAction,
}
"""Those modules whose calls need more of the controller than to be made."""
WITH_SECRET = ("serving", "received")
"""States of session_images that need the secret from which the hosts' tokens are made; no state of a verb holds it."""


class ActionModule(ActionBase):
    """The action behind the module session_step."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of the host's calls as one; skip where the host has none."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _result, arguments = self.validate_argument_spec(
            {
                "verb": {"type": "str", "required": True, "choices": list(VERBS)},
                "step": {"type": "str"},
            }
        )
        # Nothing in a state is a template, and reading it as one would take long on each host.
        state = task_vars[f"{arguments['verb']}_state"]
        calls = []
        if state.get("step") and arguments["step"] in (None, state["step"]):
            calls = calls_of(state, task_vars["inventory_hostname"])
        if not calls:
            return {"skipped": True, "skip_reason": "This host has nothing to do in this step."}
        results: list[dict[str, Any]] = []
        for module, given, variables in calls:
            results.append(self._call(module, {**given, **self._read(variables, task_vars)}, task_vars))
            if results[-1].get("failed"):
                break
        return combined(results)

    def _read(self, variables: Mapping[str, str], task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that come from the role's variables, which may differ from host to host."""
        found = {name: reader(self._templar)(task_vars.get(variable)) for name, variable in variables.items()}
        return {name: value for name, value in found.items() if value not in (None, "")}

    def _call(self, module: str, given: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the result of the action behind a module, as if a task had named it."""
        if module == "session_images" and given.get("state") in WITH_SECRET:
            given["secret"] = reader(self._templar)(task_vars["launch_image_secret"])
        task = self._task.copy()
        task.action, task.args = COLLECTION + module, given
        action = ACTIONS.get(module, HostAction)(
            task, self._connection, self._play_context, self._loader, self._templar, self._shared_loader_obj
        )
        action.asks = False
        return dict(action.run(task_vars=task_vars))
