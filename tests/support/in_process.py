# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Call action plugins of the collection as a task does, without a playbook and without a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.loader import connection_loader
from ansible.template import Templar


def run_action(
    action: type, arguments: Mapping[str, Any], variables: Mapping[str, Any], *, check_mode: bool = False
) -> dict[str, Any]:
    """Return the result of a task with these arguments, for which Ansible has these variables."""
    loader = DataLoader()
    task = Task()
    task.args = dict(arguments)
    task.check_mode = check_mode
    context = PlayContext()
    plugin = action(
        task=task,
        connection=connection_loader.get("local", context),
        play_context=context,
        loader=loader,
        templar=Templar(loader=loader, variables=dict(variables)),
        shared_loader_obj=None,
    )
    result: dict[str, Any] = plugin.run(task_vars=dict(variables))
    return result
