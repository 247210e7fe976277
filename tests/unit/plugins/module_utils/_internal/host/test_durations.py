# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Before an idle session is ended, its host looks once more, as somebody may have begun to use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.host_settings import (
    HostSettings,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.times import Times
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import durations
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    request,
)
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import World, in_memory
from ansible_collections.cluster_compute.session.tests.support.small_steps import NOW


@pytest.mark.parametrize("comes", [False, True])
@pytest.mark.parametrize("limit", ["max_idle", "max_duration"])
def test_somebody_who_logs_in_before_an_idle_session_ends_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes: bool, limit: str
) -> None:
    """comes: between the first look and the end, for which nobody else may change the session."""
    logged_in: list[int] = []

    def look(part: durations._Part) -> Times:
        part._is_in_use()
        return Times("boot", 0.0, ran=601.0, idle=601.0)

    @contextmanager
    def working_on(_state: StateDirectory, _session_id: str, _patience: float) -> Iterator[None]:
        logged_in.extend([4711] * comes)
        yield

    monkeypatch.setattr(durations._Part, "look", look)
    monkeypatch.setattr(durations, "members_by_container", lambda: {"ash-main1": list(logged_in)})
    monkeypatch.setattr(durations, "_is_login", lambda pid: pid == 4711)
    monkeypatch.setattr(StateDirectory, "read_settings", lambda _state: HostSettings(output_size=0))
    with in_memory() as worlds:
        worlds.append(World(tmp_path))
        worlds[-1].launch(request(name="ash", size=1, hosts=["h1"], **{limit: "10m"}))
        NOW.host = host = worlds[-1].hosts["h1"]
        monkeypatch.setattr(StateDirectory, "working_on", working_on)
        done, *others = durations.keep_time(host, StateDirectory(str(host.root)))  # type: ignore[arg-type]
        stays = comes and limit == "max_idle"
        assert (len(done), others) == (not stays, [[], []])
        assert ("ash-main1" in host.containers) is stays
