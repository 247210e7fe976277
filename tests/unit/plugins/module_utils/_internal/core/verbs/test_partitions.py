# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network between hosts is cut, and two controllers that reach different hosts act at the same moment.

Whatever is cut, whoever reaches whom and in whatever order hosts do their work, no replica is started in two places.
"""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    TERMINATED,
    advance,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.verb_state import (
    ScheduleState,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import schedule
from ansible_collections.cluster_compute.session.tests.support.core.verbs import group as requests
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import DEADLINE, LEASE, World, in_memory
from ansible_collections.cluster_compute.session.tests.support.small_steps import Killed, Steps

NAME = "split23"
"""Of six hosts the last three know it, which are not those that replicas go to first."""
Places = set[tuple[str, str]]
"""Containers, each with its host."""


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Give a function that makes a group of five hosts; the last that was made is in memory."""
    numbers = count()
    with in_memory() as worlds:

        def make(hosts: int = 5, **given: Any) -> World:
            root = tmp_path / str(next(numbers))
            worlds.append(World(root, (4000,) * hosts, **{"attempts": 20, **given}))
            return worlds[-1]

        yield make


def request(size: int, **given: Any) -> Request:
    """Return a request for replicas on hosts of their own, which are to be replaced where a host is lost."""
    wanted = {"name": NAME, "size": size, "max_replicas_per_host": 1, "memory": "8m", "on_host_loss": "replace"}
    return requests.request(**{**wanted, "cpus": "0.5", **given})


def containers(group: World) -> Places:
    return {(container, host.name) for host in group.hosts.values() for container in host.containers}


def check(group: World, before: Places) -> None:
    """No replica was started in two places, and not every one is there twice: those of the side that goes on are not.

    One of a host that was cut off and replaced is, and reaches nobody.
    """
    started = Counter(name for name, _host in containers(group) - before)
    assert [name for name, times in started.items() if times > 1] == [], containers(group)
    assert min(Counter(name for name, _host in containers(group)).values()) == 1, containers(group)


