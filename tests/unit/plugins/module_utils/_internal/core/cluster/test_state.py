# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the hosts say together: who owns what, what nobody owns, and what is left alone for want of knowledge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.state import (
    CONTAINER,
    LINK,
    NETWORK,
    STATE,
    Conflict,
    Removal,
    Renamed,
    cluster_state,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    CONFIRMED,
    LEASED,
    Claim,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.facts import (
    HostFacts,
    Parts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    PREPARING,
    RUNNING,
    TERMINATED,
    QueueTicket,
    Record,
    Tombstone,
    advance,
    new_record,
    prepared,
    read_record,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import RenamedHost
from hypothesis import given, settings
from hypothesis import strategies as st

A = "aaaaaaaa-0e04-4a3c-9d2a-53a1f7b2c8aa"
B = "bbbbbbbb-0e04-4a3c-9d2a-53a1f7b2c8aa"
NAMES = {A: "train", B: "serve"}
QUEUED = QueueTicket(1)


def fresh(session_id: str = A, queue: QueueTicket | None = None) -> Record:
    record = new_record(session_id, "alice", {"name": NAMES[session_id]})
    return record if queue is None else advance(record, PENDING, "No room.", queue=queue)


def preparing(*hosts: str, session_id: str = A, queue: QueueTicket | None = None) -> Record:
    plan = {
        "session": {"id": session_id, "name": NAMES[session_id]},
        "hosts": {host: {} for host in hosts},
        "replicas": [],
    }
    return prepared(fresh(session_id, queue), plan)


def running(*hosts: str, session_id: str = A, queue: QueueTicket | None = None) -> Record:
    return started(preparing(*hosts, session_id=session_id, queue=queue))


def failed(*hosts: str) -> Record:
    return advance(running(*hosts), ERROR, "It failed.", report=("It failed.",))


def host(
    *records: Record,
    kinds: str = "",
    stage: str | None = None,
    tombstone_hosts: tuple[str, ...] | None = None,
    session_id: str = A,
    called: str | None = None,
) -> HostFacts:
    """Return the facts of a host. kinds, stage: things and reservation of the session; tombstone_hosts: hosts of its
    tombstone.

    Things and reservation are those of *session_id*. called: the name under which the host carries it.
    """
    claim = Claim(session_id, NAMES[session_id], replicas=1, cpus=1000, memory=1)
    held = stage and Reservation(claim, stage, "boot", None if stage == COMMITTED else 1.0, "run")
    return HostFacts(
        records=records,
        objects={session_id: Parts(NAMES[session_id], tuple(kinds.split()))} if kinds else {},
        reservations=(held,) if held else (),
        tombstones=() if tombstone_hosts is None else (Tombstone(session_id, NAMES[session_id], tombstone_hosts),),
        host_names={} if called is None else {session_id: called},
    )


def removed(removals: dict[str, list[Removal]]) -> dict[str, bool]:
    """Return, by host, whether the record stays; one removal of session A each."""
    assert all([removal.session_id for removal in some] == [A] for some in removals.values())
    assert all(some[0].why.endswith(".") for some in removals.values())
    return {name: some[0].keep_record for name, some in removals.items()}


def assert_untouched(facts: dict[str, HostFacts], unreachable: tuple[str, ...] = ()) -> None:
    cluster = cluster_state(facts, unreachable)
    assert (cluster.orphaned, cluster.leaked, cluster.changed, cluster.cleaned) == ({}, {}, {}, [])


def test_an_empty_group_has_nothing() -> None:
    cluster = cluster_state({"h1": host(), "h2": HostFacts()})
    assert (cluster.records, cluster.orphaned, cluster.leaked, cluster.changed, cluster.cleaned, cluster.unknown) == (
        {},
        {},
        {},
        {},
        [],
        {},
    )


def test_of_every_session_the_right_copy_is_told() -> None:
    other = fresh(B, QUEUED)
    cluster = cluster_state(
        {
            "h1": host(running("h1"), other, kinds=CONTAINER, stage=COMMITTED),
            "h2": host(stub_of(preparing("h1")), other),
        }
    )
    assert cluster.records == {A: running("h1"), B: other}
    assert cluster.named("train") == [running("h1")]
    assert cluster.named("other") == []
    assert cluster.pending() == [other]
    assert not cluster.orphaned


def test_two_sessions_of_one_name_are_both_told() -> None:
    twin = replace(running("h2", session_id=B), name="train")
    cluster = cluster_state({"h2": host(twin), "h1": host(running("h1"))})
    assert [record.id for record in cluster.named("train")] == [A, B]


# A launch that was killed.


@pytest.mark.parametrize("kinds", ["", CONTAINER, f"{NETWORK} {LINK} {STATE}"])
def test_what_a_killed_launch_left_is_abandoned_wherever_it_is(kinds: str) -> None:
    facts = {
        "h1": host(preparing("h1", "h2"), kinds=kinds),
        "h2": host(kinds=LINK),
        "h3": host(stub_of(preparing("h1", "h2"))),
        "h4": host(),
    }
    cluster = cluster_state(facts, ["h9"])
    assert removed(cluster.orphaned) == {"h1": False, "h2": False, "h3": False}
    assert (cluster.records, cluster.changed, cluster.leaked, cluster.unknown) == ({}, {}, {}, {})


@pytest.mark.parametrize("stage", [LEASED, CONFIRMED])
@pytest.mark.parametrize("where", ["h1", "h2", "h3"])
def test_a_launch_that_still_holds_room_anywhere_is_left_to_itself(stage: str, where: str) -> None:
    facts = {name: host(preparing("h1", "h2"), kinds=CONTAINER) for name in ("h1", "h2")} | {"h3": host()}
    facts[where] = replace(facts[where], reservations=host(stage=stage).reservations)
    assert_untouched(facts)
    assert cluster_state(facts).records[A].status == PREPARING


def test_a_launch_that_holds_room_and_has_written_nothing_yet_is_left_to_itself() -> None:
    assert_untouched({"h1": host(kinds=f"{STATE} {NETWORK}", stage=LEASED), "h2": host(stage=CONFIRMED)})


def test_a_session_that_is_committed_on_any_host_runs() -> None:
    facts = {"h1": host(preparing("h1", "h2"), kinds=CONTAINER, stage=COMMITTED), "h2": host(preparing("h1", "h2"))}
    assert_untouched(facts)
    assert cluster_state(facts).records[A] == preparing("h1", "h2")


def test_a_launch_that_only_some_hosts_have_finished_is_undone_once_nobody_works_on_it() -> None:
    done = host(running("h1", "h2"), kinds=CONTAINER, stage=COMMITTED)
    assert_untouched({"h1": done, "h2": host(preparing("h1", "h2"), stage=CONFIRMED)})
    assert_untouched({"h1": done, "h2": host(preparing("h1", "h2"), stage=COMMITTED)})
    assert_untouched({"h1": done, "h2": host(preparing("h1", "h2")), "h3": host()}, ("h1",))
    assert removed(cluster_state({"h1": done, "h2": host(preparing("h1", "h2"))}).orphaned) == {
        "h1": False,
        "h2": False,
    }


def test_a_killed_launch_is_left_alone_while_a_host_of_it_is_away() -> None:
    facts = {"h1": host(preparing("h1", "h2"), kinds=CONTAINER)}
    assert_untouched(facts, ("h2",))
    cluster = cluster_state(facts, ["h2"])
    assert cluster.records == {A: preparing("h1", "h2")}
    why = "The launch of session train was not finished, and h2 cannot be asked whether a run still works on it."
    assert cluster.unknown == {A: why}
    assert_untouched(facts, ("h3",))  # which may be what was called h2
    facts["h2"] = host()
    assert removed(cluster_state(facts, ["h3"]).orphaned) == {"h1": False}, "h3 has no part in it"


def test_a_note_of_a_session_whose_hosts_are_away_keeps_it() -> None:
    facts = {"h3": host(stub_of(preparing("h1", "h2"))), "h1": host()}
    assert_untouched(facts, ("h2",))
    assert cluster_state(facts, ["h2"]).records[A].status == RUNNING


def test_a_session_from_the_queue_waits_again_after_a_killed_launch() -> None:
    launched = preparing("h1", queue=QUEUED)
    cluster = cluster_state(
        {"h1": host(launched, kinds=CONTAINER), "h2": host(stub_of(launched)), "h3": host(fresh(A, QUEUED))}
    )
    waits = cluster.records[A]
    assert (waits.status, waits.revision, waits.queue) == (PENDING, launched.revision + 1, QUEUED)
    assert (waits.plan, waits.hosts, waits.request) == (None, (), {"name": "train"})
    assert waits.report == (waits.history[-1].reason,)
    assert cluster.changed == {A: waits}
    assert cluster.pending() == [waits]
    assert removed(cluster.orphaned) == {"h1": True, "h2": True, "h3": True}


def test_it_waits_again_where_a_host_had_not_begun_to_start_it_and_has_its_old_record() -> None:
    done = running("h1", "h2", queue=QUEUED)
    facts = {"h1": host(fresh(A, QUEUED)), "h2": host(stub_of(done), kinds=CONTAINER, stage=COMMITTED), "h3": host()}
    waits = cluster_state(facts).records[A]
    assert (waits.status, waits.revision, waits.request) == (PENDING, done.revision + 1, {"name": "train"})
    facts["h1"] = host(fresh(A, QUEUED), stage=LEASED)
    assert cluster_state(facts).records[A].status == RUNNING, "somebody still works on it"


def test_it_waits_with_its_request_where_the_newest_copy_that_is_told_is_a_stub() -> None:
    launched, done = preparing("h1", "h2", queue=QUEUED), running("h1", "h2", queue=QUEUED)
    cluster = cluster_state(
        {"h1": host(launched, kinds=CONTAINER), "h2": host(stub_of(done), kinds=CONTAINER), "h3": host()}
    )
    waits = cluster.records[A]
    assert (waits.status, waits.revision, waits.queue) == (PENDING, done.revision + 1, QUEUED)
    assert (waits.plan, waits.hosts, waits.request) == (None, (), {"name": "train"})
    assert read_record(encode(waits), A) == waits
    assert cluster.changed == {A: waits}


# Sessions that carry nothing, or run elsewhere.


@pytest.mark.parametrize("record", [fresh(A, QUEUED), failed("h1")], ids=["waits", "has ended"])
def test_a_session_without_replicas_has_only_its_record(record: Record) -> None:
    facts = {
        "h1": host(record, kinds=CONTAINER),
        "h2": host(record, stage=COMMITTED),
        "h3": host(record, kinds=STATE),
        "h4": host(record),
        "h5": host(kinds=f"{STATE} {NETWORK}"),
    }
    cluster = cluster_state(facts)
    assert removed(cluster.orphaned) == {"h1": True, "h2": True, "h5": True}
    assert cluster.records == {A: record}
    assert not cluster.changed


@pytest.mark.parametrize("record", [fresh(A, QUEUED), failed("h1")], ids=["waits", "has ended"])
def test_a_session_without_replicas_that_is_being_launched_is_left_to_itself(record: Record) -> None:
    assert_untouched({"h1": host(record, kinds=CONTAINER), "h2": host(record, stage=LEASED)})


def test_what_is_left_where_a_session_no_longer_runs_is_abandoned() -> None:
    stale = preparing("h2", "h3")
    now = advance(running("h1"), RUNNING, "It moved.")
    cluster = cluster_state(
        {
            "h1": host(now, kinds=CONTAINER, stage=COMMITTED),
            "h2": host(stale, kinds=CONTAINER),
            "h3": host(stale, stage=COMMITTED),
            "h4": host(stale),
            "h5": host(stub_of(now)),
        }
    )
    assert sorted(removed(cluster.orphaned)) == ["h2", "h3"], "a copy alone is left"
    assert cluster.records == {A: now}
    assert cluster.orphaned["h2"][0].why == "The session runs on h1 by now."


def test_a_host_where_a_session_no_longer_runs_still_knows_of_it() -> None:
    facts = {"h1": host(running("h1"), kinds=CONTAINER), "h2": host(stub_of(running("h1")), kinds=NETWORK)}
    assert removed(cluster_state(facts).orphaned) == {"h2": True}


def test_what_one_host_has_ended_by_itself_is_told_to_all_that_know_it_otherwise() -> None:
    runs = running("h1", "h2")
    ended = advance(runs, TERMINATED, "Its time is over.", report=("Its time is over.",))
    facts = {
        "h1": host(ended),
        "h2": host(runs, kinds=CONTAINER, stage=COMMITTED),
        "h3": host(stub_of(runs)),
    }
    cluster = cluster_state(facts)
    assert (cluster.records, cluster.changed) == ({A: ended}, {A: ended})
    assert removed(cluster.orphaned) == {"h2": True}
    done = {name: host(cluster.changed[A]) for name in facts}
    assert_untouched(done)


def test_what_a_host_has_ended_stays_ended_whatever_was_changed_at_the_same_moment() -> None:
    runs = running("h1", "h2")
    ended = advance(runs, TERMINATED, "Its time is over.")
    grown = advance(runs, RUNNING, "It has grown.", hosts=("h1", "h2", "h3"))
    assert grown.revision == ended.revision
    cluster = cluster_state({"h1": host(ended), "h2": host(grown, kinds=CONTAINER), "h3": host(grown, kinds=CONTAINER)})
    now = cluster.records[A]
    assert (now.status, now.revision) == (TERMINATED, grown.revision + 1), "newer than what the others have"
    assert cluster.changed == {A: now}
    assert removed(cluster.orphaned) == {"h2": True, "h3": True}


def test_what_a_host_ends_that_was_cut_off_and_replaced_does_not_end_the_session() -> None:
    runs = running("h1", "h2", "h3")
    ended = advance(runs, TERMINATED, "Its time is over.")
    replaced = advance(runs, RUNNING, "h3 was replaced.", hosts=("h1", "h2", "h4"))
    assert replaced.revision == ended.revision
    facts = {name: host(replaced, kinds=CONTAINER, stage=COMMITTED) for name in ("h1", "h2", "h4")}
    assert_untouched({**facts, "h3": host(ended)})
    others = {"h5": host(stub_of(replaced)), "h3": host(ended)}
    assert cluster_state(others, ["h1", "h2", "h4"]).records[A].status == RUNNING, "stubs know as much"
    cluster = cluster_state({**facts, "h3": host(ended), "h2": host(ended)})
    assert cluster.records[A].status == TERMINATED, "one that carries it has ended it"


# Notes that nothing stands behind, and things that no record explains.


def test_notes_of_a_session_that_its_hosts_do_not_have_are_a_leak() -> None:
    stub = stub_of(running("h1", "h2"))
    facts = {"h1": host(stub), "h2": host(), "h3": host(stub)}
    cluster = cluster_state(facts, ["h9"])
    assert removed(cluster.leaked) == {"h1": False, "h3": False}
    assert not cluster.orphaned
    assert cluster.records == {A: stub}


def test_a_note_of_a_session_that_may_be_anywhere_is_no_leak() -> None:
    stub = stub_of(running("h1", "h2"))
    assert_untouched({"h1": host(), "h3": host(stub)}, ("h2",))
    assert_untouched({"h1": host(), "h3": host(stub)})  # h2 has left the group
    parts: list[dict[str, Any]] = [{"kinds": CONTAINER}, {"kinds": STATE}, {"stage": COMMITTED}]
    for part in parts:
        assert_untouched({"h1": host(), "h2": host(**part), "h3": host(stub)})
    assert_untouched({"h1": host(), "h2": host(running("h1", "h2")), "h3": host(stub)})


@pytest.mark.parametrize("part", [{"kinds": NETWORK}, {"kinds": f"{LINK} {STATE}"}, {"stage": COMMITTED}])
def test_what_no_record_explains_is_a_leak_once_every_host_was_asked(part: dict[str, Any]) -> None:
    facts = {"h1": host(**part), "h2": host()}
    cluster = cluster_state(facts)
    assert removed(cluster.leaked) == {"h1": False}
    assert cluster.leaked["h1"][0].session_name == "train"
    assert (cluster.records, cluster.orphaned, cluster.unknown) == ({}, {}, {})
    cluster = cluster_state(facts, ["h3", "h4"])
    assert not cluster.leaked
    assert "h3, h4 cannot be reached" in cluster.unknown[A]


@pytest.mark.parametrize("unreachable", [[], ["h3"]])
def test_containers_without_a_record_are_never_removed(unreachable: list[str]) -> None:
    cluster = cluster_state({"h1": host(kinds=CONTAINER), "h2": host(kinds=NETWORK)}, unreachable)
    assert (cluster.leaked, cluster.orphaned) == ({}, {})
    assert cluster.unknown == {A: "Session train has containers, and no reachable host has its record."}


# Tombstones.


@pytest.mark.parametrize("stage", [None, LEASED, COMMITTED])
def test_a_session_that_was_torn_down_goes_from_the_host_that_was_away(stage: str | None) -> None:
    cluster = cluster_state(
        {
            "h1": host(tombstone_hosts=("h2",)),
            "h2": host(running("h1", "h2"), kinds=CONTAINER, stage=stage),
            "h3": host(stub_of(running("h1", "h2"))),
        }
    )
    assert removed(cluster.orphaned) == {"h2": False, "h3": False}
    assert (cluster.records, cluster.cleaned, cluster.changed, cluster.leaked) == ({}, [], {}, {})


def test_a_tombstone_stays_until_its_hosts_are_back_and_clean() -> None:
    facts = {"h1": host(tombstone_hosts=("h2", "h3")), "h2": host()}
    assert cluster_state(facts, ["h3"]).cleaned == []
    assert cluster_state(facts).cleaned == [], "h3 may have left the group and come back"
    assert cluster_state({**facts, "h3": host(running("h2", "h3"))}).cleaned == []
    assert cluster_state({**facts, "h3": host(stage=COMMITTED)}).cleaned == []
    cluster = cluster_state({**facts, "h3": host(running("h2", session_id=B))})
    assert cluster.cleaned == [A]
    assert list(cluster.records) == [B]


# Hosts that the inventory calls otherwise.

CARRIES = f"{CONTAINER} {NETWORK} {LINK} {STATE}"


def test_a_tombstone_stays_while_the_ledger_of_its_host_cannot_be_read() -> None:
    damaged = replace(host(), ledger_is_damaged=True)
    facts = {"h1": host(tombstone_hosts=("h2",)), "h2": damaged, "h3": host()}
    assert cluster_state(facts).cleaned == [], "a launch may be at work there"
    assert cluster_state({**facts, "h2": host()}).cleaned == [A]


def test_an_equal_whole_copy_on_a_host_that_may_be_one_of_the_session_stays_whole() -> None:
    # h2 has lost what it wrote down of its name there, and is what the record calls old2.
    record = running("h1", "old2")
    assert cluster_state({"h1": host(record), "h2": host(record)}).stubs == {}
    older = replace(record, revision=record.revision - 1)
    assert cluster_state({"h1": host(record), "h2": host(older)}).stubs == {"h2": [stub_of(record)]}


def replaced(before: Record, *hosts: str, witnesses: tuple[str, ...] = ()) -> Record:
    """Return the revision that gives a session other hosts."""
    plan = {**before.plan, "hosts": {name: {} for name in hosts}}
    return replace(advance(before, RUNNING, "It does without one.", hosts=hosts, plan=plan), witnesses=witnesses)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("witnesses", [(), ("h3", "h4", "h5")])
def test_two_contents_of_one_revision_are_a_conflict_in_which_nothing_is_touched(
    order: int, witnesses: tuple[str, ...]
) -> None:
    base = running("h1", "h2")
    one, other = (replaced(base, *hosts, witnesses=witnesses) for hosts in (("h1", "h3"), ("h2", "h4")))
    parts: dict[str, Any] = {"kinds": f"{CONTAINER} {NETWORK}", "stage": COMMITTED}
    facts = {"h1": host(one, **parts), "h2": host(other, **parts), "h3": host(one, **parts), "h4": host(other, **parts)}
    cluster = cluster_state(dict(list(facts.items())[::order]), unreachable=("h5",))
    assert (cluster.orphaned, cluster.leaked, cluster.stubs, cluster.changed) == ({}, {}, {}, {})
    conflict = cluster.conflicts[A]
    assert isinstance(conflict, Conflict)
    assert sorted(conflict.sides) == [(("h1", "h3"), ("h1", "h3")), (("h2", "h4"), ("h2", "h4"))]
    assert str(cluster.conflicts[A]).startswith(
        f"Session train ({A}) was changed in two ways at once, in revision {one.revision}: it runs on "
    )
    assert "Tear it down and launch it again" in str(cluster.conflicts[A])
    assert cluster.records[A] == cluster_state(facts, unreachable=("h5",)).records[A], "whatever the order of hosts"


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_contents_of_one_revision_that_is_right_to_which_most_witnesses_have_agreed(order: int) -> None:
    base, witnesses = running("h1", "h2"), ("h2", "h4", "h5")
    one, other = (replaced(base, *hosts, witnesses=witnesses) for hosts in (("h1", "h3"), ("h2", "h4")))
    facts = {
        "h1": host(one, kinds=CONTAINER, stage=COMMITTED),
        "h2": host(other, kinds=CONTAINER, stage=COMMITTED),
        "h4": host(other, kinds=CONTAINER, stage=COMMITTED),
        "h5": host(stub_of(other)),
        "h3": host(stub_of(one)),
    }
    cluster = cluster_state(dict(list(facts.items())[::order]))
    assert (cluster.records[A], cluster.conflicts) == (other, {})
    assert removed(cluster.orphaned) == {"h1": True}
    assert cluster.stubs == {"h1": [stub_of(other)]}, "who lost does not keep its record"


def test_a_host_that_carries_the_session_under_another_name_is_not_elsewhere() -> None:
    record = running("h1", "h2")
    cluster = cluster_state(
        {
            "node1": host(record, kinds=CARRIES, stage=COMMITTED, called="h1"),
            "h2": host(record, kinds=CARRIES, stage=COMMITTED, called="h2"),
        }
    )
    assert (cluster.orphaned, cluster.leaked, cluster.changed, cluster.stubs, cluster.unknown) == ({}, {}, {}, {}, {})
    assert [str(rename) for rename in cluster.renamed] == [
        "The host that the inventory calls node1 is h1 in session train, which runs there. Call it h1 in the inventory "
        "again, or tear the session down first."
    ]
    with pytest.raises(RenamedHost, match="node1 is h1 in session train"):
        cluster.check_names()


def test_hosts_that_changed_their_names_with_each_other_are_told_as_well() -> None:
    record = running("h1", "h2")
    cluster = cluster_state(
        {name: host(record, kinds=CARRIES, called=called) for name, called in (("h1", "h2"), ("h2", "h1"))}
    )
    assert cluster.renamed == [Renamed("h1", "h2", "train"), Renamed("h2", "h1", "train")]


@pytest.mark.parametrize("known", ["a record", "a stub", "containers without a record"])
def test_another_name_counts_whatever_is_left_to_tell_it(known: str) -> None:
    copy = {"a record": [running("h1")], "a stub": [stub_of(running("h1"))]}.get(known, [])
    cluster = cluster_state({"node1": host(*copy, kinds=CONTAINER, called="h1"), "h2": host()})
    assert len(cluster.renamed) == 1
    assert (cluster.orphaned, cluster.leaked) == ({}, {})


def test_the_name_of_what_is_only_left_over_does_not_matter() -> None:
    """What nobody needs any more is found by the session's id, and no session is harmed by its removal."""
    kinds = f"{NETWORK} {STATE}"
    old = host(preparing("h1"), kinds=CARRIES, stage=COMMITTED, called="h1")
    for facts in (
        {"node1": host(preparing("h1"), kinds=kinds, called="h1")},
        {"node1": host(preparing("h1", queue=QUEUED), kinds=kinds, called="h1")},
        {"node1": host(failed("h1"), kinds=kinds, called="h1")},
        {"node1": host(running("h1"), kinds=kinds, called="h1"), "h2": host(tombstone_hosts=("h1",))},
        {"node1": old, "h2": host(running("h2"), kinds=CARRIES, stage=COMMITTED, called="h2")},
    ):
        cluster = cluster_state(facts)
        assert list(cluster.orphaned) == ["node1"]
        cluster.check_names()
    unrecorded = cluster_state({"node1": host(kinds=kinds, called="h1")})
    assert list(unrecorded.leaked) == ["node1"]
    unrecorded.check_names()


def test_the_inventory_s_own_names_are_no_fault() -> None:
    record = running("h1", "h2")
    facts = {name: host(record, kinds=CARRIES, stage=COMMITTED, called=name) for name in ("h1", "h2")}
    cluster_state({**facts, "h3": host(stub_of(record))}).check_names()
    assert_untouched(facts)


def test_a_removal_names_the_newest_revision_that_it_was_judged_by() -> None:
    """Whoever finds a newer record leaves the session alone; the record that goes with the removal is none."""
    queued = preparing("h1", queue=QueueTicket(1))
    for facts, revision in (
        (host(preparing("h1"), kinds=CONTAINER), preparing("h1").revision),
        (host(queued, kinds=CONTAINER), queued.revision + 1),
        (host(fresh(A, QUEUED), kinds=LINK), fresh(A, QUEUED).revision),
        (host(failed("h1"), kinds=LINK), failed("h1").revision),
    ):
        cluster = cluster_state({"h1": facts})
        assert [removal.revision for removal in cluster.orphaned["h1"]] == [revision]
        assert all(record.revision == revision for record in cluster.changed.values())
    assert [removal.revision for removal in cluster_state({"h1": host(kinds=NETWORK)}).leaked["h1"]] == [0]
    old = cluster_state({"h1": host(running("h1")), "h2": host(preparing("h2"), kinds=LINK)})
    assert [removal.revision for removal in old.orphaned["h2"]] == [running("h1").revision]


# Whatever the hosts say.

HOSTS = ("h1", "h2", "h3")


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, HostFacts]:
    """Return facts of all hosts; each may have any revision of the session, whatever became of it, and any part."""
    queue = draw(st.sampled_from([None, QUEUED]))
    hosts = draw(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=2, unique=True))
    now = running(*hosts, queue=queue)
    history = [preparing(*hosts, queue=queue), now, advance(now, ERROR, "It failed.")]
    history += [fresh(A, queue)] if queue else []
    world = {}
    for name in HOSTS:
        copy = draw(st.sampled_from([None, *history]))
        if copy is not None and name not in hosts and copy.status != PENDING:
            copy = stub_of(copy)
        world[name] = host(
            *([] if copy is None else [copy]),
            kinds=" ".join(draw(st.lists(st.sampled_from([CONTAINER, NETWORK, LINK, STATE]), max_size=2, unique=True))),
            stage=draw(st.sampled_from([None, None, None, LEASED, CONFIRMED, COMMITTED])),
            tombstone_hosts=draw(st.sampled_from([None] * 5 + [("h1",), ("h2", "h3")])),
        )
    return world


