# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Continue in the background after a module has ended, and find processes by what they have in common."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def run_in_background(name: str, work: Callable[[], object], *kept: int) -> dict[str, int]:
    """Start a process that does *work*, then ends; the caller of the module does not wait for it.

    name: the process's name in ps(1), at most 15 characters (proc(5), comm). kept: file descriptors that it continues
    to use. Everything it imports has to be imported before: a module's files are removed when it ends.
    Returns what identifies the process: its number and when it was started.
    """
    pid = os.fork()
    if pid:
        return {"pid": pid, "start": start_of(pid) or 0}
    try:
        os.setsid()
        let_go_of_everything_but(*kept)
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(name)
        work()
    finally:
        os._exit(0)  # the rest of the module must not run a second time


def let_go_of_everything_but(*kept: int) -> None:
    """Close what the module had open: its caller waits until no process has it open any more."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:  # the descriptor of the folder itself
                continue


def start_of(pid: int) -> int | None:
    """Return when a process was started, in clock ticks since the boot (proc(5), stat); None if there is none."""
    fields = _fields(pid)
    return int(fields[19]) if fields and fields[0] not in ("Z", "X") else None


def seconds_used(pid: int) -> float:
    """Return the processor time of a process, in seconds; 0 if there is none."""
    fields = _fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def started_at(pid: int) -> float:
    """Return when a process was started, in seconds of the calendar clock as it is now; 0 if there is none."""
    ticks = start_of(pid)
    if ticks is None:
        return 0.0
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 if there is none."""
    fields = _fields(pid)
    return int(fields[1]) if fields else 0


def family(leader: int, mark: str) -> set[int]:
    """Return the processes that began with *leader*: itself, its descendants, those of its session, or with *mark*.

    mark: ``NAME=value`` in the environment that they were started with (proc(5), environ), which they pass on even if
    they leave their parent and their session.
    """
    processes = {int(name): fields for name in os.listdir("/proc") if name.isdigit() and (fields := _fields(int(name)))}
    alive = {pid: fields for pid, fields in processes.items() if fields[0] not in ("Z", "X")}
    found = {
        pid for pid, fields in alive.items() if pid == leader or int(fields[3]) == leader or bears(pid, mark.encode())
    }
    grown = True
    while grown:
        below = {pid for pid, fields in alive.items() if int(fields[1]) in found}
        grown = not below <= found
        found |= below
    return found


def send(pids: set[int], number: signal.Signals) -> None:
    """Send a signal to processes, some of which may be gone by now."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def bears(pid: int, mark: bytes) -> bool:
    """Tell whether a process was started with *mark*, ``NAME=value``, in its environment."""
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _fields(pid: int) -> list[str]:
    """Return the fields of a process from its state on (proc(5), stat); nothing if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
