# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A replica sends something to another one and gets it back, or it is told why not."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Engine,
    EngineError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import Container
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.base import (
    plain_answer,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import Transfer
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import replica_transfer
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import Host, Session, output_of


@pytest.fixture(scope="module")
def pair(shared_host: Host) -> Session:
    """Launch a session of two replicas."""
    return shared_host.launch(name="pair", size=2)


def transfer(session: Session, **given: Any) -> dict[str, Any]:
    # Its host's state has no part in it.
    wanted = Transfer(**{"session_name": session.name, "size": 1, "seconds": 20, **given})
    return dict(plain_answer(replica_transfer.call(wanted, False)))


@pytest.fixture
def alone(pair: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Return the session as if main1 were all that this host has of it."""
    find = Engine.session_containers

    def found(engine: Engine, labels: dict[str, str]) -> list[Container]:
        return [entry for entry in find(engine, labels) if entry.replica == "main1"]

    monkeypatch.setattr(Engine, "session_containers", found)
    return pair


def test_what_was_sent_comes_back(alone: Session) -> None:
    container = output_of("docker", "inspect", "--format", "{{.Id}}", "pair-main1").strip()
    assert transfer(alone) == {"changed": False, "replica": "main1", "container": container}
    found = transfer(alone, peer="sub1", size=3 * replica_transfer.BLOCK - 1)
    assert found.keys() == {"changed", "replica", "took"}
    assert 0 < found["took"] < 20


def test_there_has_to_be_one_replica_that_runs(pair: Session) -> None:
    with pytest.raises(SessionError, match="2 replicas of session pair run here; it has to be one"):
        transfer(pair)
    with pytest.raises(SessionError, match="0 replicas of session other run here"):
        transfer(pair, session_name="other")


def test_it_is_told_why_nothing_or_not_all_came_back(alone: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SessionError, match=r"main1 and 127\.0\.0\.1 do not work together: .*Connection refused"):
        transfer(alone, peer="127.0.0.1")
    monkeypatch.setattr(replica_transfer, "SEND", replica_transfer.SEND.replace(" cat ", " head -c 5 "))
    lacking = f"main1 and sub1 do not work together: 5 of {replica_transfer.BLOCK} bytes came back"
    with pytest.raises(SessionError, match=lacking):
        transfer(alone, peer="sub1")


def test_it_ends_in_time_where_the_other_one_says_nothing(alone: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """That nothing came back would be said at the end of the command; nobody waits for that."""
    monkeypatch.setattr(replica_transfer, "SEND", "sleep 15")
    with pytest.raises(EngineError, match=r"could not run 'sh' in the container .* did not answer in time"):
        transfer(alone, peer="sub1", seconds=1)
