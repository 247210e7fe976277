# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import questions
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.questions import Question
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.membership import WAITING
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import peers
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.peers import Peers
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.verify import PeersSilent
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

HOSTS = {f"h{number}": {"underlay_address": f"192.0.2.{number}"} for number in (1, 2, 3)}
NETWORK = {"vni": 5000, "port": 4789}


class Asked:
    """What was asked, and what is answered: the addresses of those that gave up."""

    def __init__(self) -> None:
        self.rounds: list[list[Question]] = []
        self.given_up: list[str] = []

    def ask(self, wanted: Iterable[Question], _seconds: float) -> dict[Question, bool]:
        self.rounds.append(list(wanted))
        return {question: False for question in self.rounds[-1] if question.address in self.given_up}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    monkeypatch.setattr(questions, "ask", found.ask)
    return found


class Clock:
    """A clock that goes on when it is told to."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(peers, "monotonic", found.monotonic)
    return found


def waited_for(network: dict[str, Any] | None) -> Peers:
    return Peers(typed_plan({"hosts": HOSTS, "network": network}), "h1")


def wait(waiting: Peers, clock: Clock, seconds: int) -> None:
    for _second in range(seconds):
        waiting.check()
        while [thread for thread in threading.enumerate() if thread.name == peers.THREAD]:
            time.sleep(0.001)
        clock.now += 1


def test_those_that_gave_up_are_named(asked: Asked, clock: Clock) -> None:
    waiting = waited_for(NETWORK)
    wait(waiting, clock, 2)
    assert {question.address for question in asked.rounds[0]} == {"192.0.2.2", "192.0.2.3"}
    assert {(question.local, question.flags) for question in asked.rounds[0]} == {("192.0.2.1", WAITING)}
    asked.given_up = ["192.0.2.3"]
    with pytest.raises(PeersSilent, match=r"could not be started on h3\.$"):
        wait(waiting, clock, 3)


def test_many_hosts_are_asked_less_and_less_often(asked: Asked, clock: Clock) -> None:
    wait(waited_for(NETWORK), clock, 41)
    assert len(asked.rounds) == 8  # after 1, 2, 4, 8, 16, 24, 32 and 40 seconds


def test_who_starts_alone_asks_nobody(asked: Asked, clock: Clock) -> None:
    wait(waited_for(None), clock, 5)
    assert asked.rounds == []
