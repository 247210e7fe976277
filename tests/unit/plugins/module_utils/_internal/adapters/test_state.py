# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state directory of a host."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import (
    DamagedFile,
    StateDirectory,
    StateError,
    file_differs,
    write_file,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    QueueTicket,
    Record,
    Tombstone,
    advance,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session import files

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"
OTHER = "00000000-0e04-4a3c-9d2a-53a1f7b2c8aa"
ME = (os.getuid(), os.getgid())


def record(name: str, session_id: str = SESSION) -> Record:
    waiting = new_record(session_id, "alice", {"name": name})
    return advance(waiting, PENDING, "There was no room for it.", queue=QueueTicket(1))


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    real = state.write_file
    monkeypatch.setattr(state, "write_file", lambda path, content, mode=0o644: real(path, content, mode, ME))
    return StateDirectory(str(tmp_path / "state"))


def test_a_record_is_read_back_as_it_was_written(directory: StateDirectory) -> None:
    directory.session(SESSION).write_record(record("train"))
    directory.session(OTHER).write_record(record("other", OTHER))
    assert directory.records() == ([record("other", OTHER), record("train")], [])
    assert directory.session_ids() == [OTHER, SESSION]
    assert (directory.session(SESSION).record_file.stat().st_mode & 0o777) == 0o600


@pytest.mark.parametrize("has_reserve", [True, False])
def test_a_write_on_a_full_disk_gets_a_piece_of_the_reserve_which_is_filled_up_when_there_is_room(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch, has_reserve: bool
) -> None:
    session, reserve = directory.session(SESSION), directory.root / state.RESERVE
    session.write_record(record("train"))
    if has_reserve:
        reserve.write_bytes(bytes(state.RESERVE_SIZE))
    make_file, limit = tempfile.mkstemp, state.RESERVE_SIZE if has_reserve else 0

    def make_file_where_room_is(**given: Any) -> tuple[int, str]:
        if not has_reserve or reserve.stat().st_size >= limit:
            raise OSError(errno.ENOSPC, "No space left on device")
        return make_file(**given)

    monkeypatch.setattr(tempfile, "mkstemp", make_file_where_room_is)
    later = advance(record("train"), PENDING, "Later.")
    if not has_reserve:
        with pytest.raises(OSError, match="No space left"):
            session.write_record(later)
        assert session.read_record() == record("train")
        return
    session.write_record(later)
    assert session.read_record() == later
    assert reserve.stat().st_size == state.RESERVE_SIZE - state.PIECE
    limit = 0  # it does not help any more
    for left in range(state.RESERVE_SIZE - 2 * state.PIECE, -1, -state.PIECE):
        with pytest.raises(OSError, match="No space left"):
            session.write_record(later)
        assert reserve.stat().st_size == left
    monkeypatch.setattr(tempfile, "mkstemp", make_file)
    monkeypatch.setattr(state, "_free_bytes", lambda _folder: 0)
    session.write_record(later)
    assert reserve.stat().st_size == 0
    monkeypatch.undo()
    state.write_file(session.record_file, "{}", 0o600, ME)
    assert reserve.stat().st_size == state.RESERVE_SIZE


def test_what_replicas_have_mounted_is_not_left_empty_by_a_full_disk(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reserve = directory.session(SESSION).hosts_file("main1"), directory.root / state.RESERVE
    path.parent.mkdir(parents=True)
    path.write_text("before")
    reserve.write_bytes(bytes(state.RESERVE_SIZE))
    flush = os.fsync

    def flush_where_room_is(descriptor: int) -> None:
        if reserve.stat().st_size == state.RESERVE_SIZE:
            raise OSError(errno.ENOSPC, "No space left on device")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", flush_where_room_is)
    state.write_in_place(path, "after", 0o644, ME)
    assert path.read_text() == "after"


def test_removing_the_last_session_removes_the_folder(directory: StateDirectory) -> None:
    for session_id in (SESSION, OTHER):
        directory.session(session_id).write_record(record("train"))
    directory.remove_session(SESSION)
    assert directory.session_ids() == [OTHER]
    directory.remove_session(OTHER)
    assert directory.root.is_dir()
    assert not directory.sessions.exists()


@pytest.mark.parametrize("name", ["", "..", "../../etc", "a/b", SESSION.upper(), SESSION + "x", SESSION + "\n"])
def test_a_session_id_that_is_no_uuid_never_becomes_a_path(directory: StateDirectory, name: str) -> None:
    with pytest.raises(StateError, match="not a UUID"):
        directory.session(name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 1}',
        json.dumps({**encode(record("train")), "revision": 0}),
        "null",
        json.dumps(encode(record("x", OTHER))),
    ],
)
def test_a_damaged_record_is_named_and_keeps_no_other_from_its_host(directory: StateDirectory, text: str) -> None:
    session = directory.session(SESSION)
    session.path.mkdir(parents=True)
    session.record_file.write_text(text)
    with pytest.raises(DamagedFile, match=r"record\.json is damaged") as error:
        session.read_record()
    assert error.value.path == session.record_file
    directory.session(OTHER).write_record(record("other", OTHER))
    found, (damaged,) = directory.records()
    assert found == [record("other", OTHER)]
    assert isinstance(damaged, DamagedFile)
    assert damaged.path == session.record_file
    assert session.record_file.read_text() == text


