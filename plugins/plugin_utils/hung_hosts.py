# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Store which hosts did not answer this controller recently, so that the next run waits less for them.

A host whose SSH server or disk hangs cannot store this itself. A controller without permanent storage, such as an AWX
execution environment, waits as long as the first time in every run.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FOLDER = "cluster-compute-hung"
"""Below Ansible's home (`ANSIBLE_HOME`)."""
SECONDS = 1800
"""Seconds for which a host is suspect, the same as on the host itself (`adapters.suspicion`)."""
LONGEST_REASON = 500


@dataclass(frozen=True)
class Hang:
    """A host did not answer. left: seconds for which it is suspect. answers: whether it has answered since."""

    reason: str
    left: int
    answers: bool


class HangNote:
    """The note of this controller about one host."""

    def __init__(self, home: str, host: str, clock: Callable[[], float] = time.time) -> None:
        """home: Ansible's own directory of this user. host: how it is reached, whatever its name in inventories."""
        name = hashlib.sha256(host.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._path = Path(home).expanduser() / FOLDER / name
        self._clock = clock

    def read(self) -> Hang | None:
        """Return the note, None if there is none. A damaged note counts as none."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            left = round(found["since"] + SECONDS - self._clock())
            if 0 < left <= SECONDS:
                return Hang(str(found["reason"]), left, found["answers"] is True)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, OverflowError):
            pass
        self.forget()
        return None

    def remember(self, reason: str) -> None:
        """Note that the host did not answer. Does nothing on a controller that cannot store it."""
        self._write({"since": self._clock(), "reason": reason.strip()[:LONGEST_REASON], "answers": False})

    def answers_again(self) -> None:
        """Note that the host has answered since. It still stays suspect for the full time."""
        found = self.read()
        if found is not None and not found.answers:
            since = self._clock() + found.left - SECONDS
            self._write({"since": since, "reason": found.reason, "answers": True})

    def forget(self) -> None:
        """Trust the host again."""
        with suppress(OSError):
            self._path.unlink()

    def _write(self, content: dict[str, object]) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            number, aside = tempfile.mkstemp(dir=self._path.parent)
            with os.fdopen(number, "w", encoding="utf-8") as file:
                json.dump(content, file)
            Path(aside).replace(self._path)
