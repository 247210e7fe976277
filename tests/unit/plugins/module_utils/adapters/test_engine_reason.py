# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told of an engine that does not answer."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import engine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine, EngineError


def refusal(monkeypatch: pytest.MonkeyPatch, path: Path) -> str:
    """Return what is said where the engine's socket is this one."""
    client = engine.docker.APIClient
    monkeypatch.setattr(
        engine.docker, "APIClient", lambda **about: client(f"unix://{path}", **{**about, "timeout": 0.2})
    )
    with pytest.raises(EngineError) as raised:
        Engine.connect()
    return str(raised.value)


def test_an_engine_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = refusal(monkeypatch, tmp_path / "docker.sock")
    assert "(its socket says: No such file or directory). Run the prepare_hosts playbook" in said


def test_an_engine_that_was_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    assert "(its socket says: Connection refused)." in refusal(monkeypatch, path)


def test_an_engine_that_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        assert "(its socket says: it did not answer in time)." in refusal(monkeypatch, path)
