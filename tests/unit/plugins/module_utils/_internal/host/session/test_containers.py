# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the engine is asked for when a replica's container is made or started again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    RUNTIME,
    EngineError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    read_info,
    read_inspected,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import disk
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session import containers
from ansible_collections.cluster_compute.session.tests.support.plans import context_of


@pytest.mark.parametrize(
    ("size", "limits", "wanted"),
    [(None, True, {}), (10**9, False, {}), (10**9, True, {"size": "1000000000"})],
)
def test_the_engine_limits_the_disk_of_a_replica_if_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int | None, limits: bool, wanted: dict[str, Any]
) -> None:
    monkeypatch.setattr(disk, "is_limited", lambda _engine: limits)
    replica = {"name": "main1", "host": "h1", "disk_size": size}
    context = context_of(tmp_path, None, {"hosts": {"h1": {}}, "replicas": [replica]})
    assert containers._disk(context, context.replicas[0]) == wanted


def test_a_replica_is_stopped_and_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, str]] = []
    engine = SimpleNamespace(stop_container=lambda container, _grace: done.append(("stop", container)))
    monkeypatch.setattr(containers, "_begin", lambda _context, container, _replica: done.append(("start", container)))
    context = context_of(tmp_path, engine, {"hosts": {"h1": {}}, "replicas": [{"name": "main1", "host": "h1"}]})
    containers._restart(context, "c1", context.replicas[0])
    assert done == [("stop", "c1"), ("start", "c1")]


@pytest.mark.parametrize(
    ("made", "runtimes", "why"),
    [
        (RUNTIME, {}, "has no runtime entry"),
        (RUNTIME, {RUNTIME: {}}, "It does not start."),
        ("runc", {}, "It does not start."),
        (None, {}, "It does not start."),
    ],
)
def test_a_replica_whose_runtime_entry_was_lost_says_so(
    tmp_path: Path, made: str | None, runtimes: dict[str, Any], why: str
) -> None:
    def start(_container: str) -> None:
        raise EngineError("It does not start.")

    engine = SimpleNamespace(
        start_container=start,
        inspect=lambda _container: made and read_inspected({"HostConfig": {"Runtime": made}}),
        info=lambda: read_info({"Runtimes": runtimes}, ""),
    )
    context = context_of(tmp_path, engine, {"hosts": {"h1": {}}, "replicas": [{"name": "main1", "host": "h1"}]})
    with pytest.raises(EngineError, match=why):
        containers._start_container(context, "c1", context.replicas[0])
