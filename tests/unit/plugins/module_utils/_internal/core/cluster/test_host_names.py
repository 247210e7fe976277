# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that the inventory calls otherwise than sessions do: what is put into whose names, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import GroupFacts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    FactsAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import (
    KeepRecords,
    Repair,
    Start,
    StopJob,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    TERMINATED,
    Growth,
    QueueTicket,
    Record,
    advance,
    new_record,
    prepared,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.verb_state import plain_calls
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import (
    PlanInputs,
    build_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import RenamedHost
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    call,
    calls_of,
)
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    facts,
    request,
)
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed
from ansible_collections.cluster_compute.session.tests.support.plans import placed

OTHER = "00000000-0e04-4a3c-9d2a-53a1f7b2c8aa"
SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"


def session() -> Record:
    """Return the record of a session that runs on h1 and h2, and waits to grow there."""
    idle = typed({f"h{number}": facts(number=number) for number in (1, 2)})
    wanted = request(size=2, hosts=["h1", "h2"])
    plan = build_plan(wanted, placed(wanted, hosts_from_facts(idle, {})), SESSION, PlanInputs(idle, Settings()))
    record = started(prepared(new_record(SESSION, "alice", wanted.to_dict()), encode(plan)))
    return replace(record, growth=Growth(request(size=4, hosts=["h1", "h2"]).to_dict(), 1))


def host(number: int, called: str | None, *records: Record, replica: str = "", **more: Any) -> dict[str, Any]:
    """Return the facts of a host. called: what it has written down that the session calls it; replica: what it has."""
    container = {"name": f"train-{replica}", "session_id": SESSION, "session_name": "train", "replica": replica}
    there = {**container, "cpus": 1, "memory": 1, "devices": {}, "state": "running"}
    held = [Reservation(claims_of(read_plan(session().plan))[f"h{number}"], COMMITTED, "boot", None)] if called else []
    return facts(
        *records,
        held=held,
        number=number,
        containers=[there] if replica else [],
        objects={SESSION: {"name": "train", "kinds": ["container"]}} if replica else {},
        host_names={} if called is None else {SESSION: called},
        **more,
    )


def group(away: tuple[str, ...] = (), **hosts: dict[str, Any]) -> GroupFacts:
    answers: dict[str, Any] = {name: {"host": found} for name, found in hosts.items()}
    answers.update({name: {"unreachable": True} for name in away})
    return GroupFacts.read(read_answers(FactsAnswer, answers), {name: {} for name in answers})


def pair(**names: str) -> GroupFacts:
    """Return the session's hosts; names: by what the inventory calls a host what the session does."""
    record = session()
    replicas = {replica["host"]: replica["name"] for replica in record.plan["replicas"]}
    hosts: dict[str, Any] = {
        name: host(int(called[1]), called, record, replica=replicas[called]) for name, called in names.items()
    }
    return group(**hosts)


def test_all_that_a_record_says_of_hosts_is_in_the_inventory_s_names() -> None:
    found = pair(node1="h1", h2="h2")
    cluster = found.cluster_state()
    cluster.check_names()
    (record,) = list(cluster.records.values())
    assert record.hosts == ("node1", "h2")
    assert list(record.plan["hosts"]) == ["node1", "h2"]
    assert [replica["host"] for replica in record.plan["replicas"]] == ["node1", "h2"]
    assert record.request == record.plan["request"] == request(size=2, hosts=["node1", "h2"]).to_dict()
    assert record.growth == Growth(request(size=4, hosts=["node1", "h2"]).to_dict(), 1)
    assert all(set(image["ids"]) <= {"node1", "h2"} for image in record.plan["images"].values())
    assert "'h1'" not in str(encode(record))
    assert (cluster.orphaned, cluster.leaked, cluster.stubs, cluster.unknown) == ({}, {}, {}, {})
    assert pair(h1="h1", h2="h2").host_names == {}


def test_hosts_that_do_not_answer_are_told_by_the_inventory_s_names() -> None:
    record = session()
    first = host(1, "h1", record, replica="main1")
    second = host(2, "h2", record, replica="sub1", silent_peers={SESSION: ["h1", "h9"]})
    assert group(node1=first, h2=second).facts["h2"].silent_peers == {SESSION: ("node1", "h9")}


def test_hosts_are_told_of_a_session_in_the_names_that_it_was_launched_with() -> None:
    found = pair(node1="h1", h2="h2")
    record, hosts = found.facts["node1"].records[0], ("node1", "h2")
    calls = [
        call({name: Start(record, name) for name in hosts}),
        call({name: KeepRecords((record,)) for name in hosts}),
        call({name: Repair(name, records={SESSION: record}) for name in hosts}),
        call({name: StopJob(SESSION, "b") for name in hosts}),
    ]
    state = {"step": "start", "calls": plain_calls(calls), "host_names": found.host_names}
    of_host, of_record, of_repair, of_job = (arguments for _module, arguments, _variables in calls_of(state, "node1"))
    assert of_host["record"] == of_record["records"][0] == of_repair["records"][SESSION] == encode(session())
    assert (of_host["host"], of_repair["host"], of_repair["known_as"]) == ("h1", "node1", {SESSION: "h1"})
    assert of_job == {"state": "stopped", "job": "b", "session_id": SESSION}
    of_host, _of_record, of_repair, _of_job = (arguments for _module, arguments, _variables in calls_of(state, "h2"))
    assert (of_host["host"], of_repair["host"], "known_as" in of_repair) == ("h2", "h2", False)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ({"h1": "h2", "h2": "h1"}, "calls h1 is h2 in session train"),
        ({"h2": "h1", "h3": "h2"}, "calls h2 is h1 in session train"),
        ({"h1": "h1", "node1": "h1"}, "calls node1 is h1 in session train"),
    ],
)
def test_names_that_were_swapped_or_given_twice_are_refused_by_name(names: dict[str, str], why: str) -> None:
    found = pair(**names)
    assert found.host_names == {}
    with pytest.raises(RenamedHost, match=why):
        found.cluster_state().check_names()


