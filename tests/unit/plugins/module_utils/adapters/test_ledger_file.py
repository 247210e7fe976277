# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ledger on a host's disk."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import ledger, state
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import (
    LedgerError,
    LedgerFile,
    boot_id,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import (
    COMMITTED,
    CONFIRMED,
    LEASED,
    Claim,
    Room,
)

ROOM = Room(cpus=3000, memory=3000)


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
    assert book.reserve(claim("a"), [], ROOM, 60.0).granted
    assert book.read()["id-a"].stage == LEASED
    book.advance("id-a", CONFIRMED, 600.0)
    clock.now += 300
    assert book.read()["id-a"].stage == CONFIRMED
    book.commit(claim("a"))
    clock.now += 10**9
    assert book.read()["id-a"].stage == COMMITTED
    assert not book.release("id-a", committed=False), "a session that runs is not given back"
    assert book.release("id-a")
    assert not book.release("id-a")
    assert list((tmp_path / "state").iterdir()) == [], "a host that holds nothing has no ledger"


def test_what_is_not_carried_on_is_free_again(tmp_path: Path) -> None:
    clock = Clock()
    book = LedgerFile(str(tmp_path), lambda: "boot", clock)
    assert book.reserve(claim("a", 3000), [], ROOM, 60.0).granted
    assert not book.reserve(claim("b"), [], ROOM, 60.0).granted
    clock.now += 60
    assert book.reserve(claim("b"), [], ROOM, 60.0).granted
    with pytest.raises(LedgerError, match="run out"):
        book.advance("id-a", CONFIRMED, 60.0)


def test_asking_again_for_what_runs_writes_nothing(tmp_path: Path) -> None:
    book = LedgerFile(str(tmp_path), lambda: "boot", Clock())
    book.commit(claim("a"))
    before = book.path.stat()
    assert book.reserve(claim("a"), [], ROOM, 60.0).granted
    book.advance("id-a", CONFIRMED, 60.0)
    assert (book.path.stat().st_ino, book.path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert book.read()["id-a"].stage == COMMITTED


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 9, "reservations": []}', '{"schema": 1}'])
def test_a_damaged_ledger_is_named_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    book = LedgerFile(str(tmp_path), lambda: "boot", Clock())
    book.path.write_text(text)
    for use in (book.read, lambda: book.reserve(claim("a"), [], ROOM, 60.0), lambda: book.release("id-a")):
        with pytest.raises(LedgerError, match=r"ledger\.json cannot be trusted"):
            use()
    assert book.path.read_text() == text


def ask(directory: str, name: str, results: multiprocessing.Queue[bool]) -> None:
    results.put(LedgerFile(directory, lambda: "boot", Clock()).reserve(claim(name), [], ROOM, 60.0).granted)


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
