# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Identify the run of Ansible that owns a lease, so that a later run on the same controller can detect its end.

A process is identified by the boot of the machine, the process namespace (pid_namespaces(7)), its number there and its
start time (proc_pid_stat(5), starttime). Numbers are reused, but not with the same start time. From another controller
or container this cannot be checked, and the lease has to expire.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

INTERRUPTED = "CLUSTER_COMPUTE_INTERRUPTED_RUN"
"""Environment variable with which an interrupted run passes its identity to the run that cleans up for it."""


@cache
def this_run() -> str:
    """Return the name of the process whose worker calls this. Empty if the machine does not report it."""
    return run_of(os.getppid())


def run_of(pid: int) -> str:
    """Return the name of a process. Empty if the machine does not report it."""
    start = _start_of(pid)
    place = _place()
    return f"{place}:{pid}:{start}" if place and start else ""


def has_ended(lease_owner: str) -> bool:
    """Return whether the run that took a lease has certainly ended, or is this run, which has no other launch."""
    run = lease_owner.partition(" ")[2]
    if not run or run.split(":")[0] != _place():
        return False
    pid, start = run.split(":")[1:]
    return run in (this_run(), os.environ.get(INTERRUPTED)) or _has_ended(int(pid), start)


def _has_ended(pid: int, start: str) -> bool:
    """Return whether a process has certainly ended. hidepid (proc(5)) hides processes, but not their numbers."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it belongs to another user
    return _start_of(pid) not in (start, "")


def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return ""
