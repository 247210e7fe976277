# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What this machine says of itself: its clock, its disks, its kernel. Nothing here changes anything."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

STA_UNSYNC = 0x0040
"""The kernel's clock is not synchronized (adjtimex(2), status)."""
_TIMEX_SIZE = 512
"""More bytes than struct timex has; the status is a whole number behind four longs and one before."""


def is_unsynchronized() -> bool | None:
    """Tell whether nothing keeps the clock right, as the kernel knows it; None where it does not say."""
    timex = ctypes.create_string_buffer(_TIMEX_SIZE)
    if ctypes.CDLL(None, use_errno=True).adjtimex(timex) < 0:
        return None
    # struct timex: int modes; long offset, freq, maxerror, esterror; int status.
    place = ctypes.sizeof(ctypes.c_long) * 5
    return bool(ctypes.c_int.from_buffer(timex, place).value & STA_UNSYNC)


def disk(path: str) -> dict[str, Any]:
    """Return how much is free where *path* is, or would be made: bytes, and files where the file system counts them."""
    there = Path(path)
    while not there.exists() and there != there.parent:
        there = there.parent
    file_system = os.statvfs(there)
    return {
        "path": path,
        "free": file_system.f_bavail * file_system.f_frsize,
        "size": file_system.f_blocks * file_system.f_frsize,
        "files": file_system.f_files,
        "files_free": file_system.f_favail,
    }


def hardware_name() -> str:
    """Return what the firmware names this machine by, of a virtual one its hypervisor; empty where it does not.

    No copy of a disk takes it along, as it does /etc/machine-id and the engine's own id, and it stays when hosts are
    booted or get other network cards.
    """
    for path in ("/sys/class/dmi/id/product_uuid", "/proc/device-tree/serial-number"):
        try:
            found = Path(path).read_text(encoding="ascii", errors="replace").strip("\0\n ")
        except OSError:
            continue
        if found:
            return found
    return ""


def setting(name: str) -> str:
    """Return a setting of the kernel, as sysctl(8) names it; empty where there is none."""
    try:
        return Path("/proc/sys", *name.split(".")).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def change_setting(name: str, value: int) -> None:
    """Set a setting of the kernel until the next boot."""
    Path("/proc/sys", *name.split(".")).write_text(f"{value}\n", encoding="ascii")


def integer(name: str) -> int:
    """Return a setting of the kernel that is a whole number; 0 where there is none."""
    text = setting(name)
    return int(text) if text.isdigit() else 0
