# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Find the processes of a lab, with or without records of them."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable

from .names import HostNames
from .system import LabError, read_file, write_file


def _proc(pid: int, name: str) -> str | None:
    """Return a file of a process's /proc directory. None if the process is gone or about to end (EINVAL, ESRCH)."""
    try:
        return read_file(f"/proc/{pid}/{name}")
    except OSError:
        return None


def start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot, or None when it is gone or dead."""
    text = _proc(pid, "stat")
    if text is None:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]


def record_running(host: HostNames, pid: int) -> None:
    """Record the host's first process."""
    record = {"pid": pid, "start_time": start_time(pid), "boot_id": read_file("/proc/sys/kernel/random/boot_id")}
    write_file(host.record, json.dumps(record))


def running(host: HostNames) -> int | None:
    """Return the process id of the host's running init, from the record. A reused process number is not it."""
    try:
        record = json.loads(read_file(host.record) or "{}")
        pid = int(record["pid"])
    except (ValueError, KeyError, TypeError):
        return None
    if record.get("boot_id") != read_file("/proc/sys/kernel/random/boot_id"):
        return None
    begun = start_time(pid)
    return pid if begun is not None and begun == record.get("start_time") else None


def below(directory: str) -> set[int]:
    """Return the processes on a disk in `directory`, from their overlay mount.

    Containers have left the host's disk. They end with the host's init, in whose process namespace they are.
    """
    mark = f"upperdir={directory.rstrip('/')}/"
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit() and mark in (_proc(int(name), "mountinfo") or ""):
            found.add(int(name))
    return found


def kill(directory: str, seconds: float = 20.0) -> bool:
    """Kill every process on a disk in `directory`. Return whether there was any.

    Raises LabError if one still exists after `seconds`.
    """
    found = False
    deadline = time.monotonic() + seconds
    while True:
        alive = below(directory)
        if not alive:
            return found
        found = True
        if time.monotonic() > deadline:
            raise LabError(f"Processes of the lab did not end within {seconds:.0f} seconds: {_words(alive)}.")
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.03)


def _words(pids: Iterable[int]) -> str:
    return ", ".join(f"{pid} ({(_proc(pid, 'comm') or '?').strip()})" for pid in sorted(pids))
