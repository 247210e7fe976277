# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time how an image gets to 2, 4 and 8 hosts that lack it: in rounds, as a launch does, against one by one.

Run by ``make bench``. One host of nine has an image of 96 MiB that does not compress. Both ways take turns:

* rounds: what a launch does before it starts anything, Ansible's own time included;
* one by one: ``docker save | ssh … docker load`` from the host that has it to one after the other.

Once with networks that are as fast as this machine, where all hosts share its cores and its disk, so that helping each
other gains little; and once with 100 Mbit/s out of each host (tc-tbf(8)), as between real hosts it is the network that
takes the time. Prints seconds and ratios; they are never judged. A smoke run brings a small image to two hosts of the
lab of bench_launch, by the slow network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.cluster_compute.session.tests.benchmarks import bench_launch
from ansible_collections.cluster_compute.session.tests.benchmarks.bench_launch import own

HERE = Path(__file__).resolve().parent / "images"
IMAGE = "cluster-compute/large:bench"
RATE = "100mbit"


@dataclass(frozen=True)
class Bench:
    """A lab, and what is brought where in it.

    addresses: of its hosts, of which the first has the image. mebibytes: of the image. receivers: how many hosts get
    it. rates: of what goes out of every host; one that is empty is no limit.
    """

    inventory: Path
    directory: Path
    addresses: dict[str, str]
    mebibytes: int
    receivers: tuple[int, ...]
    rates: tuple[str, ...]

    @property
    def hosts(self) -> list[str]:
        """The hosts of the lab."""
        return list(self.addresses)

    @property
    def first(self) -> str:
        """The host that has the image."""
        return self.hosts[0]

    def play(self, playbook: Path, *options: str) -> str:
        """Run a playbook and return its output."""
        return bench_launch.play(playbook, *options, inventory=self.inventory, seconds=3600)

    def ssh(self, host: str, script: str) -> str:
        """Run a shell script on a host of the lab and return its output."""
        keys = self.directory / "ssh"
        options = ["-i", f"{keys}/id_ed25519", "-o", f"UserKnownHostsFile={keys}/known_hosts"]
        options += ["-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
        command = ["ssh", *options, f"root@{self.addresses[host]}", "sh", "-eu"]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{script} on {host}: {done.stdout}{done.stderr}")
        return done.stdout

    def each(self, script: str, hosts: list[str]) -> list[str]:
        """Run a script on hosts, side by side."""
        with ThreadPoolExecutor(len(hosts)) as pool:
            return list(pool.map(lambda host: self.ssh(host, script), hosts))

    def let_in(self) -> None:
        """Let the first host log in to the others."""
        with tempfile.TemporaryDirectory(prefix="cc-bench-") as folder:
            key = Path(folder) / "key"
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
            self.ssh(self.first, f"umask 77; cat >/root/bench_key <<'END'\n{key.read_text(encoding='ascii')}END")
            public = key.with_suffix(".pub").read_text(encoding="ascii")
        self.each(f"echo '{public.strip()}' >>/root/.ssh/authorized_keys", self.hosts[1:])

    def make_image(self) -> None:
        """Give the first host the image."""
        self.ssh(
            self.first,
            f"docker rmi -f {IMAGE} >/dev/null 2>&1 || true; head -c {self.mebibytes}M /dev/urandom >/tmp/data; "
            f"tar -C /tmp -c data | docker import - {IMAGE} >/dev/null; rm /tmp/data",
        )

    def forget(self) -> None:
        """Take the image from all other hosts."""
        self.each(f"docker rmi -f {IMAGE} >/dev/null 2>&1 || true", self.hosts[1:])

    def check(self, receivers: list[str]) -> None:
        """Raise RuntimeError unless all have the same image, and nobody else has it."""
        found = self.each(f"docker images -q --no-trunc {IMAGE}", self.hosts)
        having = [host for host, image in zip(self.hosts, found) if image and image == found[0]]
        if having != [self.first, *receivers]:
            raise RuntimeError(f"It is on {having}, and was to be on {[self.first, *receivers]}.")

    def rounds(self, receivers: list[str]) -> tuple[float, int]:
        """Bring the image to *receivers* as a launch does; return the seconds and the rounds."""
        request = {
            "session_name": "bench",
            "session_size": len(receivers),
            "session_max_replicas_per_host": 1,
            "session_hosts": receivers,
            "session_image": IMAGE,
            "session_image_pull": "never",
            "session_memory": "16m",
            "session_cpus": "0.1",
        }
        output = self.play(HERE / "distribute.yml", "-e", json.dumps(request), "--forks", str(len(self.hosts)))
        found = re.search(r"took ([0-9.]+) s in ([0-9]+) rounds", output)
        if found is None:
            raise RuntimeError(output)
        return float(found.group(1)), int(found.group(2))

    def one_by_one(self, receivers: list[str]) -> float:
        """Copy the image from the first host to *receivers*, one after the other; return the seconds."""
        begin = time.monotonic()
        inner = ["ssh", "-i", "/root/bench_key", "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes", "-q"]
        for host in receivers:
            target = shlex.join([*inner, f"root@{self.addresses[host]}", "docker load -q"])
            self.ssh(self.first, f"docker save {IMAGE} | {target}")
        return time.monotonic() - begin

    def limit(self, rate: str) -> None:
        """Limit what goes out of every host, or lift the limit where *rate* is empty."""
        outside = self.addresses[self.first].rpartition(".")[0] + ".1"
        device = f"$(ip -o route get {outside} | sed 's/.* dev \\([^ ]*\\).*/\\1/')"
        change = (
            f"replace dev {device} root tbf rate {rate} burst 256kb latency 400ms" if rate else f"del dev {device} root"
        )
        self.each(f"tc qdisc {change}", self.hosts)

    def measure(self, repeats: int) -> list[str]:
        """Return the table, line by line."""
        lines = [f"An image of {self.mebibytes} MiB, {os.cpu_count()} cores, least of {repeats} turns, in seconds"]
        lines.append(f"{'network':>10}{'hosts':>7}{'rounds':>8}{'in rounds':>12}{'one by one':>12}{'ratio':>8}")
        for rate in self.rates:
            if rate:
                self.limit(rate)
            for number in self.receivers:
                receivers = self.hosts[1 : number + 1]
                took: dict[str, list[float]] = {"rounds": [], "one by one": []}
                for _turn in range(repeats):
                    seconds, count = self.rounds(receivers)
                    self.check(receivers)
                    self.forget()
                    took["rounds"].append(seconds)
                    took["one by one"].append(self.one_by_one(receivers))
                    self.check(receivers)
                    self.forget()
                best = {way: min(values) for way, values in took.items()}
                lines.append(
                    f"{rate or 'unlimited':>10}{number:7}{count:8}{best['rounds']:12.1f}{best['one by one']:12.1f}"
                    f"{best['rounds'] / best['one by one']:8.2f}"
                )
                print(lines[-1], file=sys.stderr, flush=True)
            if rate:
                self.limit("")
        return lines


WHOLE = Bench(
    HERE / "inventory",
    Path("/var/lib/cluster-compute-lab/images"),
    {f"i{number}": f"10.199.0.1{number}" for number in range(9)},
    mebibytes=96,
    receivers=(2, 4, 8),
    rates=("", RATE),
)
SMOKE = Bench(
    bench_launch.INVENTORY, bench_launch.DIRECTORY, bench_launch.HOSTS, mebibytes=4, receivers=(2,), rates=(RATE,)
)


@contextmanager
def lab(keep: bool) -> Iterator[None]:
    """Bring up the lab of nine hosts, and take it down at the end."""
    try:
        for name in ("lab_up", "prepare_hosts"):
            WHOLE.play(own(name))
        yield
    finally:
        if not keep:
            WHOLE.play(own("lab_down"))


def main() -> None:
    """Entry point of the benchmark."""
    parser = argparse.ArgumentParser(description="Time the distribution of an image to 2, 4 and 8 hosts.")
    parser.add_argument("--repeats", type=int, default=2, help="turns of each way")
    parser.add_argument("--keep-lab", action="store_true", help="leave the benchmark's lab up at the end")
    parser.add_argument("--smoke", action="store_true", help="one turn of each way, a small image, two hosts")
    options = parser.parse_args()
    bench, repeats = (SMOKE, 1) if options.smoke else (WHOLE, options.repeats)
    with (bench_launch.lab if options.smoke else lab)(options.keep_lab):
        bench.let_in()
        bench.make_image()
        print("\n".join(bench.measure(repeats)))


if __name__ == "__main__":
    main()
