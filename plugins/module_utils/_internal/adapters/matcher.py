# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Match lines against a regular expression of a user, with a time limit.

Some expressions take forever on some lines, and users choose both. Python cannot be relied upon to interrupt its own
engine, which often does not check for signals. So a process of its own matches, and is killed.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ..core.rules.output import Line
from ..core.values.errors import SessionError

SECONDS = 30.0
"""Total seconds that one call waits for its matches; ordinary expressions take a second for some 100 MB."""
MOST_LINES = 1000
MOST_CHARACTERS = 1024**2
"""Size of one batch. A batch is answered before the next is sent, so that neither side waits for a full pipe."""

# The limits end it even if the process that started it was killed: processor time in seconds, and memory in bytes.
_PROGRAM = """
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]),) * 2)
resource.setrlimit(resource.RLIMIT_AS, (2**30,) * 2)
search = re.compile(json.loads(sys.stdin.readline())).search
for batch in sys.stdin:
    print(json.dumps([number for number, text in enumerate(json.loads(batch)) if search(text)]), flush=True)
"""


class MatchError(SessionError):
    """The lines could not be matched within the time."""


class Matcher:
    """Picks the lines that match a regular expression. Its process starts with the first line."""

    def __init__(self, expression: str, seconds: float = SECONDS) -> None:
        self._expression = expression
        self._seconds = seconds
        self._left = seconds
        self._process: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def matching(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield the lines that match. Raises MatchError when the time of all calls together is over."""
        batch: list[Line] = []
        characters = 0
        for line in lines:
            batch.append(line)
            characters += len(line[2])
            if len(batch) >= MOST_LINES or characters >= MOST_CHARACTERS:
                yield from self._pick(batch)
                batch, characters = [], 0
        if batch:
            yield from self._pick(batch)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            process, connection = self._process
            process.kill()
            process.wait()
            connection.close()
            self._process = None

    def _pick(self, batch: list[Line]) -> list[Line]:
        begin = time.monotonic()
        if self._process is None:
            self._process = self._start()
        connection = self._process[1]
        answer = b""
        with suppress(OSError):  # the time is over, or the process ended
            connection.settimeout(self._left)
            connection.sendall(_packed([line[2] for line in batch]))
            while not answer.endswith(b"\n"):
                connection.settimeout(max(0.001, begin + self._left - time.monotonic()))
                answer += connection.recv(2**16) or b"\n"
        self._left = max(0.001, begin + self._left - time.monotonic())
        if not answer.endswith(b"]\n"):
            self.close()
            raise MatchError(
                f"Looking for logs_grep in the lines that were written was ended: it took more than "
                f"{self._seconds:.0f} seconds on this host, or more than 1 GiB of memory. Give an expression in which "
                "no repetition holds another one, such as a+$ in place of (a+)+$, or fewer lines with logs_since."
            )
        return [batch[number] for number in json.loads(answer)]

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(int(self._seconds) + 1)]
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.DEVNULL)  # pylint: disable=ansible-bad-function
        ours.sendall(_packed(self._expression))
        return process, ours


def _packed(value: object) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"
