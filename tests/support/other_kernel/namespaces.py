# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs in network namespaces."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from typing import TypeVar

_NEW_NETWORK = 0x40000000
Result = TypeVar("Result")


def run(text: str) -> str:
    """Run commands of iproute2 or others, one a line; they have to succeed."""
    done = subprocess.run(["sh", "-euc", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{text}: {done.stdout}{done.stderr}"
    return done.stdout


def inside(namespace: str, do: Callable[[], Result]) -> Result:
    """Call *do* in a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    back, there = os.open("/proc/self/ns/net", os.O_RDONLY), os.open(f"/run/netns/cct-{namespace}", os.O_RDONLY)
    try:
        assert libc.setns(there, _NEW_NETWORK) == 0
        return do()
    finally:
        libc.setns(back, _NEW_NETWORK)
        os.close(back)
        os.close(there)
