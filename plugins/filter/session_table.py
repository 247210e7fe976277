# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Lay out a session as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.request import DEFAULT_GROUP

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
    description: The record that M(cluster_compute.session.session_plan) returned, or null.
    type: dict
    required: true
  replicas:
    description:
      - Replicas as M(cluster_compute.session.session_host) returns them in its state V(verified).
      - Replicas of the plan that are not among them have the status C(PLANNED).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the session
  ansible.builtin.debug:
    msg: "{{ launch_plan.record | cluster_compute.session.session_table(launch_verified.replicas) }}"
"""

RETURN = r"""
_value:
  description: The lines, replicas in rank order.
  type: list
  elements: str
"""

COLUMNS = ("REPLICA", "HOST", "ADDRESS", "RANK", "STATUS")


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return *rows* as lines with aligned columns, two spaces apart."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def session_table(record: Mapping[str, Any] | None, replicas: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the table of the session of *record*, with the status that *replicas* have; none where it has no place."""
    if record is None or record["plan"] is None:
        return []
    plan = record["plan"]
    status = {one["name"]: one["status"] for one in replicas}
    rows: list[tuple[str, ...]] = [COLUMNS]
    for one in plan["replicas"]:
        state = status.get(one["name"], "PLANNED")
        rows.append((one["name"], one["host"], one["address"] or "-", str(one["rank"]), state))
    main = plan["replicas"][0]
    return [*table(rows), f"Log in on {main['host']}: docker exec -it {main['container']} /bin/sh", *_way_in(plan)]


def _way_in(plan: Mapping[str, Any]) -> list[str]:
    """Return how the owner gets the SSH configuration of a session that takes the owner's keys."""
    if plan["ssh_port"] is None:
        return []
    session = plan["session"]
    told = f"-e session_name={session['name']}"
    if session["resource_group"] != DEFAULT_GROUP:
        told += f" -e session_resource_group={session['resource_group']}"
    host = plan["replicas"][0]["host"]
    where = f"port {plan['ssh_port']} of {host}"
    return [f"Log in with your key, {where}: ansible-playbook cluster_compute.session.login {told}"]


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"session_table": session_table}
