# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run a module on a host whose SSH server may be too busy to let everybody in at once.

Many launches at the same moment open more connections than an SSH server takes (sshd_config(5): MaxStartups,
MaxSessions). It then closes some of them before a word was said, and to Ansible the host looks unreachable although
nothing is wrong with it. Only this case is tried again: nothing has run on the host yet, and a host that is down says
so in other words and at once.
"""

from __future__ import annotations

import random
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible.utils.display import Display
from ansible_collections.cluster_compute.session.plugins.plugin_utils.answers import of_broken_module

TURNED_AWAY = "exchange_identification:"
"""What ssh(1) says where the server closed the connection before both sides had told who they are."""
PROXIED = "UNKNOWN port"
"""What it adds where a proxy was in between, whose end may have any reason."""
TRIES = 12
PAUSE = (0.2, 0.8)
"""Seconds, from and to, by which the pauses grow; by chance, so that those who met do not meet again."""


class ActionModule(NormalAction):
    """The action behind session_host and, by meta/runtime.yml, all other modules that work on the hosts of sessions."""

    def _remove_tmp_path(self, tmp_path: str, force: bool = False) -> None:
        """Remove the module's folder, which Ansible does when the module has run."""
        self._has_run = True
        super()._remove_tmp_path(tmp_path, force)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result. Raises AnsibleConnectionFailure where the host stays out of reach."""
        self._has_run = False
        for number in range(1, TRIES):
            try:
                return self._told(super().run(tmp, task_vars))
            except AnsibleConnectionFailure as error:
                if TURNED_AWAY not in str(error) or PROXIED in str(error) or self._has_run:
                    raise
                Display().v("The SSH server is too busy and turned the connection away; trying again.")
            time.sleep(number * random.uniform(*PAUSE))  # noqa: S311 - spreads tries, guards no secret
        return self._told(super().run(tmp, task_vars))

    def _told(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result that says in words why it is one of a module that broke down."""
        why = of_broken_module(result, self._task.action)
        return {**result, "msg": why} if why else result
