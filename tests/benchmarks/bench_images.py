# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time how an image gets to 2, 4 and 8 hosts that lack it: in rounds, as a launch does, against one by one.

Run by ``make bench``. One host of nine has an image of 96 MiB that does not compress. Both ways take turns:

* rounds: what a launch does before it starts anything, Ansible's own time included;
* one by one: ``docker save | ssh … docker load`` from the host that has it to one after the other.

Once with networks that are as fast as this machine, where all hosts share its cores and its disk, so that helping each
other gains little; and once with 100 Mbit/s out of each host (tc-tbf(8)), as between real hosts it is the network that
takes the time. Prints seconds and ratios; they are never judged.
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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import bench_launch
from bench_launch import own

HERE = Path(__file__).resolve().parent / "images"
DIRECTORY = Path("/var/lib/cluster-compute-lab/images")
HOSTS = {f"i{number}": f"10.199.0.1{number}" for number in range(9)}
RECEIVERS = (2, 4, 8)
IMAGE = "cluster-compute/large:bench"
MEBIBYTES = 96
RATE = "100mbit"

play = partial(bench_launch.play, inventory=HERE / "inventory", seconds=3600)


def ssh(host: str, script: str) -> str:
    """Run a shell script on a host of the lab and return its output."""
    done = subprocess.run([*_ssh(host), "sh", "-eu"], input=script, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{script} on {host}: {done.stdout}{done.stderr}")
    return done.stdout


def _ssh(host: str) -> list[str]:
    options = ["-i", f"{DIRECTORY}/ssh/id_ed25519", "-o", f"UserKnownHostsFile={DIRECTORY}/ssh/known_hosts"]
    options += ["-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
    return ["ssh", *options, f"root@{HOSTS[host]}"]


def each(script: str, hosts: list[str]) -> list[str]:
    """Run a script on hosts, side by side."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        return list(pool.map(lambda host: ssh(host, script), hosts))


def make_image() -> None:
    """Give the first host the image."""
    ssh(
        "i0",
        f"docker rmi -f {IMAGE} >/dev/null 2>&1 || true; head -c {MEBIBYTES}M /dev/urandom >/tmp/data; "
        f"tar -C /tmp -c data | docker import - {IMAGE} >/dev/null; rm /tmp/data",
    )


def forget() -> None:
    """Take the image from all other hosts."""
    each(f"docker rmi -f {IMAGE} >/dev/null 2>&1 || true", list(HOSTS)[1:])


def check(receivers: list[str]) -> None:
    """Raise RuntimeError unless all have the same image, and nobody else has it."""
    found = each(f"docker images -q --no-trunc {IMAGE}", list(HOSTS))
    having = [host for host, image in zip(HOSTS, found) if image == found[0]]
    if having != ["i0", *receivers]:
        raise RuntimeError(f"It is on {having}, and was to be on {receivers}.")


def rounds(receivers: list[str]) -> tuple[float, int]:
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
    output = play(HERE / "distribute.yml", "-e", json.dumps(request), "--forks", str(len(HOSTS)))
    found = re.search(r"took ([0-9.]+) s in ([0-9]+) rounds", output)
    if found is None:
        raise RuntimeError(output)
    return float(found.group(1)), int(found.group(2))


def one_by_one(receivers: list[str]) -> float:
    """Copy the image from the first host to *receivers*, one after the other; return the seconds."""
    begin = time.monotonic()
    for host in receivers:
        target = shlex.join([*_inner(), f"root@{HOSTS[host]}", "docker load -q"])
        ssh("i0", f"docker save {IMAGE} | {target}")
    return time.monotonic() - begin


def _inner() -> list[str]:
    return ["ssh", "-i", "/root/bench_key", "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes", "-q"]


def limit(rate: str) -> None:
    """Limit what goes out of every host, or lift the limit where *rate* is empty."""
    device = "$(ip -o route get 10.199.0.1 | sed 's/.* dev \\([^ ]*\\).*/\\1/')"
    change = (
        f"replace dev {device} root tbf rate {rate} burst 256kb latency 400ms" if rate else f"del dev {device} root"
    )
    each(f"tc qdisc {change}", list(HOSTS))


def measure(repeats: int) -> list[str]:
    """Return the table, line by line."""
    lines = [f"An image of {MEBIBYTES} MiB, {os.cpu_count()} cores, least of {repeats} turns, in seconds"]
    lines.append(f"{'network':>10}{'hosts':>7}{'rounds':>8}{'in rounds':>12}{'one by one':>12}{'ratio':>8}")
    for rate in ("", RATE):
        if rate:
            limit(rate)
        for number in RECEIVERS:
            receivers = list(HOSTS)[1 : number + 1]
            took: dict[str, list[float]] = {"rounds": [], "one by one": []}
            for _turn in range(repeats):
                seconds, count = rounds(receivers)
                check(receivers)
                forget()
                took["rounds"].append(seconds)
                took["one by one"].append(one_by_one(receivers))
                check(receivers)
                forget()
            best = {way: min(values) for way, values in took.items()}
            lines.append(
                f"{rate or 'unlimited':>10}{number:7}{count:8}{best['rounds']:12.1f}{best['one by one']:12.1f}"
                f"{best['rounds'] / best['one by one']:8.2f}"
            )
            print(lines[-1], file=sys.stderr, flush=True)
        if rate:
            limit("")
    return lines


def main() -> None:
    """Entry point of the benchmark."""
    parser = argparse.ArgumentParser(description="Time the distribution of an image to 2, 4 and 8 hosts.")
    parser.add_argument("--repeats", type=int, default=2, help="turns of each way")
    parser.add_argument("--keep-lab", action="store_true", help="leave the benchmark's lab up at the end")
    options = parser.parse_args()
    try:
        for name in ("lab_up", "prepare_hosts"):
            play(own(name))
        with tempfile.TemporaryDirectory(prefix="cc-bench-") as folder:
            key = Path(folder) / "key"
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
            ssh("i0", f"umask 77; cat >/root/bench_key <<'END'\n{key.read_text(encoding='ascii')}END")
            public = key.with_suffix(".pub").read_text(encoding="ascii")
        each(f"echo '{public.strip()}' >>/root/.ssh/authorized_keys", list(HOSTS)[1:])
        make_image()
        print("\n".join(measure(options.repeats)))
    finally:
        if not options.keep_lab:
            play(own("lab_down"))


if __name__ == "__main__":
    main()
