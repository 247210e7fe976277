# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Check a request for output of a session, and show and save what hosts have read, on the controller."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    OutputAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.output import LogsRequest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.verb_state import (
    LogsState,
    read_state,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.near_misses import (
    slips_of_prefix,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import (
    files_of,
    merge,
    parse_logs_request,
    shown,
    speaker,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    spoken,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import logs
from ansible_collections.cluster_compute.session.plugins.plugin_utils.controller_action import ControllerAction
from ansible_collections.cluster_compute.session.plugins.plugin_utils.owner_files import write_for_owner
from ansible_collections.cluster_compute.session.plugins.plugin_utils.plain import reader
from ansible_collections.cluster_compute.session.plugins.plugin_utils.request_variables import group_variables

PREFIX = "logs_"


class ActionModule(ControllerAction):
    """The action behind the module session_logs."""

    OPTIONS: ClassVar[Mapping[str, object]] = {
        "state": {"type": "str", "choices": ["checked", "shown"], "required": True}
    }
    REFUSED = logs.REFUSED

    def answer(self, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> Mapping[str, object]:
        """Return the request, or show what hosts have read."""
        if arguments["state"] == "checked":
            return {"request": encode(self._checked(variables))}
        return self._shown(read_state(LogsState, variables["logs_state"]), variables["hostvars"])

    def _checked(self, task_vars: Mapping[str, Any]) -> LogsRequest:
        _group, variables = group_variables(PREFIX, task_vars, reader(self._templar))
        slips = slips_of_prefix(load_extra_vars(self._loader), PREFIX, [field.name for field in fields(LogsRequest)])
        if slips:
            raise InvalidInput(slips)
        return parse_logs_request(variables)

    def _shown(self, state: LogsState, hostvars: Any) -> Mapping[str, object]:
        request = state.request
        results = {host: hostvars.raw_get(host).get("logs_answer") or {} for host in state.hosts}
        answers = read_answers(OutputAnswer, results).values()
        sources = [source for answer in answers for source in answer.sources or ()]
        lines = merge(sources)
        if not request.follow_seconds:
            width = max((len(speaker(source)) for source in sources), default=0)
            for time, name, stream, text in lines:
                Display().display(shown(name, width, stream, text, time if request.timestamps else ""))
        files = files_of(sources, lines) if request.directory else {}
        changed = False
        if files:
            changed = _save(os.path.abspath(os.path.expanduser(request.directory)), files, self._task.check_mode)
        return {"changed": changed, "notes": spoken(state.notes), "files": sorted(files), "lines": len(lines)}


def _save(directory: str, files: Mapping[str, str], check_mode: bool) -> bool:
    """Write the files and return whether that changed anything. Raises InvalidInput if they cannot be written."""
    changed = False
    try:
        for name, text in files.items():
            path = os.path.join(directory, name)
            content = text.encode("utf-8", "backslashreplace")
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    if file.read() == content:
                        continue
            changed = True
            if not check_mode:
                write_for_owner(path, content)
    except OSError as error:
        raise InvalidInput.single("logs_directory", directory, f"Nothing can be saved there: {error}.") from error
    return changed
