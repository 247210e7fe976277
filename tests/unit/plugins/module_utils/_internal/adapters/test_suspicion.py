# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host remembers its last failure for a while, and nothing that is written there keeps it from working."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import suspicion
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.suspicion import (
    SECONDS,
    SuspicionFile,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import SessionAnswer
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import Start
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.health import Suspicion
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import engine_trial
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import session_host
from ansible_collections.cluster_compute.session.tests.support.any_request import request_for

At = Callable[[float], SuspicionFile]


@pytest.fixture
def file_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> At:
    """Give the note of a host at a time of its clock."""
    monkeypatch.setattr(suspicion, "REMOVALS", str(tmp_path))
    return lambda now: SuspicionFile("/var/lib/x", lambda: now)


def test_it_ends_by_itself_and_when_it_is_forgotten(file_at: At) -> None:
    assert file_at(100.0).read() is None
    file_at(100.0).remember("The engine has gone.\n")
    assert file_at(100.0).read() == Suspicion("The engine has gone.", SECONDS)
    assert str(file_at(101.0).read()) == "It is suspect, for half an hour at most: The engine has gone."
    assert file_at(100.0 + SECONDS).read() is None
    file_at(200.0).remember("Again.")
    assert file_at(201.0).forget()
    assert not file_at(201.0).forget()
    assert file_at(201.0).read() is None


def test_a_note_of_the_time_before_a_boot_is_none(file_at: At) -> None:
    file_at(100000.0).remember("Long ago.")
    assert file_at(5.0).read() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"reason": "x"}', '{"reason": "x", "since": 1e999}', "\0"])
def test_a_damaged_note_is_none(file_at: At, text: str) -> None:
    file_at(1.0).path.write_text(text, encoding="utf-8")
    assert file_at(1.0).read() is None


def test_a_note_that_cannot_be_written_hides_no_failure(file_at: At, tmp_path: Path) -> None:
    file_at(1.0).path.mkdir()
    file_at(1.0).remember("Gone.")
    assert not file_at(1.0).forget()


class OfHost(SessionError):
    is_of_host = True


@pytest.mark.parametrize(
    ("state", "error", "is_remembered"),
    [
        ("held", OfHost("No space."), True),
        ("started", OfHost("No space."), True),
        ("started", SessionError("The command is unknown."), False),
        ("absent", OfHost("No space."), False),
    ],
)
def test_what_a_host_fails_at_for_reasons_of_its_own_is_remembered(
    file_at: At, monkeypatch: pytest.MonkeyPatch, state: str, error: SessionError, is_remembered: bool
) -> None:
    def fail(_request: object, _check_mode: bool) -> None:
        raise error

    request, start = request_for(state, "/var/lib/x"), request_for("started", "/var/lib/x")
    monkeypatch.setitem(session_host.STATES, type(request), fail)
    monkeypatch.setattr(engine_trial, "problem", lambda *_given: "")
    for check_mode in (True, False):
        with pytest.raises(SessionError):
            session_host.call(request, check_mode)
        assert (SuspicionFile("/var/lib/x").read() is not None) == (is_remembered and not check_mode)
    changed = [False]
    monkeypatch.setitem(session_host.STATES, Start, lambda *_given: SessionAnswer(changed=changed[0]))
    session_host.call(start, False)
    assert (SuspicionFile("/var/lib/x").read() is not None) == is_remembered, "nothing was started, so nothing is shown"
    changed[0] = True
    session_host.call(start, True)
    assert (SuspicionFile("/var/lib/x").read() is not None) == is_remembered
    session_host.call(start, False)
    assert SuspicionFile("/var/lib/x").read() is None
