# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time what the SSH runtime adds to the start of a replica: keys, accounts, server.

Run by ``make bench``, on the lab of bench_launch. All replicas of a session run on one host. On that host, and by the
program that is installed there, they are removed and made again, with the runtime and without it in turns: without, no
keys are made, containers are started as they are, and no server is started in them. The proof that the replicas work is
in neither. Prints seconds and their difference for each replica; they are never judged.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.tests.benchmarks.bench_launch import lab, own, play, ssh

SIZES = (2, 4, 12)
PROGRAM = "/usr/local/lib/cluster-compute/host.pyz"
REQUEST: dict[str, Any] = {
    "session_name": "runtime",
    "session_mode": "single-node",
    "session_hosts": ["b1"],
    "session_image": "cluster-compute/busybox:latest",
    "session_cpus": "0.1",
    "session_memory": "16m",
    "session_shm_size": "1m",
    "session_command": "sleep 8888",
}

ON_HOST = """
import json, shutil, sys, time
sys.path.insert(0, PROGRAM)
from pathlib import Path
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ssh_keys
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session import containers
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session.context import Context
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session.stages import (
    session_stages,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.steps import perform

engine, state = Engine.connect(), StateDirectory("/var/lib/cluster-compute")
((record,), _damaged) = state.records()
directory = state.session(record.id)
names = [one["name"] for one in record.plan["replicas"]]


with_server = containers._begin  # what is left out has to be there


def bare(context, container, replica):
    context.engine.start_container(container)


def once(begin_container, with_keys):
    containers._begin = begin_container
    for entry in engine.session_containers():
        engine.remove_container(entry.id)
    if with_keys:
        for name in names:
            shutil.rmtree(directory.replica(name) / "ssh", ignore_errors=True)
    begin = time.monotonic()
    keys = directory.read_public_keys()
    if with_keys:
        keys = {name: ssh_keys.converge_keys(directory.replica(name) / "ssh", False, False)[0] for name in names}
    perform(session_stages(Context(engine, state, LedgerFile("/var/lib/cluster-compute"), record, "b1", ""), keys))
    return time.monotonic() - begin


found = {"with": [], "without": []}
for number in range(ROUNDS + 1):
    for way, kind in (("with", with_server), ("without", bare)):
        seconds = once(kind, way == "with")
        if number:
            found[way].append(seconds)
once(with_server, True)
print(json.dumps(found))
"""


def measure(size: int, rounds: int, folder: Path) -> dict[str, float]:
    """Return the median seconds that *size* replicas take to start, with the runtime and without."""
    request = folder / "request.json"
    request.write_text(json.dumps({**REQUEST, "session_size": size}), encoding="utf-8")
    play(own("launch_cluster"), "-e", f"@{request}")
    try:
        program = ON_HOST.replace("PROGRAM", repr(PROGRAM)).replace("ROUNDS", str(rounds))
        found = json.loads(ssh("b1", "/usr/bin/python3", "-", stdin=program))
    finally:
        play(own("teardown_cluster"), "-e", "session_name=runtime")
    return {way: statistics.median(values) for way, values in found.items()}


def main() -> None:
    """Entry point of the benchmark."""
    parser = argparse.ArgumentParser(description="Time what the SSH runtime adds to the start of a replica.")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each way after the one to warm up")
    parser.add_argument("--keep-lab", action="store_true", help="leave the benchmark's lab up at the end")
    parser.add_argument("--smoke", action="store_true", help="one turn of each way, one replica")
    options = parser.parse_args()
    sizes, rounds = ((1,), 1) if options.smoke else (SIZES, options.rounds)
    lines = [f"{'replicas':>8}{'with SSH':>12}{'without':>10}{'added for each':>16}   in seconds, on one host"]
    with lab(options.keep_lab), tempfile.TemporaryDirectory(prefix="cc-bench-") as folder:
        for size in sizes:
            took = measure(size, rounds, Path(folder))
            added = (took["with"] - took["without"]) / size
            lines.append(f"{size:8}{took['with']:12.2f}{took['without']:10.2f}{added:16.3f}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
