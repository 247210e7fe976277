# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Which run of Ansible a lease belongs to, so that the next one on the same controller can tell that it has ended.

A process is named by the boot of the machine, the process namespace (pid_namespaces(7)), its number there and the
moment of its start (proc_pid_stat(5), starttime): numbers come again, but not with the same start. From another
controller or container nobody can tell, and the lease has to run out.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

INTERRUPTED = "CLUSTER_COMPUTE_INTERRUPTED_RUN"
"""Environment variable by which a run that was interrupted tells the one that cleans up for it who it is."""


@cache
def this_run() -> str:
    """Return the name of the process whose worker calls this; empty where the machine does not tell."""
    return run_of(os.getppid())


def run_of(pid: int) -> str:
    """Return the name of a process; empty where the machine does not tell."""
    start = _start_of(pid)
    place = _place()
    return f"{place}:{pid}:{start}" if place and start else ""


def has_ended(lease_owner: str) -> bool:
    """Tell whether the run that took a lease has ended for sure, or is this one, which has no launch beside this."""
    run = lease_owner.partition(" ")[2]
    if not run or run.split(":")[0] != _place():
        return False
    pid, start = run.split(":")[1:]
    return run in (this_run(), os.environ.get(INTERRUPTED)) or _has_ended(int(pid), start)


def _has_ended(pid: int, start: str) -> bool:
    """Tell whether a process is gone for sure; those of others may be hidden (proc(5), hidepid), not their numbers."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it is somebody else's
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
