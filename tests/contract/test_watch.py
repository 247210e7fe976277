# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A session that waits is tried again when something has moved on a host, and not before."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    QueueTicket,
    Record,
    advance,
    new_record,
    started,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.times import Times
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import session_watch
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import Host, Session


def seen(host: Host) -> str:
    """Return what the host is like, as a launch that finds no room has seen it."""
    return str(host.call("host_info", session_name="waits")["host"]["signature"])


def has_moved(host: Host, signature: str, seconds: float = 0.01) -> bool:
    given: dict[str, Any] = {"session_name": "waits", "signature": signature, "rendezvous_key": "run"}
    answer = host.call("session_watch", seconds=seconds, **given)
    assert not answer["changed"]
    return bool(answer["moved"])


def waiting(name: str) -> Record:
    """Return the record of a session that waits."""
    identifier = f"{len(name):08x}-1111-4222-8333-444455556666"
    return advance(new_record(identifier, "alice", {"name": name}), PENDING, "No room.", queue=QueueTicket(1))


@pytest.fixture
def other(host: Host) -> Session:
    """Return another session, which holds its place."""
    session = host.plan(max_duration="1h")
    assert session.bring("held")["granted"]
    return session


def test_what_holds_a_place_moves_when_it_comes_goes_or_is_over(host: Host, other: Session) -> None:
    before = seen(host)
    assert not has_moved(host, before)
    session = other.files
    session.write_record(started(other.record))
    session.host_file.write_text("here\n", encoding="utf-8")
    session.write_times(encode(Times("boot", 1.0, ran=3599.0)))
    assert not has_moved(host, before), "its hour is not over"
    session.write_times(encode(Times("boot", 1.0, ran=3600.0)))
    assert has_moved(host, before)
    session.times_file.unlink()
    host.ledger.release(other.id)
    assert has_moved(host, before)


def test_what_waits_counts_but_for_the_session_itself(host: Host) -> None:
    before = seen(host)
    own, stranger = waiting("waits"), waiting("stranger")
    host.state.session(own.id).write_record(own)
    assert not has_moved(host, before)
    host.state.session(stranger.id).write_record(stranger)
    assert has_moved(host, before)
    before = seen(host)
    host.state.session(stranger.id).write_record(advance(stranger, PENDING, "Still none."))
    assert has_moved(host, before)
    for record in (own, stranger):
        host.state.remove_session(record.id)


def test_it_is_told_at_once_and_silence_ends_with_the_time(
    host: Host, other: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_watch, "EVERY", 0.05)
    before, begun = seen(host), time.monotonic()
    assert not has_moved(host, before, 0.2)
    assert time.monotonic() - begun >= 0.2
    gives_back = threading.Timer(0.2, host.ledger.release, [other.id])
    gives_back.start()
    assert has_moved(host, before, 30)
    assert time.monotonic() - begun < 15
    gives_back.join()
