# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs for resource groups that share hosts: overlapping, nested, and renamed in the inventory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import engine_objects
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    DEFAULT_GROUP,
    ERROR,
    PENDING,
    RUNNING,
    TERMINATED,
    Record,
    group_of,
    is_stub,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import repair
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import State
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    request,
)
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import DEADLINE, LEASE, World, in_memory
from ansible_collections.cluster_compute.session.tests.support.small_steps import Killed
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

GROUPS = {DEFAULT_GROUP: ["h1", "h2", "h3", "h4"], "pool_a": ["h1", "h2"], "pool_b": ["h2", "h3"]}
"""All hosts, with two others in it that share one."""
NAMES = ("ash", "birch")
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "60"))


@pytest.fixture(scope="module")
def patched() -> Iterator[list[World]]:
    """Let what a host does see the world that is asked."""
    with in_memory() as worlds:
        yield worlds


@pytest.fixture
def world(patched: list[World], tmp_path: Path) -> Iterator[World]:
    """Give four hosts in three groups."""
    patched.append(in_groups(tmp_path))
    yield patched[-1]
    patched.pop()


def in_groups(root: Path) -> World:
    """Return four hosts in the groups of above."""
    world = World(root, (2000,) * 4)
    world.groups = {name: list(hosts) for name, hosts in GROUPS.items()}
    world.group = DEFAULT_GROUP
    return world


def of(group: str, name: str = "ash", size: int = 1, **more: Any) -> Request:
    """Return a request for a group, by default for one whole host."""
    return request(name=name, size=size, **{"cpus": "2", "resource_group": group, **more})


def launch(world: World, wanted: Request, moment: int | None = None) -> State:
    """Launch as a run for the request's group does."""
    with world.runs_for(wanted.resource_group):
        return world.launch(wanted, moment)


def status(state: State) -> str:
    """Return what became of a launch."""
    return str((state.get("outcome") or {"status": state.get("failure")})["status"])


def run(world: World, group: str, verb: str, *given: Any, **more: Any) -> State:
    """Run a verb for a group."""
    with world.runs_for(group):
        state: State = getattr(world, verb)(*given, **more)
        return state


def waiting_in_pool_a(world: World) -> Record:
    """Let a session wait in pool_a, whose hosts are taken, while the others are free."""
    for name in ("elm", "fir"):
        assert status(launch(world, of("pool_a", name))) == RUNNING
    assert status(launch(world, of("pool_a"))) == PENDING
    assert world.copies("ash").keys() == {"h1", "h2"}
    return world.copies("ash")["h1"]


@pytest.mark.parametrize("group", [DEFAULT_GROUP, "pool_b"])
def test_a_session_that_waits_is_launched_by_runs_for_its_own_group_alone(world: World, group: str) -> None:
    before = waiting_in_pool_a(world)
    for verb in ("schedule", "repair", "gc", "schedule"):
        state = run(world, group, verb)
    assert (state["outcomes"], state["queue"]) == ([], [])
    (entry,) = state["elsewhere"]
    assert (entry["session_name"], entry["resource_group"]) == ("ash", "pool_a")
    assert entry["reason"] == ["It belongs to resource group pool_a. Run this with session_resource_group=pool_a."]
    # Nor is it told to hosts outside its group, where no teardown for that would find it.
    assert world.copies("ash") == {"h1": before, "h2": before}
    run(world, "pool_a", "teardown", "fir")
    assert [outcome["status"] for outcome in run(world, "pool_a", "schedule")["outcomes"]] == [RUNNING]


def test_who_waits_elsewhere_takes_no_place_in_the_queue(world: World) -> None:
    waiting_in_pool_a(world)
    launch(world, of(DEFAULT_GROUP, "oak", 2, max_replicas_per_host=1))
    assert status(launch(world, of(DEFAULT_GROUP, "yew"))) == PENDING
    (entry,) = run(world, DEFAULT_GROUP, "schedule")["queue"]
    assert (entry["session_name"], entry["position"]) == ("yew", 1)


