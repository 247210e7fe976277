# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The lines of a run for people: steps, answers and failures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import Any

WIDTH = 68
"""Columns of a step's name before its time."""
_OUTPUT_LINES = 20
"""The most lines of a failed program's output."""


def step_line(name: str, seconds: float, has_failed: bool, encoding: str) -> str:
    """Return the line of a step that has ended, with marks that the terminal can show."""
    good, bad = ("✓", "✗") if encoding.lower().startswith("utf") else ("ok", "FAILED")
    return f"{bad if has_failed else good} {name:<{WIDTH}} {seconds:6.1f} s"


def lines_of(message: object) -> list[str]:
    """Return what a task reports as lines: text and lists of text as they are, anything else as JSON."""
    if isinstance(message, str):
        return message.splitlines()
    if isinstance(message, (list, tuple)) and all(isinstance(line, str) for line in message):
        return [part for line in message for part in (line.splitlines() or [""])]
    return json.dumps(message, indent=2, ensure_ascii=False, default=str).splitlines()


def failure_text(values: Mapping[str, Any]) -> str:
    """Return why a task failed, with the end of what its program wrote."""
    if values.get("unreachable"):
        return f"It cannot be reached: {values.get('msg', '')}".strip()
    text = str(values.get("msg") or values.get("censored") or values.get("reason") or "It failed.")
    output = str(values.get("module_stderr") or values.get("stderr") or values.get("stdout") or "").strip()
    if output and output not in text:
        text = "\n".join([text, *output.splitlines()[-_OUTPUT_LINES:]])
    return text


class Problems:
    """Failures of the current task, each once, with the hosts that have it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._found: dict[tuple[str, bool], list[str]] = {}
        self._items: set[str] = set()

    @property
    def are_any(self) -> bool:
        """Whether there are any to show."""
        return bool(self._found)

    def add(self, host: str, values: Mapping[str, Any], *, handled: bool, is_item: bool = False) -> None:
        """Add a failure. host: empty for one that is of no host in particular."""
        hosts = self._found.setdefault((failure_text(values), handled), [])
        if host and host not in hosts:
            hosts.append(host)
        if is_item:
            self._items.add(host)

    def has_items_of(self, host: str) -> bool:
        """Tell whether failures of a host's loop were added, turn by turn."""
        return host in self._items or "" in self._items

    def lines(self, play_hosts: Set[str]) -> list[str]:
        """Return the lines of all failures, and forget these. play_hosts: those that take part."""
        lines = []
        for (text, handled), hosts in self._found.items():
            named = f"{', '.join(hosts)}: " if hosts and set(hosts) != {"localhost"} else ""
            if len(hosts) > 1 and set(hosts) == play_hosts:
                named = "all hosts: "
            lines += f"{'Note: ' if handled else ''}{named}{text}".splitlines()
        self._found, self._items = {}, set()
        return lines
