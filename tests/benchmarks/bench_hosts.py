# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time sessions with two replicas on each of 2, 4, 8 and 12 real hosts: engines, SSH and overlay of a lab.

Run by ``make bench``. One lab has all the hosts, a resource group each as many of them as a session has. The sizes take
turns, so that what else the machine does meets all alike. All hosts share this machine's cores: what grows with them
is their work as well, and the processor time of the controller, in the second table, is its own. Prints medians, and
per host the growth from the smallest size. Nothing of it is judged.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.tests.benchmarks import bench_launch

SIZES = (2, 4, 8, 12)
STEPS = bench_launch.STEPS
REPLICAS = 2
"""Of a session on each host."""


def address(number: int) -> str:
    """Return the address of a host of the lab, counted from 1."""
    return f"10.210.0.{10 + number}"


def inventory(sizes: tuple[int, ...]) -> Path:
    """Write the inventory that has the hosts of the lab, and a group ``hosts_N`` of each size; return its path."""
    names = [f"b{number}" for number in range(1, max(sizes) + 1)]
    hosts = {name: {"ansible_host": address(number)} for number, name in enumerate(names, 1)}
    groups: dict[str, Any] = {f"hosts_{size}": {"hosts": {name: {} for name in names[:size]}} for size in sizes}
    # Of a lab that is there already, only as many hosts as there are.
    lab = {} if os.environ.get(bench_launch.SHARED_LAB) else {"lab": {"hosts": hosts}}
    path = Path(bench_launch.sockets()) / "hosts.json"
    path.write_text(json.dumps({"all": {"children": {**lab, **groups}}}), encoding="utf-8")
    return path


@contextmanager
def lab(hosts: Path, keep: bool) -> Iterator[None]:
    """Bring up the lab with all hosts, and take it down at the end, unless there is one for several benchmarks."""
    if os.environ.get(bench_launch.SHARED_LAB):
        yield
        return
    more = ("-i", str(hosts))
    try:
        for name in ("lab_down", "lab_up", "prepare_hosts", "lab_images"):
            bench_launch.play(bench_launch.own(name), *more, seconds=3600)
        yield
    finally:
        if not keep:
            bench_launch.play(bench_launch.own("lab_down"), *more)


def session(size: int, step: str, hosts: Path) -> tuple[float, float]:
    """Do a step of the session of a size; return its seconds and the processor time that it took here."""
    given = {
        **bench_launch.REQUEST,
        "session_size": REPLICAS * size,
        "session_max_replicas_per_host": REPLICAS,
        "session_resource_group": f"hosts_{size}",
    }
    request = Path(bench_launch.sockets()) / f"request-{size}.json"
    request.write_text(json.dumps(given), encoding="utf-8")
    verb = "teardown_cluster" if step == "teardown" else "launch_cluster"
    begin, cpu = time.monotonic(), bench_launch.processor_seconds()
    output = bench_launch.play(bench_launch.own(verb), "-i", str(hosts), "--forks", "16", "-e", f"@{request}")
    took = time.monotonic() - begin, bench_launch.processor_seconds() - cpu
    if step != "teardown" and output.count(" RUNNING") < REPLICAS * size:
        raise RuntimeError(output)
    return took


def main() -> None:
    """Entry point of the benchmark."""
    parser = argparse.ArgumentParser(description="Time sessions on some numbers of real hosts.")
    parser.add_argument("--rounds", type=int, default=3, help="rounds after the one to warm up")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of hosts")
    parser.add_argument("--keep-lab", action="store_true", help="leave the lab up at the end")
    parser.add_argument("--smoke", action="store_true", help="one round on two hosts")
    options = parser.parse_args()
    sizes, rounds = ((2,), 0) if options.smoke else (tuple(options.sizes), options.rounds)
    measured: dict[tuple[int, str], list[tuple[float, float]]] = {(size, step): [] for size in sizes for step in STEPS}
    hosts = inventory(sizes)
    with lab(hosts, options.keep_lab):
        for number in range(rounds + 1):
            for size in sizes:
                for step in STEPS:
                    took = session(size, step, hosts)
                    what = f"round {number}" if number else "warm-up"
                    seconds = f"{took[0]:.2f} s, {took[1]:.2f} s of processor"
                    print(f"{size} hosts, {what}: {step} {seconds}", file=sys.stderr, flush=True)
                    if number or not rounds:
                        measured[size, step].append(took)
    for column, title in enumerate(("seconds", "seconds of processor time on the controller")):
        cores = f"{REPLICAS} replicas on each host, {os.cpu_count()} cores, median of {max(rounds, 1)} rounds"
        print(f"{title}, and the same a host against {sizes[0]} hosts; {cores}")
        print(f"{'hosts':>5}" + "".join(f"{step:>22}" for step in STEPS))
        for size in sizes:
            cells = []
            for step in STEPS:
                median = statistics.median(took[column] for took in measured[size, step])
                least = statistics.median(took[column] for took in measured[sizes[0], step])
                cells.append(f"{median:10.2f} ({median / size / (least / sizes[0]):.2f})")
            print(f"{size:5}" + "".join(f"{cell:>22}" for cell in cells))
        print(flush=True)


if __name__ == "__main__":
    main()
