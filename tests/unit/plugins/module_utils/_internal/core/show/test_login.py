# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which session is meant by who wants to log in, and what hosts tell of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import GroupFacts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    FactsAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    QueueTicket,
    Record,
    advance,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import ADMIN
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.login import (
    Login,
    find_login,
    login_address,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    Launch,
    facts,
    request,
)
from ansible_collections.cluster_compute.session.tests.support.host_facts import CONTAINER

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1ZMjyOJ9Ih6bSZ9lFjKW8ZfZ2VqkVzW7vJ0Zx6c3mQ"


HOME = {"main1": "h1", "sub1": "h2", "sub2": "h3"}


@pytest.fixture
def hosts() -> dict[str, Any]:
    """What the three hosts of a session tell, each of which knows old keys of the others."""
    launched = Launch(request(authorized_keys=KEY)).until("").run_on()
    (session,) = launched.hosts["h1"]["public_keys"]
    answers = {}
    for replica, host in HOME.items():
        known = {name: {"host": f"{name} as {host} knows it"} for name in HOME}
        container = {**CONTAINER, "name": f"train-{replica}", "session_id": session, "replica": replica}
        answers[host] = {
            **launched.hosts[host],
            "public_keys": {session: known},
            "users": {session: {replica: f"user of {replica}"}},
            "containers": [container],
        }
    return answers


def find(hosts: dict[str, Any], away: str = "") -> Login:
    answers = {host: {"unreachable": True} if host == away else {"host": said} for host, said in hosts.items()}
    group = GroupFacts.read(read_answers(FactsAnswer, answers), {host: {} for host in hosts})
    return find_login(group, "train", "pool", ADMIN)


def test_a_host_is_right_about_its_own_replicas(hosts: dict[str, Any]) -> None:
    found = find(hosts)
    assert found.public_keys == {name: {"host": f"{name} as {host} knows it"} for name, host in HOME.items()}
    assert found.users == {name: f"user of {name}" for name in HOME}
    found = find(hosts, away="h3")
    assert found.public_keys["sub2"] == {"host": "sub2 as h2 knows it"}
    assert found.users == {name: f"user of {name}" for name in ("main1", "sub1")}


def test_nobody_gets_in_where_main1_is_away_or_does_not_run(hosts: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"host h1 is 'missing': It runs main1.* It could not be reached"):
        find(hosts, away="h1")
    hosts["h1"]["containers"][0]["state"] = "exited"
    with pytest.raises(InvalidInput, match="container train-main1 is 'exited': It does not run"):
        find(hosts)
    hosts["h1"]["containers"] = []
    with pytest.raises(InvalidInput, match="container train-main1 is 'missing'"):
        find(hosts)


def test_of_sessions_of_one_name_that_which_has_not_ended_is_meant(hosts: dict[str, Any]) -> None:
    def session(number: int, status: str) -> Record:
        record = new_record(f"{number:08d}-0000-4000-8000-000000000000", "alice", request().to_dict())
        return advance(record, status, "x", **({"queue": QueueTicket(1)} if status == PENDING else {}))

    ended, waits = session(0, ERROR), session(1, PENDING)
    for records, why in (([ended], "has ended"), ([ended, waits], "waits in the queue"), ([], "know no session")):
        with pytest.raises(InvalidInput, match=why):
            find({"h1": facts(*records)})
    hosts["h1"]["records"] = [encode(ended), *hosts["h1"]["records"]]
    assert find(hosts).plan.session.name == "train"
    # Another one of this name is that of the resource group.
    theirs = replace(session(7, PENDING), request=request(resource_group="pool").to_dict())
    hosts["h1"]["records"] = [encode(theirs), *hosts["h1"]["records"]]
    with pytest.raises(InvalidInput, match="waits in the queue"):
        find(hosts)


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({}, "h1"),
        ({"ansible_host": "10.0.0.1", "cluster_compute_login_address": ""}, "10.0.0.1"),
        ({"ansible_host": "10.0.0.1", "cluster_compute_login_address": " login.example "}, "login.example"),
    ],
)
def test_where_users_reach_a_host(variables: dict[str, Any], address: str) -> None:
    assert login_address(variables, "h1") == address
