# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Show the queue of a resource group as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import spoken

DOCUMENTATION = r"""
name: queue_table
short_description: Show the queue of a resource group as lines of text
version_added: 1.0.0
author: The cluster_compute.session authors
description:
  - Returns one line for each session with position, name, owner and the owner's share of use, priority and size,
    followed by the reason why it waits. Sessions that wait in other resource groups come last, without a position.
options:
  _input:
    description: The queue as the role C(schedule) returns it.
    type: list
    elements: dict
    required: true
  elsewhere:
    description: Sessions that wait in other resource groups on the same hosts, as the role C(schedule) returns them.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Show the queue
  ansible.builtin.debug:
    msg: "{{ schedule_queue.queue | cluster_compute.session.queue_table(schedule_queue.elsewhere) }}"
"""

RETURN = r"""
_value:
  description: The lines, in the order of the queue.
  type: list
  elements: str
"""


def queue_table(queue: Sequence[Mapping[str, Any]], elsewhere: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Return the lines that show *queue*, and the sessions that wait in other resource groups."""
    lines = []
    for entry in queue:
        size = "1 replica" if entry["size"] == 1 else f"{entry['size']} replicas"
        owner = entry["owner"] if entry["share"] is None else f"{entry['owner']} ({entry['share']} % of use)"
        lines.append(f"{entry['position']}. {entry['session_name']} of {owner}, priority {entry['priority']}, {size}")
        lines += [f"   {line}" for line in entry["reason"]]
    others = [
        line
        for entry in elsewhere
        for line in (
            f"Waiting elsewhere: {entry['session_name']} of {entry['owner']}, in resource group "
            f"{entry['resource_group']}",
            *(f"   {line}" for line in entry["reason"]),
        )
    ]
    return list(spoken([*(lines or ["The queue is empty."]), *others]))


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"queue_table": queue_table}
