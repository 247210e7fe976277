# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Find out if the hosts of a play wait for each other, which is needed to read the answers of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OUT_OF_STEP = ("free", "host_pinned", "mitogen_free", "mitogen_host_pinned")
"""Strategies in which each host continues by itself. Answers of other hosts may be missing, and run_once is ignored."""


def refusal(task: Any, task_vars: Mapping[str, Any]) -> str | None:
    """Return why this task cannot act for all hosts of its play. None if it can.

    The collection's own plays set their strategy. A site's play that uses a role has the strategy of the site's
    settings.
    """
    if getattr(task, "_parent", None) is None or len(task_vars.get("ansible_play_hosts_all") or ()) < 2:
        return None
    strategy = str(task.get_play().strategy)
    if strategy.rpartition(".")[2] not in OUT_OF_STEP:
        return None
    return (
        f"The strategy of this play is {strategy}, under which hosts do not wait for each other, so nothing can be "
        'decided for all of them. Write "strategy: ansible.builtin.linear" into the play.'
    )
