# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a host tries whether it is why something of a session failed, and what follows from the outcome."""

from __future__ import annotations

import errno
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import suspicion
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.locks import take_lock
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.base import (
    Answer,
    failed,
    plain_answer,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    SessionError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import engine_trial
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import session_host
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.verify import (
    PeersSilent,
    VerificationFailed,
)
from ansible_collections.cluster_compute.session.tests.support.any_request import request_for

FULL = "Docker Engine could not run a command: no space left on device."
OWN = (EngineError("no such program"), VerificationFailed("It ended with code 1.\n| a line of its own"), OSError("?"))
"""What may be the session's own, or the host's."""
OTHERS = (
    StateError("torn down"),
    LedgerError("The lease has run out."),
    PeersSilent("h2 has given up."),
    InvalidInput.single("session_name", "x", "It is wrong."),
)
"""What has a reason that is known: somebody else's doing, or a wrong request."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return what answers for a call that fails: the trial says what it is told, and counts how often it was asked."""
    monkeypatch.setattr(suspicion, "REMOVALS", str(tmp_path))
    tries: list[str] = []

    def ask(error: Exception, problem: str, state: str = "started", check_mode: bool = False) -> dict[str, Any]:
        def fail(_request: Any, _check_mode: bool) -> dict[str, Any]:
            raise error

        def said(_only_command: bool = False) -> str:
            tries.append(problem)
            return problem

        request = request_for(state, str(tmp_path))
        monkeypatch.setitem(session_host.STATES, type(request), fail)
        monkeypatch.setattr(engine_trial, "problem", said)
        with pytest.raises((SessionError, OSError)) as found:
            session_host.call(request, check_mode)
        answer = plain_answer(failed(found.value, Answer()))
        remembered = suspicion.SuspicionFile(str(tmp_path)).read()
        return {**answer, "tries": len(tries), "suspect": remembered.reason if remembered else ""}

    return ask


@pytest.mark.parametrize("state", ["started", "amended", "verified"])
@pytest.mark.parametrize("error", OWN, ids=lambda error: type(error).__name__)
def test_a_host_that_starts_nothing_is_sick_and_suspect(host: Any, error: Exception, state: str) -> None:
    answer = host(error, FULL, state)
    assert (answer["sick"], answer["tries"]) == (True, 1)
    assert answer["msg"].startswith(
        f"The host is at fault, as nothing like a replica works there: {FULL} Correct that,"
    )
    assert answer["msg"].splitlines()[1:] == str(error).splitlines()[1:], "what the replica wrote stays at the end"
    assert answer["msg"].startswith(answer["suspect"].splitlines()[0])


@pytest.mark.parametrize("error", OWN, ids=lambda error: type(error).__name__)
def test_a_host_that_starts_an_empty_container_leaves_the_fault_to_the_session(host: Any, error: Exception) -> None:
    answer = host(error, "")
    assert ("sick" in answer, answer["tries"], answer["suspect"]) == (False, 1, "")


@pytest.mark.parametrize("error", OTHERS, ids=lambda error: type(error).__name__)
def test_nothing_is_tried_where_the_reason_is_known(host: Any, error: Exception) -> None:
    answer = host(error, FULL)
    assert ("sick" in answer, answer["tries"], answer["suspect"]) == (False, 0, "")


def test_an_error_that_is_of_the_host_needs_no_trial(host: Any) -> None:
    answer = host(OSError(errno.ENOSPC, "No space left on device"), "")
    assert (answer["sick"], answer["tries"], answer["suspect"]) == (True, 0, "No space left on device.")


@pytest.mark.parametrize(("state", "check_mode"), [("absent", False), ("held", False), ("started", True)])
def test_only_who_starts_replicas_tries(host: Any, state: str, check_mode: bool) -> None:
    assert host(EngineError("no such network"), FULL, state, check_mode)["tries"] == 0


@pytest.mark.parametrize("only_command", [False, True])
def test_links_and_rules_do_not_count_for_a_command_in_a_replica_that_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, only_command: bool
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no program for links
    monkeypatch.setattr(engine_trial, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(engine_trial, "_try_engine", lambda: None)
    fault = engine_trial.host_fault(EngineError("no such program"), only_command)
    assert (fault is None) == only_command, fault


def test_who_waits_for_a_trial_takes_what_it_finds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine_trial, "LOCK", tmp_path / "lock")
    tries: list[int] = []
    goes_on, began = threading.Event(), threading.Event()

    def hang() -> None:
        tries.append(len(tries))
        began.set()
        goes_on.wait(20)
        raise EngineError(FULL)

    monkeypatch.setattr(engine_trial, "_try_engine", hang)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(engine_trial.problem, True)]
        assert began.wait(20)
        asked += [pool.submit(engine_trial.problem, True) for _other in range(3)]
        deadline = time.monotonic() + 10
        while sum(_leads_to(name, tmp_path / "lock") for name in os.listdir("/proc/self/fd")) < 4:
            assert time.monotonic() < deadline
        goes_on.set()
        assert [found.result() for found in asked] == [FULL] * 4
    assert tries == [0]
    assert engine_trial.problem(True) == FULL
    assert tries == [0, 1], "who comes later tries anew"


def _leads_to(descriptor: str, path: Path) -> bool:
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}") == str(path)
    return False


def test_a_trial_that_does_not_end_is_the_hosts_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine_trial, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(engine_trial, "LOCK_SECONDS", 0.05)
    with engine_trial.LOCK.open("a", encoding="ascii") as lock:
        assert take_lock(lock.fileno(), 0)
        assert engine_trial.problem(True) == "Another trial of Docker Engine did not end within 0 seconds."
