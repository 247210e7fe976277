# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import engine as docker_engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    LABEL_REPLICA,
    read_container,
    read_inspected,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.exit_status import (
    read_failure,
    seconds_at,
)

LATER = "2026-11-25T10:00:05Z"


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("2026-11-25T10:00:00Z", 1795600800.0),
        ("2026-11-25T10:00:00.5Z", 1795600800.5),
        ("2026-11-25T10:00:00.123456789Z", 1795600800.123456789),
        ("0001-01-01T00:00:00Z", -62135596800.0),
        ("", 0.0),
        ("yesterday", 0.0),
    ],
)
def test_a_time_stamp_of_the_engine_keeps_its_fraction(stamp: str, seconds: float) -> None:
    """A container that its engine took with it in half a second was started before the engine that is there now."""
    assert seconds_at(stamp) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    ("state", "stop", "wanted"),
    [
        ({"ExitCode": 0}, {}, None),
        ({"ExitCode": 3}, {}, (3, False, "")),
        ({"ExitCode": 0, "OOMKilled": True}, {}, (0, True, "")),
        ({"ExitCode": 3, "StartedAt": "2026-11-25T09:59:59Z"}, {}, None),
        ({"ExitCode": 0}, {"started": LATER, "reason": "Too much."}, (0, False, "Too much.")),
        ({"ExitCode": 0}, {"started": "2026-11-25T10:00:00Z", "reason": "Too much."}, None),
    ],
)
def test_a_container_failed_by_itself_or_was_stopped_since_it_started(
    monkeypatch: pytest.MonkeyPatch,
    state: dict[str, Any],
    stop: dict[str, str],
    wanted: tuple[int, bool, str] | None,
) -> None:
    """What ended with the engine has not failed, and a reason to stop is that of one start."""
    monkeypatch.setattr(docker_engine, "engine_start", lambda: seconds_at("2026-11-25T10:00:00Z"))
    engine: Any = SimpleNamespace(inspect=lambda _container: read_inspected({"State": {"StartedAt": LATER, **state}}))
    directory: Any = SimpleNamespace(
        read_stop=lambda _replica: {"started": "", "reason": "", **stop}, read_restarts=lambda _replica: 2
    )
    entry = {"Id": "c1", "State": "exited", "Labels": {LABEL_REPLICA: "main1"}}
    found = read_failure(engine, directory, read_container(entry), "h1")
    assert (found and (found.exit_code, found.oom_killed, found.stopped)) == wanted
    assert found is None or (found.replica, found.host, found.restarts) == ("main1", "h1", 2)
    assert read_failure(engine, directory, read_container({**entry, "State": "running"}), "h1") is None
