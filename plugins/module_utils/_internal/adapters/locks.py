# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Locks of files (flock(2)), which the kernel releases when the file is closed, however its process ends."""

from __future__ import annotations

import fcntl
import time

PAUSES = (0.005, 0.05)
"""Seconds between two tries: first and longest."""


def take_lock(descriptor: int, seconds: float, *, shared: bool = False) -> bool:
    """Take the lock of an open file. Return whether it was free within *seconds*."""
    deadline = time.monotonic() + seconds
    pause, longest = PAUSES
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, longest)
        else:
            return True
