# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hosts are asked for what, and what a host makes of the answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import questions
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state as state_directory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import read_info
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.questions import Echo, Question
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_repair import (
    Repair,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    Record,
    new_record,
    prepared,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.membership import (
    GIVEN_AWAY,
    MEMBER,
    UNKNOWN,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import (
    firewall_rules,
    membership,
    repair,
)
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

ID = "4f8c2a10-1111-4222-8333-444455556666"
ADDRESSES = {"h1": "192.0.2.1", "h2": "192.0.2.2", "h3": "192.0.2.3"}


def record(policy: str = "replace", hosts: Iterable[str] = tuple(ADDRESSES), vni: int | None = 5000) -> Record:
    request: dict[str, Any] = {"name": "train", "on_host_loss": policy}
    plan = {
        "session": {"id": ID, "name": "train"},
        "request": request,
        "hosts": {host: {"underlay_address": ADDRESSES[host]} for host in hosts},
        "network": {"vni": vni, "port": 4789, "tunnel": None},
        "replicas": [{"name": f"r{host}", "host": host, "address": f"10.0.0.{host[1]}"} for host in hosts],
    }
    return started(prepared(new_record(ID, "alice", request), encode(typed_plan(plan))))


def ask_of(says: dict[str, bool]) -> Any:
    def ask(wants: Iterable[Question], _most_seconds: float = 0) -> dict[Question, bool]:
        found = {name: wanted for wanted in wants for name, address in ADDRESSES.items() if address == wanted.address}
        assert all((wanted.local, wanted.port, wanted.vni) == ("192.0.2.1", 4789, 5000) for wanted in found.values())
        return {wanted: says[name] for name, wanted in found.items() if name in says}

    return ask


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    """Return the state directory of a host that is h1 in its session."""
    monkeypatch.setattr(membership, "HELD_BACK", tmp_path / "held-back")
    monkeypatch.setattr(state_directory, "LOCKS", str(tmp_path))
    found = StateDirectory(str(tmp_path / "state"))
    found.session(ID).write_record(record())
    found.session(ID).host_file.write_text("h1\n", encoding="utf-8")
    return found


@pytest.mark.parametrize(
    ("policy", "says", "status"),
    [
        ("replace", {"h2": True, "h3": True}, MEMBER),
        ("replace", {"h2": True}, UNKNOWN),
        ("replace", {}, UNKNOWN),
        ("replace", {"h3": False}, GIVEN_AWAY),
        ("wait", {}, MEMBER),
        ("wait", {"h3": False}, GIVEN_AWAY),
    ],
)
def test_the_other_hosts_are_asked_and_only_a_policy_holds_back(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch, policy: str, says: dict[str, bool], status: str
) -> None:
    monkeypatch.setattr(questions, "ask", ask_of(says))
    found = membership.memberships(state, [record(policy)])[ID]
    assert (found.status, found.answers, found.others) == (status, says, ("h2", "h3"))


def test_they_are_asked_as_well_of_a_session_that_a_newer_release_has_changed(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "ask", ask_of({"h2": False}))
    plan = record().plan
    newer = {**plan, "coming": 1, "network": {**plan["network"], "coming": 1}}
    assert membership.memberships(state, [replace(record(), plan=newer)])[ID].is_gone


@pytest.mark.parametrize(
    "given",
    [
        record(hosts=["h1"]),
        record(vni=None),
        record(hosts=["h2", "h3"]),
        replace(record(), status="PENDING"),
        replace(record(), plan={"hosts": {"h1": None, "h2": None}}),
        replace(record(), plan=None),
    ],
    ids=["alone", "bridge", "elsewhere", "waits", "damaged", "stub"],
)
def test_nobody_is_asked_of_a_session_that_is_not_here_and_elsewhere(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch, given: Record
) -> None:
    monkeypatch.setattr(questions, "ask", lambda wants: dict.fromkeys(wants, False))
    assert membership.memberships(state, [given]) == {}


@pytest.mark.parametrize(
    ("says", "held_back", "due"),
    [
        ({"h2": False}, False, True),
        ({"h2": True, "h3": True}, False, False),
        ({"h2": True, "h3": True}, True, True),
        ({}, True, False),
        ({"h2": True}, True, False),
    ],
)
def test_a_repair_is_due_when_it_is_known_that_a_session_is_gone_or_may_start(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch, says: dict[str, bool], held_back: bool, due: bool
) -> None:
    monkeypatch.setattr(questions, "ask", ask_of(says))
    membership.write_held_back([ID] if held_back else [])
    assert membership.is_due(state) is due


@pytest.mark.parametrize(
    ("says", "answer", "silent"),
    [
        ({}, set(), ["h2", "h3"]),
        ({"h2": True, "h3": False}, set(), []),
        ({"h2": True}, {Echo("192.0.2.3", local="192.0.2.1")}, []),
        ({"h2": True}, {Echo("10.0.0.3", 77)}, []),
        ({}, {Echo("10.0.0.2", 77)}, ["h3"]),
    ],
)
def test_a_host_is_silent_that_answers_in_no_way(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch, says: dict[str, bool], answer: set[Echo], silent: list[str]
) -> None:
    monkeypatch.setattr(questions, "ask", ask_of(says))
    monkeypatch.setattr(questions, "echo", lambda requests: set(requests) & answer)
    assert membership.silent_peers(state, [record()], [ID], {ID: 77}, "192.0.2.1") == {ID: silent}
    assert membership.silent_peers(state, [record()], [], {ID: 77}, "192.0.2.1") == {}


def test_hosts_of_a_session_that_runs_elsewhere_are_asked_from_the_underlay_address(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[Echo] = set()

    def echo(requests: Iterable[Echo]) -> set[Echo]:
        asked.update(requests)
        return set()

    monkeypatch.setattr(questions, "ask", ask_of({}))
    monkeypatch.setattr(questions, "echo", echo)
    elsewhere = stub_of(record(hosts=["h2", "h3"]))
    assert membership.silent_peers(state, [elsewhere], [ID], {}, "192.0.2.1") == {ID: ["h2", "h3"]}
    assert asked == {Echo(ADDRESSES[host], local="192.0.2.1") for host in ("h2", "h3")}


class TestRepair:
    """What a repair does by the answers, when nobody speaks for the other hosts."""

    @pytest.fixture
    def done(self, state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Have a repair write down what it would do instead of doing it."""
        found: list[str] = []
        engine = SimpleNamespace(
            networks=list, session_containers=list, info=lambda: read_info({"DockerRootDir": "/"}, "1.45")
        )
        engine.uses_nftables = lambda: False
        monkeypatch.setattr(Engine, "connect", lambda _timeout: engine)
        monkeypatch.setattr(firewall_rules, "standing_steps", lambda _nftables: [])
        for name in ("_converge", "_give_up", "_hold_back"):
            monkeypatch.setattr(repair._Repairer, name, lambda *_given, name=name: found.append(name))
        return found

    @pytest.mark.parametrize(
        ("says", "does"),
        [
            ({"h2": True, "h3": True}, "_converge"),
            ({}, "_hold_back"),
            ({"h2": True}, "_hold_back"),
            ({"h2": False}, "_give_up"),
        ],
    )
    def test_what_is_not_known_is_neither_started_nor_removed(
        self,
        state: StateDirectory,
        monkeypatch: pytest.MonkeyPatch,
        done: list[str],
        says: dict[str, bool],
        does: str,
    ) -> None:
        monkeypatch.setattr(questions, "ask", ask_of(says))
        repair.repair_host(state, alone=True)
        assert done == [does]

    def test_a_controller_speaks_for_the_others(
        self, state: StateDirectory, monkeypatch: pytest.MonkeyPatch, done: list[str]
    ) -> None:
        monkeypatch.setattr(questions, "ask", ask_of({"h2": False}))
        repair.repair_host(state, Repair("h1"))
        assert done == ["_converge"]
