# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Lay out a session as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.show.outcome import table_of

DOCUMENTATION = r"""
name: session_table
short_description: Lay out a session as a table
version_added: 0.1.0
author:
  - The cluster_compute.session authors (@cluster-compute)
description:
  - Turns a placed session into the lines of a table with the columns replica, host, address, rank and status, and a
    line or two that say how to log in. A session without a place has no lines.
options:
  _input:
    description: The record that M(cluster_compute.session.session_decide) returned, or null.
    type: dict
    required: true
  replicas:
    description:
      - Replicas as M(cluster_compute.session.session_host) returns them in its states V(started) and V(verified).
      - Replicas of the plan that are not among them have the status C(PLANNED).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the session
  ansible.builtin.debug:
    msg: "{{ launch_state.record | cluster_compute.session.session_table(launch_state.replicas) }}"
"""

RETURN = r"""
_value:
  description: The lines, replicas in rank order.
  type: list
  elements: str
"""


def session_table(record: Mapping[str, Any] | None, replicas: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the table of the session of *record*, with the status that *replicas* have; none where it has no place."""
    return table_of(record, replicas)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"session_table": session_table}
