# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host's identity of its own, and a disk that is on another machine by now."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import machine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state as state_module
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.host_info import (
    LookAtHost,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import CreateIdentity
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import boot, facts, identity
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import host_identity


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    me, write = (os.getuid(), os.getgid()), state_module.write_file
    monkeypatch.setattr(identity, "write_file", lambda path, text, mode=0o644: write(path, text, mode, me))
    monkeypatch.setattr(machine, "hardware_name", lambda: "4c4c4544-0042")
    return StateDirectory(str(tmp_path))


def test_an_identity_is_made_once_and_stays(state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    request = CreateIdentity("h1", str(state.root))
    assert identity.read_identity(state) == identity.Identity()
    assert host_identity.call(request, True).changed
    assert identity.read_identity(state) == identity.Identity()
    assert host_identity.call(request, False).actions == ("create identity h1",)
    first = identity.read_identity(state)
    assert (len(first.id), first.names) == (36, ("h1",))
    assert not host_identity.call(request, False).changed
    assert identity.read_identity(state) == first
    assert "4c4c4544" not in (state.root / "identity.json").read_text(encoding="utf-8")
    monkeypatch.setattr(machine, "hardware_name", lambda: "")
    assert identity.read_identity(state) == first, "a kernel may not tell the machine's name"
    (state.root / "identity.json").write_text("{", encoding="utf-8")
    assert identity.read_identity(state) == identity.Identity()
    assert host_identity.call(request, False).changed
    assert json.loads((state.root / "identity.json").read_text(encoding="utf-8"))["machine"] == ""


def test_a_disk_on_another_machine_is_left_out_and_starts_nothing(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = CreateIdentity("h1", str(state.root))
    host_identity.call(here, False)
    monkeypatch.setattr(machine, "hardware_name", lambda: "4c4c4544-0043")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = facts.host_facts(state, LookAtHost("train"))
    assert not found.usable
    assert "was made on another machine, from which this disk was copied or moved." in found.problem
    with pytest.raises(identity.OtherMachine):
        host_identity.call(here, False)
    for arguments in (["--links"], []):
        assert boot.main(["--state-directory", str(state.root), *arguments]) == 1
        assert "was made on another machine" in capsys.readouterr().out
    (state.root / "identity.json").unlink()  # it was moved
    assert host_identity.call(here, False).changed
    assert identity.read_identity(state).names == ("h1",)
