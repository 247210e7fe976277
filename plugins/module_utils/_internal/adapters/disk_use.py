# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Count what directories contain with du(1), which continues if it needs longer than the caller waits.

The next check uses the count that was begun, so neither many files nor a slow disk prevent a result. The state of a
count is stored below /run and is gone with the boot.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..core.values.deferred import dataclass
from ..core.values.errors import SessionError
from .background import seconds_used, start_of

COUNTS = "/run/cluster-compute-du"
FRESH = 300.0
"""Seconds for which a finished count is valid."""
PAUSE = 0.01, 0.5
"""Shortest and longest time in seconds between two checks whether a count has ended."""


class NotCounted(SessionError):
    """A count has not ended yet, and continues. work: seconds of processor time that it has taken."""

    def __init__(self, message: str, work: float) -> None:
        super().__init__(message)
        self.work = work


@dataclass(frozen=True)
class _Running:
    """The du that counts. start: when it was started (proc(5), stat), to distinguish it from a later process."""

    pid: int
    start: int

    @property
    def is_there(self) -> bool:
        """Whether this du still runs."""
        return start_of(self.pid) == self.start


def count(folder: str, unit: str, seconds: float) -> int:
    """Return the size of a folder within one file system, even if files are made or removed there meanwhile.

    unit: ``--block-size=1`` or ``--inodes``. Raises NotCounted if that takes longer than *seconds*,
    FileNotFoundError if the folder is gone, SessionError if du does not report it.
    """
    with _kept(folder, unit) as place:
        running = _known(place)
        if running is None:
            running = _begin(place, folder, unit)
    _await(running, seconds)
    if running.is_there:
        work = seconds_used(running.pid)
        raise NotCounted(
            f"du has not come to the end of {folder} within {seconds:.0f} seconds, after {work:.0f} seconds of work in "
            "all; it goes on",
            work,
        )
    with _kept(folder, unit) as place:
        written, said = (_text(place.with_suffix(suffix)) for suffix in (".out", ".err"))
        _forget(place)
    amount = written.split("\t", maxsplit=1)[0]
    if amount.isdigit():
        return int(amount)
    os.stat(folder)
    raise SessionError(f"du does not report what {folder} holds: {said.strip() or 'it was ended'}")


def end_counts() -> None:
    """End the counts of folders that are gone."""
    for path in Path(COUNTS).glob("*.json"):
        with suppress(OSError, ValueError, LookupError, TypeError):
            found = json.loads(path.read_text(encoding="utf-8"))
            running = _Running(int(found["pid"]), int(found["start"]))
            if os.path.lexists(found["folder"]):
                continue
            if running.is_there:
                os.kill(running.pid, signal.SIGKILL)
            _forget(path)


@contextmanager
def _kept(folder: str, unit: str) -> Iterator[Path]:
    """Yield the path of the stored state of a count, and lock it for the time of the block."""
    Path(COUNTS).mkdir(mode=0o700, exist_ok=True)
    name = hashlib.sha256(f"{unit} {folder}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    place = Path(COUNTS) / f"{name}.json"
    descriptor = os.open(Path(COUNTS) / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # held only for as long as it takes to start a process
        yield place
    finally:
        os.close(descriptor)


def _known(place: Path) -> _Running | None:
    """Return the count that was begun: one that runs, or has ended recently; None if there is none, or if it was
    killed.
    """
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
        running = _Running(int(found["pid"]), int(found["start"]))
        if running.is_there:
            return running
        ended = place.with_suffix(".out").stat()
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return running if ended.st_size and time.time() - ended.st_mtime < FRESH else None


def _begin(place: Path, folder: str, unit: str) -> _Running:
    _forget(place)
    command = ["nice", "-n", "19", "du", "--summarize", "--one-file-system", unit, "--", folder]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    files = [os.open(place.with_suffix(suffix), flags, 0o600) for suffix in (".out", ".err")]
    try:
        # A session of its own, so that it outlives the process that has started it.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
            command, stdin=subprocess.DEVNULL, stdout=files[0], stderr=files[1], start_new_session=True
        )
    finally:
        for number in files:
            os.close(number)
    _CHILDREN.append(process)
    running = _Running(process.pid, start_of(process.pid) or 0)
    place.write_text(json.dumps({"folder": folder, "pid": running.pid, "start": running.start}), encoding="utf-8")
    return running


_CHILDREN: list[subprocess.Popen[bytes]] = []
"""Children of this process, which has to collect their exit status."""


def _await(running: _Running, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    pause = PAUSE[0]
    while running.is_there and time.monotonic() < deadline:
        _CHILDREN[:] = [process for process in _CHILDREN if process.poll() is None]
        time.sleep(pause)
        pause = min(2 * pause, PAUSE[1])
    _CHILDREN[:] = [process for process in _CHILDREN if process.poll() is None]


def _forget(place: Path) -> None:
    for suffix in (".out", ".err", ".json"):
        place.with_suffix(suffix).unlink(missing_ok=True)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
