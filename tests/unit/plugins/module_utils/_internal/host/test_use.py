# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host counts of what owners use, in its own state directory and ledger."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state as state_files
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import Claim
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.host_settings import (
    HostSettings,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    RUNNING,
    advance,
    new_record,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import PINNED
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.use import count_use, read_use

ID = "3614fdf3-6a1e-4f0e-9d4c-0f9d1f3c6a52"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    """Return the state directory of a host on which a session of alice runs."""
    write = state_files.write_file
    monkeypatch.setattr(
        state_files, "write_file", lambda path, text, mode=0o644: write(path, text, mode, own(tmp_path))
    )
    found = StateDirectory(str(tmp_path))
    record = advance(new_record(ID, "alice", {"name": "train"}), RUNNING, "Its replicas were started.", hosts=("h1",))
    found.session(ID).write_record(stub_of(record))
    devices = (("gpu", ("0", "1")), (PINNED, ("4", "5")))
    LedgerFile(str(tmp_path)).commit(Claim(ID, "train", replicas=2, cpus=1500, memory=1, devices=devices), None)
    return found


def own(path: Path) -> tuple[int, int]:
    """Return whoever runs the tests."""
    return path.stat().st_uid, path.stat().st_gid


def test_nothing_is_counted_unless_the_host_was_told_to(state: StateDirectory) -> None:
    count_use(state, lambda: 100.0)
    assert read_use(state) == {}
    assert not state.use_file.exists()


def test_what_was_counted_outlives_the_session(state: StateDirectory) -> None:
    state.write_settings(HostSettings(share_half_life=10**7), False)
    count_use(state, lambda: 100.0)
    count_use(state, lambda: 130.0)
    assert read_use(state) == {"alice": {"cpus": 45.0, "gpu": 60.0}}
    LedgerFile(str(state.root)).release(ID)
    state.remove_session(ID)
    count_use(state, lambda: 160.0)
    assert read_use(state)["alice"] == pytest.approx({"cpus": 45.0, "gpu": 60.0}, abs=0.01)


@pytest.mark.parametrize("text", ["", "[]", '{"boot": 1}', '{"boot": "b", "clock": 1.0, "owners": {"alice": 3}}'])
def test_what_cannot_be_read_begins_anew(state: StateDirectory, text: str) -> None:
    state.write_settings(HostSettings(share_half_life=3600), False)
    state.use_file.write_text(text, encoding="utf-8")
    assert read_use(state) == {}
    count_use(state, lambda: 100.0)
    assert read_use(state) == {}
    count_use(state, lambda: 110.0)
    assert read_use(state) == {"alice": {"cpus": 15.0, "gpu": 20.0}}
