# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts in memory that end sessions by themselves, between any two answers of any verb."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import engine_objects
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.host_settings import (
    HostSettings,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import TERMINATED
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.times import Times
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import durations
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    request,
)
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import DEADLINE, World, in_memory
from ansible_collections.cluster_compute.session.tests.support.small_steps import NOW


@pytest.fixture(scope="module")
def patched() -> Iterator[list[World]]:
    """Let what a host does see the world that is asked."""
    with in_memory() as worlds:
        yield worlds


@pytest.mark.parametrize("verb", ["launch", "other", "teardown", "repair", "gc", "schedule"])
@pytest.mark.parametrize("place", ["h1", "h2"])
def test_a_host_ends_what_is_over_whatever_a_controller_does_meanwhile(
    patched: list[World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, place: str
) -> None:
    wanted = request(name="ash", size=2, cpus="2", max_replicas_per_host=1, hosts=["h1", "h2"], max_duration="1h")
    over: set[str] = set()

    def look(part: durations._Part) -> Times:
        return Times("boot", 0.0, ran=3600.0 if part.engine.name in over else 0.0)  # type: ignore[attr-defined]

    monkeypatch.setattr(durations._Part, "look", look)
    monkeypatch.setattr(StateDirectory, "read_settings", lambda _state: HostSettings(output_size=0))
    for moment in range(1, 12):
        world = World(tmp_path / str(moment))
        patched.append(world)

        def ends(world: World = world) -> None:
            over.add(place)
            NOW.host = host = world.hosts[place]
            done, *others = durations.keep_time(host, StateDirectory(str(host.root)))  # type: ignore[arg-type]
            assert (len(done) <= 1, others) == (True, [[], []])

        try:
            world.launch(wanted)
            ended = world.running()["ash"]["id"]
            verbs: dict[str, Callable[[], Any]] = {
                "launch": partial(world.launch, wanted, moment, ends),
                "other": partial(world.launch, request(name="birch", size=2, max_replicas_per_host=1), moment, ends),
                "teardown": partial(world.teardown, "ash", moment, ends),
                "repair": partial(world.repair, moment, ends),
                "gc": partial(world.gc, moment, ends),
                "schedule": partial(world.schedule, moment, ends),
            }
            state = verbs[verb]()
            assert "ash has ended while" in state.get("failure", "ash has ended while")
            if place not in over:
                break  # the verb has fewer answers
            world.check_places()
            over.clear()
            world.schedule()
            world.schedule()
            # A launch that looks after the end begins another session of the name.
            labels = {engine_objects.LABEL_SESSION_ID: ended}
            assert not any(host.session_containers(labels) for host in world.hosts.values())
            copies = [record for host in world.hosts.values() for record in StateDirectory(str(host.root)).records()[0]]
            assert {copy.status for copy in copies if copy.id == ended} <= {TERMINATED}
            assert not any(ended in LedgerFile(str(host.root)).read() for host in world.hosts.values())
            world.now += DEADLINE + 1
            for name in ("ash", "birch"):
                world.teardown(name)
            world.launch(request(name="last", size=1))
            world.teardown("last")
            assert [host.left(world.known) for host in world.hosts.values()] == [[], [], []]
        finally:
            patched.pop()
            over.clear()
    else:
        raise AssertionError("the verb goes on and on")
