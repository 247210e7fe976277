# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the owner's files are made from, and the folder in which they are to lie."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.action.session_login import _contents, _known, _record
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils.core.group import GroupFacts
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.answers import (
    FactsAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import (
    ERROR,
    PENDING,
    QueueTicket,
    Record,
    advance,
    new_record,
)
from ansible_collections.cluster_compute.session.tests.host_facts import typed
from ansible_collections.cluster_compute.session.tests.unit.plugins.module_utils.core.verbs.group import (
    facts,
    request,
)


def test_what_is_in_the_folder(tmp_path: Path) -> None:
    assert _contents(str(tmp_path / "missing")) == ([], "")
    (tmp_path / "known_hosts").write_text("h1 ssh-ed25519 AAAA\n", encoding="utf-8")
    assert _contents(str(tmp_path)) == (["known_hosts"], "")
    (tmp_path / "config").write_text("Host *\n", encoding="utf-8")
    entries, configuration = _contents(str(tmp_path))
    assert (sorted(entries), configuration) == (["config", "known_hosts"], "Host *\n")


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("", encoding="utf-8")
    with pytest.raises(InvalidInput, match="login_directory"):
        _contents(str(place))


def test_a_host_is_right_about_its_own_replicas() -> None:
    plan = {
        "session": {"id": "s"},
        "replicas": [{"name": name, "host": host} for name, host in (("main1", "h1"), ("sub1", "h2"), ("sub2", "h3"))],
    }
    known = {
        "h1": {"public_keys": {"s": {"main1": "new", "sub1": "old", "sub2": "known"}}, "users": {"s": {"main1": "a"}}},
        "h2": {"public_keys": {"s": {"main1": "old", "sub1": "new"}}, "users": {"s": {"sub1": "b"}}},
        "h4": {"public_keys": {"t": {"main1": "other"}}, "users": {}},
    }
    keys, users = _known(GroupFacts(typed(known), {}, [], [], {}), plan)
    assert keys == {"main1": "new", "sub1": "new", "sub2": "known"}
    assert users == {"main1": "a", "sub1": "b"}


def _session(number: int, status: str) -> Record:
    record = new_record(f"{number:08d}-0000-4000-8000-000000000000", "alice", request().to_dict())
    return advance(record, status, "x", **({"queue": QueueTicket(1)} if status == PENDING else {}))


def test_of_sessions_of_one_name_that_which_has_not_ended_is_meant() -> None:
    ended, waits = _session(1, ERROR), _session(2, PENDING)
    group = GroupFacts.read(read_answers(FactsAnswer, {"h1": {"host": facts(ended, waits)}}), {"h1": {}})
    assert _record(group, "train") == waits
    over = GroupFacts.read(read_answers(FactsAnswer, {"h1": {"host": facts(ended)}}), {"h1": {}})
    assert _record(over, "train") == ended
    assert _record(group, "other") is None
