# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verbs in random order while hosts and controllers fail: nothing is lost, nothing doubled, and nothing left.

The model test (tests/unit, test_model) goes through hundreds of such sequences in memory. A few are played here on real
hosts: SEQUENCES=12 plays twelve, SEED=7 begins with that one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    HOSTS,
    ON_EACH,
    STATE,
    Run,
    Snapshot,
    clear,
    command,
    differences,
    environment,
    in_parallel,
    on,
    play,
    replicas,
    script,
    snapshot,
)
from ansible_collections.cluster_compute.session.tests.support.integration_lab.renamed_hosts import inventory_of

SEED, SEQUENCES = (int(os.environ.get(name, default)) for name, default in (("SEED", "1"), ("SEQUENCES", "1")))
VERBS = 6
LEASE = 10
"""Seconds for which a launch that was killed holds its place."""
NAMES = ("one", "two")
REQUEST: dict[str, Any] = {
    **ON_EACH,
    "session_size": 2,
    "session_cpus": "0.3",
    "session_memory": "32m",
    "session_shm_size": "1m",
    "cluster_compute_lease_seconds": LEASE,
    "cluster_compute_deadline_seconds": LEASE,
}
FULL = "n3"
"""The host of which the state directory is on a disk so small that it can be filled."""


class World:
    """The lab, and which sessions have to run in it: name to the ids of their containers, by replica."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.have_to_run: dict[str, dict[str, str]] = {}
        self.story: list[str] = []

    def act(self) -> None:
        """Let one verb run, with whatever goes wrong meanwhile, and see that no session suffers."""
        verb = self.chance.choice(["launch", "launch", "launch", "teardown", "repair", "gc", "schedule_pending"])
        name = self.chance.choice(NAMES)
        fault = self.chance.choice(["none", "none", "kill", "cut", "full", "engine", "renamed", "two"])
        self.story.append(f"{verb} {name if verb in ('launch', 'teardown') else ''} with {fault}")
        if verb == "teardown":
            self.have_to_run.pop(name, None)
        runs = getattr(self, fault)(verb, name)
        if verb == "launch" and any(run.code == 0 and run.table for run in runs):
            self.have_to_run.setdefault(name, ids(name))
        self.check_nothing_is_doubled()

    def play(self, verb: str, name: str, **more: Any) -> Run:
        playbook = {"launch": "launch_cluster", "teardown": "teardown_cluster"}.get(verb, verb)
        variables = {**REQUEST, "session_name": name} if verb == "launch" else {"session_name": name}
        return play(playbook, variables if verb in ("launch", "teardown") else {}, **more)

    # ---- what goes wrong while the verb runs

    def none(self, verb: str, name: str) -> list[Run]:
        return [self.play(verb, name).ok()]

    def kill(self, verb: str, name: str) -> list[Run]:
        """Kill the controller at any moment; what it does on hosts ends there."""
        variables = self.folder / "variables.json"
        given = {**REQUEST, "session_name": name} if verb == "launch" else {"session_name": name}
        variables.write_text(json.dumps(given if verb in ("launch", "teardown") else {}), encoding="utf-8")
        playbook = {"launch": "launch_cluster", "teardown": "teardown_cluster"}.get(verb, verb)
        quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        started = subprocess.Popen(command(playbook, variables), env=environment(), start_new_session=True, **quiet)
        try:
            time.sleep(self.chance.uniform(1.0, 6.0))
        finally:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
        for host in HOSTS:
            script(host, "while pgrep -x python3 >/dev/null; do sleep 0.1; done")
        return []

    def cut(self, verb: str, name: str) -> list[Run]:
        """Cut the power of a host, and give it back when the verb has ended."""
        host = self.chance.choice([name for name in HOSTS if name != FULL])
        play("lab_power_cut", {"lab_host": host}).ok()
        try:
            return [self.play(verb, name)]
        finally:
            play("lab_boot", {"lab_host": host}).ok()

    def full(self, verb: str, name: str) -> list[Run]:
        script(FULL, f"dd if=/dev/zero of={STATE}/full bs=1k 2>/dev/null || true")
        try:
            return [self.play(verb, name)]
        finally:
            script(FULL, f"rm {STATE}/full")

    def engine(self, verb: str, name: str) -> list[Run]:
        host = self.chance.choice(HOSTS)
        script(host, "service docker stop >/dev/null 2>&1")
        try:
            return [self.play(verb, name)]
        finally:
            script(host, "service docker start >/dev/null 2>&1; /usr/local/lib/cluster-compute/host.pyz || true")

    def renamed(self, verb: str, name: str) -> list[Run]:
        host = self.chance.choice(HOSTS)
        other = self.folder / str(len(self.story))
        other.mkdir()
        return [self.play(verb, name, inventory=inventory_of(other, {host: f"node{host[1:]}"})).ok()]

    def two(self, verb: str, name: str) -> list[Run]:
        """Let two controllers do the same."""
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda _number: self.play(verb, name), range(2)))

    # ---- what has to hold

    def check_nothing_is_doubled(self) -> None:
        for name in NAMES:
            listed = in_parallel(lambda host: script(host, "docker ps --format '{{.Names}}'").split(), HOSTS)
            counts = Counter(container for some in listed for container in some if container.startswith(f"{name}-"))
            assert set(counts.values()) <= {1}, counts

    def check_what_has_to_run(self) -> None:
        for name, wanted in self.have_to_run.items():
            found = replicas(name)
            assert {replica: found[replica].inspected["Id"] for replica in found} == wanted
            assert all(replica.inspected["State"]["Running"] for replica in found.values())


def ids(name: str) -> dict[str, str]:
    return {replica: found.inspected["Id"] for replica, found in replicas(name).items()}


@contextmanager
def small_state_directory(host: str) -> Iterator[None]:
    """Put the state directory of a host on a file system of 4 MiB."""
    aside = "/var/tmp/state"
    script(host, f"cp -a {STATE} {aside}; mount -t tmpfs -o size=4m,mode=700 tmpfs {STATE}; cp -a {aside}/. {STATE}/")
    try:
        yield
    finally:
        script(
            host,
            f"rm -r {aside}; cp -a {STATE} {aside}; umount {STATE}; "
            f"find {STATE} -mindepth 1 -delete; cp -a {aside}/. {STATE}/; rm -r {aside}",
        )


@pytest.mark.parametrize("seed", range(SEED, SEED + SEQUENCES))
def test_nothing_is_lost_doubled_or_left_whatever_happens(untouched_lab: Snapshot, tmp_path: Path, seed: int) -> None:
    world = World(seed, tmp_path)
    try:
        with small_state_directory(FULL):
            try:
                for _verb in range(VERBS):
                    world.act()
                # What was killed holds its place for a while yet.
                time.sleep(LEASE + 1)
                play("repair").ok()
                world.check_what_has_to_run()
                for name in NAMES:
                    assert len(replicas(name)) in (0, 2), "a session runs wholly or not at all"
            finally:
                for host in HOSTS:
                    on(host, "true")
                clear(*NAMES)
        for _twice in range(2):
            if differences(untouched_lab, snapshot()):
                play("gc").ok()
        assert differences(untouched_lab, snapshot()) == []
    except BaseException:
        print(*world.story, sep="\n")
        raise