def test_a_name_that_another_group_has_on_a_shared_host_is_refused_and_its_session_left(world: World) -> None:
    waiting_in_pool_a(world)
    before = world.copies("ash")
    failure = launch(world, of("pool_b"))["failure"]
    assert "A session of this name belongs to resource group pool_a" in failure
    assert "Launch it with session_resource_group=pool_a, or choose another name." in failure
    assert world.copies("ash") == before


def test_one_that_waits_stays_in_the_queue_while_another_group_has_its_name(world: World) -> None:
    for name in ("elm", "fir"):
        launch(world, of("pool_b", name))
    launch(world, of("pool_b"))
    with world.runs_for("pool_b"):
        (launchable,) = [entry for entry in [*world.copies("ash").values()][:1] if entry.status == PENDING]
    world.hosts["h2"].is_up = False
    # pool_a cannot know the name while the host that it shares is away.
    assert status(launch(world, of("pool_a"))) == RUNNING
    world.act("bring back", "h2", None)
    run(world, "pool_a", "repair")
    run(world, "pool_b", "teardown", "elm")
    run(world, "pool_b", "teardown", "fir")
    run(world, "pool_b", "schedule")
    assert ERROR not in [record.status for record in world.copies("ash").values()]
    assert launchable.id in {record.id for record in world.copies("ash").values()}


@pytest.mark.parametrize("verb", ["schedule", "launch"])
@pytest.mark.parametrize("group", [DEFAULT_GROUP, "pool_a"])
def test_what_another_group_s_session_has_lost_is_not_replaced(world: World, group: str, verb: str) -> None:
    wanted = of("pool_b", size=2, cpus="0.5", max_replicas_per_host=1, on_host_loss="replace")
    assert status(launch(world, wanted)) == RUNNING
    world.act("lose", "h3", None)
    if verb == "launch":
        state = launch(world, of(group, "oak", cpus="0.5"))
        assert (status(state), state["losses"]) == (RUNNING, [])
    else:
        assert run(world, group, verb)["outcomes"] == []
    assert {"h2"} < {*world.places("ash").values()}
    assert {record.revision for record in world.copies("ash").values() if not is_stub(record)} == {2}


def test_hosts_that_are_emptied_keep_what_another_group_has_to_move(world: World) -> None:
    launch(world, of(DEFAULT_GROUP, size=3, cpus="1", max_replicas_per_host=1, on_host_loss="replace"))
    before = world.places("ash")
    assert "h2" in before.values()
    state = run(world, "pool_b", "schedule", moves_from=["h2"])
    assert (state["outcomes"], world.places("ash")) == ([], before)
    assert state["warnings"] == [
        f"Session ash stays as it is. It belongs to resource group {DEFAULT_GROUP}. "
        f"Run this with session_resource_group={DEFAULT_GROUP}."
    ]
    run(world, DEFAULT_GROUP, "schedule", moves_from=["h2"])
    assert {*world.places("ash").values()} == {"h1", "h3", "h4"}


def test_batch_sessions_of_another_group_are_not_sent_back_to_the_queue(world: World) -> None:
    launch(world, of("pool_b", batch_command="true", hosts=["h2"]))
    with world.runs_for(DEFAULT_GROUP):
        state = world.run(repair, begun(repair, world.hosts_of(DEFAULT_GROUP), requeue_from=["h2"]), None, None)
    assert state["problems"] == [
        "Session ash stays: It belongs to resource group pool_b. Run this with session_resource_group=pool_b."
    ]
    assert state["requeued"] == []


def test_a_batch_session_is_ended_by_runs_for_its_own_group_alone(world: World) -> None:
    launch(world, of("pool_b", batch_command="true", hosts=["h2"]))
    world.hosts["h2"].go_on(ends=True)
    for verb in ("schedule", "gc", "repair"):
        run(world, DEFAULT_GROUP, verb)
    assert "ash" in world.running()
    run(world, "pool_b", "gc")
    assert "ash" not in world.running()