def test_bytes_that_are_no_text_are_a_damaged_record(directory: StateDirectory) -> None:
    session = directory.session(SESSION)
    session.path.mkdir(parents=True)
    session.record_file.write_bytes(b"\xff\x00{}")
    (damaged,) = directory.records()[1]
    assert isinstance(damaged, DamagedFile)
    assert damaged.path == session.record_file


def test_a_record_of_a_newer_schema_is_refused_and_not_damaged(directory: StateDirectory) -> None:
    session = directory.session(SESSION)
    session.write_record(replace(record("train"), schema=2))
    with pytest.raises(StateError, match="schema 2") as error:
        session.read_record()
    found, problems = directory.records()
    assert (found, len(problems)) == ([], 1)
    for problem in (error.value, problems[0]):
        assert not isinstance(problem, DamagedFile), "nobody sets it aside"


def test_a_session_without_a_record_has_none(directory: StateDirectory) -> None:
    directory.session(SESSION).path.mkdir(parents=True)
    assert directory.session(SESSION).read_record() is None
    assert directory.session(OTHER).read_record() is None
    assert directory.records() == ([], [])
    assert directory.session_ids() == [SESSION]


def test_files_set_aside_keep_their_content_and_their_names_apart(directory: StateDirectory) -> None:
    session = directory.session(SESSION)
    targets = []
    for text in ("first", "second"):
        session.path.mkdir(parents=True, exist_ok=True)
        session.record_file.write_text(text)
        targets.append(directory.set_aside(session.record_file))
        assert not session.record_file.exists()
    name = f"sessions-{SESSION}-record.json"
    assert targets == [directory.root / "damaged" / f"{name}-{number}" for number in (1, 2)]
    assert [target.read_text() for target in targets] == ["first", "second"]
    assert ((directory.root / "damaged").stat().st_mode & 0o777) == 0o700
    assert directory.records() == ([], [])


def test_a_tombstone_stands_until_it_is_removed(directory: StateDirectory) -> None:
    assert directory.tombstones() == []
    directory.write_tombstone(SESSION, "train", ["h3", "h2"])
    directory.write_tombstone(OTHER, "other", [])
    assert directory.tombstones() == [
        Tombstone(OTHER, "other", ()),
        Tombstone(SESSION, "train", ("h2", "h3")),
    ]
    assert (directory.tombstone_file(SESSION).stat().st_mode & 0o777) == 0o600
    assert directory.session_ids() == [], "a tombstone is no session"
    directory.remove_tombstone(SESSION)
    directory.remove_tombstone(SESSION)
    assert [tombstone.id for tombstone in directory.tombstones()] == [OTHER]
    directory.remove_tombstone(OTHER)
    assert [path.name for path in directory.root.iterdir()] == ["version"], "the last one takes the folder with it"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", json.dumps({"schema": 1, "id": OTHER, "name": "x", "hosts": []})]
)
def test_a_malformed_tombstone_is_named(directory: StateDirectory, text: str) -> None:
    directory.write_tombstone(SESSION, "train", [])
    path = directory.tombstone_file(SESSION)
    path.write_text(text)
    with pytest.raises(DamagedFile, match=f"{SESSION}.json") as error:
        directory.tombstones()
    assert error.value.path == path


@pytest.mark.parametrize("name", ["..", "../../etc/x", SESSION.upper()])
def test_a_tombstone_never_leaves_its_folder(directory: StateDirectory, name: str) -> None:
    for use in (lambda: directory.write_tombstone(name, "x", []), lambda: directory.remove_tombstone(name)):
        with pytest.raises(StateError, match="not a UUID"):
            use()


def test_clearing_a_session_leaves_its_record(directory: StateDirectory) -> None:
    session = directory.session(SESSION)
    session.write_record(record("train"))
    session.write_owner("main1", 1000, 100, "work")
    session.host_file.write_text("h1\n")
    session.public_keys_file.write_text("{}")
    assert session.read_host() == "h1"
    session.clear()
    assert [entry.name for entry in session.path.iterdir()] == ["record.json"]
    assert session.read_host() is None


