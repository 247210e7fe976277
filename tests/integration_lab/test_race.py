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
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    HOSTS,
    STATE,
    Snapshot,
    clear,
    command,
    differences,
    environment,
    launch,
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
LAUNCHES = int(os.environ.get("RACE_LAUNCHES", "8"))
"""How many at the same moment; 24 were tried as well, beside changes too, with 48 here."""
NO_ROOM = re.compile(
    r"Session \w+ stays as it is|The session \w+ runs on as it is; it could not be changed|stays in the queue"
)
"""What changes say that find no room."""
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
            held = [entry["claim"] for entry in json.load(file)["reservations"]]
    except FileNotFoundError:
        held = []
    engine.request("GET", "/containers/json?all=1")
    shown = [int(found["Labels"].get("cluster-compute.millicpus") or 0) for found in json.load(engine.getresponse())]
    print(sum(claim["cpus"] for claim in held), sum(claim["replicas"] for claim in held), sum(shown), flush=True)
    time.sleep(0.2)
"""


class Sampler:
    """Looks at hosts again and again, beside the launches: what their ledgers hold, what their containers have."""

    def __init__(self, hosts: Sequence[str] = HOSTS) -> None:
        self.samples: dict[str, list[tuple[int, int, int]]] = {host: [] for host in hosts}
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._look, args=(host,)) for host in hosts]

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


def having(cpus: str) -> dict[str, dict[str, Any]]:
    """Return the variables by which every host has so many CPUs for sessions."""
    return {host: {"cluster_compute_cpus": cpus} for host in HOSTS}


def together(runs: Sequence[tuple[str, dict[str, Any]]], folder: Path, cpus: str) -> list[str]:
    """Run playbooks with their variables all at once, each by a process of its own, and return what each printed.

    None may fail, unless it says that it changed nothing for want of room.
    """
    site = folder / "site.json"
    site.write_text(json.dumps({"all": {"hosts": having(cpus)}}))
    running = []
    for number, (playbook, given) in enumerate(runs):
        variables = folder / f"{number}.json"
        variables.write_text(json.dumps(given), encoding="utf-8")
        output = (folder / f"{number}.log").open("wb")
        argv = command(playbook, variables, overlay=site)
        running.append(
            subprocess.Popen(argv, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        )
    deadline = time.monotonic() + 900
    printed = []
    for number, process in enumerate(running):
        code = process.wait(max(1.0, deadline - time.monotonic()))
        printed.append((folder / f"{number}.log").read_text(encoding="utf-8"))
        assert code == 0 or NO_ROOM.search(printed[-1]), printed[-1]
    return printed


def outcome_of(name: str, text: str) -> str:
    """Return what became of a session by what its launch printed."""
    is_pending = re.search(rf"Session {name} is PENDING", text) is not None
    assert is_pending or re.search(r"main1 .* RUNNING", text), text
    return "PENDING" if is_pending else "RUNNING"


def race(names: Sequence[str], folder: Path, cpus: str) -> list[tuple[str, str]]:
    """Launch all at once, and return each name with what became of that launch."""
    printed = together([("launch_cluster", {**BASE, "session_name": name}) for name in names], folder, cpus)
    return [(name, outcome_of(name, text)) for name, text in zip(names, printed)]


def why(folder: Path) -> str:
    """Return what tells of each launch why it went as it did: reports, hosts out of reach, rounds."""
    words = re.compile(
        r"PENDING|Capacity reserved|concurrent launches|waits for|UNREACHABLE|fatal|FAILED|out of reach|Collect facts"
    )
    logs = sorted(folder.glob("*.log"))
    return "\n".join(
        f"{log.stem}: {line.strip()[:300]}"
        for log in logs
        for line in log.read_text(encoding="utf-8").splitlines()
        if words.search(line)
    )


def running_replicas(hosts: Sequence[str] = HOSTS) -> Counter[str]:
    """Return how many replicas of each session run on the hosts."""
    found: Counter[str] = Counter()
    for host in hosts:
        names = on(host, "docker", "ps", "--format", '{{.Label "cluster-compute.session-name"}}').split()
        found.update(names)
    return found


@pytest.fixture
def cleared(untouched_lab: Snapshot) -> Iterator[list[str]]:
    """Give a list of names; what has them is torn down at the end, and nothing of them stays."""
    names: list[str] = []
    yield names
    clear(*names)
    clear(*names, group="small_pool")
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
        line
        for result in waiting.of("Report what was launched and what still waits")
        for line in result["values"]["msg"]
    ]
    assert sum(line[0].isdigit() for line in queue) == LAUNCHES - slots
    assert not [line for line in queue if "It can start" in line], queue


def test_of_four_launches_of_each_name_one_session_comes(cleared: list[str], tmp_path: Path) -> None:
    cleared += [f"race{number}" for number in range(max(1, LAUNCHES // 8))]
    # Who is later finds the session that runs as it was asked for, or waits until it does.
    outcome = race(cleared * 4, tmp_path, "1.8")
    assert outcome == [(name, "RUNNING") for name in cleared * 4], why(tmp_path)
    assert running_replicas() == dict.fromkeys(cleared, 3)
    ids = {on(host, "docker", "ps", "--format", '{{.Label "cluster-compute.session-id"}}') for host in HOSTS}
    assert len({session_id for text in ids for session_id in text.split()}) == len(cleared)


def test_launches_beside_changes_of_others_take_no_place_twice(cleared: list[str], tmp_path: Path) -> None:
    """Two sessions change their size and a third gets its lost replica back, while launches want what they free."""
    launches = LAUNCHES // 2
    slots = launches + 2
    # Half of it on each host, so that one part of the launches has room before anything is given back.
    half = {"session_max_replicas_per_host": slots // 2, "session_max_size": slots}
    changed = {"session_resource_group": "small_pool", "session_min_size": 2, **half}
    grows, shrinks = ({**BASE, **changed, "session_name": name} for name in ("grows", "shrinks"))
    lost = {**BASE, "session_name": "lost", "session_on_host_loss": "replace"}
    cleared += ["grows", "shrinks", "lost", *(f"race{number}" for number in range(launches))]
    try:
        # With room for one on each host, this one is on all of them; its launch allows more, so that it can come back.
        cpus = f"{slots * 0.2:.1f}"
        launch({**lost, "session_max_replicas_per_host": 2}, hosts=having("0.2")).ok()
        for request, size in ((grows, 2), (shrinks, slots)):
            launch({**request, "session_size": size}, hosts=having(cpus)).ok()
        play("lab_power_cut", {"lab_host": "n1"}).ok()
        new = {**BASE, "session_resource_group": "small_pool", "session_size": 2}
        with Sampler(("n2", "n3")) as sampler:
            printed = together(
                [
                    ("launch_cluster", {**grows, "session_size": slots}),
                    ("launch_cluster", {**shrinks, "session_size": 2}),
                    ("replace_lost", {"session_name": "lost", "ansible_ssh_timeout": 10}),
                    *(("launch_cluster", {**new, "session_name": f"race{number}"}) for number in range(launches)),
                ],
                tmp_path,
                cpus,
            )
        outcome = {f"race{number}": outcome_of(f"race{number}", text) for number, text in enumerate(printed[3:])}
        found = running_replicas(("n2", "n3"))
        grown, left = found.pop("grows"), found.pop("lost")
        assert 2 <= grown <= slots, why(tmp_path)
        assert 2 <= left <= 3, why(tmp_path)
        expected = {name: 2 for name, status in outcome.items() if status == "RUNNING"}
        assert found == {"shrinks": 2, **expected}, why(tmp_path)
        for host, samples in sampler.samples.items():
            assert len(samples) > 20
            assert max(max(held, shown) for held, _replicas, shown in samples) <= slots * 200, host
            assert samples[-1][0] == samples[-1][2], host
        # Who is first in the queue keeps what others free for itself, so not all of it has to be taken.
        assert grown > 2 or left == 3 or expected, why(tmp_path)
    finally:
        play("lab_boot", {"lab_host": "n1"}).ok()
