# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure placement of roles with different amounts of resources: how many hosts, whether proven, and how long.

Run from a checkout: ``PYTHONPATH=.collections python tests/benchmarks/bench_several_shapes.py``. The usual cases have
10 to 120 hosts of two to five kinds and three or four roles; the hard ones 60 to 200 hosts that are nearly all
different, and four roles. Where OR-tools is installed (``make yardstick``), its CP-SAT solves each case too, on one
core in at most 20 seconds. Ends with 1 if a placement used more hosts than CP-SAT did, fewer than CP-SAT proves to be
needed, or more of a host than it has. A smoke run takes two cases of each, and 1 second of CP-SAT.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.packing import Task
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.prices import Vector

GIB = 1024
"""Memory in MiB."""


@dataclass(frozen=True)
class Case:
    """Replicas of each shape, and hosts: CPUs, memory in MiB, accelerators, replicas."""

    name: str
    shapes: Sequence[Vector]
    counts: list[int]
    hosts: Sequence[Vector]


@dataclass(frozen=True)
class Answer:
    """hosts: None if nothing fits. least: as many are needed in any case, more than there are if nothing fits."""

    hosts: int | None
    least: float
    is_proven: bool
    seconds: float


def usual(seed: int) -> Case:
    """Some kinds of hosts, of which a tenth to six tenths are requested."""
    source = random.Random(seed)
    kinds = [
        (
            source.choice([16, 32, 64, 96]),
            source.choice([64, 128, 256, 512]) * GIB,
            source.choice([0, 2, 4, 8]),
            64,
        )
        for _kind in range(source.randint(2, 5))
    ]
    hosts = [source.choice(kinds) for _host in range(source.randint(10, 120))]
    shapes = [
        (
            source.choice([1, 2, 4, 8, 16]),
            source.choice([2, 4, 8, 16, 32]) * GIB,
            source.choice([0, 0, 1, 2]),
            1,
        )
        for _shape in range(source.randint(3, 4))
    ]
    return Case(f"usual {seed}", shapes, _counts(source, shapes, hosts, source.uniform(0.1, 0.6)), hosts)


def hard(seed: int) -> Case:
    """Hosts that are nearly all different, of which two to seven tenths are requested."""
    source = random.Random(seed)
    hosts = [
        (
            source.randint(4, 128),
            source.randint(16, 768) * GIB,
            source.choice([0, 0, 1, 2, 4, 8]),
            source.randint(4, 64),
        )
        for _host in range(source.randint(60, 200))
    ]
    shapes = [
        (source.randint(1, 24), source.randint(1, 96) * GIB, source.choice([0, 0, 1, 2]), 1) for _shape in range(4)
    ]
    return Case(f"hard {seed}", shapes, _counts(source, shapes, hosts, source.uniform(0.2, 0.7)), hosts)


def _counts(source: random.Random, shapes: Sequence[Vector], hosts: Sequence[Vector], part: float) -> list[int]:
    """Return how many replicas of each shape request at most that part of any resource of all hosts."""
    mix = [source.random() + 0.05 for _shape in shapes]
    totals = [sum(amounts) for amounts in zip(*hosts)]
    asked = [sum(share * shape[d] for share, shape in zip(mix, shapes)) for d in range(len(totals))]
    scale = min(part * total / ask for total, ask in zip(totals, asked) if ask)
    return [max(1, int(share * scale)) for share in mix]


def ours(case: Case) -> Answer:
    """Place a case as a launch does. Raises RuntimeError if a host cannot hold what it gets."""
    begin = time.process_time()
    task = Task(case.shapes, case.counts, case.hosts, [(0, 0, i) for i in range(len(case.hosts))], "pack", False)
    found = task.fewest(range(len(case.hosts)))
    spent = time.process_time() - begin
    placed = found.found or {}
    too_much = [i for i, counts in placed.items() if any(a > b for a, b in zip(task.total(counts), case.hosts[i]))]
    if too_much or (found.hosts is not None and [*map(sum, zip(*placed.values()))] != case.counts):
        raise RuntimeError(f"{case.name}: {placed}")
    return Answer(found.hosts, found.bound, found.proven, spent)


def yardstick(case: Case, seconds: float) -> Answer:
    """Let CP-SAT of OR-tools place a case on one core."""
    cp_model: Any = importlib.import_module("ortools.sat.python.cp_model")
    model: Any = cp_model.CpModel()
    used, taken = [], []
    for host in case.hosts:
        uses = model.NewBoolVar("")
        row = [
            model.NewIntVar(0, min(count, *(have // ask for have, ask in zip(host, shape) if ask)), "")
            for shape, count in zip(case.shapes, case.counts)
        ]
        for d, have in enumerate(host):
            model.Add(sum(number * shape[d] for number, shape in zip(row, case.shapes)) <= have * uses)
        used.append(uses)
        taken.append(row)
    for s, count in enumerate(case.counts):
        model.Add(sum(row[s] for row in taken) == count)
    model.Minimize(sum(used))
    solver: Any = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    begin = time.process_time()
    status = solver.Solve(model)
    spent = time.process_time() - begin
    if status == cp_model.INFEASIBLE:
        return Answer(None, len(case.hosts) + 1, True, spent)
    hosts = round(solver.ObjectiveValue()) if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None
    return Answer(hosts, solver.BestObjectiveBound(), status == cp_model.OPTIMAL, spent)


def main() -> int:
    """Place every case; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first case of each kind")
    parser.add_argument("--smoke", action="store_true", help="two cases of each kind")
    options = parser.parse_args()
    compares = importlib.util.find_spec("ortools") is not None
    wrong = 0
    print(
        "case            hosts  replicas   used  proven  seconds" + ("   CP-SAT  proven  seconds" if compares else "")
    )
    for make, number in ((usual, 2 if options.smoke else 30), (hard, 2 if options.smoke else 12)):
        times, better, worse, proven = [], 0, 0, [0, 0]
        for seed in range(options.seed, options.seed + number):
            case = make(seed)
            found = ours(case)
            line = f"{case.name:14} {len(case.hosts):6} {sum(case.counts):9} {_told(found)}"
            proven[0] += found.is_proven
            if compares:
                other = yardstick(case, 1 if options.smoke else 20)
                line += f"   {_told(other)}"
                proven[1] += other.is_proven
                times.append(other.seconds / max(found.seconds, 1e-4))
                many = len(case.hosts) + 1
                better += (found.hosts or many) < (other.hosts or many)
                worse += (found.hosts or many) > (other.hosts or many)
                wrong += (found.hosts or many) < other.least - 0.5
            print(line, flush=True)
        print(f"{make.__name__}: {proven[0]} of {number} proven", end="")
        if compares:
            print(
                f", by CP-SAT {proven[1]}; fewer hosts than CP-SAT {better}, as many {number - better - worse}, more "
                f"{worse}; CP-SAT takes {statistics.median(times):.1f} times as long (median)",
                end="",
            )
            wrong += worse
        print()
    return 1 if wrong else 0


def _told(answer: Answer) -> str:
    hosts = "-" if answer.hosts is None else str(answer.hosts)
    return f"{hosts:>6}  {'yes' if answer.is_proven else f'>={answer.least:.0f}':>6}  {answer.seconds:7.2f}"


if __name__ == "__main__":
    sys.exit(main())
