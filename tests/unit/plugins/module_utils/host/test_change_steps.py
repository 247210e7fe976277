# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host finds of a session when a change comes to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import (
    PENDING,
    QueueTicket,
    advance,
    new_record,
)
from ansible_collections.cluster_compute.session.tests.hosts_in_memory import World, in_memory
from ansible_collections.cluster_compute.session.tests.unit.plugins.module_utils.core.verbs.group import request


@pytest.mark.parametrize("moment", [3, 4])
def test_a_host_that_knows_a_session_as_one_that_waits_takes_part_in_its_change(tmp_path: Path, moment: int) -> None:
    """It was away when the session started, and is again while the copy is replaced."""
    wanted = {"name": "ash", "cpus": "2", "max_replicas_per_host": 1, "max_size": 3}
    with in_memory() as worlds:
        world = World(tmp_path)
        worlds.append(world)
        world.launch(request(size=2, **wanted))
        runs = world.copies("ash")["h1"]
        fresh = new_record(runs.id, runs.owner, runs.request)
        waits = advance(fresh, PENDING, "No room.", queue=QueueTicket(1))
        kept = StateDirectory(str(world.hosts["h3"].root)).session(runs.id)
        done = world.launch(request(size=3, **wanted), moment, lambda: kept.write_record(waits))
        assert "outcome" in done, done.get("failure")
        assert sorted(world.places("ash").values()) == ["h1", "h2", "h3"]
