# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Properties of this machine: its clock, its disks, its kernel. Nothing here changes anything."""

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
    """Tell whether nothing synchronizes the clock, according to the kernel; None if that is not known."""
    timex = ctypes.create_string_buffer(_TIMEX_SIZE)
    if ctypes.CDLL(None, use_errno=True).adjtimex(timex) < 0:
        return None
    # struct timex: int modes; long offset, freq, maxerror, esterror; int status.
    place = ctypes.sizeof(ctypes.c_long) * 5
    return bool(ctypes.c_int.from_buffer(timex, place).value & STA_UNSYNC)


def disk(path: str) -> dict[str, Any]:
    """Return the free space of the file system of *path*, existing or not: bytes, and files if they are counted."""
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
    """Return the machine's identity in its firmware, for a virtual machine in its hypervisor; empty if there is none.

    Unlike /etc/machine-id and the engine's own id it is not copied with a disk, and it stays when hosts are booted or
    get other network adapters.
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
    """Return a setting of the kernel by its name in sysctl(8); empty if there is none."""
    try:
        return Path("/proc/sys", *name.split(".")).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def change_setting(name: str, value: int) -> None:
    """Set a setting of the kernel until the next boot."""
    Path("/proc/sys", *name.split(".")).write_text(f"{value}\n", encoding="ascii")


def integer(name: str) -> int:
    """Return a setting of the kernel that is a whole number; 0 if there is none."""
    text = setting(name)
    return int(text) if text.isdigit() else 0
