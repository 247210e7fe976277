# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Allow callbacks to read the decisions of the controller, although no result shows them (`not_shown`).

Ansible passes callbacks a copy of such a result without its values, and only then registers the values. They are
therefore read from the registered variables when the next task begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DECISION = "cluster_compute.session.session_decide"


class Decisions:
    """The last decision of a run."""

    def __init__(self) -> None:
        """Begin without a decision."""
        self._play: Any = None
        self._registered: tuple[Any, str] | None = None

    def in_play(self, play: Any) -> None:
        """Note which play begins."""
        self._play = play

    def shown(self, result: Any) -> Mapping[str, Any] | None:
        """Return the visible part of a decision in a result. None if it belongs to another task or shows nothing.

        `read` returns the rest when the next task begins.
        """
        if str(result._task.action) != DECISION:
            return None
        values: Mapping[str, Any] = result._result
        hidden = "censored" in values and self._play is not None
        self._registered = (result._host, str(result._task.register)) if hidden else None
        return None if hidden else values

    def read(self) -> Mapping[str, Any] | None:
        """Return a decision that was not shown, once. None if there is nothing new."""
        if self._registered is None:
            return None
        (host, name), self._registered = self._registered, None
        found = self._play.get_variable_manager().get_vars(play=self._play, host=host, include_hostvars=False)
        state = found.get(name)
        return state if isinstance(state, Mapping) else None
