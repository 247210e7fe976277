# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Note that a host failed recently for reasons of its own; stored where no disk is full and a boot removes it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..core.model.health import Suspicion
from .ledger import REMOVALS, key_of
from .state import write_file

SECONDS = 1800
"""Seconds for which a host is suspect after a failure: time for a person to check, and short enough for a mishap."""
LONGEST_REASON = 500


def _boot_clock() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class _Note(NamedTuple):
    reason: str
    since: float
    hangs: bool


class SuspicionFile:
    """One host's note of its last failure."""

    def __init__(self, state_directory: str, clock: Callable[[], float] = _boot_clock) -> None:
        self._clock = clock
        self.path = Path(REMOVALS) / f"cluster-compute-suspect-{key_of(state_directory)}.json"

    def read(self) -> Suspicion | None:
        """Return why this host is suspect, and for how long; None if it is not. A damaged note counts as none."""
        found = self._note()
        return None if found is None else Suspicion(found.reason, round(found.since + SECONDS - self._clock()))

    def hangs(self) -> bool:
        """Tell whether something of this host did not answer at its last call, so that it gets less time now."""
        found = self._note()
        return found is not None and found.hangs

    def remember(self, reason: str, hangs: bool = False) -> None:
        """Make this host suspect from now on. A note that cannot be written is skipped: it must not hide the failure.

        hangs: whether something of this host did not answer.
        """
        self._write(_Note(reason.strip()[:LONGEST_REASON], self._clock(), hangs))

    def answers_again(self) -> None:
        """Give calls their full time again; the host stays suspect for as long as it was to be."""
        if (found := self._note()) is not None:
            self._write(found._replace(hangs=False))

    def _note(self) -> _Note | None:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8", errors="replace"))
            note = _Note(str(found["reason"]), found["since"], found.get("hangs") is True)
            return note if 0 < round(note.since + SECONDS - self._clock()) <= SECONDS else None
        except (OSError, ValueError, LookupError, TypeError, OverflowError):
            return None

    def _write(self, note: _Note) -> None:
        with suppress(OSError):
            write_file(self.path, json.dumps(note._asdict()) + "\n", mode=0o600)

    def forget(self) -> bool:
        """Trust the host again; return whether it was suspect."""
        was = self.read() is not None
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        return was
