# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Report the outcome of a verb without a state to the receiver of events, on the controller."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    DrainAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.events import (
    DRAIN,
    UNDRAIN,
    drained,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    spoken,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.events import (
    EVENT,
    handed_on,
    read_receiver,
    send,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.lockstep import refusal
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import reader


class ActionModule(ActionBase):
    """The action behind the module session_event."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send the event and return why the verb failed, if it did. Fails if the receiver is not valid."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        refused = refusal(self._task, task_vars)
        if refused is not None:
            return {"failed": True, "msg": refused}
        checks = bool(self._task.check_mode)
        _result, arguments = self.validate_argument_spec(
            {
                "verb": {"type": "str", "required": True, "choices": [DRAIN, UNDRAIN]},
                "answers": {"type": "dict"},
                "wait_seconds": {"type": "int", "default": 0},
                "failures": {"type": "list", "elements": "str", "default": []},
            }
        )
        try:
            receiver = read_receiver(task_vars, reader(self._templar))
        except InvalidInput as error:
            return {"failed": True, "msg": str(error)}
        if arguments["answers"] is None:
            return {"changed": False, "failures": []}
        answers = read_answers(DrainAnswer, arguments["answers"])
        wait_seconds = 0 if checks else arguments["wait_seconds"]  # no host waits in check mode
        event, failures = drained(arguments["verb"], answers, wait_seconds, arguments["failures"])
        result = {"changed": False, "failures": spoken(failures)}
        if checks:
            return result
        if receiver is not None:
            send(receiver, event, task_vars, reader(self._templar))
        return {**result, **handed_on({EVENT: event})}
