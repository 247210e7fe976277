# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Detect that another host has given up its part while this host waits for the rest of a starting session."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from time import monotonic

from ..adapters import questions
from ..adapters.questions import Question
from ..core.model.plan import Plan
from ..core.rules.membership import WAITING
from .membership import questions_of
from .verify import PeersSilent

FIRST = 1.0
"""Seconds after which to contact the peers. Most sessions have started by then."""
THREAD = "asking peers"
LONGEST_PAUSE = 8.0
"""Maximum seconds between two requests, starting at one, because many hosts contact each other."""


class Peers:
    """The other hosts of a session, which are contacted while the caller waits."""

    def __init__(self, plan: Plan, host: str) -> None:
        self._questions = questions_of(plan, host, WAITING)
        self._answers: Mapping[Question, bool] = {}
        self._thread: threading.Thread | None = None
        self._next = monotonic() + FIRST
        self._pause = 1.0

    def check(self) -> None:
        """Contact the hosts when it is time. Raises PeersSilent if one has answered that it gave up."""
        if given_up := [name for name, asked in self._questions.items() if self._answers.get(asked) is False]:
            raise PeersSilent(f"The session could not be started on {', '.join(given_up)}.")
        is_asking = self._thread is not None and self._thread.is_alive()
        if self._questions and not is_asking and monotonic() >= self._next:
            self._next = monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            # A daemon, so that the waiting call can end without it.
            self._thread = threading.Thread(target=self._ask, name=THREAD, daemon=True)
            self._thread.start()

    def _ask(self) -> None:
        self._answers = questions.ask(self._questions.values(), questions.SECONDS)