@pytest.mark.parametrize("size", [1, 2])
def test_a_launch_that_may_be_at_work_outside_the_group_is_not_cleaned_up(world: World, size: int) -> None:
    """Hosts outside may hold the lease by which it is known to be at work."""
    wanted = of("pool_b", size=size, cpus="0.5", max_replicas_per_host=1, hosts=["h2", "h3"][-size:])
    for moment in range(1, 12):
        with suppress(Killed):
            launch(world, wanted, moment)
        world.now += LEASE + 1
        before = world.copies("ash"), world.places("ash")
        run(world, "pool_a", "gc")
        run(world, "pool_a", "repair")
        assert (world.copies("ash"), world.places("ash")) == before
        run(world, "pool_b", "teardown", "ash")


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_teardown_for_another_group_fails_and_names_the_session_s_own(world: World, is_waiting: bool) -> None:
    if is_waiting:
        waiting_in_pool_a(world)
    else:
        launch(world, of("pool_a", size=2, cpus="0.5", max_replicas_per_host=1))
    before = world.copies("ash"), world.places("ash")
    for group in (DEFAULT_GROUP, "pool_b"):
        failure = run(world, group, "teardown", "ash")["failure"]
        assert "belongs to resource group pool_a" in failure
        assert "it is left alone. Tear it down with session_resource_group=pool_a." in failure
        assert (world.copies("ash"), world.places("ash")) == before
    assert "failure" not in run(world, "pool_a", "teardown", "ash")
    assert (world.copies("ash"), world.places("ash")) == ({}, {})


def test_a_teardown_takes_its_own_session_and_leaves_that_of_another_group(world: World) -> None:
    world.hosts["h2"].is_up = False
    launch(world, of("pool_a"))
    launch(world, of("pool_b"))
    world.act("bring back", "h2", None)
    run(world, "pool_a", "repair")
    run(world, "pool_b", "repair")
    ids = {host: record.id for host, record in world.copies("ash").items() if not is_stub(record)}
    assert ids.keys() == {"h1", "h3"}
    state = run(world, "pool_b", "teardown", "ash")
    assert world.places("ash") == {"ash-main1": "h1"}
    assert {record.id for record in world.copies("ash").values()} == {ids["h1"]}
    assert "belongs to resource group pool_a" in state["failure"]


def test_a_session_with_hosts_outside_its_group_is_torn_down_by_the_group_that_has_them_all(world: World) -> None:
    """As an earlier release could launch it."""
    launch(world, of("pool_a", hosts=["h2"]))
    world.groups["pool_a"] = ["h1"]
    before = world.places("ash")
    failure = run(world, "pool_a", "teardown", "ash")["failure"]
    assert "has replicas on h2, outside resource group pool_a: it is left alone." in failure
    assert f"Tear it down with session_resource_group={DEFAULT_GROUP}." in failure
    assert world.places("ash") == before
    assert "failure" not in run(world, DEFAULT_GROUP, "teardown", "ash")
    assert (world.copies("ash"), world.places("ash")) == ({}, {})


def test_copies_that_no_teardown_for_their_group_finds_are_leaks(world: World) -> None:
    """As an earlier release told hosts outside the group of who waits."""
    waiting_in_pool_a(world)
    for host in ("h3", "h4"):
        shutil.copytree(world.hosts["h1"].root / "sessions", world.hosts[host].root / "sessions", dirs_exist_ok=True)
    for host in ("h3", "h4"):
        for folder in (world.hosts[host].root / "sessions").iterdir():
            if folder.name != world.copies("ash")["h1"].id:
                shutil.rmtree(folder)
    run(world, DEFAULT_GROUP, "gc")
    assert world.copies("ash").keys() == {"h1", "h2", "h3", "h4"}
    run(world, "pool_a", "teardown", "ash")
    run(world, "pool_b", "gc")  # not all hosts of pool_a can be seen
    assert world.copies("ash").keys() == {"h3", "h4"}
    (line,) = {line.partition(": ")[2] for line in run(world, DEFAULT_GROUP, "gc")["findings"]}
    assert line == "leak: session ash: No host of resource group pool_a, to which it belongs, has anything of it."
    assert world.copies("ash") == {}


