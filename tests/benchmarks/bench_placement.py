# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure placement: 4,096 replicas on 10,000 hosts, on one core.

Run from a checkout: ``PYTHONPATH=.collections python tests/benchmarks/bench_placement.py``. Prints one line a case
with the median and the worst processor time of several runs, and ends with 1 if a case of the bound took longer. A
smoke run places a hundredth of that, and judges no time.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Capacity,
    Host,
    Placement,
    place,
)

BOUND = 1.0
"""Seconds that placing 4,096 replicas on 10,000 hosts may take, for one shape and for main1 with its own."""

GIB = 1024**3
SOURCE = random.Random(20)


def make_hosts(number: int, alike: bool, busy: bool = False) -> list[Host]:
    """Hosts in racks of 40 and zones of 2,500; of one size or of random sizes, half of them nearly full if busy."""
    hosts = []
    for i in range(number):
        cpus, memory = (16, 64) if alike else (SOURCE.randint(1, 64), SOURCE.randint(4, 256))
        free = SOURCE.randint(0, 2) if busy and SOURCE.random() < 0.5 else cpus
        labels = (("rack", f"r{i // 40}"), ("zone", f"z{i // 2500}"))
        hosts.append(Host(f"h{i}", Capacity(cpus * 1000, memory * GIB), Capacity(free * 1000, memory * GIB), labels))
    return hosts


def make_request(**values: object) -> Request:
    """A request of these variables, less the prefix."""
    fixed = {"name": "bench", "image": "debian:12"}
    return parse_request({f"session_{key}": value for key, value in {**fixed, **values}.items()})


def main() -> int:
    """Measure every case; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="one run of a hundredth, no judgement of time")
    options = parser.parse_args()
    runs, number, size = (1, 100, 41) if options.smoke else (options.runs, 10_000, 4096)
    few = size // 40
    small = {"size": size, "cpus": 2}
    own = {"roles": [{"name": "main", "cpus": 8, "memory": "16g"}, {"name": "sub", "replicas": size - 1, "cpus": 2}]}
    three = {"roles": [{"name": "main", "cpus": 8}, {"name": "ps", "replicas": few, "cpus": 3},
                       {"name": "worker", "replicas": size - 1 - few, "cpus": 2}]}  # fmt: skip
    cases = [
        (
            f"{shape}, {hosts}, {policy}, {'zones and racks' if keys else 'no topology'}",
            request,
            hosts,
            policy,
            keys,
            True,
        )
        for shape, request in (("one shape", small), ("main with its own", own))
        for hosts in ("alike", "mixed", "mixed and busy")
        for policy in ("pack", "spread", "inventory")
        for keys in ((), ("zone", "rack"))
    ]
    cases.append(("three shapes, mixed, pack, no topology", three, "mixed", "pack", (), False))
    cases.append(("does not fit, one shape, mixed", {"size": size, "cpus": 40}, "mixed", "pack", (), False))
    fleets = {
        "alike": make_hosts(number, True),
        "mixed": make_hosts(number, False),
        "mixed and busy": make_hosts(number, False, True),
    }
    slow = 0
    print(f"{f'{size:,} replicas on {number:,} hosts':58}  median s  worst s  hosts  groups")
    for title, values, fleet, policy, keys, bound in cases:
        request = make_request(policy=policy, **values)
        times = []
        for _run in range(runs):
            begin = time.process_time()
            result = place(request, fleets[fleet], keys)
            times.append(time.process_time() - begin)
        if isinstance(result, Placement) == title.startswith("does not fit"):
            raise RuntimeError(f"{title}: {result}")
        if isinstance(result, Placement):
            groups = " ".join(f"{key}s={number}" for key, number in result.groups)
            proven = "" if result.closest_proven else " (not proven)"
            outcome = f"{len(result.hosts):5}{'' if result.proven else '?'}  {groups}{proven if groups else ''}"
        else:
            outcome = f"pending, {result.largest_size} would fit"
        over = bound and statistics.median(times) > BOUND
        slow += over
        print(f"{title:58}  {statistics.median(times):8.3f}  {max(times):7.3f}  {outcome}{'  OVER' if over else ''}")
    print(f"bound: {BOUND:.1f} s for one shape and for main with its own; {slow} cases over it")
    return 1 if slow and not options.smoke else 0


if __name__ == "__main__":
    sys.exit(main())
