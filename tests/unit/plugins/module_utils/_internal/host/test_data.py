# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a launch wrote into folders that are not its own is removed, and never in the way of a teardown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import folders
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state as state_module
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import (
    SessionDirectory,
    StateDirectory,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    new_record,
    prepared,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import data
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.steps import perform
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"


@pytest.fixture
def probed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionDirectory:
    """Give the state of a session that has written its probe into two folders."""
    me, write = (os.getuid(), os.getgid()), state_module.write_file
    monkeypatch.setattr(state_module, "write_file", lambda path, text, mode=0o644: write(path, text, mode, me))
    session = StateDirectory(str(tmp_path / "state")).session(SESSION)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / data.probe_name(SESSION)).write_text("x")
    session.write_made({"proofs": [str(tmp_path / name) for name in ("one", "two")], "roots": [str(tmp_path)]})
    return session


def test_a_folder_that_lets_nothing_be_removed_is_not_in_the_way_of_a_teardown(
    probed: SessionDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one with root_squash that is closed to all but root, or a file system that has become read-only."""
    really = folders.remove_inside

    def refuse(folder: int, name: str, ids: folders.Ids | None) -> None:
        if os.readlink(f"/proc/self/fd/{folder}").endswith("/one"):
            raise PermissionError(13, "Permission denied")
        really(folder, name, ids)

    monkeypatch.setattr(folders, "remove_inside", refuse)
    data.remove_probes(probed, SESSION)
    assert probed.read_made()["proofs"] == [str(tmp_path / "one")]
    assert os.listdir(tmp_path / "two") == []
    no_engine: Any = None
    perform(data.removal_steps(probed, SESSION, no_engine, undo=True))
    monkeypatch.setattr(folders, "remove_inside", really)
    perform(data.removal_steps(probed, SESSION, no_engine, undo=True))
    assert os.listdir(tmp_path / "one") == []


def test_two_changes_of_a_session_at_once_do_not_write_one_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two hosts writes for its own change, and each reads what the other host of its change wrote."""
    me, write = (os.getuid(), os.getgid()), state_module.write_file
    monkeypatch.setattr(state_module, "write_file", lambda path, text, mode=0o644: write(path, text, mode, me))
    monkeypatch.setattr(data, "PROBE_SECONDS", 0.0)
    shared = tmp_path / "shared"
    shared.mkdir()
    writer = {"mount_roots": [str(tmp_path)], "data": {str(shared): {"filesystem": "nfs4", "proof": "writes"}}}
    reader = {**writer, "data": {str(shared): {"filesystem": "nfs4", "proof": "reads"}}}
    mounts = [{"source": str(shared), "target": "/data", "read_only": False}]
    plan = {"hosts": {"h1": writer, "h2": reader}, "request": {"mounts": mounts}}
    record = prepared(new_record(SESSION, "alice", {"name": "train"}), plan)
    states = {name: StateDirectory(str(tmp_path / name)).session(SESSION) for name in ("one", "other", "reads")}

    def on(host: str, state: str) -> data.SessionData:
        return data.SessionData(record, typed_plan(plan), host, states[state])

    for state in ("one", "other"):
        on("h1", state).prepare(f"secret of {state}", False)
    for state in ("one", "other"):
        on("h2", "reads").check_probes(f"secret of {state}")
    data.remove_probes(states["one"], SESSION)
    on("h2", "reads").check_probes("secret of other")
    data.remove_probes(states["other"], SESSION)
    assert os.listdir(shared) == []


def test_a_folder_that_another_host_has_made_is_found_although_it_was_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS, which says that it is missing until the folder above is opened for reading."""
    source, really, opened = tmp_path / "new", os.open, list[str]()

    def open_folder(path: Any, flags: int, *given: Any, **named: Any) -> int:
        if path == str(tmp_path) and not flags & os.O_PATH and not opened:
            opened.append(path)
            source.mkdir()
            (source / data.probe_name(SESSION, "secret")).write_text(data.probe_text("secret", str(source)))
        return really(path, flags, *given, **named)

    monkeypatch.setattr(os, "open", open_folder)
    monkeypatch.setattr(data, "PROBE_SECONDS", 0.0)
    reader = {"mount_roots": [str(tmp_path)], "data": {str(source): {"filesystem": "nfs4", "proof": "reads"}}}
    writer = {**reader, "data": {str(source): {"filesystem": "nfs4", "proof": "writes"}}}
    mount = {"source": str(source), "target": "/data", "read_only": False}
    plan = {"hosts": {"h1": writer, "h2": reader}, "request": {"mounts": [mount]}}
    record = prepared(new_record(SESSION, "alice", {"name": "train"}), plan)
    session = data.SessionData(record, typed_plan(plan), "h2", StateDirectory(str(tmp_path / "state")).session(SESSION))
    session.check_probes("secret")
    with pytest.raises(folders.FolderError, match="is not the folder that h1 has there"):
        session.check_probes("another")


def test_a_probe_that_the_first_roles_have_removed_is_not_missed_by_those_that_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they were given as their data is theirs to empty, as a file store does that is made anew."""
    reader = {"mount_roots": [str(tmp_path)], "data": {str(tmp_path): {"filesystem": "nfs4", "proof": "reads"}}}
    writer = {**reader, "data": {str(tmp_path): {"filesystem": "nfs4", "proof": "writes"}}}
    mount = {"source": str(tmp_path), "target": "/data", "read_only": False}
    plan = {"hosts": {"h1": writer, "h2": reader}, "request": {"mounts": [mount]}}
    record = prepared(new_record(SESSION, "alice", {"name": "train"}), plan)
    session = data.SessionData(record, typed_plan(plan), "h2", StateDirectory(str(tmp_path / "state")).session(SESSION))
    monkeypatch.setattr(data, "PROBE_SECONDS", 0.0)
    with pytest.raises(folders.FolderError, match="is not the folder that h1 has there"):
        session.check_probes("secret")
    there = folders.Mounted(folders.bind_mount_path(SESSION, 0), (), "nfs4", "server:/data")
    monkeypatch.setattr(folders, "mounted", lambda: [there])
    session.check_probes("secret")


@pytest.mark.parametrize(
    ("mounted", "is_running", "same", "action"),
    [
        (False, False, False, "create"),
        (False, True, True, "create"),
        (True, True, False, None),
        (True, False, True, None),
        (True, False, False, "renew"),
    ],
)
def test_a_bind_mount_that_is_as_wanted_or_in_use_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: bool, is_running: bool, same: bool, action: str | None
) -> None:
    there = [folders.Mounted(folders.bind_mount_path(SESSION, 0), (), "nfs4", "server:/data")]
    monkeypatch.setattr(folders, "mounted", lambda: there if mounted else [])
    monkeypatch.setattr(data.SessionData, "_is_same", lambda *_given: same)
    host = {"mount_roots": [str(tmp_path)], "data": {str(tmp_path): {"filesystem": "nfs4", "proof": None}}}
    mounts = [{"source": source, "target": "/data", "read_only": False} for source in (str(tmp_path), None)]
    plan = {"hosts": {"h1": host}, "request": {"mounts": mounts}}
    record = prepared(new_record(SESSION, "alice", {"name": "train"}), plan)
    session = data.SessionData(record, typed_plan(plan), "h1", StateDirectory(str(tmp_path / "state")).session(SESSION))
    assert [step.action for step in session._bind_mount_steps(is_running, True)] == [action] * bool(action)
