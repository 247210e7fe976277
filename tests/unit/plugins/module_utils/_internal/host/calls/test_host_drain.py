# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that is drained is left alone by new sessions, and who asked for it may wait for those that are there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ledger as ledger_module
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state as state_module
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.base import (
    plain_answer,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.host_drain import (
    Drain,
    Undrain,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import Claim
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import host_drain


@pytest.mark.parametrize(
    ("wait", "check_mode", "looks", "left"), [(0, False, 0, ["train"]), (5, False, 3, []), (5, True, 0, ["train"])]
)
def test_a_drain_waits_for_the_sessions_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: int, check_mode: bool, looks: int, left: list[str]
) -> None:
    write, me = state_module.write_file, (tmp_path.stat().st_uid, tmp_path.stat().st_gid)
    for module in (ledger_module, state_module):
        monkeypatch.setattr(module, "write_file", lambda path, text, mode=0o644: write(path, text, mode, me))
    ledger, state = LedgerFile(str(tmp_path)), StateDirectory(str(tmp_path))
    ledger.commit(Claim("3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa", "train", replicas=2, cpus=1000, memory=1), None)
    ledger.commit(Claim("4614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa", "named"), None)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            ledger.release("3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa")

    monkeypatch.setattr(time, "sleep", sleep)
    request = Drain("a new disk", "alice", wait, str(tmp_path))
    found = plain_answer(host_drain.call(request, check_mode))
    assert (found["sessions"], len(slept), found["changed"]) == (left, looks, True)
    drain = state.read_drain()
    assert (drain and (drain.reason, drain.by)) == (None if check_mode else ("a new disk", "alice"))
    assert host_drain.call(Drain("a new disk", "alice", 0, str(tmp_path)), check_mode).changed is check_mode
    assert host_drain.call(Undrain(str(tmp_path)), check_mode).changed is not check_mode
    assert state.read_drain() is None
