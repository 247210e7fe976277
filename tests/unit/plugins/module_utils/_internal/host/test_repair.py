# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""One session that cannot be repaired keeps no other from it, and what a record of others says is made with care."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state as state_directory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    LABEL_SESSION_ID,
    LABEL_SESSION_NAME,
    EngineInfo,
    EngineNetwork,
    read_info,
    read_network,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_repair import (
    Repair,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    TERMINATED,
    QueueTicket,
    Record,
    advance,
    new_record,
    prepared,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidPlan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import (
    boot,
    firewall_rules,
    labels,
    repair,
)

IDS = [f"0000000{number}-0e04-4a3c-9d2a-53a1f7b2c8aa" for number in range(3)]
FAULTS = [MemoryError(), RecursionError("maximum recursion depth exceeded"), KeyError("replicas"), OSError("gone")]


def record(session_id: str) -> Record:
    waiting = new_record(session_id, "alice", {"name": f"s{session_id[7]}"})
    return advance(waiting, PENDING, "There was no room for it.", queue=QueueTicket(1))


def _info() -> EngineInfo:
    return read_info({"DockerRootDir": "/"}, "1.45")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    """Return a state directory with three sessions, on a host whose engine has nothing."""
    engine = SimpleNamespace(networks=list, session_containers=list, info=_info, uses_nftables=lambda: False)
    monkeypatch.setattr(Engine, "connect", lambda _timeout: engine)
    monkeypatch.setattr(state_directory, "LOCKS", str(tmp_path))
    monkeypatch.setattr(firewall_rules, "standing_steps", lambda _nftables: [])
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

    def work(_repairer: object, record: Record, _host: str | None, _was_here: bool, _is_own: bool) -> None:
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
    monkeypatch.setattr(firewall_rules, "will_use_nftables", lambda: False)
    assert boot._make_links(state) == 1
    assert planned == IDS[1:]
    assert "Session s0: " in capsys.readouterr().out


# ---- records that this host did not keep itself -------------------------------------------------------------------

LOST = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"


def running(revision: int = 3, **plan: Any) -> Record:
    """Return the record of a session that runs on this host."""
    request = {"name": "train", "on_host_loss": "wait"}
    whole = {
        "session": {"id": LOST, "name": "train"},
        "network": None,
        "hosts": {"h1": {}},
        "replicas": [{"name": "main1", "host": "h1"}],
        **plan,
    }
    return replace(started(prepared(new_record(LOST, "alice", request), whole)), revision=revision)


class Lost:
    """A host that has a network of a session; made: what it made by which record."""

    def __init__(self, state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state, self.made, self.evaluated = state, list[int](), list[tuple[int, str]]()
        shutil.rmtree(state.sessions)
        self.labels = {LABEL_SESSION_ID: LOST, LABEL_SESSION_NAME: "train"}
        engine = Engine.connect(0)

        def networks(*_given: Any, **_named: Any) -> list[EngineNetwork]:
            return [read_network({"Name": "cc-egress", "Labels": self.labels})]

        engine.networks = networks  # type: ignore[method-assign]
        converge = lambda _self, record, _host: self.made.append(record.revision)  # noqa: E731
        monkeypatch.setattr(repair._Repairer, "_converge", converge)

    def bear(self, record: Record) -> Lost:
        """Let the network bear a record of this host."""
        self.labels |= labels.record_labels(self.state, record)
        return self

    def evaluate(self, record: Record, host: str) -> None:
        self.evaluated.append((record.revision, host))

    def repair(self, evaluate: Callable[[Record, str], None] | None = None, **given: Any) -> list[str]:
        """Repair by a controller; return the problems."""
        return repair.repair_host(self.state, Repair("h1", **given), evaluate=evaluate or self.evaluate).problems


@pytest.fixture
def lost(state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> Lost:
    return Lost(state, monkeypatch)


def refuse(_record: Record, _host: str) -> None:
    raise InvalidPlan(["The site does not grant it."])


def test_a_label_of_this_host_brings_back_what_it_lost_when_the_site_grants_it(lost: Lost) -> None:
    assert lost.bear(running()).repair() == []
    assert (lost.made, lost.evaluated) == ([3], [(3, "h1")])
    assert lost.repair(refuse) == ["Session train: The site does not grant it."]
    assert lost.made == [3]


def test_without_a_controller_nothing_is_made_from_a_label(lost: Lost) -> None:
    (problem,) = repair.repair_host(lost.bear(running()).state, Repair("h1"), alone=True).problems
    assert problem.startswith("Session train: This host has lost its record. A label has one")
    assert problem.endswith("Run the repair playbook.")
    assert lost.made == []


@pytest.mark.parametrize("known", ["nothing", "a stub", "the whole"])
def test_a_label_that_is_not_believed_is_told_with_what_to_do_where_it_is_missed(known: str, lost: Lost) -> None:
    lost.bear(running(9)).state.label_key_file.unlink()
    if known != "nothing":
        lost.state.session(LOST).write_record(stub_of(running()) if known == "a stub" else running())
    problems = lost.repair()
    assert (lost.made, lost.evaluated) == ([3] if known == "the whole" else [], [])
    assert [str(lost.state.label_key_file) in problem for problem in problems] == [True] * (known != "the whole")
    assert [problem.partition("has a label")[0] for problem in problems] == [
        "Session train: This host has lost its record. The network cc-egress "
    ] * (known != "the whole")
    assert lost.repair(session_name="other") == []


@pytest.mark.parametrize("revision", [2, 9])
def test_no_label_brings_back_a_session_that_has_ended(revision: int, lost: Lost) -> None:
    ended = advance(running(), TERMINATED, "It is over.")
    lost.bear(running(revision)).state.session(LOST).write_record(ended)
    assert lost.repair() == []
    assert (lost.made, lost.state.session(LOST).read_record()) == ([], ended)


@pytest.mark.parametrize("own", [None, 2, 3, 4])
def test_a_copy_of_another_host_is_compared_with_what_the_site_grants(own: int | None, lost: Lost) -> None:
    if own is not None:
        lost.state.session(LOST).write_record(running(own))
    is_own = own in (3, 4)
    problems = lost.repair(refuse, records={LOST: running()})
    assert problems == ([] if is_own else ["Session train: The site does not grant it."])
    assert lost.made == ([own] if is_own else [])
