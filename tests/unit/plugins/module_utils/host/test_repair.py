# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""One session that cannot be repaired, whatever is wrong with it, keeps no other from it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import state as state_directory
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import (
    PENDING,
    QueueTicket,
    Record,
    advance,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.host import boot, repair

IDS = [f"0000000{number}-0e04-4a3c-9d2a-53a1f7b2c8aa" for number in range(3)]
FAULTS = [MemoryError(), RecursionError("maximum recursion depth exceeded"), KeyError("replicas"), OSError("gone")]


def record(session_id: str) -> Record:
    waiting = new_record(session_id, "alice", {"name": f"s{session_id[7]}"})
    return advance(waiting, PENDING, "There was no room for it.", queue=QueueTicket(1))


def _details() -> dict[str, str]:
    return {"root": "/"}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    """Return a state directory with three sessions, on a host whose engine has nothing."""
    engine = SimpleNamespace(networks=list, session_containers=list, details=_details, uses_nftables=lambda: False)
    monkeypatch.setattr(repair.Engine, "connect", lambda _timeout: engine)
    monkeypatch.setattr(state_directory, "LOCKS", str(tmp_path))
    monkeypatch.setattr(repair.firewall_rules, "standing_steps", lambda _nftables: [])
    found = StateDirectory(str(tmp_path / "state"))
    for session_id in IDS:
        found.session(session_id).write_record(record(session_id))
    return found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("place", ["the session", "its state"])
def test_whatever_is_wrong_with_one_session_the_others_are_repaired(
    state: StateDirectory, fault: Exception, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repaired = []

    def work(_repairer: object, record: Record, _host: str | None, _was_here: bool) -> None:
        if place == "the session" and record.id == IDS[0]:
            raise fault
        repaired.append(record.id)

    def read_host(session: state_directory.SessionDirectory) -> str | None:
        if place == "its state" and session.path.name == IDS[0]:
            raise fault
        return None

    monkeypatch.setattr(repair._Repairer, "_repair", work)
    monkeypatch.setattr(state_directory.SessionDirectory, "read_host", read_host)
    done = repair.repair_host(state)
    assert repaired == IDS[1:]
    assert len(done.problems) == 1
    assert done.problems[0].startswith("Session s0: ")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_whatever_is_wrong_with_one_session_the_links_of_others_are_made_at_boot(
    state: StateDirectory,
    fault: Exception,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    planned = []

    def plan(_state: StateDirectory, record: Record, _nftables: bool) -> list[object]:
        if record.id == IDS[0]:
            raise fault
        planned.append(record.id)
        return []

    monkeypatch.setattr(boot, "_early_stages", plan)
    monkeypatch.setattr(boot.firewall_rules, "will_use_nftables", lambda: False)
    assert boot._make_links(state) == 1
    assert planned == IDS[1:]
    assert "Session s0: " in capsys.readouterr().out
