# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a host tries whether it is why something of a session failed, and what follows from the outcome."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import suspicion
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerError
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import (
    InvalidInput,
    SessionError,
    failed,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.host import engine_trial
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import session_host
from ansible_collections.cluster_compute.session.plugins.module_utils.host.verify import PeersSilent, VerificationFailed

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
        def fail(_arguments: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
            raise error

        def said() -> str:
            tries.append(problem)
            return problem

        monkeypatch.setitem(session_host.STATES, state, fail)
        monkeypatch.setattr(engine_trial, "problem", said)
        arguments = {"state": state, "record": None, "state_directory": str(tmp_path)}
        with pytest.raises((SessionError, OSError)) as found:
            session_host.call(arguments, check_mode)
        answer = failed(found.value)
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
