# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state directory of a host."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import state
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import (
    StateDirectory,
    StateError,
    file_differs,
    write_file,
)

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"
OTHER = "00000000-0e04-4a3c-9d2a-53a1f7b2c8aa"
ME = (os.getuid(), os.getgid())


def record(name: str) -> dict[str, object]:
    return {"schema": 1, "status": "RUNNING", "revision": 1, "plan": {"session": {"name": name}}}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    real = state.write_file
    monkeypatch.setattr(state, "write_file", lambda path, content, mode=0o644: real(path, content, mode, ME))
    return StateDirectory(str(tmp_path / "state"))


def test_a_record_is_read_back_as_it_was_written(directory: StateDirectory) -> None:
    directory.session(SESSION).write_record(record("train"))
    directory.session(OTHER).write_record(record("other"))
    assert directory.records("train") == [record("train")]
    assert directory.session_ids() == [OTHER, SESSION]
    assert (directory.session(SESSION).record_file.stat().st_mode & 0o777) == 0o600


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


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', json.dumps({"schema": 1, "plan": {}}), "null"])
def test_a_damaged_record_is_refused_by_its_name(directory: StateDirectory, text: str) -> None:
    session = directory.session(SESSION)
    session.path.mkdir(parents=True)
    session.record_file.write_text(text)
    with pytest.raises(StateError, match=r"record\.json is damaged"):
        session.read_record()


def test_a_record_of_a_newer_schema_is_refused(directory: StateDirectory) -> None:
    session = directory.session(SESSION)
    session.write_record({**record("train"), "schema": 2})
    with pytest.raises(StateError, match="schema 2"):
        session.read_record()


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


def test_the_owner_of_a_replica_is_remembered(directory: StateDirectory) -> None:
    session = directory.session(SESSION)
    assert session.read_owner("main1") is None
    session.write_owner("main1", 1000, 100)
    assert session.read_owner("main1") == (1000, 100)
    (session.replicas / "main1.owner").write_text("root")
    with pytest.raises(StateError, match=r"main1\.owner"):
        session.read_owner("main1")
