# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts that are read while a launch is at work."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ledger as ledger_module
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state as state_module
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import GroupFacts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    FactsAnswer,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.host_info import (
    LookAtHost,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    Allocatable,
    Claim,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.facts import HostFacts, Port
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    RUNNING,
    QueueTicket,
    advance,
    kept_by,
    new_record,
    prepared,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import facts

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"


@pytest.mark.parametrize("moment", ["records", "engine"])
def test_a_launch_that_begins_meanwhile_is_not_taken_for_an_abandoned_one(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, write = (os.getuid(), os.getgid()), state_module.write_file
    for module in (ledger_module, state_module):
        monkeypatch.setattr(module, "write_file", lambda path, text, mode=0o644: write(path, text, mode, me))
    state = StateDirectory(str(tmp_path))
    plan = {"session": {"id": SESSION, "name": "train"}, "hosts": {"h1": {}}, "replicas": []}
    record = prepared(new_record(SESSION, "alice", {"name": "train"}), plan)

    def launch() -> None:
        """Do what a launch does first: hold the place, then write down what it is for."""
        claim = Claim(session_id=SESSION, session_name="train", replicas=1, cpus=1, memory=1)
        assert LedgerFile(str(tmp_path)).reserve(claim, [], Allocatable(9, 9), 60.0, "run").granted
        state.session(SESSION).write_record(record)

    read = StateDirectory.records

    def records(self: StateDirectory) -> Any:
        if moment == "records":
            launch()
        return read(self)

    def ask_the_engine(*_arguments: object) -> HostFacts:
        if moment == "engine":
            launch()
        return HostFacts()

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(StateDirectory, "records", records)
    monkeypatch.setattr(facts, "_facts", ask_the_engine)
    monkeypatch.setattr(Engine, "connect", lambda: None)
    found = facts.host_facts(state, LookAtHost("other"))
    assert isinstance(found, HostFacts), found.problem
    cluster = GroupFacts.read({"h1": FactsAnswer(host=found)}, {"h1": {}}).cluster_state()
    assert (cluster.orphaned, cluster.leaked) == ({}, {})


def test_what_ends_while_facts_are_read_wakes_who_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan may still have counted it, so whoever waits by these facts has to see that it ended."""
    me, write = (os.getuid(), os.getgid()), state_module.write_file
    monkeypatch.setattr(ledger_module, "write_file", lambda path, text, mode=0o644: write(path, text, mode, me))
    ledger = LedgerFile(str(tmp_path))
    ledger.commit(Claim(session_id=SESSION, session_name="train", replicas=1, cpus=1, memory=1), None)

    def ask_the_engine(*_arguments: object) -> HostFacts:
        ledger.release(SESSION)
        return HostFacts()

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(facts, "_facts", ask_the_engine)
    monkeypatch.setattr(Engine, "connect", lambda: None)
    state = StateDirectory(str(tmp_path))
    found = facts.host_facts(state, LookAtHost("other"))
    assert isinstance(found, HostFacts)
    assert found.signature != facts.signature(state, "other")


def test_a_name_that_is_held_is_nothing_that_others_could_have_or_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, write = (os.getuid(), os.getgid()), state_module.write_file
    monkeypatch.setattr(ledger_module, "write_file", lambda path, text, mode=0o644: write(path, text, mode, me))
    state, ledger = StateDirectory(str(tmp_path)), LedgerFile(str(tmp_path))
    before = facts.signature(state, "other")
    assert ledger.reserve(Claim(SESSION, "train"), [], None, 60.0, "run").granted
    assert (facts.signature(state, "other"), facts._reservations(state)) == (before, ([], []))
    ledger.commit(Claim(SESSION, "train", replicas=1), None)
    assert facts.signature(state, "other") != before


def test_a_port_that_a_session_holds_is_taken_whether_it_listens_yet_or_not() -> None:
    held = Reservation(Claim(SESSION, "train", 1, 1000, 1, ports=(("0.0.0.0", 21999, "tcp"),)), "leased", "boot", 1.0)
    listens = (Port("0.0.0.0", 22, "tcp"),)
    assert facts._with_reserved(listens, []) == listens
    taken = Port("0.0.0.0", 21999, "tcp")
    assert facts._with_reserved(listens, [held]) == (*listens, taken)
    assert facts._with_reserved([taken], [held]) == (taken,)


@pytest.mark.parametrize("status", [PENDING, ERROR])
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_told_of_a_session_does_not_grow_with_its_group(
    status: str, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All hosts of a group have the record of one that waits, which names them all, and tell each run of it."""
    me, write = (os.getuid(), os.getgid()), state_module.write_file
    monkeypatch.setattr(state_module, "write_file", lambda path, text, mode=0o644: write(path, text, mode, me))
    record = advance(new_record(SESSION, "alice", {"name": "train"}), PENDING, "No room.", queue=QueueTicket(1))
    sizes = []
    for hosts in (3, 1000):
        kept = kept_by(record, [f"gpu-node-{number:04d}.cluster.example.org" for number in range(hosts)])
        state = StateDirectory(str(tmp_path))
        state.session(SESSION).write_record(kept if status == PENDING else advance(kept, status, "It failed."))
        wanted = LookAtHost(whole_records=whole)
        found = facts._with_records(HostFacts(), state, state.records()[0], wanted, set())
        sizes.append(len(json.dumps(encode(found.records))))
    assert sizes[0] == sizes[1] < 1000


@pytest.mark.parametrize(
    ("status", "policy", "acts"),
    [(RUNNING, "replace", True), (RUNNING, "wait", False), (RUNNING, None, False), (PENDING, "replace", False)],
)
def test_only_a_running_session_that_does_not_wait_acts_on_the_loss_of_a_host(
    status: str, policy: str | None, acts: bool
) -> None:
    asked = {"name": "train"} | ({} if policy is None else {"on_host_loss": policy})
    assert facts._acts_on_loss(replace(new_record(SESSION, "alice", asked), status=status)) is acts