def test_who_waits_in_a_group_that_was_renamed_is_not_stranded_in_silence(world: World) -> None:
    record = waiting_in_pool_a(world)
    world.groups["pool_c"] = world.groups.pop("pool_a")
    advice = (
        "It belongs to resource group pool_a, which the inventory does not have. Give that group its name back, for "
        "instance as a parent of the group that has its hosts now, or launch it again with session_resource_group and "
        "session_recreate=true, or tear it down."
    )
    for group in ("pool_c", DEFAULT_GROUP):
        state = run(world, group, "schedule")
        assert [entry["reason"] for entry in state["elsewhere"]] == [[advice]]
        assert f"Session ash is left alone by all runs. {advice}" in run(world, group, "gc")["findings"]
    assert world.copies("ash") == {"h1": record, "h2": record}
    # Each piece of the advice works.
    world.groups["pool_a"] = world.groups["pool_c"]
    assert [entry["session_name"] for entry in run(world, "pool_a", "schedule")["queue"]] == ["ash"]
    del world.groups["pool_a"]
    with world.runs_for("pool_c"):
        assert status(world.launch(of("pool_c"), recreate=True)) == PENDING
    assert [entry["session_name"] for entry in run(world, "pool_c", "schedule")["queue"]] == ["ash"]
    world.groups["pool_d"] = world.groups.pop("pool_c")
    for name in ("ash", "elm", "fir"):
        assert "failure" not in run(world, "pool_d", "teardown", name)
    assert (world.copies("ash"), world.places("elm")) == ({}, {})


def test_the_line_of_one_that_has_ended_fails_no_teardown_and_goes_with_any_once_its_group_is_gone(
    world: World,
) -> None:
    launch(world, of("pool_a", batch_command="true", hosts=["h2"]))
    world.hosts["h2"].go_on(ends=True)
    run(world, "pool_a", "gc")
    before = world.copies("ash")
    assert {copy.status for copy in before.values()} == {TERMINATED}
    for group in (DEFAULT_GROUP, "pool_b"):
        assert "failure" not in run(world, group, "teardown", "ash")
        assert world.copies("ash") == before
    world.groups["pool_c"] = world.groups.pop("pool_a")
    assert "failure" not in run(world, "pool_c", "teardown", "ash")
    assert world.copies("ash") == {}