def test_a_name_that_another_host_has_is_refused_also_while_that_does_not_answer() -> None:
    found = group(("h1",), h2=host(1, "h1", session(), replica="main1"))
    with pytest.raises(RenamedHost, match="calls h2 is h1 in session train"):
        found.cluster_state().check_names()


def test_a_host_that_lost_what_it_wrote_down_is_known_by_its_replicas() -> None:
    lost, other = host(1, None, replica="main1"), host(2, "h2", session(), replica="sub1")
    found = group(node1=lost, h2=other)
    (record,) = list(found.cluster_state().records.values())
    assert record.hosts == ("node1", "h2")
    # Where nobody has the plan, or the replica is not the only one, what runs is left alone.
    for cluster in (
        group(node1=lost, h2=host(2, None, stub_of(session()))).cluster_state(),
        group(("h9",), node1={**lost, "containers": []}, h2=other).cluster_state(),
    ):
        cluster.check_names()
        assert (cluster.orphaned, cluster.leaked) == ({}, {})
    assert "main1" in str(lost)


def test_one_that_moved_is_still_removed_from_where_it_was() -> None:
    """Its hosts all answer, so the other is none of them."""
    both = [host(number, f"h{number}", session(), replica=name) for number, name in ((1, "main1"), (2, "sub1"))]
    cluster = group(h1=both[0], h2=both[1], h3=host(3, None, replica="main1")).cluster_state()
    cluster.check_names()
    assert list(cluster.orphaned) == ["h3"]


def test_a_host_that_has_lost_all_while_another_has_its_name_by_now_is_no_leftover() -> None:
    found = group(node1=host(1, None, replica="main1"), h1=host(3, None), h2=host(2, "h2", session(), replica="sub1"))
    with pytest.raises(RenamedHost, match="node1 is h1 in session train"):
        found.cluster_state().check_names()


def test_two_names_for_one_host_are_refused_whatever_runs_there() -> None:
    found = group(h1=facts(identity="6f1c"), h2=facts(identity="77aa"), other=facts(identity="6f1c"), h3=facts())
    with pytest.raises(RenamedHost, match="h1 and other are one host by their identity"):
        found.cluster_state().check_names()
    group(h1=facts(identity="6f1c"), h2=facts(identity="77aa"), h3=facts(), h4=facts()).cluster_state().check_names()


def test_what_waits_or_has_ended_means_the_host_that_was_prepared_by_that_name() -> None:
    wanted = request(size=2, hosts=["h1", "h2"]).to_dict()
    waiting = advance(new_record(SESSION, "alice", wanted), PENDING, "No room.", queue=QueueTicket(1))
    ended = advance(session(), TERMINATED, "It has ended.")
    tombstone = {"schema": 1, "id": OTHER, "name": "old", "hosts": ["h1"]}
    for record in (waiting, ended):
        kept = facts(record, tombstones=[tombstone], identity="6f1c", names=["h1", "node1"])
        found = group(node1=kept, h2=facts(record, identity="77aa", names=["h2"]))
        cluster = found.cluster_state()
        assert found.host_names == {}, "what becomes of it is written down in the names that hosts have by then"
        assert cluster.cleaned == [OTHER]
        (now,) = list(cluster.records.values())
        assert (now.request or {"hosts": ["h2", "node1"]})["hosts"] == ["h2", "node1"]
        assert now.hosts == (("node1", "h2") if record is ended else ())
        assert found.settled(cluster) == ([SESSION] if record is ended else [])
        # Neither a name that another host has, nor that of one that is mentioned itself.
        assert group(h1=facts(), node1=kept, h2=facts()).facts["node1"].records == (record,)
        mentioned = replace(record, request=request(size=2, hosts=["h1", "node1"]).to_dict())
        assert group(node1={**kept, "records": encode([mentioned])}).facts["node1"].records == (mentioned,)


def test_a_witness_is_called_what_it_is_called_now() -> None:
    """It carries no part of the session by which it could be known, so the name counts that it was prepared by."""
    record = replace(session(), witnesses=("h3", "h4"))
    hosts: dict[str, Any] = {name: host(int(name[1]), name, record) for name in ("h1", "h2")}
    hosts |= {"node3": facts(record, number=3, names=["h3", "node3"]), "h4": facts(record, number=4, names=["h4"])}
    cluster = group(**hosts).cluster_state()
    assert [found.witnesses for found in cluster.records.values()] == [("node3", "h4")]


def test_a_host_that_does_not_answer_may_be_the_one_that_is_missing() -> None:
    record = session()
    launching = prepared(new_record(SESSION, "alice", record.request), record.plan)
    cluster = group(("node1",), h2=host(2, None, launching)).cluster_state()
    assert (cluster.orphaned, list(cluster.unknown)) == ({}, [SESSION])
    assert list(group(h2=host(2, None, launching)).cluster_state().orphaned) == ["h2"]
