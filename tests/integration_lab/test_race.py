# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Launches by independent processes at the same moment: what there is, is given away once, and all of it.

Only a lab has as many processes at a time. Races of mixed sizes are in tests/unit, test_model_in_small_steps.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.integration_lab.driver import (
    BUSYBOX,
    HOSTS,
    STATE,
    Snapshot,
    clear,
    command,
    differences,
    environment,
    on,
    play,
    snapshot,
)

BASE: dict[str, Any] = {
    "session_size": 3,
    "session_max_replicas_per_host": 1,
    "session_image": BUSYBOX,
    "session_cpus": "0.2",
    "session_memory": "16m",
    "session_shm_size": "1m",
    "session_command": "sleep 8888",
    # Each launch has a fraction of two cores here; a lease has to outlast the others' turns.
    "cluster_compute_lease_seconds": 600,
    "ansible_ssh_timeout": 60,
}
LAUNCHES = int(os.environ.get("RACE_LAUNCHES", "12"))
"""How many at the same moment; 24 were tried as well."""
LOOK = f"""
import http.client, json, socket, sys, time

class Engine(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/var/run/docker.sock")

until = time.monotonic() + float(sys.argv[1])
engine = Engine("engine")
while time.monotonic() < until:
    try:
        with open("{STATE}/ledger.json") as file:
            held = [one["claim"] for one in json.load(file)["reservations"]]
    except FileNotFoundError:
        held = []
    engine.request("GET", "/containers/json?all=1")
    shown = [int(one["Labels"].get("cluster-compute.millicpus", 0)) for one in json.load(engine.getresponse())]
    print(sum(one["cpus"] for one in held), sum(one["replicas"] for one in held), sum(shown), flush=True)
    time.sleep(0.2)
"""


class Sampler:
    """Looks at every host again and again, beside the launches: what its ledger holds, what its containers have."""

    def __init__(self) -> None:
        self.samples: dict[str, list[tuple[int, int, int]]] = {host: [] for host in HOSTS}
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._look, args=(host,)) for host in HOSTS]

    def _look(self, host: str) -> None:
        while not self._ended.is_set():
            for line in on(host, "python3", "-", "5", stdin=LOOK).splitlines():
                cpus, replicas, shown = map(int, line.split())
                self.samples[host].append((cpus, replicas, shown))

    def __enter__(self) -> Sampler:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


def race(names: Sequence[str], folder: Path, cpus: str) -> list[tuple[str, str]]:
    """Launch all at once, each by a process of its own, and return each name with what became of that launch."""
    site = folder / "site.json"
    site.write_text(json.dumps({"all": {"hosts": {host: {"cluster_compute_cpus": cpus} for host in HOSTS}}}))
    running = []
    for number, name in enumerate(names):
        variables = folder / f"{number}.json"
        variables.write_text(json.dumps({**BASE, "session_name": name}), encoding="utf-8")
        output = (folder / f"{number}.log").open("wb")
        argv = command("launch_cluster", variables, overlay=site)
        running.append(
            subprocess.Popen(argv, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        )
    deadline = time.monotonic() + 900
    outcome = []
    for number, (name, process) in enumerate(zip(names, running)):
        code = process.wait(max(1.0, deadline - time.monotonic()))
        text = (folder / f"{number}.log").read_text(encoding="utf-8")
        assert code == 0, text
        is_pending = re.search(rf"Session {name} is PENDING", text) is not None
        assert is_pending or re.search(r"main1 .* RUNNING", text), text
        outcome.append((name, "PENDING" if is_pending else "RUNNING"))
    return outcome


def why(folder: Path) -> str:
    """Return what tells of each launch why it went as it did: reports, hosts out of reach, rounds."""
    words = re.compile(r"PENDING|Room that|faster|waits for|UNREACHABLE|fatal|FAILED|out of reach|Look at the hosts")
    logs = sorted(folder.glob("*.log"))
    return "\n".join(
        f"{log.stem}: {line.strip()[:300]}"
        for log in logs
        for line in log.read_text(encoding="utf-8").splitlines()
        if words.search(line)
    )


def running_replicas() -> Counter[str]:
    """Return how many replicas of each session run on the hosts."""
    found: Counter[str] = Counter()
    for host in HOSTS:
        names = on(host, "docker", "ps", "--format", '{{.Label "cluster-compute.session-name"}}').split()
        found.update(names)
    return found


@pytest.fixture
def cleared(untouched_lab: Snapshot) -> Iterator[list[str]]:
    """Give a list of names; what has them is torn down at the end, and nothing of them stays."""
    names: list[str] = []
    yield names
    clear(*names)
    if differences(untouched_lab, snapshot()):
        # A host that was too busy to answer is cleaned now; what the first removes, the second forgets.
        play("gc").ok()
        play("gc").ok()
    assert differences(untouched_lab, snapshot()) == []


def test_of_many_launches_as_many_run_as_have_room_and_the_others_wait(cleared: list[str], tmp_path: Path) -> None:
    slots = LAUNCHES * 3 // 8
    cleared += [f"race{number}" for number in range(LAUNCHES)]
    with Sampler() as sampler:
        # A host holds so many replicas of 0.2 CPUs, and every session wants one on each host.
        outcome = dict(race(cleared, tmp_path, f"{slots * 0.2:.1f}"))
    assert Counter(outcome.values()) == {"RUNNING": slots, "PENDING": LAUNCHES - slots}, why(tmp_path)
    assert running_replicas() == {name: 3 for name, status in outcome.items() if status == "RUNNING"}
    for host, samples in sampler.samples.items():
        assert len(samples) > 20
        assert max(sample[0] for sample in samples) == slots * 200, host
        assert max(sample[2] for sample in samples) == slots * 200, host
        assert max(sample[1] for sample in samples) == slots, host
    site = {host: {"cluster_compute_cpus": f"{slots * 0.2:.1f}"} for host in HOSTS}
    waiting = play("schedule_pending", {}, "--check", hosts=site).ok()
    queue = [
        line for result in waiting.of("Say what was launched and who waits on") for line in result["values"]["msg"]
    ]
    assert sum(line[0].isdigit() for line in queue) == LAUNCHES - slots
    assert not [line for line in queue if "It can start" in line], queue


def test_of_four_launches_of_each_name_one_session_comes(cleared: list[str], tmp_path: Path) -> None:
    cleared += [f"race{number}" for number in range(LAUNCHES // 4)]
    # Who is later finds the session that runs as it was asked for, or waits until it does.
    outcome = race(cleared * 4, tmp_path, "1.8")
    assert outcome == [(name, "RUNNING") for name in cleared * 4], why(tmp_path)
    assert running_replicas() == dict.fromkeys(cleared, 3)
    ids = {on(host, "docker", "ps", "--format", '{{.Label "cluster-compute.session-id"}}') for host in HOSTS}
    assert len({session_id for text in ids for session_id in text.split()}) == LAUNCHES // 4
