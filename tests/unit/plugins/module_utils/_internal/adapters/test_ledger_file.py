# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ledger on a host's disk."""

from __future__ import annotations

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ledger, state
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import (
    DamagedLedger,
    LedgerError,
    LedgerFile,
    boot_id,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    CONFIRMED,
    LEASED,
    Allocatable,
    Claim,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode

ALLOCATABLE = Allocatable(cpus=3000, memory=3000)
RUN, OTHER_RUN = "run-1", "run-2"


@pytest.fixture(autouse=True)
def own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers belong to root; the tests run as anybody."""
    me = (os.getuid(), os.getgid())
    monkeypatch.setattr(ledger, "write_file", lambda path, text, mode=0o644: state.write_file(path, text, mode, me))


def claim(name: str, cpus: int = 1000) -> Claim:
    return Claim(session_id=f"id-{name}", session_name=name, replicas=1, cpus=cpus, memory=1)


class Clock:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_way_of_a_reservation(tmp_path: Path) -> None:
    clock = Clock()
    book = LedgerFile(str(tmp_path / "state"), lambda: "boot", clock)
    assert book.read() == {}
    assert book.reserve(claim("a"), [], ALLOCATABLE, 60.0, RUN).granted
    assert book.read()["id-a"].stage == LEASED
    book.advance("id-a", CONFIRMED, 600.0, RUN)
    clock.now += 300
    assert book.read()["id-a"].stage == CONFIRMED
    book.commit(claim("a"), RUN)
    clock.now += 10**9
    assert book.read()["id-a"].stage == COMMITTED
    assert not book.release("id-a", RUN), "a session that runs is not given back"
    assert book.release("id-a")
    assert not book.release("id-a")
    assert list((tmp_path / "state").iterdir()) == [], "a host that holds nothing has no ledger"


def test_the_way_of_a_change(tmp_path: Path) -> None:
    """What a session that runs takes beyond what it has is leased, then its own; what it needs no more is free last."""
    clock = Clock()
    book = LedgerFile(str(tmp_path), lambda: "boot", clock)
    book.commit(claim("a"), None)
    larger = claim("a", 2500)
    change = Claim("change", "a+", cpus=1500, amends="id-a")
    assert book.reserve(change, [], ALLOCATABLE, 60.0, RUN).granted
    with pytest.raises(LedgerError, match="Another run changes session a"):
        book.amend(larger, [], None, "change", OTHER_RUN)
    book.amend(larger, [], None, "change", RUN)
    assert {key: held.claim.cpus for key, held in book.read().items()} == {"id-a": 2500}
    clock.now += 10**9
    book.amend(larger, [], None, "change", RUN)
    book.amend(claim("a", 500), [], None)
    assert book.read()["id-a"].claim.cpus == 2500, "its containers are there still"
    book.commit(claim("a", 500), None)
    assert book.reserve(claim("b", 2500), [], ALLOCATABLE, 60.0, RUN).granted


def test_a_change_whose_lease_has_run_out_takes_only_what_is_free(tmp_path: Path) -> None:
    clock = Clock()
    book = LedgerFile(str(tmp_path), lambda: "boot", clock)
    book.commit(claim("a"), None)
    assert book.reserve(Claim("change", "a+", cpus=1500, amends="id-a"), [], ALLOCATABLE, 60.0, RUN).granted
    clock.now += 60
    assert book.reserve(claim("b", 1000), [], ALLOCATABLE, 60.0, RUN).granted
    for given in (ALLOCATABLE, None):
        with pytest.raises(LedgerError, match="Session a does not have the place on this host that it needs"):
            book.amend(claim("a", 2500), [], given, "change", RUN)
    assert book.read()["id-a"].claim.cpus == 1000
    book.amend(claim("a", 2000), [], ALLOCATABLE, "change", RUN)
    with pytest.raises(LedgerError, match="being launched"):
        book.amend(claim("b", 1000), [], ALLOCATABLE)


def test_what_is_not_carried_on_is_free_again(tmp_path: Path) -> None:
    clock = Clock()
    book = LedgerFile(str(tmp_path), lambda: "boot", clock)
    assert book.reserve(claim("a", 3000), [], ALLOCATABLE, 60.0, RUN).granted
    assert not book.reserve(claim("b"), [], ALLOCATABLE, 60.0, RUN).granted
    clock.now += 60
    assert book.reserve(claim("b"), [], ALLOCATABLE, 60.0, RUN).granted
    with pytest.raises(LedgerError, match="run out"):
        book.advance("id-a", CONFIRMED, 60.0, RUN)


def test_asking_again_for_what_runs_writes_nothing(tmp_path: Path) -> None:
    book = LedgerFile(str(tmp_path), lambda: "boot", Clock())
    book.commit(claim("a"), None)
    before = book.path.stat()
    assert book.reserve(claim("a"), [], ALLOCATABLE, 60.0, RUN).granted
    book.advance("id-a", CONFIRMED, 60.0, RUN)
    assert (book.path.stat().st_ino, book.path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert book.read()["id-a"].stage == COMMITTED


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": 0, "reservations": []}', '{"schema": 1}'])
def test_a_damaged_ledger_is_named_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    refuse(LedgerFile(str(tmp_path), lambda: "boot", Clock()), text, DamagedLedger, r"ledger\.json is damaged")


@pytest.mark.parametrize("expires", ["", [], {}])
def test_an_expiry_that_is_no_number_is_damage(tmp_path: Path, expires: object) -> None:
    book = LedgerFile(str(tmp_path), lambda: "boot", Clock())
    held = {"claim": encode(claim("a")), "stage": LEASED, "boot": "boot", "expires": expires, "holder": RUN}
    refuse(book, json.dumps({"schema": 1, "reservations": [held]}), DamagedLedger, "is damaged")


def test_a_newer_ledger_is_not_damaged(tmp_path: Path) -> None:
    book = LedgerFile(str(tmp_path), lambda: "boot", Clock())
    error = refuse(book, '{"schema": 9, "reservations": []}', LedgerError, r"ledger\.json cannot be read.* schema 9")
    assert not isinstance(error, DamagedLedger), "nobody sets it aside"


def refuse(book: LedgerFile, text: str, kind: type[LedgerError], message: str) -> LedgerError:
    """Prove that no use of a ledger with this text changes it; return the error."""
    book.path.write_text(text)
    for use in (
        book.read,
        lambda: book.reserve(claim("a"), [], ALLOCATABLE, 60.0, RUN),
        lambda: book.advance("id-a", CONFIRMED, 60.0, RUN),
        lambda: book.require("id-a", RUN),
        lambda: book.commit(claim("a"), None),
        lambda: book.release("id-a"),
    ):
        with pytest.raises(kind, match=message) as error:
            use()
    assert book.path.read_text() == text
    return error.value


def test_two_runs_of_one_session_do_not_share_what_they_hold(tmp_path: Path) -> None:
    clock = Clock()
    book = LedgerFile(str(tmp_path), lambda: "boot", clock)
    for stage in (LEASED, CONFIRMED):
        assert book.reserve(claim("a"), [], ALLOCATABLE, 60.0, RUN).granted
        book.advance("id-a", stage, 60.0, RUN)
        refused = book.reserve(claim("a"), [], ALLOCATABLE, 60.0, OTHER_RUN)
        assert (refused.granted, refused.tentative) == (False, ("id-a",))
        assert refused.reasons == ("Session a is being launched by another run.",)
        assert not book.release("id-a", OTHER_RUN), "a run gives back only what is its own"
        for use in (
            lambda: book.advance("id-a", CONFIRMED, 60.0, OTHER_RUN),
            lambda: book.require("id-a", OTHER_RUN),
            lambda: book.commit(claim("a"), OTHER_RUN),
        ):
            with pytest.raises(LedgerError, match="run out"):
                use()
        held = book.read()["id-a"]
        assert (held.stage, held.lease_owner) == (stage, RUN)
        book.require("id-a", RUN)
    assert book.release("id-a", RUN)
    assert book.reserve(claim("a"), [], ALLOCATABLE, 60.0, OTHER_RUN).granted


def test_the_run_that_holds_a_lease_renews_it(tmp_path: Path) -> None:
    clock = Clock()
    book = LedgerFile(str(tmp_path), lambda: "boot", clock)
    assert book.reserve(claim("a"), [], ALLOCATABLE, 60.0, RUN).granted
    clock.now += 50
    assert book.reserve(claim("a"), [], ALLOCATABLE, 60.0, RUN).granted
    clock.now += 50
    book.require("id-a", RUN)


def test_a_name_alone_does_not_take_the_place_of_what_holds_more(tmp_path: Path) -> None:
    book = LedgerFile(str(tmp_path), lambda: "boot", Clock())
    name = Claim("id-a", "a")
    assert book.reserve(name, [], None, 60.0, RUN).granted
    assert book.reserve(claim("a", 3000), [], ALLOCATABLE, 60.0, RUN).granted
    assert book.reserve(name, [], None, 60.0, RUN).granted
    assert book.read()["id-a"].claim == claim("a", 3000)
    assert not book.reserve(name, [], None, 60.0, OTHER_RUN).granted
    assert not book.reserve(claim("b"), [], ALLOCATABLE, 60.0, OTHER_RUN).granted


def test_what_another_run_let_run_out_is_anybodys(tmp_path: Path) -> None:
    clock = Clock()
    book = LedgerFile(str(tmp_path), lambda: "boot", clock)
    assert book.reserve(claim("a"), [], ALLOCATABLE, 60.0, RUN).granted
    clock.now += 60
    for use in (lambda: book.require("id-a", RUN), lambda: book.commit(claim("a"), RUN)):
        with pytest.raises(LedgerError, match="run out"):
            use()
    assert list(book.expired()) == ["id-a"]
    assert book.release("id-a", RUN), "it is swept from the file"
    assert not book.release("id-a", RUN)
    assert not book.path.exists()
    assert book.reserve(claim("a"), [], ALLOCATABLE, 60.0, OTHER_RUN).granted
    with pytest.raises(LedgerError, match="run out"):
        book.commit(claim("a"), RUN)
    assert book.read()["id-a"].lease_owner == OTHER_RUN


def test_a_reboot_ends_what_was_not_committed(tmp_path: Path) -> None:
    book = LedgerFile(str(tmp_path), lambda: "boot", Clock())
    assert book.reserve(claim("a"), [], ALLOCATABLE, 60.0, RUN).granted
    book.commit(claim("b"), None)
    later = LedgerFile(str(tmp_path), lambda: "another boot", Clock())
    assert list(later.read()) == ["id-b"]
    with pytest.raises(LedgerError, match="run out"):
        later.require("id-a", RUN)


def test_a_session_that_runs_belongs_to_no_run(tmp_path: Path) -> None:
    book = LedgerFile(str(tmp_path), lambda: "boot", Clock())
    book.commit(claim("a"), None)
    for run in (RUN, ""):
        assert book.reserve(claim("a"), [], ALLOCATABLE, 60.0, run).granted
        book.require("id-a", run)
        assert not book.release("id-a", run)
    assert book.read()["id-a"].stage == COMMITTED
    assert book.release("id-a")


def test_nothing_is_required_or_committed_that_was_never_held(tmp_path: Path) -> None:
    book = LedgerFile(str(tmp_path), lambda: "boot", Clock())
    for use in (lambda: book.require("id-a", RUN), lambda: book.commit(claim("a"), RUN)):
        with pytest.raises(LedgerError, match="session id-a on this host has run out"):
            use()
    assert book.read() == {}


def ask(directory: str, name: str, results: multiprocessing.Queue[bool]) -> None:
    results.put(LedgerFile(directory, lambda: "boot", Clock()).reserve(claim(name), [], ALLOCATABLE, 60.0, RUN).granted)


def test_processes_that_ask_at_once_get_no_more_than_there_is(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results: multiprocessing.Queue[bool] = context.Queue()
    racers = [context.Process(target=ask, args=(str(tmp_path), f"s{number}", results)) for number in range(12)]
    for racer in racers:
        racer.start()
    granted = [results.get(timeout=60) for _racer in racers]
    for racer in racers:
        racer.join()
    assert sorted(granted) == [False] * 9 + [True] * 3
    assert len(LedgerFile(str(tmp_path), lambda: "boot", Clock()).read()) == 3


def test_a_boot_has_one_identity() -> None:
    assert boot_id() == boot_id()
    assert len(boot_id()) > 36


def test_what_others_hold_by_name_is_not_committed_a_second_time(tmp_path: Path) -> None:
    book = LedgerFile(str(tmp_path / "state"), lambda: "boot", Clock())
    card = (("gpu", ("/dev/a",)),)
    book.commit(replace(claim("a"), devices=card), None)
    with pytest.raises(LedgerError, match=r"Session b cannot be held here: The gpu /dev/a is taken by session a"):
        book.commit(replace(claim("b"), devices=card), None)
    assert set(book.read()) == {"id-a"}
    book.commit(replace(claim("a", 5000), devices=card), None)
    assert book.read()["id-a"].claim.cpus == 5000


def test_what_a_killed_writer_left_goes_with_the_next_change(tmp_path: Path) -> None:
    book = LedgerFile(str(tmp_path), lambda: "boot", Clock())
    book.reserve(claim("a"), [], ALLOCATABLE, 60.0, RUN)
    (tmp_path / ".ledger.json.1a2b3c4d").write_text("{")
    book.reserve(claim("b"), [], ALLOCATABLE, 60.0, RUN)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.json"]
    book.release("id-a")
    book.release("id-b")
    (tmp_path / ".ledger.json.1a2b3c4d").write_text("{")
    assert not book.release("id-a")
    assert list(tmp_path.iterdir()) == []


def test_no_session_begins_on_a_full_disk_and_one_that_is_there_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = LedgerFile(str(tmp_path), lambda: "boot", Clock())
    assert book.reserve(claim("a"), [], ALLOCATABLE, 60.0, RUN).granted
    monkeypatch.setattr(state, "_free_bytes", lambda _folder: state.RESERVE_SIZE - 1)
    with pytest.raises(OSError, match="No space left on device"):
        book.reserve(claim("b"), [], ALLOCATABLE, 60.0, RUN)
    assert list(book.read()) == ["id-a"]
    book.advance("id-a", CONFIRMED, 600.0, RUN)
    book.commit(claim("a"), RUN)
    assert book.release("id-a")


@pytest.mark.parametrize(
    ("kept", "is_removed"),
    [
        ({"train": [2000.0, None, None]}, True),
        ({"train": [2000.0, None, None, "of a newer release"]}, True),
        ({"train": [2000.0, "this run", None]}, False),
        ({"train": [2000.0, None, "this session"]}, False),
        ({"train": [500.0, None, None]}, False),
        ({"train": ["x", None, None]}, False),
        ({"train": 2000.0}, False),
        (["train"], False),
    ],
)
def test_a_teardown_since_facts_were_collected_is_remembered_whatever_else_is_written_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: object, is_removed: bool
) -> None:
    monkeypatch.setattr(ledger, "REMOVALS", str(tmp_path))
    book = LedgerFile(str(tmp_path / "state"), lambda: "boot", Clock())
    book._removals.write_text(json.dumps(kept))
    for _try in range(2):
        assert book.was_removed("train", "this session", 1000.0, "this run") is is_removed