def at_once(group: World, before: Places, verbs: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Go through verbs of several controllers at once, in an order by chance; return their results."""
    steps, results = {name: Steps(verb) for name, verb in verbs.items()}, {}
    while steps:
        name = group.chance.choice(sorted(steps))
        with suppress(Killed):
            if steps[name].step():
                check(group, before)
                continue
            results[name] = steps[name].result
        del steps[name]
        check(group, before)
    return results


def contents(group: World) -> dict[int, set[str]]:
    """Return, by revision, the places that whole copies of the record give to replicas."""
    found: dict[int, set[str]] = {}
    for copy in group.copies(NAME).values():
        if copy.plan is not None:
            places = str(sorted((replica["name"], replica["host"]) for replica in copy.plan["replicas"]))
            found.setdefault(copy.revision, set()).add(places)
    return found


def healed(group: World) -> None:
    """Let all hosts hear each other and give up what others have by now; then put back what is missing."""
    group.heal()
    group.now += LEASE + DEADLINE
    for name in group.hosts:
        group.boot(name)
    group.schedule()
    group.repair()


SIDES = [
    (left, tuple(host for host in ("h1", "h2", "h3", "h4", "h5") if host not in left))
    for size in (1, 2)
    for left in itertools.combinations(("h1", "h2", "h3", "h4", "h5"), size)
]
"""Every way to cut five hosts into two sides."""


def split(group: World, size: int, sides: tuple[tuple[str, ...], ...], is_bridged: bool) -> tuple[Places, list[World]]:
    """Launch a session and cut the hosts into two sides; return where it runs, and a controller of each side.

    is_bridged: whether hosts without a replica hear, and are reached from, both sides.
    """
    group.launch(request(size))
    before = containers(group)
    carrying = {host for _container, host in before}
    cut = [{*side} & carrying if is_bridged else {*side} for side in sides]
    group.cut(*cut)
    both = {*group.hosts} - {*cut[0], *cut[1]}
    return before, [group.controller(*side, *both) for side in cut]


def check_healed(group: World, before: Places, what: object) -> None:
    """All replicas are there once, and hosts know one content of the newest revision, when all hear each other."""
    healed(group)
    assert Counter(name for name, _host in containers(group)) == Counter(name for name, _host in before), what
    whole = [copy for copy in group.copies(NAME).values() if copy.plan is not None]
    assert len({str(copy) for copy in whole}) == 1, what


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("is_bridged", [False, True])
@pytest.mark.parametrize("is_later", [False, True])
def test_of_two_controllers_on_two_sides_of_a_cut_one_replaces(
    groups: Callable[..., World], size: int, is_bridged: bool, is_later: bool
) -> None:
    """is_later: whether one begins when the other has ended."""
    replaced = 0
    for seed, sides in list(enumerate(SIDES))[is_later::2]:
        group = groups(seed=seed)
        before, controllers = split(group, size, sides, is_bridged)
        verbs = {name: other.schedule for name, other in zip("ab", controllers[:: 1 if seed % 2 else -1])}
        for some in [{name: verb} for name, verb in verbs.items()] if is_later else [verbs]:
            at_once(group, before, some)
        assert all(len(places) == 1 for places in contents(group).values()), (sides, contents(group))
        replaced += containers(group) != before
        check_healed(group, before, sides)
    assert replaced > 1


THREE = sorted(
    {
        tuple(
            sorted(
                tuple(sorted(host for host, at in zip(("h1", "h2", "h3", "h4", "h5"), where) if at == side))
                for side in range(3)
            )
        )
        for where in itertools.product(range(3), repeat=5)
        if {*where} == {0, 1, 2}
    }
)
"""Every way to cut five hosts into three sides."""


@pytest.mark.parametrize("size", [2, 3])
def test_of_three_controllers_on_three_sides_at_most_one_replaces(groups: Callable[..., World], size: int) -> None:
    replaced = 0
    for seed, sides in enumerate(THREE):
        group = groups(seed=seed)
        group.launch(request(size))
        before = containers(group)
        group.cut(*sides)
        controllers = [group.controller(*side) for side in sides]
        at_once(group, before, {str(number): other.schedule for number, other in enumerate(controllers)})
        assert all(len(places) == 1 for places in contents(group).values()), (sides, contents(group))
        replaced += containers(group) != before
        check_healed(group, before, sides)
    assert replaced > 1


def stopped(groups: Callable[..., World], hosts: int, moment: int, is_main_first: bool, goes_on: bool) -> bool:
    """Let a controller stop after so many answers of hosts, and another one go on; tell whether it stopped.

    Each of them does not reach the session's host on the other side. That of main1 is heard by the witnesses as long as
    the controller on its side acts, and not while the other one does.
    """
    group = groups(hosts, seed=moment, attempts=3)
    group.launch(request(2))
    before = containers(group)
    assert {host for _container, host in before} == {"h1", "h2"}
    others = {*group.hosts} - {"h1"}
    of_main, of_other = group.controller(*{*group.hosts} - {"h2"}), group.controller(*others)

    def let_hear(witnesses: bool) -> None:
        group.heal()
        group.cut({"h1"}, {"h2"} if witnesses else others)

    let_hear(is_main_first)
    happened = False

    def happens() -> None:
        nonlocal happened
        happened = True
        for host in group.hosts.values():
            held = LedgerFile(str(host.root)).read().values()
            if any(reservation.claim.amends and reservation.claim.replicas for reservation in held):
                host.cpus = 0  # the other one chooses another
        group.now += LEASE + DEADLINE
        let_hear(not is_main_first)
        with suppress(Killed):
            (of_other if is_main_first else of_main).schedule()
        check(group, before)
        if not goes_on:
            raise Killed

    with suppress(Killed):
        (of_main if is_main_first else of_other).schedule(moment, happens)
    check(group, before)
    for host in group.hosts.values():
        host.cpus = 4000
    assert group.repair()["problems"] == [], (moment, group.copies(NAME))
    check_healed(group, before, (hosts, moment, group.copies(NAME)))
    return happened


@pytest.mark.parametrize("hosts", [6, 3])
@pytest.mark.parametrize("is_main_first", [True, False])
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_controller_that_stops_for_long_in_the_midst_of_a_replacement_starts_nothing_that_another_has(
    groups: Callable[..., World], hosts: int, is_main_first: bool, goes_on: bool
) -> None:
    """Its leases have run out when the controller on the other side begins; goes_on: else it was killed."""
    assert any(not stopped(groups, hosts, moment, is_main_first, goes_on) for moment in range(hosts, 60, 2))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("is_back", [False, True])
def test_a_replacement_that_no_host_can_finish_gives_the_session_back_what_it_had(
    groups: Callable[..., World], size: int, is_back: bool
) -> None:
    """is_back: whether the lost host comes back while the others fail to take over."""
    group = groups()
    group.launch(request(size))
    before, revision = containers(group), max(contents(group))
    group.hosts["h2"].is_up = False
    free = [host for host in group.hosts.values() if host.name not in {name for _container, name in before}]
    for host in free:
        host.create = partial(fail, group, "h2" if is_back else "")  # type: ignore[method-assign]
    group.schedule()
    newest = max(contents(group))
    assert newest > revision + 1, "the hosts had let go of h2"
    assert contents(group)[newest] == contents(group)[revision], "the places are those of before"
    assert containers(group) == before
    for host in free:
        del host.create
    group.hosts["h2"].is_up = True
    check_healed(group, before, group.copies(NAME))
    assert containers(group) == before
    group.check_names()


@pytest.mark.parametrize("verb", ["schedule", "gc"])
@pytest.mark.parametrize("policy", ["replace", "wait"])
def test_after_a_host_gave_up_its_part_nothing_is_left_to_be_repaired(
    groups: Callable[..., World], verb: str, policy: str
) -> None:
    """Of one that waits for its hosts the part was given away by hand."""
    group = groups(3)
    group.launch(request(2, on_host_loss=policy))
    group.hosts["h2"].is_up = False
    named = NAME if policy == "wait" else ""
    group.run(schedule, begun(schedule, group.known, session_name=named, only_lost=True), None, None)
    group.hosts["h2"].is_up = True
    group.boot("h2")
    assert set(group.copies(NAME)) == {"h1", "h3"}, "it has given up all of it"
    getattr(group, verb)()
    assert set(group.copies(NAME)) == {"h1", "h2", "h3"}, "it is one of those that know the name"
    assert group.repair()["lines"] == []


def fail(group: World, comes_back: str, *_given: object) -> None:
    """Start nothing, as on a host whose engine is broken; meanwhile another host comes back."""
    if comes_back:
        group.hosts[comes_back].is_up = True
    raise EngineError("The runtime is gone.")


@pytest.mark.parametrize("verb", ["repair", "schedule"])
def test_a_replacement_to_which_few_have_agreed_is_finished_by_nobody_who_reaches_few(
    groups: Callable[..., World], verb: str
) -> None:
    """A controller loses its way to the witnesses in the midst of it, and the other side has the witnesses then."""
    few, decided = {"h2", "h3"}, 0
    for moment in range(17, 25):
        group = groups(6, attempts=3)
        group.launch(request(2))
        before = containers(group)
        group.cut({"h1"}, {*group.hosts} - {"h1"})
        controller = group.controller(*({*group.hosts} - {"h1"}))
        with suppress(Killed):
            controller.schedule(moment, partial(setattr, controller, "reaches", few))
        group.heal()
        most = {*group.hosts} - few
        group.cut(few, most)
        group.now += LEASE + DEADLINE
        group.controller(*most).schedule()
        right = {(name, host) for name, host in containers(group) if host in most}
        getattr(group.controller(*few), verb)()
        check(group, before)
        healed(group)
        if len({name for name, _host in right}) == 2:
            decided += 1
            assert containers(group) == right, moment
    assert decided, "at no moment had the other side the witnesses"


def objects(group: World) -> dict[tuple[str, str], int]:
    """Return the containers that run; one that was removed and made again is another one."""
    return {(name, host.name): id(entry) for host in group.hosts.values() for name, entry in host.containers.items()}


MOMENTS_OF_AGREEMENT = range(22, 25)
"""Answers of hosts after which hosts have let go of what is lost, and few or most witnesses have agreed."""


def fenced(groups: Callable[..., World], size: int, lost: str, moment: int) -> World | None:
    """Let a replacement end where hosts that stay let go of the lost one, and most witnesses have not agreed to that.

    Then all hosts hear each other again. Return None where the moment is another one.
    """
    group = groups(6, seed=moment, attempts=3)
    group.launch(request(size))
    revision = max(contents(group))
    others = {*group.hosts} - {lost}
    group.cut({lost}, others)
    with suppress(Killed):
        group.controller(*others).schedule(moment)
    group.heal()
    copies = group.copies(NAME)
    agreed = [host for host in copies[lost].witnesses if lost not in copies[host].hosts]
    return group if max(contents(group)) > revision and len(agreed) < 2 else None


def taken_back(groups: Callable[..., World], lost: str, first: int, second: int) -> bool:
    """Let a controller stop after so many answers, and another one in what it does then; tell whether that was begun.

    The second one finds the lost host there, when the leases of the first one have run out. Then the first one goes on.
    """
    group = groups(6, seed=first, attempts=3)
    group.launch(request(2))
    before, revision = containers(group), max(contents(group))
    others = {*group.hosts} - {lost}
    group.cut({lost}, others)
    newest = revision

    def happens() -> None:
        nonlocal newest
        group.heal()
        group.now += LEASE + DEADLINE
        with suppress(Killed):
            group.schedule(second)
        newest = max(contents(group))
        check(group, before)

    with suppress(Killed):
        group.controller(*others).schedule(first, happens)
    check(group, before)
    check_healed(group, before, (first, second))
    return newest > revision + 1


@pytest.mark.parametrize("lost", ["h1", "h2"])
def test_who_stopped_before_most_witnesses_agreed_does_not_go_on_with_what_another_takes_back(
    groups: Callable[..., World], lost: str
) -> None:
    seconds = range(10, 58, 12)
    begun = [taken_back(groups, lost, first, second) for first in MOMENTS_OF_AGREEMENT for second in seconds]
    assert any(begun)


@pytest.mark.parametrize(("size", "lost"), [(2, "h1"), (2, "h2"), (3, "h3")])
def test_what_runs_runs_on_where_a_replacement_was_fenced_and_not_agreed(
    groups: Callable[..., World], size: int, lost: str
) -> None:
    """Whatever runs first when the lost host is heard again, before its leases have run out or later."""
    tried = 0
    for moment in MOMENTS_OF_AGREEMENT:
        for first in ("schedule", "repair", "gc", "boot", "launch it", "launch another"):
            group = fenced(groups, size, lost, moment)
            if group is None:
                continue
            tried += 1
            before = objects(group)
            if tried % 2:
                group.now += LEASE + DEADLINE
            verbs: dict[str, Callable[[], Any]] = {
                "schedule": group.schedule,
                "repair": group.repair,
                "gc": group.gc,
                "boot": partial(group.boot, lost),
                "launch it": partial(group.launch, request(size)),
                "launch another": partial(group.launch, request(1, name="another")),
            }
            order = [first, *group.chance.sample(sorted({*verbs} - {first}), len(verbs) - 1)]
            for verb in order:
                verbs[verb]()
                now = {key: made for key, made in objects(group).items() if not key[0].startswith("another")}
                assert now == before, (moment, order, verb)
            group.now += LEASE + DEADLINE
            group.schedule()
            assert group.repair()["problems"] == [], (moment, order)
            places = {host for _name, host in before}
            assert {copy.hosts for copy in group.copies(NAME).values()} == {tuple(sorted(places))}, (moment, order)
            assert len({copy.revision for copy in group.copies(NAME).values() if copy.plan is not None}) == 1
    assert tried, "at no moment it was"


@pytest.mark.parametrize(
    ("size", "lost", "later"), [(2, "h1", "h2"), (2, "h2", "h1"), (3, "h3", "h1"), (3, "h3", "h2")]
)
def test_a_replacement_to_which_few_agreed_is_taken_back_without_a_host_that_is_lost_by_then(
    groups: Callable[..., World], size: int, lost: str, later: str
) -> None:
    """Of a session on two hosts that one alone had the whole record of what was begun."""
    tried = 0
    for moment in MOMENTS_OF_AGREEMENT:
        group = fenced(groups, size, lost, moment)
        if group is None:
            continue
        tried += 1
        before = containers(group)
        group.now += LEASE + DEADLINE
        group.hosts[later].is_up = False
        for _ in range(2):
            group.schedule()
        there = {(name, host) for name, host in containers(group) if host != later}
        assert len({name for name, _host in there}) == len(there) == size, (moment, there)
        group.hosts[later].is_up = True
        check_healed(group, before, moment)
    assert tried


@pytest.mark.parametrize("verbs", [["schedule"], ["repair", "schedule"], ["gc", "schedule"]])
def test_a_witness_that_lost_its_state_agrees_to_nothing_before_all_hosts_can_tell_it(
    groups: Callable[..., World], verbs: list[str]
) -> None:
    """It has agreed to the one replacement, and forgotten that when the other side asks it."""
    group = groups(6, attempts=3)
    group.launch(request(2))
    before = containers(group)
    group.cut({"h2"}, {*group.hosts} - {"h2"})
    group.controller("h1", "h3", "h4", "h5").schedule()
    right = {(f"{NAME}-main1", "h1"), (f"{NAME}-sub1", "h3")}
    assert containers(group) == before | right, "h4 and h5 have agreed"
    shutil.rmtree(group.hosts["h4"].root / "sessions")
    group.heal()
    group.cut({"h2", "h4", "h6"}, {"h1", "h3", "h5"})
    revision = group.copies(NAME)["h2"].revision
    for verb in verbs:
        getattr(group.controller("h2", "h4", "h6"), verb)()
    assert containers(group) == before | right
    assert group.copies(NAME)["h2"].revision == revision
    check_healed(group, right, verbs)
    assert containers(group) == right
    assert group.copies(NAME)["h4"].hosts == ("h1", "h3")


@pytest.mark.parametrize("change", ["grow", "move"])
def test_a_change_is_not_begun_where_most_witnesses_do_not_know_the_session(
    groups: Callable[..., World], change: str
) -> None:
    group = groups(6, attempts=3)
    group.launch(request(2))
    before = group.copies(NAME)
    for witness in ("h4", "h5"):
        shutil.rmtree(group.hosts[witness].root / "sessions")
    copies, made = group.copies(NAME), objects(group)
    if change == "grow":
        assert "is not known here, so h4 does not agree" in group.launch(request(3))["failure"]
    else:
        first = begun(schedule, group.known, moves_from=["h2"])
        group.run(schedule, {**first, "cleaned_up": True}, None, None)
    assert {host: copy.revision for host, copy in group.copies(NAME).items()} == {
        host: copy.revision for host, copy in copies.items()
    }, "nothing was written"
    assert objects(group) == made
    group.schedule()
    assert group.copies(NAME).keys() == before.keys()
    group.launch(request(3))
    assert len(containers(group)) == 3


@pytest.mark.parametrize("renamed", [{"h4", "h5"}, {"h1", "h4", "h6"}])
def test_witnesses_with_other_names_decide_as_before(groups: Callable[..., World], renamed: set[str]) -> None:
    group = groups(6, attempts=3)
    group.launch(request(2))
    assert {*group.copies(NAME)["h1"].witnesses} == {"h4", "h5", "h6"}
    group.renamed |= renamed
    group.hosts["h2"].is_up = False
    group.schedule()
    assert containers(group) - {(f"{NAME}-sub1", "h2")} == {(f"{NAME}-main1", "h1"), (f"{NAME}-sub1", "h3")}
    assert {*group.copies(NAME)["h1"].witnesses} == {"h4", "h5", "h6"}, "a record keeps its names"
    assert group.copies(NAME)["h4"].hosts == ("h1", "h3")


def without(group: World, *retired: str) -> World:
    """Return the same hosts as a controller sees them whose inventory does not have some of them any more."""
    other = group.controller(*group.reaches)
    other.hosts = {name: host for name, host in group.hosts.items() if name not in retired}
    for name in retired:
        group.hosts[name].is_up = False
    return other


@pytest.mark.parametrize("retired", [["h4"], ["h4", "h5"], ["h4", "h5", "h6"]])
@pytest.mark.parametrize("is_lost", [False, True])
def test_others_decide_in_place_of_witnesses_that_left_the_inventory(
    groups: Callable[..., World], retired: list[str], is_lost: bool
) -> None:
    """Where most of the old ones answer these agree to that; else a run that names the session has to say so."""
    group = groups(6, attempts=3)
    group.launch(request(2))
    before, made = containers(group), objects(group)
    assert {*group.copies(NAME)["h1"].witnesses} == {"h4", "h5", "h6"}
    group = without(group, *retired)
    group.hosts["h2"].is_up = not is_lost
    state = group.schedule()
    if len(retired) > 1:
        assert {*group.copies(NAME)["h1"].witnesses} == {"h4", "h5", "h6"}, "nobody may say that they are gone"
        assert any("-e session_name=split23" in warning for warning in state["warnings"]), state["warnings"]
        assert objects(group) == made
        group.run(schedule, begun(schedule, group.known, session_name=NAME, only_lost=True), None, None)
    if is_lost:
        assert containers(group) == before | {(f"{NAME}-sub1", "h3")}
        group.hosts["h2"].is_up = True
        group.boot("h2")
    else:
        assert objects(group) == made, "nothing was started anew"
    group.schedule()
    witnesses = group.copies(NAME)["h1"].witnesses
    assert len(witnesses) > 1
    assert not {*witnesses} & {*retired}
    assert {*witnesses} <= {*group.copies(NAME)}, "they know the session"
    assert (group.repair()["lines"], group.repair()["problems"]) == ([], [])
    (lost,) = {host for _name, host in containers(group)} - {"h1"}
    group.hosts[lost].is_up = False
    group.schedule()
    assert len(containers(group)) == 3, "they decide"


def replaced_by_name(group: World, moment: int | None = None) -> list[str]:
    """Replace what the session has lost, without witnesses that are gone for good; return the warnings."""
    first = begun(schedule, group.known, session_name=NAME, only_lost=True)
    return list(group.run(schedule, first, moment, None)["warnings"])


@pytest.mark.parametrize("is_back", [False, True])
def test_a_replacement_without_retired_witnesses_that_stopped_anywhere_is_finished(
    groups: Callable[..., World], is_back: bool
) -> None:
    """is_back: whether the lost host is there again by then."""
    for moment in range(16, 28):
        group = groups(9, seed=3, attempts=3)
        group.launch(request(2))
        assert group.copies(NAME)["h1"].witnesses == ("h5", "h8", "h9")
        group = without(group, "h5", "h8")
        group.hosts["h2"].is_up = False
        with suppress(Killed):
            replaced_by_name(group, moment)
        group.hosts["h2"].is_up = is_back
        for _ in range(2):
            group.now += LEASE + DEADLINE
            warnings = [*replaced_by_name(group), *group.schedule()["warnings"]]
        assert not any(NAME in warning for warning in warnings), (moment, warnings)
        copies = group.copies(NAME)
        assert {*copies["h1"].hosts} <= {name for name, host in group.hosts.items() if host.is_up}, moment
        witnesses = {*copies["h1"].witnesses}
        assert len(witnesses) == 3, moment
        assert witnesses <= {*copies} & {*group.hosts}, (moment, "they know the session")


def test_witnesses_are_added_when_there_are_more_hosts(groups: Callable[..., World]) -> None:
    group = groups(4, attempts=3)
    absent = ["h3", "h4"]
    for name in absent:
        group.hosts[name].is_up = False
    group.launch(request(2))
    assert {*group.copies(NAME)["h1"].witnesses} == {"h1", "h2"}
    made = objects(group)
    for name in absent:
        group.hosts[name].is_up = True
    group.schedule()
    copies = group.copies(NAME)
    assert len(copies["h1"].witnesses) == 3
    assert {*copies["h1"].witnesses} <= {*copies}
    assert objects(group) == made
    assert (group.repair()["lines"], group.repair()["problems"]) == ([], [])
    group.hosts["h1"].is_up = False
    group.schedule()
    assert len(containers(group)) == 3, "the host without main1 goes on with the new witness"


def test_a_session_that_has_ended_needs_no_other_witnesses(
    groups: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its line alone nobody asks hosts for all that they have recorded."""
    group = groups(6, attempts=3)
    group.launch(request(2))
    record = group.copies(NAME)["h1"]
    for host in group.hosts.values():
        host.containers.clear()
        session = StateDirectory(str(host.root)).session(record.id)
        if session.exists():
            session.write_record(advance(record, TERMINATED, "Done."))
    group = without(group, record.witnesses[0])
    steps: list[Any] = []
    follow = ScheduleState.follow

    def noted(*given: Any) -> Any:
        steps.append(given[1])
        return follow(*given)

    monkeypatch.setattr(ScheduleState, "follow", noted)
    for _ in range(3):
        group.schedule()
    assert "look" in steps
    assert "losses" not in steps


def test_a_lost_host_is_told_that_its_part_was_given_away_wherever_the_run_was_killed(
    groups: Callable[..., World],
) -> None:
    """The controller does not reach it, as where it left the inventory; the session's other hosts do."""
    noted, twins = [], []
    for moment in range(24, 34):
        group = groups(6, seed=moment, attempts=3)
        group.launch(request(3))
        others = {*group.hosts} - {"h3"}
        group.cut({"h3"}, others)
        controller = group.controller(*others)
        with suppress(Killed):
            controller.schedule(moment)
        group.now += LEASE + DEADLINE
        for _ in range(2):
            controller.schedule()
            assert controller.repair()["problems"] == ["h3: It could not be reached."]
        record = group.copies(NAME)["h1"]
        assert "h3" not in record.hosts
        notes = [
            host for host in record.hosts if StateDirectory(str(group.hosts[host].root)).session(record.id).is_undecided
        ]
        group.heal()
        group.boot("h3")
        if notes:
            noted.append((moment, notes))
        if (f"{NAME}-sub2", "h3") in containers(group):
            twins.append(moment)
    assert (noted, twins) == ([], [])


@pytest.mark.parametrize("verb", ["move", "grow"])
def test_a_change_of_a_session_and_a_replacement_on_the_other_side_do_not_make_two_of_it(
    groups: Callable[..., World], verb: str
) -> None:
    """One controller reaches all hosts, another one only those that do not hear the host of main1."""
    changed = replaced = 0
    for moment in range(9, 25, 2):
        group = groups(6, seed=moment, attempts=3)
        group.launch(request(2))
        before = containers(group)
        others = {*group.hosts} - {"h1", "h3"}
        group.cut({"h1", "h3"}, others)
        other = group.controller(*others)

        def happens(other: World = other) -> None:
            with suppress(Killed):
                other.schedule()

        with suppress(Killed):
            if verb == "move":
                group.schedule(moment, happens, moves_from=["h2"])
            else:
                group.launch(request(3), moment, happens)
        started = {name for name, _host in containers(group) - before}
        replaced += f"{NAME}-main1" in started
        changed += started != {f"{NAME}-main1"} and bool(started)
        other.repair()
        with suppress(Killed):
            other.launch(request(3))
        # What runs on the host that is cut off is there twice where others have it by now.
        found = Counter(name for name, host in containers(group) if host != "h1")
        assert [name for name, times in found.items() if times > 1] == [], (moment, containers(group))
    assert changed
    assert replaced


@pytest.mark.parametrize("first", ["few", "most"])
@pytest.mark.parametrize(("change", "moments"), [("move", range(33, 38)), ("grow", range(14, 32))])
def test_a_repair_starts_nothing_that_few_witnesses_agreed_to(
    groups: Callable[..., World], change: str, moments: range, first: str
) -> None:
    """A run that moves a replica, or adds one, is killed; then the witnesses are on the other side of a cut."""
    tried = 0
    for moment in moments:
        group = groups(9, seed=moment, attempts=3)
        group.launch(request(2))
        known = group.copies(NAME)["h1"]
        with suppress(Killed):
            if change == "move":
                group.schedule(moment, moves_from=["h2"])
            else:
                group.launch(request(3), moment)
        copies = group.copies(NAME)
        voted = [host for host in known.witnesses if copies[host].revision > known.revision]
        if len(voted) > 1 or copies["h1"].revision == known.revision:
            continue
        tried += 1
        group.now += LEASE + DEADLINE
        few = {*copies["h1"].hosts, *voted}
        most = {*group.hosts} - few
        group.cut(few, most)
        before = containers(group)
        of_most = group.controller(*most)
        verbs = {"few": group.controller(*few).repair, "most": of_most.schedule}
        for side in (first, *({*verbs} - {first})):
            verbs[side]()
        started = Counter(name for name, _host in containers(group) - before)
        assert [name for name, times in started.items() if times > 1] == [], (moment, voted, containers(group))
        if change == "grow":
            assert f"{NAME}-sub2" not in started, "few witnesses agreed to it"
        healed(group)
        group.launch(request(3))
        found = Counter(name for name, _host in containers(group))
        assert found == {f"{NAME}-main1": 1, f"{NAME}-sub1": 1, f"{NAME}-sub2": 1}, (moment, found)
    assert tried


def test_a_drain_between_the_only_two_witnesses_is_done_at_once(groups: Callable[..., World]) -> None:
    group = groups(2, attempts=3)
    group.launch(request(2, name="filler", cpus="2"))
    group.launch(request(2, max_replicas_per_host=2, cpus="2", max_size=3))
    group.teardown("filler")
    assert {host for _name, host in containers(group)} == {"h1", "h2"}
    main = group.copies(NAME)["h1"].replicas[0].host
    group.schedule(moves_from=[main])
    assert {host for _name, host in containers(group)} == {"h1", "h2"} - {main}
    before = group.copies(NAME)
    group.schedule()
    assert group.copies(NAME) == before
