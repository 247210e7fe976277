# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The output of a container that is about to be removed is kept, and nothing stops the removal."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    LABEL_REPLICA,
    LABEL_SESSION_ID,
    Container,
    read_container,
    read_inspected,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import OutputDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.output import (
    JobCopy,
    ReplicaEnd,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import OUT
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import output

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"


def entry(replica: str) -> Container:
    labels = {LABEL_SESSION_ID: SESSION, LABEL_REPLICA: replica}
    return read_container({"Id": "0123456789abcdef", "Labels": labels})


def archive(folder: Path, size: int) -> output.LogArchive:
    state = {"ExitCode": 3, "OOMKilled": True, "FinishedAt": "2026-11-25T10:00:00Z"}
    engine: Any = SimpleNamespace(inspect=lambda _container: read_inspected({"State": state}))
    root: Any = SimpleNamespace(root=folder)
    return output.LogArchive(engine, root, size, 3600.0, 5)


@pytest.mark.parametrize(("size", "replica"), [(1000, "main1"), (0, "main1"), (1000, "")])
def test_the_output_of_a_replica_is_kept_with_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, replica: str
) -> None:
    monkeypatch.setattr(output, "read_log", lambda *_given: iter([("2026-11-25T09:00:00.000000000Z", OUT, "hello")]))
    kept = archive(tmp_path, size)
    kept.add(entry(replica))
    files = [Path(folder, name) for folder, _folders, names in os.walk(tmp_path) for name in names]
    assert any(b"hello" in path.read_bytes() for path in files) is bool(size and replica)
    end = ReplicaEnd(3, True, "2026-11-25T10:00:00Z")
    assert (kept.ends, kept.problems) == ({SESSION: {"main1": end}} if size and replica else {}, [])


def test_output_that_cannot_be_kept_is_a_problem_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_given: Any) -> Any:
        raise OSError("No space left on device")

    monkeypatch.setattr(output, "read_log", read)
    kept = archive(tmp_path, 1000)
    kept.add(entry("main1"))
    assert (kept.ends, kept.problems) == ({}, ["The output of main1 could not be kept: No space left on device"])
    assert [*tmp_path.rglob("*")] == []


@pytest.mark.parametrize("damage", [{}, {"on": "h1"}, {"on": {"main1": "h1"}, "command": "sleep"}])
def test_a_job_whose_description_is_damaged_is_left_out(tmp_path: Path, damage: dict[str, Any]) -> None:
    session = OutputDirectory(str(tmp_path)).session(SESSION)
    good = {"on": {"main1": "h1"}, "command": ["sleep", "1"], "here": ["main1"], "started": 1.0, "is_of": "a newer one"}
    for job_id, description in (("0123456789ab", good), ("ba9876543210", {"here": ["main1"], **damage})):
        info = session.job(job_id).info_file
        info.parent.mkdir(parents=True)
        info.write_text(json.dumps({"schema": 1, **description}))
    assert output._jobs(session) == {"0123456789ab": JobCopy({"main1": "h1"}, ("sleep", "1"), ("main1",))}
