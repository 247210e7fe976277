# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verbs whose controller is killed after any answer, whose hosts vanish and come back, that overtake each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import ledger, state
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.answers import (
    SessionAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs.teardown import tombstones_for
from ansible_collections.cluster_compute.session.plugins.module_utils.host import prepare
from ansible_collections.cluster_compute.session.tests.hosts_in_memory import Group, Outcome, Steps, request

HOSTS = {"h1", "h2", "h3"}


@pytest.fixture(autouse=True)
def no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files belong to whoever runs the tests, be written at once, and hold no real keys."""
    me, write = (os.getuid(), os.getgid()), state.write_file
    for module in (ledger, state):
        monkeypatch.setattr(module, "write_file", lambda path, text, mode=0o644: write(path, text, mode, me))
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    monkeypatch.setattr(ActionBase, "run", lambda *_given: {})

    def keys(folder: Path, _regenerate: bool, _check_mode: bool) -> tuple[dict[str, str], list[str]]:
        folder.mkdir(parents=True, exist_ok=True)
        return {"client": "a", "host": "b"}, []

    monkeypatch.setattr(prepare, "converge_keys", keys)


@pytest.fixture
def groups(tmp_path: Path) -> Callable[..., Group]:
    """Give a function that makes a group of three hosts with two CPUs each."""
    numbers = count()
    return lambda **given: Group(tmp_path / str(next(numbers)), **given)


def everywhere(name: str, cpus: str = "1.5", **given: Any) -> Any:
    """Return a request for a replica on each of the three hosts, of which no other one has room beside it."""
    return request(name, size=3, max_replicas_per_host=1, cpus=cpus, **given)


def killed(steps: Steps, after: int) -> bool:
    """Go on until the controller is killed after so many things; return whether it was before the end."""
    for _number in range(after):
        try:
            next(steps)
        except StopIteration:
            return False
    steps.close()
    return True


def moments(groups: Callable[..., Group], begin: Callable[[Group], Steps], every: int = 1) -> Iterator[Group]:
    """Give a group for each moment at which the controller of a verb can be killed, some time after it was."""
    for after in count(0, every):
        group = groups(seed=after)
        if not killed(begin(group), after):
            assert after > 30, "there was next to nothing to be stopped in"
            return
        group.check()
        group.let_leases_run_out()
        yield group


def nothing_is_left(group: Group, *names: str) -> None:
    """Tear sessions down, forget what was torn down, and see that nothing is there."""
    for name in names:
        assert group.finish(group.teardown(name)) == []
    for _twice in range(2):
        group.finish(group.gc())
    assert group.everything() == []


def all_have_started(group: Group, name: str) -> bool:
    """Tell whether every host of a launch that was killed had finished its part, but perhaps for the commit."""
    copies = group.copies(name)
    return set(copies) == HOSTS and {one.status for one in copies.values()} == {"RUNNING"}


# ---- a controller that is killed ------------------------------------------------------------------------------------


def test_the_next_launch_takes_the_place_of_one_that_was_killed_anywhere(groups: Callable[..., Group]) -> None:
    done = []
    for group in moments(groups, lambda one: one.launch(everywhere("half"))):
        done.append(all_have_started(group, "half"))
        outcome = group.finish(group.launch(everywhere("other")))
        if done[-1]:
            assert outcome.status == "PENDING"
            assert set(group.running("half").values()) == HOSTS, "what runs is not harmed"
        else:
            assert outcome.status == "RUNNING", outcome
            assert set(group.running("other").values()) == HOSTS
            assert (group.running("half"), group.copies("half")) == ({}, {})
        nothing_is_left(group, "half", "other")
    assert sorted(done) == done, "whoever has started everywhere has not later started nowhere"
    assert True in done
    assert False in done


@pytest.mark.parametrize("verb", ["gc", "schedule", "teardown", "launch"])
def test_every_other_verb_undoes_or_finishes_it_as_well(groups: Callable[..., Group], verb: str) -> None:
    for group in moments(groups, lambda one: one.launch(everywhere("half")), every=2):
        done = all_have_started(group, "half")
        if verb == "launch":
            assert group.finish(group.launch(everywhere("half"))).status == "RUNNING"
            assert len(group.running("half")) == 3
        else:
            group.finish(group.teardown("half") if verb == "teardown" else getattr(group, verb)())
            there = set(group.running("half").values())
            assert there == (HOSTS if done and verb != "teardown" else set())
        nothing_is_left(group, "half")


def test_one_from_the_queue_waits_again_where_its_launch_was_killed(groups: Callable[..., Group]) -> None:
    def begin(group: Group) -> Steps:
        group.finish(group.launch(everywhere("other")))
        assert group.finish(group.launch(everywhere("half"))).status == "PENDING"
        group.finish(group.teardown("other"))
        return group.schedule()

    for group in moments(groups, begin, every=2):
        before = group.copies("half")["h1"]
        group.finish(group.schedule())
        after = group.copies("half")
        assert {one.status for one in after.values()} == {"RUNNING"}
        assert {(one.id, one.queue_number) for one in after.values()} == {(before.id, 1)}
        assert set(group.running("half").values()) == HOSTS
        nothing_is_left(group, "half")


def test_a_teardown_that_was_killed_is_finished_by_the_next(groups: Callable[..., Group]) -> None:
    for after in count(0, 2):
        group = groups(seed=after)
        group.finish(group.launch(everywhere("half")))
        if not killed(group.teardown("half"), after):
            break
        group.let_leases_run_out()
        nothing_is_left(group, "half")
        assert group.finish(group.launch(everywhere("other"))).status == "RUNNING"
    assert after > 10


# ---- hosts that vanish ----------------------------------------------------------------------------------------------


def lost(group: Group, steps: Steps, name: str, after: int) -> tuple[Any, bool]:
    """Go through a verb during which a host vanishes after so many things; return the result, and whether it did."""
    for _number in range(after):
        try:
            next(steps)
        except StopIteration as end:
            return end.value, False
    group.hosts[name].is_away = True
    return group.finish(steps), True


@pytest.mark.parametrize("size", [2, 3])
def test_a_host_that_vanishes_during_a_launch_is_done_without_or_waited_for(
    groups: Callable[..., Group], size: int
) -> None:
    asked = request("half", size=size, max_replicas_per_host=1, cpus="1.5")
    seen = set()
    for after in count(0, 2):
        group = groups(seed=after)
        outcome, vanished = lost(group, group.launch(asked), "h1", after)
        if not vanished:
            break
        seen.add(outcome.status)
        group.let_leases_run_out()
        there = {host for host in group.running("half").values() if host != "h1"}
        if size == 2:
            assert outcome.status == "RUNNING", outcome
            gone_last = group.running("half") == {"half-main1": "h1", "half-sub1": "h2"}
            assert there == ({"h2"} if gone_last else {"h2", "h3"})
        elif outcome.status == "PENDING":
            assert there == set()
        else:
            assert there == {"h2", "h3"}, "it vanished when all was done"
        group.hosts["h1"].is_away = False
        group.finish(group.schedule())
        assert len(group.running("half")) == size
        assert group.finish(group.launch(asked)).status == "RUNNING"
        assert len(group.running("half")) == size
        nothing_is_left(group, "half")
    assert after > 30
    assert seen == ({"RUNNING"} if size == 2 else {"RUNNING", "PENDING"})


@pytest.mark.parametrize("verb", ["launch", "schedule", "gc"])
def test_a_host_that_was_away_during_a_teardown_is_cleaned_when_it_is_back(
    groups: Callable[..., Group], verb: str
) -> None:
    group = groups()
    group.finish(group.launch(everywhere("half")))
    group.hosts["h3"].is_away = True
    for _twice in range(2):
        report = group.finish(group.teardown("half"))
        assert report == ["h3 could not be reached and will be cleaned when back, by whatever runs next."]
    assert set(group.running("half").values()) == {"h3"}
    group.hosts["h3"].is_away = False
    if verb == "launch":
        assert group.finish(group.launch(everywhere("other"))).status == "RUNNING"
    else:
        group.finish(getattr(group, verb)())
    assert group.running("half") == {}
    nothing_is_left(group, "other")


def test_whoever_cannot_be_reached_is_to_be_cleaned_only_of_what_others_know(groups: Callable[..., Group]) -> None:
    group = groups()
    group.hosts["h3"].is_away = True
    assert group.finish(group.teardown("never")) == ["h3 could not be reached, and no other host knows of the session."]
    failed = tombstones_for(
        read_answers(SessionAnswer, {"h1": {"msg": "No space left"}, "h2": {"sessions": [], "tombstones": []}})
    )
    assert failed.report[0] == "h1: No space left."


def test_a_queue_is_read_without_the_host_that_is_away_and_its_old_copy_starts_nothing(
    groups: Callable[..., Group],
) -> None:
    two = {"size": 2, "max_replicas_per_host": 1, "cpus": "1.5", "hosts": "h2,h3"}
    group = groups()
    group.finish(group.launch(request("holder", **two)))
    group.finish(group.launch(request("pair", **two)))
    group.hosts["h1"].is_away = True
    found = group.finish(group.queue())
    assert [entry["session_name"] for entry in found["queue"]] == ["pair"]
    assert found["warnings"] == ["Hosts that could not be reached are left out: h1."]
    group.finish(group.teardown("holder"))
    assert group.finish(group.schedule())["pair"].status == "RUNNING"
    group.hosts["h1"].is_away = False
    assert group.copies("pair")["h1"].status == "PENDING"
    assert group.finish(group.queue())["queue"] == []
    group.finish(group.schedule())
    assert group.running("pair") == {"pair-main1": "h2", "pair-sub1": "h3"}
    assert group.finish(group.launch(request("pair", **two))).status == "RUNNING"
    assert {name: one.status for name, one in group.copies("pair").items()} == dict.fromkeys(HOSTS, "RUNNING")
    nothing_is_left(group, "holder", "pair")


def test_any_one_copy_is_enough_to_start_who_waits(groups: Callable[..., Group]) -> None:
    for kept in sorted(HOSTS):
        group = groups()
        group.finish(group.launch(everywhere("holder")))
        group.finish(group.launch(everywhere("later", env="GREETING=hello")))
        copies = group.copies("later")
        assert len({str(copy) for copy in copies.values()}) == 1
        for name in HOSTS - {kept}:
            group.hosts[name].state.remove_session(copies["h1"].id)
        group.finish(group.teardown("holder"))
        assert group.finish(group.schedule())["later"].status == "RUNNING"
        after = group.copies("later")[kept]
        assert (after.id, [one.status for one in after.history]) == (
            copies["h1"].id,
            ["PENDING", "PREPARING", "RUNNING"],
        )
        nothing_is_left(group, "later")


# ---- the queue ------------------------------------------------------------------------------------------------------


def names(found: dict[str, Any]) -> list[str]:
    """Return who waits, in order."""
    return [entry["session_name"] for entry in found["queue"]]


def test_the_order_is_priority_then_age_and_cancelling_is_teardown(groups: Callable[..., Group]) -> None:
    group = groups()
    group.finish(group.launch(everywhere("holder")))
    for name in ("first", "second", "urgent", "third"):
        group.finish(group.launch(everywhere(name, priority=5 if name == "urgent" else 0)))
    assert names(group.finish(group.queue())) == ["urgent", "first", "second", "third"]
    assert group.finish(group.teardown("second")) == []
    assert group.copies("second") == {}
    group.finish(group.teardown("holder"))
    assert set(group.finish(group.schedule())) == {"urgent"}
    assert names(group.finish(group.queue())) == ["first", "third"]
    assert len(group.running("urgent")) == 3


def test_backfill_takes_nothing_from_the_head(groups: Callable[..., Group]) -> None:
    group = groups()
    holder = request("holder", size=2, max_replicas_per_host=1, cpus="1.5", hosts="h1,h2")
    group.finish(group.launch(holder))
    # The head wants 1.5 CPUs on each host; h3 has them, h1 and h2 do not yet.
    group.finish(group.launch(everywhere("head")))
    # 1 CPU on h3 is free now and the head's later; half of one is free beside it.
    outcome = group.finish(group.launch(request("greedy", cpus="1", hosts="h3")))
    assert outcome.lines[0] == "Session greedy is PENDING, position 2 in the queue."
    assert "session head" in outcome.lines[1]
    group.finish(group.launch(request("modest", cpus="0.5", hosts="h3")))
    assert group.running("modest") == {"modest-main1": "h3"}
    assert group.finish(group.schedule()) == {}
    assert names(group.finish(group.queue())) == ["head", "greedy"]
    group.finish(group.teardown("holder"))
    assert group.finish(group.schedule())["head"].status == "RUNNING"
    assert names(group.finish(group.queue())) == ["greedy"]
    assert len(group.running("head")) == 3


def test_what_fits_on_no_host_is_refused_and_does_not_wait(groups: Callable[..., Group]) -> None:
    group = groups()
    outcome = group.finish(group.launch(everywhere("huge", cpus="2.5")))
    assert outcome.status == "FAILED"
    assert "session_cpus" in "".join(outcome.lines)
    assert "the largest offers 2 to sessions" in "".join(outcome.lines)
    assert group.copies("huge") == {}


def test_limits_count_what_runs_and_waits_of_the_same_owner_and_not_the_session_itself(
    groups: Callable[..., Group],
) -> None:
    group = groups()
    group.site["cluster_compute_limits"] = {"sessions_per_owner": 2, "cpus_per_owner": 6}
    again = group.finish(group.launch(everywhere("own")))
    assert again.status == "RUNNING", again
    for _twice in range(2):
        assert group.finish(group.launch(request("waits", cpus="1.5", hosts="h1"))).status == "PENDING"
    more = group.finish(group.launch(request("more", cpus="0.5")))
    assert more.status == "FAILED"
    assert "sessions of owner alice in group cluster_compute_hosts: 2 used, 1 requested, the limit is 2." in str(more)
    assert "CPUs of owner alice in group cluster_compute_hosts: 6 used, 0.5 requested, the limit is 6." in str(more)
    assert group.finish(group.launch(request("bobs", cpus="0.5"), owner="bob")).status == "RUNNING"
    again = group.finish(group.launch(everywhere("own")))
    assert again.status == "RUNNING", again


# ---- runs that overtake each other ----------------------------------------------------------------------------------


def taking_turns(group: Group, verbs: dict[str, Steps]) -> dict[str, Any]:
    """Go through several verbs at once, in an order by chance, and return their results."""
    results = {}
    while verbs:
        name = group.chance.choice(sorted(verbs))
        try:
            next(verbs[name])
        except StopIteration as end:
            results[name] = end.value
            del verbs[name]
        group.check()
    return results


@pytest.mark.parametrize("seed", range(12))
def test_of_launches_of_mixed_sizes_each_is_all_there_or_not_at_all(groups: Callable[..., Group], seed: int) -> None:
    group = groups(cpus=(400, 400, 400), seed=seed)
    sizes = {f"mixed{number}": 1 + number % 3 for number in range(6)}
    found: dict[str, Outcome] = taking_turns(
        group,
        {
            name: group.launch(request(name, size=size, max_replicas_per_host=1, cpus="0.2"))
            for name, size in sizes.items()
        },
    )
    for name, size in sizes.items():
        assert len(group.running(name)) == (size if found[name].status == "RUNNING" else 0), found[name]
    queue = group.finish(group.queue())
    assert set(names(queue)) == {name for name, outcome in found.items() if outcome.status == "PENDING"}
    assert queue["launchable"] == []
    nothing_is_left(group, *sizes)


@pytest.mark.parametrize("seed", range(24))
def test_of_two_launches_of_one_name_on_any_of_many_hosts_one_wins(groups: Callable[..., Group], seed: int) -> None:
    group = groups(cpus=(400,) * 8, seed=seed)
    asked = {"first": request("same", size=1, cpus="0.2"), "second": request("same", size=2, cpus="0.3")}
    found: dict[str, Outcome] = taking_turns(group, {key: group.launch(wanted) for key, wanted in asked.items()})
    assert sorted(outcome.status for outcome in found.values()) == ["FAILED", "RUNNING"], found
    (winner,) = [key for key, outcome in found.items() if outcome.status == "RUNNING"]
    assert len(group.running("same")) == asked[winner].size
    assert "same exists and was asked for differently" in str([outcome.lines for outcome in found.values()])
    nothing_is_left(group, "same")


@pytest.mark.parametrize("seed", range(24))
def test_of_two_launches_of_one_name_without_room_one_waits(groups: Callable[..., Group], seed: int) -> None:
    group = groups(seed=seed)
    group.finish(group.launch(everywhere("full")))
    (full,) = {copy.id for copy in group.copies("full").values()}
    asked = {"first": everywhere("same"), "second": everywhere("same", cpus="1.6")}
    found: dict[str, Outcome] = taking_turns(group, {key: group.launch(wanted) for key, wanted in asked.items()})
    assert sorted(outcome.status for outcome in found.values()) == ["FAILED", "PENDING"], found
    (waiting,) = [key for key, outcome in found.items() if outcome.status == "PENDING"]
    copies = group.copies("same")
    assert set(copies) == HOSTS
    assert len({copy.id for copy in copies.values()}) == 1
    assert [Request.from_dict(copy.request) for copy in copies.values()] == [asked[waiting]] * 3
    assert all(set(host.ledger.read()) == {full} for host in group.hosts.values()), "the name is held no longer"
    nothing_is_left(group, "full", "same")


def test_a_name_is_known_while_the_hosts_of_its_session_are_away(groups: Callable[..., Group]) -> None:
    group = groups(cpus=(400,) * 8)
    group.finish(group.launch(request("same", cpus="0.2")))
    (host,) = group.running("same").values()
    assert len(group.copies("same")) <= 4, "most hosts are not told"
    group.hosts[host].is_away = True
    outcome = group.finish(group.launch(request("same", cpus="0.2")))
    assert outcome.status == "FAILED"
    assert f"The session has replicas on {host}" in " ".join(outcome.lines)
    group.hosts[host].is_away = False
    nothing_is_left(group, "same")


def test_one_that_is_cancelled_between_the_look_at_the_queue_and_its_launch_is_not_launched(
    groups: Callable[..., Group],
) -> None:
    group = groups()
    group.finish(group.launch(everywhere("first")))
    group.finish(group.launch(everywhere("late")))
    group.finish(group.teardown("first"))
    (launchable,) = group.finish(group.queue())["launchable"]
    group.finish(group.teardown("late"))
    outcome = group.finish(group.launch_from_queue(launchable))
    assert (outcome.status, outcome.lines[1]) == ("CANCELLED", "It was cancelled while it waited.")
    nothing_is_left(group)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_overtakes_what_no_place_is_given_twice_and_nothing_stays(
    groups: Callable[..., Group], seed: int
) -> None:
    group = groups(seed=seed)
    group.finish(group.launch(everywhere("first")))
    group.finish(group.launch(everywhere("late")))
    taking_turns(
        group,
        {
            "schedule": group.schedule(),
            "repair": group.gc(),
            "end": group.teardown("first"),
            "cancel": group.teardown("late") if seed % 2 else group.schedule(),
            "launch": group.launch(everywhere("other")),
        },
    )
    group.let_leases_run_out()
    for _twice in range(2):
        group.finish(group.schedule())
    there = {name: len(group.running(name)) for name in ("first", "late", "other")}
    assert sorted(there.values()) == [0, 0, 3], there
    if seed % 2:
        assert there["late"] == 0
    nothing_is_left(group, "first", "late", "other")
