# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""See how surely check_pairs finds the slow one of eight hosts, and how often it names a healthy one.

Run by ``make bench``. A lab of eight hosts is checked some times while all is well, then with one host whose replica
has the twentieth of a CPU, then with one that loses every fourth packet of the overlay. Prints whom each check named,
in how many rounds, and the seconds of pairs. Nothing of it is judged.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from ansible_collections.cluster_compute.session.tests.benchmarks import bench_hosts, bench_launch
from ansible_collections.cluster_compute.session.tests.support.crippled import losing_packets, throttled

HOSTS = 8
NAMED = re.compile(r"\b(b\d+) is slow or broken")
LINE = re.compile(r"round (\d+): (b\d+) with (b\d+): (?:([\d.]+) s|(\S.*?))[\"']")


def check(hosts: str) -> tuple[list[str], list[tuple[int, str, str, str]], float]:
    """Run the playbook once; return who was named, every pair with its round and seconds, and how long it took."""
    variables = {"session_image": bench_launch.REQUEST["session_image"], "check_pairs_cpus": "0.5"}
    more = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    begin = time.monotonic()
    try:
        output = bench_launch.play(bench_launch.own("check_pairs"), "-i", hosts, "--forks", "16", *more)
    except RuntimeError as error:
        output = str(error)
        if "slow or broken" not in output and "it is not clear" not in output:
            raise
    pairs = [(int(found[1]), found[2], found[3], found[4] or "broken") for found in LINE.finditer(output)]
    if not pairs:
        raise RuntimeError(output)
    return sorted(set(NAMED.findall(output))), list(dict.fromkeys(pairs)), time.monotonic() - begin


def _script(host: str, text: str) -> str:
    return bench_launch.ssh(host, "sh", "-eu", stdin=text)


def main() -> None:
    """Entry point of the benchmark."""
    parser = argparse.ArgumentParser(description="Check pairs of hosts that are healthy, and of which one is not.")
    parser.add_argument("--runs", type=int, default=20, help="checks while all is well")
    parser.add_argument("--keep-lab", action="store_true", help="leave the lab up at the end")
    parser.add_argument("--smoke", action="store_true", help="one check while all is well")
    options = parser.parse_args()
    hosts = bench_hosts.inventory((HOSTS,))
    kinds: list[tuple[str, AbstractContextManager[None]]]
    kinds = [("healthy", nullcontext())] * (1 if options.smoke else options.runs)
    if not options.smoke:
        on = {host: partial(_script, host) for host in ("b2", "b3")}
        kinds += [("b3 throttled", throttled(on["b3"])), ("b2 loses packets", losing_packets(on["b2"]))]
    with bench_hosts.lab(hosts, options.keep_lab):
        named_healthy = 0
        for number, (kind, crippled) in enumerate(kinds, 1):
            with crippled:
                named, pairs, took = check(str(hosts))
            times = [float(seconds) for _round, _host, _other, seconds in pairs if seconds != "broken"]
            spread = f"{min(times):.1f} to {max(times):.1f} s, median {statistics.median(times):.1f} s"
            rounds = max(number for number, *_pair in pairs)
            print(
                f"check {number}, {kind}: named {named or 'nobody'} in {rounds} rounds; pairs took {spread}; "
                f"{took:.0f} s in all",
                flush=True,
            )
            named_healthy += bool(named) and kind == "healthy"
    healthy = sum(kind == "healthy" for kind, _crippled in kinds)
    print(f"{named_healthy} of {healthy} checks of healthy hosts named somebody; {os.cpu_count()} cores for all hosts")


if __name__ == "__main__":
    main()
