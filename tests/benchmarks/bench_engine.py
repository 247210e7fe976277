# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time what one call to a host pays for its client of the engine: ours, http.client and the Docker SDK.

Run by ``make bench``, on the lab of bench_launch. Each way is a program, as each call to a host is: it
starts Python, imports its client and sends a host's engine a few small requests, over the engine's own socket. The ways
take turns. Prints medians of milliseconds, what each adds to a Python that does nothing, and ratios; never judged.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from ansible_collections.cluster_compute.session.tests.benchmarks.bench_launch import CHECKOUT, lab

ADAPTERS = "ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters"
PATHS = ("/version", "/containers/json?all=1", "/networks")
NOTHING = "nothing"
OURS = "engine_api"
WAYS = {
    NOTHING: "import sys",
    OURS: f"""
import sys
from {ADAPTERS}.engine_api import Api
api = Api(sys.argv[1])
for path in sys.argv[2:]:
    with api.ask("GET", path) as answer:
        answer.json()
""",
    "http.client": """
import http.client, json, socket, sys
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
for path in sys.argv[2:]:
    connection.request("GET", path)
    json.loads(connection.getresponse().read())
""",
    "Docker SDK": """
import sys
import docker
client = docker.APIClient(base_url="unix://" + sys.argv[1], version="1.41")
for path in sys.argv[2:]:
    client._result(client._get(client.base_url + path), json=True)
""",
}
"""Programs that get the engine's socket and the paths to ask for as arguments."""


def engine_of(host: str) -> str:
    """Return the socket of the engine of a host of the lab, as it is reached from this machine."""
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            found = comm.read_text(encoding="utf-8").strip() == "dockerd"
            root = comm.with_name("root")
            if found and (root / "etc" / "hostname").read_text(encoding="utf-8").strip() == host:
                return str(root / "run" / "docker.sock")
        except OSError:
            continue  # a process that has ended
    raise RuntimeError(f"No engine of {host} runs on this machine.")


def once(program: str, socket: str) -> float:
    """Return the seconds that a program takes."""
    begin = time.monotonic()
    command = [sys.executable, "-c", program, socket, *PATHS]
    done = subprocess.run(command, cwd=CHECKOUT / ".collections", capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return time.monotonic() - begin


def measure(socket: str, rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each way; a round before them warms up."""
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds + 1):
        for way, program in WAYS.items():
            seconds = once(program, socket)
            if number:
                took[way].append(seconds * 1000)
    return {way: statistics.median(values) for way, values in took.items()}


def table(took: dict[str, float]) -> list[str]:
    """Return the lines to print."""
    lines = [f"{'client':<14}{'ms':>8}{'added to Python':>18}{'times ours':>12}"]
    own = took[OURS] - took[NOTHING]
    for way, milliseconds in took.items():
        added = milliseconds - took[NOTHING]
        ratio = f"{added / own:12.1f}" if way != NOTHING else ""
        lines.append(f"{way:<14}{milliseconds:8.1f}{added:18.1f}{ratio}")
    return lines


def main() -> None:
    """Entry point of the benchmark."""
    parser = argparse.ArgumentParser(description="Time what one call to a host pays for its client of the engine.")
    parser.add_argument("--rounds", type=int, default=30, help="turns of each way after the one to warm up")
    parser.add_argument("--keep-lab", action="store_true", help="leave the benchmark's lab up at the end")
    parser.add_argument("--smoke", action="store_true", help="one turn of each way")
    options = parser.parse_args()
    with lab(options.keep_lab):
        print("\n".join(table(measure(engine_of("b1"), 1 if options.smoke else options.rounds))))


if __name__ == "__main__":
    main()
