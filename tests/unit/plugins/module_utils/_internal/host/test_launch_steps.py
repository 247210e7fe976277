# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a launch does on one host, where the name that it is for was torn down a moment ago."""

from __future__ import annotations

import shutil
from pathlib import Path

from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    request,
)
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import World, in_memory


def test_a_session_whose_name_was_torn_down_before_is_put_back_like_any_other(tmp_path: Path) -> None:
    """A host remembers the teardown, and must not take what was launched since for what was torn down."""
    wanted = request(name="ash", size=2, cpus="2", max_replicas_per_host=1)
    with in_memory() as worlds:
        worlds.append(world := World(tmp_path))
        world.launch(wanted)
        world.teardown("ash")
        assert world.copies("ash") == {}
        world.launch(wanted)
        runs = world.copies("ash")["h1"]
        shutil.rmtree(world.hosts["h1"].root / "sessions")
        world.repair()
        assert world.copies("ash")["h1"] == runs