@settings(max_examples=500, derandomize=True)
@given(worlds(), st.sets(st.sampled_from(HOSTS), max_size=2))
def test_what_is_judged_once_needs_no_second_judgement(world: dict[str, HostFacts], unreachable: set[str]) -> None:
    """Whoever does all that the cluster state asks for finds nothing more to do, and removed only what may go."""
    facts = {name: host_facts for name, host_facts in world.items() if name not in unreachable}
    cluster = cluster_state(facts, unreachable)
    stages = {held.stage for host_facts in facts.values() for held in host_facts.reservations}
    has_tombstone = any(host_facts.tombstones for host_facts in facts.values())
    recorded = any(host_facts.records for host_facts in facts.values())
    contained = any(CONTAINER in parts.kinds for host_facts in facts.values() for parts in host_facts.objects.values())
    doomed = [
        (name, removal)
        for removals in (cluster.orphaned, cluster.leaked)
        for name in removals
        for removal in removals[name]
    ]
    if not has_tombstone and stages & {LEASED, CONFIRMED}:
        assert not doomed
    if contained and not has_tombstone and not recorded:
        assert not doomed
    for name, removal in doomed:
        facts[name] = replace(facts[name], objects={}, reservations=())
        if not removal.keep_record:
            facts[name] = replace(facts[name], records=())
    for name, host_facts in facts.items():
        records = tuple(cluster.changed.get(record.id, record) for record in host_facts.records)
        tombstones = tuple(stone for stone in host_facts.tombstones if stone.id not in cluster.cleaned)
        facts[name] = replace(host_facts, records=records, tombstones=tombstones)
    again = cluster_state(facts, unreachable)
    assert (again.orphaned, again.changed) == ({}, {})
