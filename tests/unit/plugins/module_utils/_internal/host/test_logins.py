# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A login that does not end is ended here, and what it wrote says why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import background
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import logins

REPLICA: Any = SimpleNamespace(container="c1", name="sub1")


@pytest.mark.parametrize(
    ("process", "code", "wanted", "killed"),
    [
        (0, 0, None, []),
        (0, 255, "Permission denied (exit code 255)", []),
        (4711, None, "Permission denied (it had not ended after 20 seconds)", [{4711}]),
        (0, None, "Permission denied (it had not ended after 20 seconds)", [set()]),
    ],
)
def test_a_failed_login_is_explained(
    monkeypatch: pytest.MonkeyPatch, process: int, code: int | None, wanted: str | None, killed: list[set[int]]
) -> None:
    sent: list[set[int]] = []
    monkeypatch.setattr(background, "send", lambda pids, _number: sent.append(pids))
    monkeypatch.setattr(logins, "ENDING_SECONDS", 0.0)
    engine: Any = SimpleNamespace(
        prepare_command=lambda *_given: "e1",
        run_command=lambda *_given: iter([(b"Permission ", None), (None, b"denied.\n")]),
        command_state=lambda _made: (code is None, process, code),
    )
    assert logins._login(engine, REPLICA, REPLICA) == wanted
    assert sent == killed


def test_an_engine_that_fails_is_not_taken_for_a_slow_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "send", lambda *_given: None)

    def run(*_given: Any) -> Any:
        raise EngineError("It is gone.")

    running = False
    engine: Any = SimpleNamespace(
        prepare_command=lambda *_given: "e1", run_command=run, command_state=lambda _made: (running, 1, None)
    )
    with pytest.raises(EngineError):
        logins._login(engine, REPLICA, REPLICA)
    running = True
    assert logins._login(engine, REPLICA, REPLICA) == "it had not ended after 20 seconds"


@pytest.mark.parametrize(("host", "looked_at"), [("h1", "c2"), ("h2", "c1")])
def test_what_is_in_the_way_of_a_login_is_read_from_a_replica_of_this_host(
    monkeypatch: pytest.MonkeyPatch, host: str, looked_at: str
) -> None:
    engine: Any = None
    client: Any = SimpleNamespace(name="main1", host="h1", container="c1")
    server: Any = SimpleNamespace(name="sub1", host=host, container="c2")
    monkeypatch.setattr(logins, "in_the_way", lambda _engine, container: f" See {container}.")
    monkeypatch.setattr(logins, "_login", lambda *_given: None)
    assert logins.failures(engine, [(client, server)]) == []
    monkeypatch.setattr(logins, "_login", lambda *_given: "exit code 255")
    (failure,) = logins.failures(engine, [(client, server)])
    assert failure.endswith(f"by SSH as the launchers of programs do: exit code 255. See {looked_at}.")