@pytest.mark.parametrize("text", ["", "[]", '{"main1": null}', '{"main1": "key"}', '{"main1": {"host": 1}}'])
def test_public_keys_that_are_damaged_are_not_known(directory: StateDirectory, text: str) -> None:
    session = directory.session(SESSION)
    session.write_record(record("train"))
    keys = {"main1": {"host": "key", "client": None}}
    session.public_keys_file.write_text(session.public_keys_text(keys))
    assert session.read_public_keys() == keys
    session.public_keys_file.write_text(text)
    assert session.read_public_keys() == {}


def test_restarts_are_counted(directory: StateDirectory) -> None:
    session = directory.session(SESSION)
    assert session.read_restarts("main1") == 0
    session.write_restarts("main1", 3)
    assert (session.read_restarts("main1"), session.read_restarts("sub1")) == (3, 0)


def test_writing_leaves_no_temporary_file_and_keeps_the_old_content_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_file(path, "old", owner=ME)

    def fail(_source: str, _target: str) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_file(path, "new", owner=ME)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_file_differs_by_content_mode_owner_and_kind(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert file_differs(path, "text", 0o644, ME)
    write_file(path, "text", 0o644, ME)
    assert not file_differs(path, "text", 0o644, ME)
    assert file_differs(path, "other", 0o644, ME)
    assert file_differs(path, "text", 0o600, ME)
    assert file_differs(path, "text", 0o644, (ME[0] + 1, ME[1]))
    (tmp_path / "link").symlink_to(path)
    assert file_differs(tmp_path / "link", "text", 0o644, ME)


def test_a_file_that_a_replica_made_terabytes_of_is_read_as_far_as_it_matters(tmp_path: Path) -> None:
    path = tmp_path / "main1.hosts"
    write_file(path, "127.0.0.1 localhost\n", 0o644, ME)
    os.truncate(path, 2**43)
    assert file_differs(path, "127.0.0.1 localhost\n", 0o644, ME)
    step = files._write_step(path, "127.0.0.1 localhost\n")
    assert step is not None
    assert step.before == "larger than 1048576 bytes"
    path.write_bytes(b"\xff\xfe")
    assert file_differs(path, "127.0.0.1 localhost\n", 0o644, ME)


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EIO, "Input/output error")])
def test_a_record_that_cannot_be_read_now_keeps_no_other_from_it(
    directory: StateDirectory, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, session_id in (("one", SESSION), ("other", OTHER)):
        directory.session(session_id).write_record(record(name, session_id))
    sound = Path.read_text

    def read_text(path: Path, **given: str) -> str:
        if SESSION in path.parts:
            raise error
        return sound(path, **given)

    monkeypatch.setattr(Path, "read_text", read_text)
    found, damaged = directory.records()
    assert [problem.name for problem in found] == ["other"]
    assert len(damaged) == 1
    assert not isinstance(damaged[0], DamagedFile), "it may be sound"
    assert SESSION in str(damaged[0])


def test_the_owner_of_a_replica_is_remembered(directory: StateDirectory) -> None:
    session = directory.session(SESSION)
    assert session.read_owner("main1") is None
    assert session.read_logins() == {}
    session.write_owner("main1", 1000, 100, "work")
    assert session.read_owner("main1") == (1000, 100)
    assert session.read_logins() == {"main1": "work"}
    (session.replicas / "main1.owner").write_text("root")
    with pytest.raises(StateError, match=r"main1\.owner"):
        session.read_owner("main1")


HOLDER = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
descriptor = os.open(sys.argv[1], os.O_RDONLY if sys.argv[2] == "read" else os.O_RDWR)
fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK if sys.argv[2] == "read" else fcntl.F_WRLCK)
print("held", flush=True)
sys.stdin.read()
"""
"""A program of a replica that lets nobody open a file (fcntl(2), F_SETLEASE)."""


@pytest.mark.parametrize("kind", ["read", "write"])
def test_nobody_waits_for_the_lease_of_a_file_that_a_replica_may_write(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("before", encoding="ascii")
    command = [sys.executable, "-c", HOLDER, str(path), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError):
            state.write_in_place(path, "after", 0o644, ME)
        if kind == "write":
            with pytest.raises(BlockingIOError):
                state.file_differs(path, "before", path.stat().st_mode & 0o7777, ME)
        assert holder.poll() is None
        holder.kill()
    state.write_in_place(path, "after", 0o644, ME)
    assert path.read_text(encoding="ascii") == "after"
