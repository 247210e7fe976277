# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Measure the current use of the replicas of one host."""

from __future__ import annotations

import time

from ..adapters.engine import Engine, EngineError
from ..core.model.facts import Usage

INTERVAL = 0.5
"""Seconds over which the use of CPU is measured."""
DEADLINE = 20.0
"""Seconds after which a slow engine is not queried further."""
PARALLEL = 16

Sample = tuple[float, int, int]
"""Seconds of the host's own clock, nanoseconds of CPU time, bytes of memory."""


def measure(names: list[str]) -> dict[str, Usage]:
    """Return the use of CPU, in thousandths, and of memory, in bytes, by the name of the container.

    A container that ends in the meantime, or that the engine does not report in time, is left out. A missing value is
    not a failure.
    """
    if not names:
        return {}
    try:
        engine = Engine.connect(timeout=5)
    except EngineError:
        return {}
    end = time.monotonic() + DEADLINE

    def sample(name: str) -> Sample | None:
        if time.monotonic() > end:
            return None
        try:
            found = engine.consumption(name)
        except EngineError:
            return None
        return None if found is None else (time.monotonic(), *found)

    from concurrent.futures import ThreadPoolExecutor  # not needed for the facts of a host

    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        before = list(pool.map(sample, names))
        time.sleep(INTERVAL)
        after = list(pool.map(sample, names))
    return {
        name: Usage(share(first, second), second[2])
        for name, first, second in zip(names, before, after)
        if first is not None and second is not None
    }


def share(first: Sample, second: Sample) -> int:
    """Return the thousandths of a CPU that were used between two samples. 0 if a container was started again."""
    return max(0, round((second[1] - first[1]) / (second[0] - first[0]) / 1e6))
