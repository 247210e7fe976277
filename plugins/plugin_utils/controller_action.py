# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The base of actions that work on the controller alone: options are checked, and errors become results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible.plugins.action import ActionBase

from ..module_utils._internal.core.values.errors import CoreError
from .lockstep import refusal


class ControllerAction(ActionBase):  # type: ignore[misc] # Ansible has no types
    """An action on the controller."""

    _requires_connection = False
    _supports_check_mode = True
    OPTIONS: ClassVar[Mapping[str, object]] = {}
    """Its options, as Ansible describes them."""
    REFUSED = ""
    """The line before the reason for which it fails."""
    reads_all_hosts = False
    """Whether it reads the answers of all hosts of its play, which then have to wait for each other."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer. Fails if it cannot act in this play, and with the reason of a CoreError."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        refused = refusal(self._task, variables) if self.reads_all_hosts else None
        if refused is not None:
            return {"failed": True, "msg": refused}
        _result, arguments = self.validate_argument_spec(self.OPTIONS)
        try:
            return {"changed": False, **self.answer(arguments, variables)}
        except CoreError as error:
            return {"failed": True, "msg": f"{self.REFUSED}\n{error}".lstrip()}

    @abstractmethod
    def answer(self, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> Mapping[str, object]:
        """Return the result for checked *arguments*. variables: of the task. Raises CoreError."""
