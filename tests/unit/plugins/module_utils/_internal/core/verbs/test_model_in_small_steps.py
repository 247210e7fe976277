# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verbs on hosts in memory, whose controller is killed between any two small things that hosts do.

Hosts vanish in the midst of what they do and come back, and verbs overtake each other there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    SessionAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import batch_job
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import schedule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.teardown import (
    tombstones_for,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import State
from ansible_collections.cluster_compute.session.tests.support.core.verbs import group as requests
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import DEADLINE, LEASE, World, in_memory
from ansible_collections.cluster_compute.session.tests.support.small_steps import Steps

HOSTS = {"h1", "h2", "h3"}
Begin = Callable[[World], Callable[[], Any]]
"""Returns what runs a verb in a group."""


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Give a function that makes a group of three hosts with two CPUs each; the last that was made is in memory."""
    numbers = count()
    with in_memory() as worlds:

        def make(**given: Any) -> World:
            worlds.append(World(tmp_path / str(next(numbers)), **{"attempts": 20, **given}))
            return worlds[-1]

        yield make


def request(name: str, **given: Any) -> Request:
    """Return a request for replicas of one CPU; given: what it asks for besides, without the prefix."""
    return requests.request(**{"name": name, "size": 1, "max_replicas_per_host": None, "memory": "8m", **given})


def status(state: State) -> str:
    """Return what became of a launch."""
    return "FAILED" if "failure" in state else str(state["outcome"]["status"])


def lines(state: State) -> list[str]:
    """Return what people are told of a launch."""
    return str(state["failure"]).splitlines() if "failure" in state else list(state["outcome"]["report"])


def launched(state: State) -> dict[str, str]:
    """Return by name what became of those that waited."""
    return {outcome["session_name"]: outcome["status"] for outcome in state["outcomes"]}


def everywhere(name: str, cpus: str = "1.5", **given: Any) -> Any:
    """Return a request for a replica on each of the three hosts, of which no other one has room beside it."""
    return request(name, size=3, max_replicas_per_host=1, cpus=cpus, **given)


def killed(verb: Callable[[], Any], after: int) -> bool:
    """Go on until the controller is killed after so many things; return whether it was before the end."""
    steps = Steps(verb)
    for _number in range(after):
        if not steps.step():
            return False
    steps.kill()
    return True


def moments(groups: Callable[..., World], begin: Begin, every: int = 1) -> Iterator[World]:
    """Give a group for each moment at which the controller of a verb can be killed, some time after it was."""
    for after in count(0, every):
        group = groups(seed=after)
        if not killed(begin(group), after):
            assert after > 30, "there was next to nothing to be stopped in"
            return
        group.check_places()
        group.now += LEASE + DEADLINE
        yield group


def nothing_is_left(group: World, *names: str) -> None:
    """Tear sessions down, forget what was torn down, and see that nothing is there."""
    for name in names:
        assert group.teardown(name)["report"] == []
    for _twice in range(2):
        group.gc()
    assert [host.left(group.known) for host in group.hosts.values()] == [[]] * len(group.hosts)


def all_have_started(group: World, name: str) -> bool:
    """Tell whether every host of a launch that was killed had finished its part, but perhaps for the commit."""
    copies = group.copies(name)
    return set(copies) == HOSTS and {copy.status for copy in copies.values()} == {"RUNNING"}


# ---- a controller that is killed ------------------------------------------------------------------------------------


def test_the_next_launch_takes_the_place_of_one_that_was_killed_anywhere(groups: Callable[..., World]) -> None:
    done = []
    for group in moments(groups, lambda group: partial(group.launch, everywhere("half"))):
        done.append(all_have_started(group, "half"))
        outcome = group.launch(everywhere("other"))
        if done[-1]:
            assert status(outcome) == "PENDING"
            assert set(group.places("half").values()) == HOSTS, "what runs is not harmed"
        else:
            assert status(outcome) == "RUNNING", outcome
            assert set(group.places("other").values()) == HOSTS
            assert (group.places("half"), group.copies("half")) == ({}, {})
        nothing_is_left(group, "half", "other")
    assert sorted(done) == done, "whoever has started everywhere has not later started nowhere"
    assert True in done
    assert False in done


@pytest.mark.parametrize("verb", ["gc", "schedule", "teardown", "launch"])
def test_every_other_verb_undoes_or_finishes_it_as_well(groups: Callable[..., World], verb: str) -> None:
    for group in moments(groups, lambda group: partial(group.launch, everywhere("half")), every=2):
        done = all_have_started(group, "half")
        if verb == "launch":
            assert status(group.launch(everywhere("half"))) == "RUNNING"
            assert len(group.places("half")) == 3
        else:
            group.teardown("half") if verb == "teardown" else getattr(group, verb)()
            there = set(group.places("half").values())
            assert there == (HOSTS if done and verb != "teardown" else set())
        nothing_is_left(group, "half")


def test_one_from_the_queue_waits_again_where_its_launch_was_killed(groups: Callable[..., World]) -> None:
    def begin(group: World) -> Callable[[], Any]:
        group.launch(everywhere("other"))
        assert status(group.launch(everywhere("half"))) == "PENDING"
        group.teardown("other")
        return group.schedule

    for group in moments(groups, begin, every=2):
        before = group.copies("half")["h1"]
        group.schedule()
        after = group.copies("half")
        assert {copy.status for copy in after.values()} == {"RUNNING"}
        assert {(copy.id, copy.queue_number) for copy in after.values()} == {(before.id, 1)}
        assert set(group.places("half").values()) == HOSTS
        nothing_is_left(group, "half")


def test_a_teardown_that_was_killed_is_finished_by_the_next(groups: Callable[..., World]) -> None:
    for after in count(0, 2):
        group = groups(seed=after)
        group.launch(everywhere("half"))
        if not killed(partial(group.teardown, "half"), after):
            break
        group.now += LEASE + DEADLINE
        nothing_is_left(group, "half")
        assert status(group.launch(everywhere("other"))) == "RUNNING"
    assert after > 10


def test_a_launch_that_was_killed_while_images_come_is_finished_by_the_next(groups: Callable[..., World]) -> None:
    def begin(group: World) -> Callable[[], Any]:
        for host in ("h2", "h3"):
            group.hosts[host].images.clear()
        return partial(group.launch, everywhere("half", batch_command="train"))

    for group in moments(groups, begin, every=4):
        assert status(group.launch(everywhere("half", batch_command="train"))) == "RUNNING"
        (half,) = {copy.id for copy in group.copies("half").values()}
        assert [len(host.working(batch_job(half))) for host in group.hosts.values()] == [1, 0, 0]
        group.teardown("half")
        for host in group.hosts.values():
            host.go_on()
        nothing_is_left(group, "half")


@pytest.mark.parametrize("after", ["come back", "stop", "teardown"])
def test_a_job_that_was_killed_anywhere_can_be_had_or_goes_with_its_session(
    groups: Callable[..., World], after: str
) -> None:
    for kill in count(0, 3):
        group = groups(seed=kill)
        group.launch(everywhere("half"))
        if not killed(partial(group.job, "half", command="true", on="all"), kill):
            break
        group.now += DEADLINE
        for name in group.jobs("half") if after != "teardown" else ():
            assert set(group.job("half", id=name, stop=after == "stop")["outcome"]["replicas"]) == {
                "main1",
                "sub1",
                "sub2",
            }
            assert [host.working(name) for host in group.hosts.values()] == [[]] * 3
        group.teardown("half")
        for host in group.hosts.values():
            host.go_on()
        nothing_is_left(group, "half")
    assert kill > 30


@pytest.mark.parametrize("seed", range(24))
def test_a_job_that_meets_a_teardown_leaves_nothing(groups: Callable[..., World], seed: int) -> None:
    group = groups(seed=seed)
    group.launch(everywhere("half"))
    taking_turns(
        group,
        {"job": partial(group.job, "half", command="true", on="all"), "end": partial(group.teardown, "half")},
    )
    for host in group.hosts.values():
        host.go_on()
    nothing_is_left(group)


# ---- hosts that vanish ----------------------------------------------------------------------------------------------


def lost(group: World, verb: Callable[[], Any], name: str, after: int) -> tuple[Any, bool]:
    """Go through a verb during which a host vanishes after so many things; return the result, and whether it did."""
    steps = Steps(verb)
    for _number in range(after):
        if not steps.step():
            return steps.result, False
    group.hosts[name].is_up = False
    return steps.finish(), True


@pytest.mark.parametrize("size", [2, 3])
def test_a_host_that_vanishes_during_a_launch_is_done_without_or_waited_for(
    groups: Callable[..., World], size: int
) -> None:
    wanted = request("half", size=size, max_replicas_per_host=1, cpus="1.5")
    seen = set()
    for after in count(0, 2):
        group = groups(seed=after)
        outcome, vanished = lost(group, partial(group.launch, wanted), "h1", after)
        if not vanished:
            break
        seen.add(status(outcome))
        group.now += LEASE + DEADLINE
        there = {host for host in group.places("half").values() if host != "h1"}
        if size == 2:
            assert status(outcome) == "RUNNING", outcome
            gone_last = group.places("half") == {"half-main1": "h1", "half-sub1": "h2"}
            assert there == ({"h2"} if gone_last else {"h2", "h3"})
        elif status(outcome) == "PENDING":
            assert there == set()
        else:
            assert there == {"h2", "h3"}, "it vanished when all was done"
        group.hosts["h1"].is_up = True
        group.schedule()
        assert len(group.places("half")) == size
        assert status(group.launch(wanted)) == "RUNNING"
        assert len(group.places("half")) == size
        nothing_is_left(group, "half")
    assert after > 30
    assert seen == ({"RUNNING"} if size == 2 else {"RUNNING", "PENDING"})


@pytest.mark.parametrize("verb", ["launch", "schedule", "gc"])
def test_a_host_that_was_away_during_a_teardown_is_cleaned_when_it_is_back(
    groups: Callable[..., World], verb: str
) -> None:
    group = groups()
    group.launch(everywhere("half"))
    group.hosts["h3"].is_up = False
    for _twice in range(2):
        report = group.teardown("half")["report"]
        assert report == ["h3 could not be reached and will be cleaned when back, by whatever runs next."]
    assert set(group.places("half").values()) == {"h3"}
    group.hosts["h3"].is_up = True
    if verb == "launch":
        assert status(group.launch(everywhere("other"))) == "RUNNING"
    else:
        getattr(group, verb)()
    assert group.places("half") == {}
    nothing_is_left(group, "other")


def test_whoever_cannot_be_reached_is_to_be_cleaned_only_of_what_others_know(groups: Callable[..., World]) -> None:
    group = groups()
    group.hosts["h3"].is_up = False
    assert group.teardown("never")["report"] == ["h3 could not be reached, and no other host knows of the session."]
    failed = tombstones_for(
        read_answers(SessionAnswer, {"h1": {"msg": "No space left"}, "h2": {"sessions": [], "tombstones": []}})
    )
    assert failed.report[0] == "h1: No space left."


def test_a_queue_is_read_without_the_host_that_is_away_and_its_old_copy_starts_nothing(
    groups: Callable[..., World],
) -> None:
    two = {"size": 2, "max_replicas_per_host": 1, "cpus": "1.5", "hosts": "h2,h3"}
    group = groups()
    group.launch(request("holder", **two))
    group.launch(request("pair", **two))
    group.hosts["h1"].is_up = False
    found = group.queue()
    assert [entry["session_name"] for entry in found["queue"]] == ["pair"]
    assert found["warnings"] == ["Hosts that could not be reached are left out: h1."]
    group.teardown("holder")
    assert launched(group.schedule())["pair"] == "RUNNING"
    group.hosts["h1"].is_up = True
    assert group.copies("pair")["h1"].status == "PENDING"
    assert group.queue()["queue"] == []
    group.schedule()
    assert group.places("pair") == {"pair-main1": "h2", "pair-sub1": "h3"}
    assert status(group.launch(request("pair", **two))) == "RUNNING"
    assert {name: copy.status for name, copy in group.copies("pair").items()} == dict.fromkeys(HOSTS, "RUNNING")
    nothing_is_left(group, "holder", "pair")


def test_any_one_copy_is_enough_to_start_who_waits(groups: Callable[..., World]) -> None:
    for kept in sorted(HOSTS):
        group = groups()
        group.launch(everywhere("holder"))
        group.launch(everywhere("later", env="GREETING=hello"))
        copies = group.copies("later")
        assert len({str(copy) for copy in copies.values()}) == 1
        for name in HOSTS - {kept}:
            StateDirectory(str(group.hosts[name].root)).remove_session(copies["h1"].id)
        group.teardown("holder")
        assert launched(group.schedule())["later"] == "RUNNING"
        after = group.copies("later")[kept]
        assert (after.id, [entry.status for entry in after.history]) == (
            copies["h1"].id,
            ["PENDING", "PREPARING", "RUNNING"],
        )
        nothing_is_left(group, "later")


# ---- the queue ------------------------------------------------------------------------------------------------------


def names(found: dict[str, Any]) -> list[str]:
    """Return who waits, in order."""
    return [entry["session_name"] for entry in found["queue"]]


def test_the_order_is_priority_then_age_and_cancelling_is_teardown(groups: Callable[..., World]) -> None:
    group = groups()
    group.launch(everywhere("holder"))
    for name in ("first", "second", "urgent", "third"):
        group.launch(everywhere(name, priority=5 if name == "urgent" else 0))
    assert names(group.queue()) == ["urgent", "first", "second", "third"]
    assert group.teardown("second")["report"] == []
    assert group.copies("second") == {}
    group.teardown("holder")
    assert set(launched(group.schedule())) == {"urgent"}
    assert names(group.queue()) == ["first", "third"]
    assert len(group.places("urgent")) == 3


def test_backfill_takes_nothing_from_the_head(groups: Callable[..., World]) -> None:
    group = groups()
    owner = request("holder", size=2, max_replicas_per_host=1, cpus="1.5", hosts="h1,h2")
    group.launch(owner)
    # The head wants 1.5 CPUs on each host; h3 has them, h1 and h2 do not yet.
    group.launch(everywhere("head"))
    # 1 CPU on h3 is free now and the head's later; half of one is free beside it.
    outcome = group.launch(request("greedy", cpus="1", hosts="h3"))
    assert lines(outcome)[0] == "Session greedy is PENDING, position 2 in the queue."
    assert "session head" in lines(outcome)[1]
    group.launch(request("modest", cpus="0.5", hosts="h3"))
    assert group.places("modest") == {"modest-main1": "h3"}
    assert launched(group.schedule()) == {}
    assert names(group.queue()) == ["head", "greedy"]
    group.teardown("holder")
    assert launched(group.schedule())["head"] == "RUNNING"
    assert names(group.queue()) == ["greedy"]
    assert len(group.places("head")) == 3


def test_what_fits_on_no_host_is_refused_and_does_not_wait(groups: Callable[..., World]) -> None:
    group = groups()
    outcome = group.launch(everywhere("huge", cpus="2.5"))
    assert status(outcome) == "FAILED"
    assert "session_cpus" in "".join(lines(outcome))
    assert "the largest offers 2 to sessions" in "".join(lines(outcome))
    assert group.copies("huge") == {}


def test_limits_count_what_runs_and_waits_of_the_same_owner_and_not_the_session_itself(
    groups: Callable[..., World],
) -> None:
    group = groups()
    group.site["cluster_compute_limits"] = {"sessions_per_owner": 2, "cpus_per_owner": 6}
    again = group.launch(everywhere("own"))
    assert status(again) == "RUNNING", again
    for _twice in range(2):
        assert status(group.launch(request("waits", cpus="1.5", hosts="h1"))) == "PENDING"
    more = group.launch(request("more", cpus="0.5"))
    assert status(more) == "FAILED"
    assert "sessions of owner alice in group cluster_compute_hosts: 2 used, 1 requested, the limit is 2." in str(more)
    assert "CPUs of owner alice in group cluster_compute_hosts: 6 used, 0.5 requested, the limit is 6." in str(more)
    assert status(group.launch(request("bobs", cpus="0.5"), owner="bob")) == "RUNNING"
    again = group.launch(everywhere("own"))
    assert status(again) == "RUNNING", again


# ---- runs that overtake each other ----------------------------------------------------------------------------------


def taking_turns(group: World, verbs: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Go through several verbs at once, in an order by chance, and return their results."""
    steps = {name: Steps(verb) for name, verb in verbs.items()}
    results = {}
    while steps:
        name = group.chance.choice(sorted(steps))
        if not steps[name].step():
            results[name] = steps.pop(name).result
        group.check_places()
    return results


@pytest.mark.parametrize("seed", range(12))
def test_of_launches_of_mixed_sizes_each_is_all_there_or_not_at_all(groups: Callable[..., World], seed: int) -> None:
    group = groups(cpus=(400, 400, 400), seed=seed)
    sizes = {f"mixed{number}": 1 + number % 3 for number in range(6)}
    found: dict[str, State] = taking_turns(
        group,
        {
            name: partial(group.launch, request(name, size=size, max_replicas_per_host=1, cpus="0.2"))
            for name, size in sizes.items()
        },
    )
    for name, size in sizes.items():
        assert len(group.places(name)) == (size if status(found[name]) == "RUNNING" else 0), found[name]
    queue = group.queue()
    assert set(names(queue)) == {name for name, outcome in found.items() if status(outcome) == "PENDING"}
    assert queue["launchable"] == []
    nothing_is_left(group, *sizes)


@pytest.mark.parametrize("seed", range(24))
def test_of_two_launches_of_one_name_on_any_of_many_hosts_one_wins(groups: Callable[..., World], seed: int) -> None:
    group = groups(cpus=(400,) * 8, seed=seed)
    requests = {"first": request("same", size=1, cpus="0.2"), "second": request("same", size=2, cpus="0.3")}
    found: dict[str, State] = taking_turns(group, {key: partial(group.launch, each) for key, each in requests.items()})
    assert sorted(status(outcome) for outcome in found.values()) == ["FAILED", "RUNNING"], found
    (winner,) = [key for key, outcome in found.items() if status(outcome) == "RUNNING"]
    assert len(group.places("same")) == requests[winner].size
    assert "same exists with a different specification" in str([lines(outcome) for outcome in found.values()])
    nothing_is_left(group, "same")


@pytest.mark.parametrize("seed", range(24))
def test_of_two_launches_of_one_name_without_room_one_waits(groups: Callable[..., World], seed: int) -> None:
    group = groups(seed=seed)
    group.launch(everywhere("full"))
    (full,) = {copy.id for copy in group.copies("full").values()}
    requests = {"first": everywhere("same"), "second": everywhere("same", cpus="1.6")}
    found: dict[str, State] = taking_turns(group, {key: partial(group.launch, each) for key, each in requests.items()})
    assert sorted(status(outcome) for outcome in found.values()) == ["FAILED", "PENDING"], found
    (waiting,) = [key for key, outcome in found.items() if status(outcome) == "PENDING"]
    copies = group.copies("same")
    assert set(copies) == HOSTS
    assert len({copy.id for copy in copies.values()}) == 1
    assert [Request.from_dict(copy.request) for copy in copies.values()] == [requests[waiting]] * 3
    assert all(set(LedgerFile(str(host.root)).read()) == {full} for host in group.hosts.values()), (
        "the name is held no longer"
    )
    nothing_is_left(group, "full", "same")


def test_a_name_is_known_while_the_hosts_of_its_session_are_away(groups: Callable[..., World]) -> None:
    group = groups(cpus=(400,) * 8)
    group.launch(request("same", cpus="0.2"))
    (host,) = group.places("same").values()
    assert len(group.copies("same")) <= 4, "most hosts are not told"
    group.hosts[host].is_up = False
    outcome = group.launch(request("same", cpus="0.2"))
    assert status(outcome) == "FAILED"
    assert f"The session has replicas on {host}" in " ".join(lines(outcome))
    group.hosts[host].is_up = True
    nothing_is_left(group, "same")


def test_one_that_is_cancelled_between_the_look_at_the_queue_and_its_launch_is_not_launched(
    groups: Callable[..., World],
) -> None:
    group = groups()
    group.launch(everywhere("first"))
    group.launch(everywhere("late"))
    group.teardown("first")
    (launchable,) = group.queue()["launchable"]
    group.teardown("late")
    outcome = group.launch_from_queue(launchable)
    assert (status(outcome), lines(outcome)[1]) == ("CANCELLED", "It was cancelled while it waited.")
    nothing_is_left(group)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_overtakes_what_no_place_is_given_twice_and_nothing_stays(
    groups: Callable[..., World], seed: int
) -> None:
    group = groups(seed=seed)
    group.launch(everywhere("first"))
    group.launch(everywhere("late"))
    taking_turns(
        group,
        {
            "schedule": group.schedule,
            "repair": group.gc,
            "end": partial(group.teardown, "first"),
            "cancel": partial(group.teardown, "late") if seed % 2 else group.schedule,
            "launch": partial(group.launch, everywhere("other")),
        },
    )
    group.now += LEASE + DEADLINE
    for _twice in range(2):
        group.schedule()
    there = {name: len(group.places(name)) for name in ("first", "late", "other")}
    assert sorted(there.values()) == [0, 0, 3], there
    if seed % 2:
        assert there["late"] == 0
    nothing_is_left(group, "first", "late", "other")


def moved(group: World, host: str) -> Callable[[], Any]:
    """Return what moves replicas off a host that is drained."""
    return partial(group.run, schedule, begun(schedule, group.known, only_lost=True, moves_from=[host]), None, None)


@pytest.mark.parametrize(("other", "seed"), [("grow", 20), ("grow", 22), ("move", 1), ("move", 7), ("move", 14)])
def test_of_two_changes_of_one_session_one_goes_on_and_nothing_runs_twice(
    groups: Callable[..., World], other: str, seed: int
) -> None:
    def wanted(subs: int) -> Request:
        roles = [{"name": "main", "cpus": "1.5"}, {"name": "sub", "replicas": subs, "cpus": "1"}]
        given = {"size": None, "max_size": 6, "on_host_loss": "replace", "roles": roles}
        return request("same", max_replicas_per_host=2 if other == "grow" else 1, **given)

    group = groups(cpus=(1500, 1000, 1000, 0, 0) if other == "grow" else (2000,) * 6, seed=seed, attempts=6)
    group.launch(wanted(2))
    assert set(group.places("same").values()) == HOSTS
    verbs = {"move": moved(group, "h1"), "other": moved(group, "h2")}
    if other == "grow":
        verbs["other"] = partial(group.launch, wanted(3))
        group.hosts["h3"].cpus, group.hosts["h4"].cpus = 2000, 1500
    steps = {name: Steps(verb) for name, verb in verbs.items()}
    while steps:
        name = group.chance.choice(sorted(steps))
        if not steps[name].step():
            del steps[name]
        there = [container for host in group.hosts.values() for container in host.containers]
        assert len({*there}) == len(there)
    copies = [copy for copy in group.copies("same").values() if copy.plan is not None]
    assert len({str(copy) for copy in copies}) == len({copy.revision for copy in copies})
    nothing_is_left(group, "same")


@pytest.mark.parametrize("seed", [2, 5])
def test_no_place_is_given_twice_where_launches_race_while_sessions_change(
    groups: Callable[..., World], seed: int
) -> None:
    group = groups(cpus=(800,) * 4, seed=seed)
    moving = {"cpus": "0.1", "max_size": 8, "on_host_loss": "replace"}
    group.launch(request("grows", size=2, **moving))
    group.launch(request("shrinks", size=5, **moving))
    group.launch(request("lost", size=4, max_replicas_per_host=2, **moving))
    lost = group.hosts[group.places("lost")["lost-sub3"]]
    lost.is_up = False
    sizes = {f"race{number}": 1 + number % 3 for number in range(24)}
    found: dict[str, State] = taking_turns(
        group,
        {
            **{name: partial(group.launch, request(name, size=size, cpus="0.2")) for name, size in sizes.items()},
            "grow": partial(group.launch, request("grows", size=6, **moving)),
            "shrink": partial(group.launch, request("shrinks", size=2, **moving)),
            "replace": group.schedule,
            "replace too": group.schedule,
        },
    )
    for name, size in sizes.items():
        assert len(group.places(name)) == (size if status(found[name]) == "RUNNING" else 0), found[name]
    assert len(group.places("shrinks")) == 2
    assert len(group.places("grows")) == (6 if status(found["grow"]) == "RUNNING" else 2)
    group.act("bring back", lost.name, None)
    group.check_names()
    assert sorted(group.places("lost")) == ["lost-main1", "lost-sub1", "lost-sub2", "lost-sub3"]
    nothing_is_left(group, "grows", "shrinks", "lost", *sizes)