WANTED = st.builds(
    lambda group, name, size, cpus, loss: of(
        group, name, size, cpus=cpus, max_replicas_per_host=1, on_host_loss=loss, max_size=4
    ),
    st.sampled_from([*GROUPS]),
    st.sampled_from(NAMES),
    st.integers(1, 2),
    st.sampled_from(["0.5", "2"]),
    st.sampled_from(["wait", "replace", "end"]),
)
MOMENTS = st.one_of(st.none(), st.integers(1, 14))
ACTS = st.one_of(
    st.tuples(st.just("launch"), st.none(), WANTED, MOMENTS),
    st.tuples(st.just("tear down"), st.sampled_from([*GROUPS]), st.sampled_from(NAMES), MOMENTS),
    st.tuples(st.just("run"), st.sampled_from([*GROUPS]), st.sampled_from(["schedule", "repair", "gc"]), MOMENTS),
    st.tuples(st.just("run"), st.sampled_from([*GROUPS]), st.just("schedule"), st.none()),
    st.tuples(st.sampled_from(["lose", "bring back"]), st.none(), st.sampled_from(GROUPS[DEFAULT_GROUP]), st.none()),
    st.tuples(st.just("rename group"), st.just("pool_a"), st.none(), st.none()),
    st.tuples(st.just("shrink group"), st.just("pool_b"), st.none(), st.none()),
    st.tuples(st.just("let time pass"), st.none(), st.sampled_from([LEASE + 1, DEADLINE + 1]), st.none()),
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@example(
    [
        ("launch", None, of("cluster_compute_hosts", "ash", 1, max_replicas_per_host=1, max_size=4), 9),
        ("shrink group", "pool_b", None, None),
        ("let time pass", None, LEASE + 1, None),
        ("launch", None, of("pool_b", "ash", 1, max_replicas_per_host=1, max_size=4), 9),
        ("launch", None, of("pool_a", "ash", 1, max_replicas_per_host=1, max_size=4), 9),
    ]
)
@given(acts=st.lists(ACTS, min_size=2, max_size=8))
def test_a_run_touches_nothing_of_other_groups_and_leaves_nothing_outside_its_own(
    patched: list[World], acts: list[Any]
) -> None:
    root = Path(tempfile.mkdtemp(prefix="cluster-compute-groups-"))
    world = in_groups(root)
    patched.append(world)
    members = {**GROUPS, "pool_c": GROUPS["pool_a"]}
    try:
        for kind, group, what, moment in acts:
            asked = what.resource_group if kind == "launch" else group
            if kind == "rename group":
                swapped = "pool_a" if "pool_c" in world.groups else "pool_c"
                old = "pool_c" if "pool_c" in world.groups else "pool_a"
                world.groups[swapped] = world.groups.pop(old)
                continue
            if kind == "shrink group":
                world.groups["pool_b"] = ["h3"] if "h2" in world.groups["pool_b"] else ["h2", "h3"]
                continue
            if asked == "pool_a" and asked not in world.groups:
                asked = "pool_c"
                what = of(asked, what.name, what.size, cpus="2", max_size=4) if kind == "launch" else what
            before = world.whole()
            records = {
                record.id: record for name in NAMES for record in world.copies(name).values() if not is_stub(record)
            }
            with world.runs_for(asked or DEFAULT_GROUP):
                world.act(kind, what, moment)
            world.check_places()
            for key, was in before.items():
                own = group_of(records[key]) if key in records else ""
                # What its own group has in part alone is ended by a teardown for one that has all of it.
                shrank = own and kind == "tear down" and not {*records[key].hosts} <= {*world.groups.get(own, ())}
                if kind in ("launch", "tear down", "run") and own != asked and own in world.groups and not shrank:
                    assert world.whole().get(key) == was, (kind, asked, own)
            check_members(world, members)
        end(world)
    finally:
        patched.pop()
        shutil.rmtree(root)


def check_members(world: World, members: dict[str, list[str]]) -> None:
    """Nothing of a session is outside the hosts of its group: no replica, and no record of who waits."""
    for name in NAMES:
        groups = {record.id: group_of(record) for record in world.copies(name).values() if not is_stub(record)}
        for host, record in world.copies(name).items():
            if record.status == PENDING:
                assert host in members[group_of(record)], (host, group_of(record))
        for there in world.hosts.values():
            for entry in there.session_containers({engine_objects.LABEL_SESSION_NAME: name}):
                key = entry.labels.session_id
                assert there.name in members[groups.get(key, DEFAULT_GROUP)], (entry.id, there.name)


def end(world: World) -> None:
    """Bring all hosts back, and tear all down by each group; nothing may be left then."""
    for host in world.hosts.values():
        host.is_up, host.is_full, host.is_heard = True, False, True
    world.now += DEADLINE + 1
    for _turn in (1, 2):
        for group in world.groups:
            for name in NAMES:
                run(world, group, "teardown", name)
            run(world, group, "schedule")
            run(world, group, "gc")
    assert {name: host.left(world.known) for name, host in world.hosts.items()} == {name: [] for name in world.hosts}


def test_a_teardown_for_another_group_forgets_no_host_that_has_still_to_be_cleaned(world: World) -> None:
    launch(world, of("pool_a", size=2, cpus="0.5", max_replicas_per_host=1))
    world.act("lose", "h2", None)
    assert "h2" in run(world, "pool_a", "teardown", "ash")["failure"]
    world.act("bring back", "h2", None)
    run(world, DEFAULT_GROUP, "teardown", "ash")
    run(world, "pool_a", "gc")
    assert (world.places("ash"), world.copies("ash")) == ({}, {})


def test_a_teardown_for_another_group_leaves_one_of_the_default_group_whose_host_is_away(world: World) -> None:
    """Only stubs tell then whose it is."""
    launch(world, of(DEFAULT_GROUP, hosts=["h2"]))
    before = world.places("ash"), world.copies("ash")
    assert is_stub(before[1]["h1"])
    world.act("lose", "h2", None)
    failure = run(world, "pool_a", "teardown", "ash")["failure"]
    assert f"belongs to resource group {DEFAULT_GROUP}: it is left alone." in failure
    assert "no other host knows of the session" not in failure
    world.act("bring back", "h2", None)
    run(world, "pool_a", "gc")
    run(world, DEFAULT_GROUP, "gc")
    assert (world.places("ash"), world.copies("ash")) == before


def lose_records(world: World, *hosts: str) -> None:
    """Let hosts lose what they know of sessions, and not what runs there."""
    for host in hosts:
        shutil.rmtree(world.hosts[host].root / "sessions")


def test_what_a_host_has_lost_the_record_of_is_torn_down_by_that_of_another(world: World) -> None:
    launch(world, of("pool_b", size=2, cpus="0.5", max_replicas_per_host=1))
    lose_records(world, "h2")
    before = world.places("ash")
    assert before.keys() == {"ash-main1", "ash-sub1"}
    for group in ("pool_a", DEFAULT_GROUP):
        failure = run(world, group, "teardown", "ash")["failure"]
        assert world.places("ash") == before
    assert "Tear it down with session_resource_group=pool_b." in failure
    assert "failure" not in run(world, "pool_b", "teardown", "ash")
    assert (world.copies("ash"), world.places("ash")) == ({}, {})


def test_what_no_host_knows_the_group_of_is_left_alone_and_named(world: World) -> None:
    launch(world, of("pool_a", hosts=["h2"]))
    ((key,),) = [{record.id for record in world.copies("ash").values()}]
    lose_records(world, "h1", "h2")
    for group in ("pool_a", "pool_b", DEFAULT_GROUP):
        failure = run(world, group, "teardown", "ash")["failure"]
        assert f"Session ash ({key}) has containers on h2, and no host says to which resource group" in failure
        assert f"teardown_session_id={key}" in failure
        assert world.places("ash") == {"ash-main1": "h2"}


@pytest.mark.parametrize("members", [["h1"], ["h1", "h3"], []])
def test_who_waits_in_a_group_that_shrank_is_torn_down_by_one_that_has_all_who_know_it(
    world: World, members: list[str]
) -> None:
    waiting_in_pool_a(world)
    world.groups["pool_a"] = members
    for group in filter(world.groups.get, ("pool_a", "pool_b")):
        failure = run(world, group, "teardown", "ash")["failure"]
        assert f"Tear it down with session_resource_group={DEFAULT_GROUP}." in failure
    assert world.copies("ash").keys() == {"h1", "h2"}
    assert "failure" not in run(world, DEFAULT_GROUP, "teardown", "ash")
    assert world.copies("ash") == {}


@pytest.mark.parametrize("lost", ["h1", "h2"])
def test_a_repair_that_gives_back_a_record_of_one_that_waits_says_who_may_have_it(world: World, lost: str) -> None:
    """Hosts do not tell that of their own copies, as it is as long as the group."""
    waiting_in_pool_a(world)
    before = world.copies("ash")
    assert {copy.witnesses for copy in before.values()} == {("h1", "h2")}
    lose_records(world, lost)
    run(world, "pool_a", "repair")
    assert world.copies("ash") == before
