# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records that are written down: the newest stays, and what was torn down meanwhile does not come back."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ledger as ledger_module
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ssh_keys, wireguard
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state as state_module
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.host_info import (
    LookAtHost,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    Allocatable,
    Claim,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import (
    encode,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.facts import (
    HostFacts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    RUNNING,
    TERMINATED,
    QueueTicket,
    advance,
    is_stub,
    new_record,
    prepared,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import facts, prepare
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.prepare import (
    keep_lines,
    keep_records,
    keep_stub,
    leave_torn_down,
    make_keys,
)
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"
WAITING = advance(new_record(SESSION, "alice", {"name": "train"}), PENDING, "x", queue=QueueTicket(1))
LATER = advance(WAITING, PENDING, "y")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    """Give a state directory that need not belong to root."""
    me, write = (os.getuid(), os.getgid()), state_module.write_file
    for module in (ledger_module, state_module, ssh_keys, wireguard):
        monkeypatch.setattr(module, "write_file", lambda path, text, mode=0o644: write(path, text, mode, me))
    return StateDirectory(str(tmp_path / "state"))


def test_the_newer_record_stays(state: StateDirectory) -> None:
    assert keep_records(state, [WAITING], True) == ["create record train"]
    assert state.records() == ([], [])
    assert keep_records(state, [WAITING], False) == ["create record train"]
    assert keep_records(state, [WAITING], False) == []
    assert keep_records(state, [LATER], False, [SESSION]) == ["update record train"]
    assert keep_records(state, [WAITING], False) == []
    assert state.records() == ([LATER], [])


STUB = replace(WAITING, request=None, status=RUNNING, hosts=("h1",), revision=5)
"""The record of a session on a host without replicas."""


@pytest.mark.parametrize(
    ("stub", "revision", "settles", "replaces"),
    [
        (True, 5, True, True),
        (True, 5, False, False),
        (True, 4, True, False),
        (True, 6, False, True),
        (False, 5, True, False),
    ],
)
def test_only_what_most_witnesses_agreed_to_replaces_another_stub_of_its_revision(
    state: StateDirectory, stub: bool, revision: int, settles: bool, replaces: bool
) -> None:
    keep_records(state, [STUB], False)
    rival = replace(STUB, hosts=("h2",), revision=revision, request=None if stub else {"name": "train"})
    assert is_stub(rival) == stub
    assert keep_records(state, [rival], False, settles=settles) == ["update record train"] * replaces


def test_a_look_costs_what_is_live(state: StateDirectory) -> None:
    """What an earlier release kept of sessions that have ended is told as a line, and goes but for the newest."""
    plan = {"session": {"id": SESSION, "name": "train"}, "hosts": {}, "replicas": [{"env": "x" * 6000}]}
    ids = [f"{number:08x}{SESSION[8:]}" for number in range(1000)]
    for number, key in enumerate(ids):
        kept = advance(new_record(key, "alice", {"name": "train"}), PENDING, "x", queue=QueueTicket(1))
        own = {**plan, "session": {"id": key, "name": "train"}}
        state.session(key).write_record(replace(kept, status=TERMINATED, plan=own))
        os.utime(state.session(key).record_file, (number, number))

    def look() -> int:
        found = facts._with_records(HostFacts(), state, state.records()[0], LookAtHost("other"), set())
        return len(json.dumps(encode(found)))

    nothing = len(json.dumps(encode(HostFacts())))
    assert look() - nothing < 1000 * 400
    assert len(keep_lines(state, [], 10**12, 50, False)) == 1000
    assert keep_lines(state, [], 10**12, 50, False) == [], "of what somebody may know otherwise a line stays"
    for number, key in enumerate(ids):
        os.utime(state.session(key).record_file, (number, number))
    assert len(keep_lines(state, ids, 10**12, 50, True)) == len(keep_lines(state, ids, 10**12, 50, False)) == 950
    assert look() - nothing < 50 * 400
    assert sorted(record.id for record in state.records()[0]) == ids[-50:]
    assert len(keep_lines(state, ids, 7 * 86400, 50, False)) == 50, "so old is none kept"
    assert look() == nothing


def test_a_session_that_was_torn_down_meanwhile_is_not_recorded_again(state: StateDirectory) -> None:
    keep_records(state, [WAITING], False)
    state.remove_session(SESSION)
    assert keep_records(state, [LATER], False, recorded=[SESSION]) == []
    assert state.records() == ([], [])
    assert keep_records(state, [LATER], False, recorded=[]) == ["create record train"]


def test_a_stub_takes_the_place_of_the_lease_of_a_name_and_none_is_kept_of_what_was_torn_down(
    state: StateDirectory,
) -> None:
    ledger = LedgerFile(str(state.root))
    claim = Claim(SESSION, "train")
    given: dict[str, Any] = {"lease_owner": "run", "check_mode": False, "recorded": [SESSION]}
    record = prepared(WAITING, {"session": {"id": SESSION, "name": "train"}, "hosts": {"h1": {}}, "network": None})
    assert ledger.reserve(claim, [], None, 60.0, "run").granted
    assert keep_stub(state, ledger, record, **given) == ([], "")
    assert (state.records(), ledger.read()) == (([], []), {})
    keep_records(state, [WAITING], False)
    ledger.reserve(claim, [], None, 60.0, "run")
    assert keep_stub(state, ledger, record, **{**given, "check_mode": True}) == (["update record train"], "")
    assert list(ledger.read()) == [SESSION]
    assert keep_stub(state, ledger, record, **given) == (["update record train"], "")
    assert [(known.status, known.request) for known in state.records()[0]] == [("RUNNING", None)]
    assert ledger.read() == {}


def test_the_folder_of_a_session_that_this_host_carries_stays_though_its_name_was_torn_down(
    state: StateDirectory,
) -> None:
    ledger = LedgerFile(str(state.root))
    begun = ledger.now()
    ledger.remember_removal("train", None)
    for carried in (True, False):
        keep_records(state, [WAITING], False)
        directory = state.session(SESSION)
        if carried:
            # What holds its keys and says whose they are: only a teardown here may take it.
            directory.host_file.write_text("h1\n", encoding="utf-8")
        leave_torn_down(state, ledger, [WAITING], begun - 1, "another run")
        assert directory.exists() is carried
        directory.host_file.unlink(missing_ok=True)


def test_containers_are_kept_out_of_a_session_unless_it_was_torn_down(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = prepared(WAITING, {"session": {"id": SESSION, "name": "train"}, "hosts": {"h1": {}}, "network": None})
    monkeypatch.setattr(prepare, "keep_out", lambda stub, _check_mode: [f"keep out {stub.name}"])
    for check_mode, recorded, kept_out in ((True, [], True), (False, [SESSION], False), (False, [], True)):
        actions, _why = keep_stub(
            state, LedgerFile(str(state.root)), record, lease_owner="run", recorded=recorded, check_mode=check_mode
        )
        assert ("keep out train" in actions) is kept_out


def test_a_host_that_cannot_write_keeps_its_containers_out_all_the_same(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = prepared(WAITING, {"session": {"id": SESSION, "name": "train"}, "hosts": {"h1": {}}, "network": None})
    monkeypatch.setattr(prepare, "keep_out", lambda stub, _check_mode: [f"keep out {stub.name}"])

    def write(*_given: Any, **_more: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(state_module, "write_file", write)
    found = keep_stub(state, LedgerFile(str(state.root)), record, lease_owner="run", recorded=[], check_mode=False)
    assert found == (["keep out train"], "No space left on device.")


def test_a_stub_leaves_what_the_session_holds_on_a_machine_that_is_two_hosts(state: StateDirectory) -> None:
    ledger = LedgerFile(str(state.root))
    record = prepared(WAITING, {"session": {"id": SESSION, "name": "train"}, "hosts": {"h1": {}}, "network": None})
    claim = Claim(SESSION, "train", replicas=1, cpus=1000, memory=1)
    assert ledger.reserve(claim, [], Allocatable(1000, 1), 60.0, "run").granted
    keep_stub(state, ledger, record, lease_owner="run", recorded=[], check_mode=False)
    ledger.require(SESSION, "run")


def test_an_encrypted_session_has_one_more_key_on_each_host(state: StateDirectory) -> None:
    replicas = [{"name": name, "host": host} for name, host in (("main1", "h1"), ("sub1", "h1"), ("sub2", "h2"))]
    plan = typed_plan({"network": {"tunnel": {"link": "cct3614fdf3"}}, "replicas": replicas})
    session = state.session(SESSION)
    wanted = [f"{name}/{key}" for name in ("main1", "sub1") for key in ("id_ed25519", "ssh_host_ed25519_key")]
    found, made = make_keys(session, plan, "h1", False, True)
    assert made == [*wanted, "tunnel.key"]
    assert all(keys == {"client": None, "host": None, "tunnel": None} for keys in found.values())
    assert not session.exists()
    found, made = make_keys(session, plan, "h1", False, False)
    assert made == [*wanted, "tunnel.key"]
    assert list(found) == ["main1", "sub1"]
    assert found["main1"]["tunnel"] == found["sub1"]["tunnel"] == wireguard.read_public_key(session.tunnel_key_file)
    assert make_keys(session, plan, "h1", False, False) == (found, [])
    session.tunnel_key_file.unlink()
    other, made = make_keys(session, plan, "h1", False, False)
    assert made == ["tunnel.key"]
    assert other["main1"]["tunnel"] not in (None, found["main1"]["tunnel"])
    again, made = make_keys(session, plan, "h1", True, False)
    assert len(made) == 5
    assert again["main1"]["tunnel"] != other["main1"]["tunnel"]
    session.clear()
    assert not session.tunnel_key_file.exists()
    assert make_keys(session, replace(plan, network=None), "h2", False, True)[1] == [
        "sub2/id_ed25519",
        "sub2/ssh_host_ed25519_key",
    ]
