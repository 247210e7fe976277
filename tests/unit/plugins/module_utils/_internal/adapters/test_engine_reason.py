# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told of an engine that does not answer."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Engine,
    EngineError,
)
from ansible_collections.cluster_compute.session.tests.support.adapters.engine_server import (
    engine_server,
)


def refusal(path: Path, *, timeout: float = 60) -> str:
    """Return what is said where the engine's socket is this one. timeout: seconds, short for one that never answers."""
    with pytest.raises(EngineError) as raised:
        Engine.connect(timeout=timeout, path=str(path))
    assert raised.value.is_of_host
    return str(raised.value)


def test_an_engine_that_is_not_there(tmp_path: Path) -> None:
    text = refusal(tmp_path / "docker.sock")
    assert text == (
        "Docker Engine cannot be reached on this host (its socket says: No such file or directory). Run the "
        "prepare_hosts playbook, or start the engine."
    )


def test_an_engine_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    assert "(its socket says: Connection refused)." in refusal(path)


def test_an_engine_that_hangs(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        assert refusal(path, timeout=0.2).startswith("This host hangs: Docker Engine did not answer within 0 seconds.")


def test_an_engine_that_is_not_ready(tmp_path: Path) -> None:
    with engine_server(tmp_path) as server:
        server.answer("GET /_ping", status=503, text="starting")
        assert "(its socket says: starting)." in refusal(server.path)


def test_a_socket_of_something_else(tmp_path: Path) -> None:
    with engine_server(tmp_path) as server:
        server.answer("GET /_ping", text="OK")
        assert "(its socket says: it does not report the version of its API)." in refusal(server.path)
