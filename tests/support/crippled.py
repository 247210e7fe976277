# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cripple a host of a lab for a while, as a throttled processor or a bad cable does."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

LOSS = "INPUT -p udp --dport 4789 -m statistic --mode random --probability 0.25 -j DROP"
"""What a firewall is told so that every fourth packet of the overlay is lost."""


THROTTLE = """
until ids=$(docker ps -q --filter name=check-pairs-) && [ -n "$ids" ]; do sleep 0.1; done
docker update --cpu-quota 5000 $ids
"""
"""The twentieth of a CPU for the replica of the check, as soon as there is one.

Not for the host: a control group of version 1 may not have less than what it holds.
"""


@contextmanager
def throttled(script: Callable[[str], object]) -> Iterator[None]:
    """Have a host be slow in the next check. script: runs a shell script there."""
    with ThreadPoolExecutor(1) as pool:
        throttling = pool.submit(script, f"timeout 50 sh -eu -c {shlex.quote(THROTTLE)}")
        yield
        throttling.result()


@contextmanager
def losing_packets(script: Callable[[str], object]) -> Iterator[None]:
    """Have a host lose packets of the overlay. script: runs a shell script there."""
    script(f"iptables -I {LOSS}")
    try:
        yield
    finally:
        script(f"iptables -D {LOSS}")
