# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Report the outcome of a verb without a state to the receiver of events, on the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    DrainAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.events import (
    DRAIN,
    UNDRAIN,
    drained,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import spoken
from ansible_collections.cluster_compute.session.plugins.plugin_utils.controller_action import ControllerAction
from ansible_collections.cluster_compute.session.plugins.plugin_utils.events import (
    EVENT,
    handed_on,
    read_receiver,
    send,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import reader


class ActionModule(ControllerAction):
    """The action behind the module session_event."""

    OPTIONS: ClassVar[Mapping[str, object]] = {
        "verb": {"type": "str", "required": True, "choices": [DRAIN, UNDRAIN]},
        "answers": {"type": "dict"},
        "wait_seconds": {"type": "int", "default": 0},
        "failures": {"type": "list", "elements": "str", "default": []},
    }
    reads_all_hosts = True

    def answer(self, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> Mapping[str, object]:
        """Send the event and return why the verb failed, if it did. Fails if the receiver is not valid."""
        checks = bool(self._task.check_mode)
        receiver = read_receiver(variables, reader(self._templar))
        if arguments["answers"] is None:
            return {"failures": []}
        answers = read_answers(DrainAnswer, arguments["answers"])
        wait_seconds = 0 if checks else arguments["wait_seconds"]  # no host waits in check mode
        event, failures = drained(arguments["verb"], answers, wait_seconds, arguments["failures"])
        result = {"failures": spoken(failures)}
        if checks:
            return result
        if receiver is not None:
            send(receiver, event, variables, reader(self._templar))
        return {**result, **handed_on({EVENT: event})}
