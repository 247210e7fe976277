# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file system that never answers, as that of a dead server: FUSE whose requests nobody reads (fuse(4)).

Whoever touches it waits until this process lets go of it. Run as a program, it does so when its standard input ends.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

MNT_FORCE, MNT_DETACH = 1, 2


def _call(function: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


@contextmanager
def dead(path: str) -> Iterator[None]:
    """Let the directory *path* be on a file system that does not answer, for the time of the block."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
        _call("mount", b"dead", os.fsencode(path), b"fuse.dead", ctypes.c_ulong(0), options.encode())
        try:
            yield
        finally:
            # First, or whoever waits would go on doing so.
            os.close(device)
            device = -1
            _call("umount2", os.fsencode(path), MNT_DETACH)
    finally:
        if device >= 0:
            os.close(device)


if __name__ == "__main__":
    with dead(sys.argv[1]):
        sys.stdout.write("dead\n")
        sys.stdout.flush()
        sys.stdin.read()
