# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time reservations: one host's own part at 1, 100 and 1,000 live sessions, and 24 launches that race for 9 places.

Run by ``make bench``. The first part asks a ledger on this machine's disk in this very process: what a host does under
its lock, with the durable write. The second starts 24 independent ansible-playbook processes at once on the lab of
bench_launch, beside one launch alone in the same session. Prints times; they are never judged. In a smoke run two
launches race for one place.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    Allocatable,
    Claim,
)
from ansible_collections.cluster_compute.session.tests.benchmarks.bench_launch import HOSTS, lab, own, play, sockets

SESSIONS = (1, 100, 1000)
LAUNCHES = 24
SLOTS = 9
CPUS = 0.2
REQUEST: dict[str, Any] = {
    "session_size": len(HOSTS),
    "session_max_replicas_per_host": 1,
    "session_image": "cluster-compute/busybox:latest",
    "session_cpus": CPUS,
    "session_memory": "16m",
    "session_shm_size": "1m",
    "session_command": "sleep 8888",
    "cluster_compute_lease_seconds": 600,
}


def claim(number: int) -> Claim:
    """Return the claim of one of many sessions, with a subnet and an identifier of its own."""
    subnets = (f"10.{number // 250 + 1}.{number % 250}.0/28",)
    return Claim(str(uuid.uuid4()), f"session{number}", 1, 1, 1, vni=number + 1, subnets=subnets)


def reserve(sessions: int, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of a reservation, and of giving it back, on a ledger of *sessions* committed sessions."""
    allocatable = Allocatable(cpus=10_000_000, memory=10_000_000)
    taken, given = [], []
    with tempfile.TemporaryDirectory(prefix="cc-bench-ledger-") as folder:
        ledger = LedgerFile(folder)
        for number in range(sessions):
            ledger.commit(claim(number), None)
        for number in range(rounds):
            part = claim(sessions + number)
            begin = time.perf_counter()
            answer = ledger.reserve(part, [], allocatable, 60, "bench")
            taken.append(time.perf_counter() - begin)
            if not answer.granted:
                raise RuntimeError(str(answer.reasons))
            begin = time.perf_counter()
            ledger.release(part.session_id, "bench")
            given.append(time.perf_counter() - begin)
    return taken, given


def launch(name: str, slots: int) -> tuple[str, float]:
    """Launch one session where *slots* of its kind have room; return what became of it and the seconds it took."""
    variables = Path(sockets()) / f"{name}.json"
    request = {**REQUEST, "session_name": name, "cluster_compute_cpus": round(slots * CPUS, 1)}
    variables.write_text(json.dumps(request), encoding="utf-8")
    begin = time.monotonic()
    output = play(own("launch_cluster"), "-e", f"@{variables}")
    seconds = time.monotonic() - begin
    return ("PENDING" if f"Session {name} is PENDING" in output else "RUNNING"), seconds


def teardown(name: str) -> None:
    """Remove one session."""
    play(own("teardown_cluster"), "-e", f"session_name={name}")


def alone() -> str:
    """Return one line on a launch alone."""
    _status, seconds = launch("alone", SLOTS)
    teardown("alone")
    return f"one launch alone: {seconds:.1f} s"


def race(launches: int, slots: int) -> str:
    """Return one line on launches that begin at once."""
    names = [f"race{number}" for number in range(launches)]
    begin = time.monotonic()
    with ThreadPoolExecutor(launches) as pool:
        ended = list(pool.map(launch, names, [slots] * launches))
    whole = time.monotonic() - begin
    running = [seconds for status, seconds in ended if status == "RUNNING"]
    waiting = [seconds for status, seconds in ended if status == "PENDING"]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(teardown, names))
    if (len(running), len(waiting)) != (slots, launches - slots):
        raise RuntimeError(f"{len(running)} of {launches} run, where {slots} have room.")
    return (
        f"{launches} launches at once for {slots} slots: {whole:.1f} s until all were answered; "
        f"{len(running)} run, median {statistics.median(running):.1f} s, "
        f"{len(waiting)} wait, median {statistics.median(waiting):.1f} s"
    )


def main() -> None:
    """Entry point of the benchmark."""
    parser = argparse.ArgumentParser(description="Time reservations and racing launches.")
    parser.add_argument("--rounds", type=int, default=50, help="reservations for each number of live sessions")
    parser.add_argument("--keep-lab", action="store_true", help="leave the benchmark's lab up at the end")
    parser.add_argument("--smoke", action="store_true", help="each part once, at its smallest")
    options = parser.parse_args()
    print("live sessions   reserve, median ms (worst)   give back, median ms (worst)")
    for sessions in SESSIONS[:1] if options.smoke else SESSIONS:
        cells = [
            f"{statistics.median(some) * 1000:.1f} ({max(some) * 1000:.1f})"
            for some in reserve(sessions, 1 if options.smoke else options.rounds)
        ]
        print(f"{sessions:13}   {cells[0]:>26}   {cells[1]:>28}", flush=True)
    with lab(options.keep_lab):
        print("racing", file=sys.stderr, flush=True)
        if options.smoke:  # which launches as the other does
            print(race(2, 1))
        else:
            print(f"{alone()}\n{race(LAUNCHES, SLOTS)}")


if __name__ == "__main__":
    main()
