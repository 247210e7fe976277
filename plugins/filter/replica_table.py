# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Lay out the replicas of a session as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

DOCUMENTATION = r"""
name: replica_table
short_description: Lay out the replicas of a session as a table
version_added: 0.1.0
author:
  - The cluster_compute.session authors (@cluster-compute)
description:
  - Turns replicas into the lines of a table with the columns replica, host, address, rank and status.
options:
  _input:
    description: Replicas, each with C(name), C(host), C(address), C(rank) and C(status).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the session
  ansible.builtin.debug:
    msg: "{{ replicas | cluster_compute.session.replica_table }}"
"""

RETURN = r"""
_value:
  description: The lines, in rank order, the first with the names of the columns.
  type: list
  elements: str
"""

COLUMNS = ("replica", "host", "address", "rank", "status")


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return *rows* as lines with aligned columns, two spaces apart."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def replica_table(replicas: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a table of *replicas*, in rank order."""
    rows: list[tuple[str, ...]] = [tuple(name.upper() for name in COLUMNS)]
    for one in sorted(replicas, key=lambda replica: int(replica["rank"])):
        cells = (one["name"], one["host"], one.get("address") or "-", one["rank"], one.get("status", "PLANNED"))
        rows.append(tuple(str(cell) for cell in cells))
    return table(rows)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"replica_table": replica_table}
