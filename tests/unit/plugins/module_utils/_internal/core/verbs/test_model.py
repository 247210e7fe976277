# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verbs on hosts in memory: stopped after any answer, followed by any other verb, in any order and number.

The hosts have a real state directory and a real ledger, and what a launch does there but for containers is the
collection's own (host/launch_steps, host/removal, host/prepare). The engine only remembers.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import Claim
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    RUNNING,
    advance,
    read_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import State
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    request,
)
from ansible_collections.cluster_compute.session.tests.support.hosts_in_memory import DEADLINE, LEASE, World, in_memory
from ansible_collections.cluster_compute.session.tests.support.small_steps import NOW, Killed
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

NAMES = ("ash", "birch", "cedar")
HOSTS = ("h1", "h2", "h3")
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "60"))


@pytest.fixture(scope="module")
def patched() -> Iterator[list[World]]:
    """Let what a host does see the world that is asked."""
    with in_memory() as worlds:
        yield worlds


@pytest.fixture
def group(patched: list[World], tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Give a function that makes a group, which hosts are of until the test ends."""

    def make(*given: Any, **more: Any) -> World:
        patched.append(World(tmp_path, *given, **more))
        return patched[-1]

    before = len(patched)
    yield make
    del patched[before:]


def in_waves(size: int) -> dict[str, Any]:
    """Return roles for a session of *size* replicas, of which main1 comes last."""
    return {"roles": [{"name": "main", "after": ["sub"]}, {"name": "sub", "replicas": size - 1}]} if size > 1 else {}


REQUESTS = st.builds(
    lambda name, size, cpus, order: request(
        name=name, size=size, cpus=cpus, max_replicas_per_host=2, **(in_waves(size) if order else {})
    ),
    st.sampled_from(NAMES),
    st.integers(1, 4),
    st.sampled_from(["0.5", "2", "2"]),
    st.booleans(),
)
MOMENTS = st.integers(1, 14)
SIMPLE = st.one_of(
    st.tuples(st.just("launch"), REQUESTS, st.one_of(st.none(), MOMENTS)),
    st.tuples(st.just("tear down"), st.sampled_from(NAMES), st.one_of(st.none(), MOMENTS)),
    st.tuples(st.just("run"), st.sampled_from(["repair", "gc", "schedule"]), st.one_of(st.none(), MOMENTS)),
    st.tuples(st.just("lose"), st.sampled_from(HOSTS), st.none()),
    st.tuples(st.just("bring back"), st.sampled_from(HOSTS), st.none()),
    st.tuples(st.just("rename"), st.sampled_from(HOSTS), st.none()),
    st.tuples(st.sampled_from(["fill", "empty", "mute", "hear"]), st.sampled_from(HOSTS), st.none()),
    st.tuples(
        st.just("hang"),
        st.tuples(st.sampled_from(HOSTS), st.sampled_from(["ssh", "state", "engine", "disk"]), st.integers(0, 6)),
        st.none(),
    ),
    st.tuples(st.just("answer"), st.sampled_from(HOSTS), st.none()),
    st.tuples(st.just("let time pass"), st.sampled_from([LEASE + 1, DEADLINE + 1]), st.none()),
)
MEANWHILE = st.lists(SIMPLE, min_size=1, max_size=3)
ACTS = st.one_of(
    SIMPLE,
    st.tuples(st.just("launch"), REQUESTS, st.none()),
    *(
        st.tuples(st.just(kind), what, MOMENTS, MEANWHILE).map(lambda act: (*act[:3], *act[3]))
        for kind, what in (
            ("launch", REQUESTS),
            ("tear down", st.sampled_from(NAMES)),
            ("run", st.sampled_from(["repair", "gc", "schedule"])),
        )
    ),
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(acts=st.lists(ACTS, min_size=1, max_size=7), forks=st.sampled_from([5, 1]))
@example(
    # The first of the hosts is asked before the teardown, the others after it.
    acts=[
        ("launch", request(name=NAMES[0], size=2, cpus="2", max_replicas_per_host=2), None),
        (
            "launch",
            request(name=NAMES[0], size=2, cpus="2", max_replicas_per_host=2),
            1,
            ("tear down", NAMES[0], None),
        ),
    ],
    forks=5,
)
@example(
    # It is torn down while its host is away, and another of its name is launched before that is back by another name.
    acts=[
        ("launch", request(name=NAMES[0], size=1, cpus="0.5", max_replicas_per_host=2), None),
        ("lose", "h1", None),
        ("tear down", NAMES[0], 1, ("rename", "h1", None)),
        ("launch", request(name=NAMES[0], size=1, cpus="0.5", max_replicas_per_host=2), None),
    ],
    forks=5,
)
def test_whatever_is_stopped_or_overtaken_nothing_is_lost_given_twice_or_left(
    patched: list[World], acts: list[Any], forks: int
) -> None:
    root = Path(tempfile.mkdtemp(prefix="cluster-compute-model-"))
    world = World(root, forks=forks)
    patched.append(world)
    gone: set[str] = set()
    try:
        for act in acts:
            before = world.running()
            torn_down = [action for action in (act, *act[3:]) if action[0] == "tear down"]
            half_changed = world.half_changed()
            meant = world.act(*act)
            world.check_places()
            after = world.running()
            # On a host that is away it is there until the host is back, and its name is free for another.
            if not all(host.is_up and host.is_heard and not host.hangs for host in world.hosts.values()):
                gone |= {before[name]["id"] for name in before.keys() & {action[1] for action in torn_down} & meant}
            launched = {action[1].name for action in (act, *act[3:]) if action[0] == "launch"}
            for name, was in before.items():
                # Who launches what runs changes nothing of it but its size; it may only be torn down.
                if was["id"] in gone or (name in meant and name in [action[1] for action in torn_down]):
                    continue
                if name in launched:
                    assert any(f"{name}-main1" in host.containers for host in world.hosts.values()), act
                else:
                    is_same = after.get(name) == was or (name in half_changed and name in after)
                    assert is_same, f"{act[0]} changed {name}"
        end(world)
    finally:
        patched.pop()
        shutil.rmtree(root)


LOSING = st.one_of(
    st.tuples(
        st.just("launch"),
        st.builds(
            lambda name, size: request(name=name, size=size, cpus="1", max_replicas_per_host=2, on_host_loss="replace"),
            st.sampled_from(NAMES[:2]),
            st.integers(2, 5),
        ),
        st.one_of(st.none(), MOMENTS),
    ),
    st.tuples(st.sampled_from(["lose", "lose", "bring back"]), st.sampled_from(HOSTS), st.none()),
    st.tuples(st.just("run"), st.sampled_from(["schedule", "schedule", "repair", "gc"]), st.one_of(st.none(), MOMENTS)),
    st.tuples(st.just("let time pass"), st.sampled_from([LEASE + 1, DEADLINE + 1]), st.none()),
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(acts=st.lists(LOSING, min_size=3, max_size=9))
def test_whatever_is_lost_and_comes_back_no_replica_is_there_twice(patched: list[World], acts: list[Any]) -> None:
    root = Path(tempfile.mkdtemp(prefix="cluster-compute-model-"))
    world = World(root)
    patched.append(world)
    try:
        world.act(
            "launch", request(name="ash", size=3, cpus="1", max_replicas_per_host=1, on_host_loss="replace"), None
        )
        for act in acts:
            world.act(*act)
            world.check_places()
            world.check_names()
        for name in HOSTS:
            world.act("bring back", name, None)
        world.now += DEADLINE + 1
        world.schedule()
        world.repair()
        for host in world.hosts.values():
            for container in host.containers:
                others = [other.name for other in world.hosts.values() if container in other.containers]
                assert others == [host.name], (container, acts)
        assert "ash" in world.running(), acts
        end(world)
    finally:
        patched.pop()
        shutil.rmtree(root)


@pytest.mark.parametrize("stop", [None, *range(1, 20)])
@pytest.mark.parametrize("is_new", [False, True])
def test_a_replacement_that_is_stopped_after_any_answer_is_finished_by_the_next(
    group: Callable[..., World], stop: int | None, is_new: bool
) -> None:
    """is_new: whether the host that takes its place had nothing of the session."""
    world = group(cpus=(2000,) * (4 if is_new else 3))
    blocker = world.launch(request(name="birch", size=3, cpus="1", max_replicas_per_host=1))
    assert blocker["outcome"]["status"] == RUNNING
    most = 1 if is_new else 2
    world.launch(request(name="ash", size=3, cpus="1", max_replicas_per_host=most, on_host_loss="replace"))
    world.teardown("birch")
    before = world.places("ash")
    assert len({*before.values()}) == 3
    lost = before["ash-sub1"]
    world.hosts[lost].is_up = False
    with suppress(Killed):
        world.schedule(stop)
    world.check_places()
    world.now += DEADLINE + 1
    world.schedule()
    after = {name: host.name for host in world.hosts.values() if host.is_up for name in host.containers}
    assert after.keys() == before.keys()
    kept = {name: host for name, host in before.items() if host != lost}
    assert {name: after[name] for name in kept} == kept
    world.act("bring back", lost, None)
    world.repair()
    assert {name: host.containers for name, host in world.hosts.items()}[lost] == {}
    end(world)


@pytest.mark.parametrize("is_lost", [True, False])
def test_who_has_to_clean_up_first_replaces_and_moves_in_the_same_run(
    group: Callable[..., World], is_lost: bool
) -> None:
    world = group(cpus=(2000,) * 4)
    world.launch(request(name="ash", size=3, cpus="1", max_replicas_per_host=1, on_host_loss="replace"))
    (spare,) = {*world.hosts} - {*world.places("ash").values()}
    world.launch(request(name="birch", size=4, cpus="0.5", max_replicas_per_host=1))
    world.act("lose", spare, None)
    world.teardown("birch")
    world.hosts[spare].is_up = True
    left = world.places("ash")["ash-sub1"]
    world.hosts[left].is_up = not is_lost
    state = world.schedule(moves_from=[] if is_lost else [left])
    assert [outcome["status"] for outcome in state["outcomes"]] == [RUNNING], state["warnings"]
    assert "ash-sub1" in world.hosts[spare].containers
    assert "birch" not in "".join(world.hosts[spare].containers)
    world.act("bring back", left, None)
    end(world)


@pytest.mark.parametrize("seconds", [0, LEASE + 1])
def test_a_teardown_finds_what_a_change_began_where_an_earlier_one_was(
    group: Callable[..., World], seconds: int
) -> None:
    world = group()
    wanted = partial(request, name="ash", cpus="0.5", max_replicas_per_host=1)
    world.launch(wanted(size=2))
    for verb in (partial(world.teardown, "ash", 1), partial(world.launch, wanted(size=1), 7)):
        with pytest.raises(Killed):
            verb()
    world.now += seconds
    assert world.copies("ash").keys() == {"h2", "h3"}
    assert world.hosts["h1"].left(HOSTS) != []
    world.teardown("ash")
    assert {name: host.left(HOSTS) for name, host in world.hosts.items()} == {name: [] for name in HOSTS}


@pytest.mark.parametrize("is_written_over", [False, True])
def test_keys_go_that_a_launch_from_the_queue_began_where_its_record_is_not(
    group: Callable[..., World], is_written_over: bool
) -> None:
    """is_written_over: whether the lease that tells of them has run out when another one is written."""
    world = group()
    world.launch(request(name="birch", size=2, cpus="2", max_replicas_per_host=1))
    world.hosts["h3"].is_up = False
    wanted = request(name="ash", size=3, cpus="1", max_replicas_per_host=1)
    assert world.launch(wanted)["outcome"]["status"] == PENDING
    world.teardown("birch")
    world.hosts["h3"].is_up = True
    with pytest.raises(Killed):
        world.launch(wanted, 10)

    def wait() -> None:
        world.now += LEASE + 1

    if is_written_over:
        world.launch(request(name="cedar", size=3, cpus="0.5", max_replicas_per_host=1), 3, wait)
    wait()
    assert world.copies("ash").keys() == {"h1", "h2"}
    assert "/replicas/" in str(world.hosts["h3"].left(HOSTS))
    world.teardown("cedar")
    world.teardown("ash")
    assert (world.hosts["h3"].left(HOSTS) != []) == is_written_over
    end(world)


@pytest.mark.parametrize("stop", range(1, 10))
def test_a_change_that_is_stopped_before_a_new_host_has_a_record_leaves_nothing_there(
    group: Callable[..., World], stop: int
) -> None:
    world = group(cpus=(2000,) * 4)
    small, large = (request(name="ash", size=size, max_size=6, max_replicas_per_host=1) for size in (3, 4))
    world.launch(small)
    with suppress(Killed):
        world.launch(large, stop)
    world.now += DEADLINE + 1
    world.repair()
    folders = [folder for host in world.hosts.values() for folder in host.root.glob("sessions/*")]
    assert len(folders) >= 3
    assert [folder for folder in folders if not (folder / "record.json").exists()] == []
    end(world)


@pytest.mark.parametrize("stop", range(1, 9))
@pytest.mark.parametrize("sizes", [(2, 5), (6, 3)])
def test_a_resize_that_is_stopped_after_any_answer_is_finished_or_undone(
    patched: list[World], tmp_path: Path, stop: int, sizes: tuple[int, int]
) -> None:
    """Nothing that the next verb does gives a place twice, or touches a replica that both sizes have."""
    small, large = (
        request(name="ash", size=size, max_size=6, cpus="0.5", max_replicas_per_host=2) for size in sorted(sizes)
    )
    before_it, after_it = (small, large) if sizes[0] < sizes[1] else (large, small)
    verbs: dict[str, Callable[[World], object]] = {
        "repair": lambda world: world.repair(),
        "schedule": lambda world: world.schedule(),
        "again": lambda world: world.launch(after_it),
        "back": lambda world: world.launch(before_it),
    }
    for name, following in verbs.items():
        world = World(tmp_path / name)
        patched.append(world)
        try:
            world.launch(before_it)
            kept = {f"ash-{member}" for member, _role, _index in small.replicas()}
            before = {container: host for container, host in world.places("ash").items() if container in kept}
            with suppress(Killed):
                world.launch(after_it, stop)
            world.now += LEASE + 1
            world.launch(request(name="birch", size=3, cpus="0.5", max_replicas_per_host=1))
            world.check_places()
            with suppress(Killed):
                following(world)
            world.check_places()
            world.now += DEADLINE
            world.repair()
            found = world.places("ash")
            assert {container: found.get(container) for container in kept} == before, name
            assert len(found) in sizes, name
            end(world)
        finally:
            patched.pop()


def end(world: World) -> None:
    """Bring all hosts back, and tear all down; nothing may be left then."""
    for host in world.hosts.values():
        host.is_up, host.is_full, host.is_heard, host.hangs = True, False, True, ""
    world.now += DEADLINE + 1
    for name in NAMES:
        world.teardown(name)
    # What no teardown by name can know of goes with the next verb of any name, but for keys that nothing names.
    world.launch(request(name="last", size=1))
    world.teardown("last")
    left = [thing for host in world.hosts.values() for thing in host.left(world.known)]
    assert [thing for thing in left if "/replicas/" not in thing] == []
    world.gc()
    assert {name: host.left(world.known) for name, host in world.hosts.items()} == {name: [] for name in world.hosts}


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("away", ["", "h2"])
def test_hosts_get_other_names_between_any_two_verbs(group: Callable[..., World], is_lost: bool, away: str) -> None:
    """is_lost: whether h1 has lost its state directory. away: who does not answer while h1 has another name."""
    world = group()
    wanted = request(name="ash", size=2, cpus="0.5", max_replicas_per_host=1, hosts=["h1", "h2"])
    world.launch(wanted)
    before = world.running()
    world.renamed = {"h1", "h2"}
    if is_lost:
        shutil.rmtree(world.hosts["h1"].root)
    if away:
        world.hosts[away].is_up = False
    for verb in (world.gc, world.schedule, world.repair, world.gc):
        verb()
        assert "ash-main1" in world.hosts["h1"].containers
    world.launch(request(name="birch", size=1, cpus="0.5"))
    world.hosts["h2"].is_up = True
    state = world.launch(replace(wanted, hosts=("node1", "node2")))
    assert (state["outcome"]["status"], state["hosts"]) == (RUNNING, ["node1", "node2"])
    assert {replica["name"]: replica["host"] for replica in state["replicas"]} == {
        "main1": "node1",
        "sub1": "node2",
    }
    if not is_lost:
        assert world.running()["ash"] == before["ash"]
    world.renamed = {"h1"}
    world.repair()
    assert set(world.running()) == {"ash", "birch"}
    world.teardown("ash")
    world.teardown("birch")
    end(world)


def test_a_host_with_a_full_disk_harms_nobody(group: Callable[..., World]) -> None:
    world = group()
    world.launch(request(name="ash", size=3, cpus="1.5", max_replicas_per_host=1))
    world.hosts["h1"].is_full = True
    small = world.launch(request(name="birch", size=2, cpus="0.5", max_replicas_per_host=1))
    assert small["outcome"]["status"] == RUNNING
    assert set(world.running()["birch"]) == {"id", "h2", "h3"}
    big = world.launch(request(name="cedar", size=1, cpus="0.1", hosts=["h1"]))
    assert "h1: No space left on device." in big["failure"]
    waiting = world.launch(request(name="cedar", size=2, cpus="2", max_replicas_per_host=1))
    assert waiting["outcome"]["status"] == PENDING
    assert list(world.running()) == ["ash", "birch"]
    for name in ("birch", "ash"):
        world.teardown(name)
    world.launch(request(name="other", size=1, cpus="2", hosts=["h3"]))
    for is_full, status in ((True, PENDING), (False, RUNNING)):
        world.hosts["h1"].is_full = is_full
        (outcome,) = world.schedule()["outcomes"]
        assert outcome["status"] == status, outcome
    world.teardown("other")
    end(world)


@pytest.mark.parametrize("writes", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("hung", ["ssh", "state", "engine", "disk"])
def test_a_host_that_hangs_keeps_nobody_from_the_others(group: Callable[..., World], hung: str, writes: int) -> None:
    """writes: after so many its disk hangs, with whatever it was at then."""
    world = group()
    world.launch(request(name="ash", size=3, cpus="1", max_replicas_per_host=1))
    world.act("hang", ("h1", hung, writes), None)
    launched = world.launch(request(name="birch", size=2, cpus="0.5", max_replicas_per_host=1))
    assert launched["outcome"]["status"] == RUNNING
    assert set(world.running()["birch"]) == {"id", "h2", "h3"}
    for verb in (world.repair, world.gc, world.schedule):
        verb()
        assert {"ash", "birch"} <= set(world.running()), "what runs is not harmed"
    world.teardown("birch")
    assert not world.places("birch")
    world.teardown("ash")
    assert not {host for host in world.places("ash").values() if host != "h1"}
    world.act("answer", "h1", None)
    world.repair()
    assert not world.places("ash"), "who answers again is told of the teardown"
    end(world)


def test_a_session_that_is_launched_while_its_name_is_torn_down_runs_on(group: Callable[..., World]) -> None:
    world = group()
    wanted = request(name="ash", size=1, cpus="0.5", max_replicas_per_host=2)
    world.act("lose", "h1", None)
    # h2 has answered when it is launched there, and h3, of which the teardown asks then, has a stub of it.
    world.act("tear down", "ash", 1, ("launch", wanted, None))
    before = world.running()["ash"]
    assert world.launch(wanted)["outcome"]["status"] == RUNNING
    assert world.running()["ash"] == before
    end(world)


def test_a_host_that_was_away_keeps_no_owner_from_a_teardown_by_what_is_dead_there(group: Callable[..., World]) -> None:
    world = group()
    world.launch(request(name="ash", size=3, cpus="0.5", max_replicas_per_host=1), owner="bob")
    world.act("lose", "h3", None)
    assert world.teardown("ash", asker="alice")["report"][0].startswith("h1, h2: It belongs to bob.")
    assert "h3 could not be reached" in world.teardown("ash", asker="bob")["failure"]
    world.launch(request(name="ash", size=2, cpus="0.5", max_replicas_per_host=1))
    world.act("bring back", "h3", None)
    assert "ash-sub2" in world.hosts["h3"].containers
    assert "failure" not in world.teardown("ash", asker="alice")
    assert {name: host.left(HOSTS) for name, host in world.hosts.items()} == {name: [] for name in world.hosts}


@pytest.mark.parametrize("moment", [None, 1, 2, 3, 4, 5])
def test_a_name_is_free_where_a_host_that_was_in_no_inventory_has_the_stub_of_a_session_that_is_gone(
    group: Callable[..., World], tmp_path: Path, moment: int | None
) -> None:
    """moment: when another launch of the name begins, of which the first sees stubs alone in its first look."""
    world = group()
    wanted = request(name="ash", size=2, cpus="0.5", max_replicas_per_host=1, hosts=["h1", "h2"])
    left = tmp_path / "left"
    world.launch(wanted)
    shutil.copytree(world.hosts["h3"].root, left)
    world.teardown("ash")
    shutil.copytree(left, world.hosts["h3"].root, dirs_exist_ok=True)
    shutil.rmtree(left)
    other = request(name="ash", size=1, cpus="0.5", hosts=["h1"])
    others: list[State] = []
    ended = world.launch(wanted, moment, (lambda: others.append(world.launch(other))) if moment else None)
    if not moment:
        assert ended["outcome"]["status"] == RUNNING
    running = world.running()["ash"]
    stubs = [record.id for record in StateDirectory(str(world.hosts["h3"].root)).records()[0]]
    assert stubs == [running["id"]]
    end(world)


@pytest.mark.parametrize("verb", ["launch", "gc"])
def test_a_stub_stays_while_its_hosts_may_have_begun_since_they_were_asked(
    group: Callable[..., World], verb: str
) -> None:
    world = group()
    wanted = request(name="ash", size=2, cpus="0.5", max_replicas_per_host=1, hosts=["h1", "h2"])
    other = request(name="ash", size=2, cpus="0.5", max_replicas_per_host=1)
    # h1 and h2 have been asked when it is launched there, and h3 has a stub of it when its turn comes.
    if verb == "launch":
        assert "with a different specification" in world.launch(other, 2, lambda: world.launch(wanted))["failure"]
    else:
        world.gc(2, lambda: world.launch(wanted))
    (stub,) = StateDirectory(str(world.hosts["h3"].root)).records()[0]
    assert stub.id == world.running()["ash"]["id"]
    end(world)


@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_copied_disk_harms_nobody(
    group: Callable[..., World], monkeypatch: pytest.MonkeyPatch, is_noticed: bool
) -> None:
    """is_noticed: whether the copy sees by its machine what it is; else two hosts have one identity."""
    world = group()
    wanted = request(name="ash", size=2, cpus="0.5", max_replicas_per_host=1, hosts=["h1", "h2"])
    original, copy = world.hosts["h1"], world.hosts["h3"]
    facts = copy.host_info

    def of_copy(**given: Any) -> dict[str, Any]:
        left_out = {"usable": False, "problem": "Its disk was copied."}
        return left_out if is_noticed else {**facts(**given), "identity": original.host_info()["identity"]}

    world.launch(wanted)
    before = world.running()
    shutil.rmtree(copy.root)
    shutil.copytree(original.root, copy.root)
    copy.containers.update(original.containers)
    monkeypatch.setattr(copy, "host_info", of_copy)
    for verb in (world.gc, world.repair, world.schedule, partial(world.launch, wanted)):
        assert ("one host by their identity" in verb().get("failure", "")) is not is_noticed
        assert world.running() == before
    monkeypatch.undo()
    copy.containers.clear()
    shutil.rmtree(copy.root)
    world.repair()
    assert world.running() == before
    end(world)


@pytest.mark.parametrize("stop", range(1, 14))
def test_a_launch_is_stopped_after_each_answer(group: Callable[..., World], stop: int) -> None:
    world = group()
    wanted = request(name="ash", size=3, cpus="2", max_replicas_per_host=1)
    try:
        world.launch(wanted, stop)
        assert stop > 9, "three calls to each of three hosts"
    except Killed:
        assert stop <= 9
    world.now += DEADLINE + 1
    # It wants what the stopped one held.
    other = world.launch(request(name="birch", size=3, cpus="2", max_replicas_per_host=1))
    taken = "ash" in world.running()
    assert taken == (stop >= 9)
    assert other["outcome"]["status"] == ("PENDING" if taken else RUNNING)
    world.teardown("birch")
    end(world)


@pytest.mark.parametrize("verb", ["launch", "repair", "fresh", "queue"])
@pytest.mark.parametrize("moment", range(1, 10))
def test_what_is_torn_down_while_another_verb_is_at_work_stays_so(
    group: Callable[..., World], verb: str, moment: int
) -> None:
    world = group()
    wanted = request(name="ash", size=2, cpus="2", max_replicas_per_host=1)
    happened: list[int] = []

    def tear_down() -> None:
        world.now += 1
        world.teardown("ash")
        happened.append(moment)

    if verb == "queue":
        world.launch(request(name="birch", size=2, cpus="2", max_replicas_per_host=1))
    elif verb != "fresh":
        world.launch(wanted)
        for key in StateDirectory(str(world.hosts["h2"].root)).session_ids():  # its disk was lost
            StateDirectory(str(world.hosts["h2"].root)).remove_session(key)
        LedgerFile(str(world.hosts["h2"].root)).path.unlink()
        world.hosts["h2"].containers.clear()
    with suppress(Killed):
        (world.repair if verb == "repair" else partial(world.launch, wanted))(moment, tear_down)
    if not happened or (verb == "queue" and moment < 3):
        return  # the verb had ended, or else it waits as one that was asked for after the teardown
    world.now += DEADLINE + 1
    world.repair()
    for host in world.hosts.values():
        state = StateDirectory(str(host.root))
        assert [container for container in host.containers if "ash" in container] == []
        assert [record.name for record in state.records()[0] if record.name == "ash"] == []


@pytest.mark.parametrize("kind", ["grow", "shrink", "replace"])
@pytest.mark.parametrize("moment", range(1, 10))
def test_what_is_torn_down_while_it_changes_stays_so(group: Callable[..., World], kind: str, moment: int) -> None:
    world = group()
    wanted = partial(request, name="ash", cpus="1", max_replicas_per_host=1, max_size=3, on_host_loss="replace")
    happened: list[int] = []

    def tear_down() -> None:
        world.now += 1
        world.teardown("ash")
        happened.append(moment)

    world.launch(wanted(size=2))
    if kind == "replace":
        world.hosts["h2"].is_up = False
        world.schedule(moment, tear_down)
    else:
        world.launch(wanted(size=3 if kind == "grow" else 1), moment, tear_down)
    if not happened:
        return
    world.act("bring back", "h2", None)
    world.now += DEADLINE + 1
    world.repair()
    for host in world.hosts.values():
        assert list(host.containers) == []
        assert StateDirectory(str(host.root)).records()[0] == []


@pytest.mark.parametrize("stop", [1, 4, 5])  # between them the other two are asked again
def test_one_from_the_queue_whose_undoing_is_stopped_runs_nowhere_by_its_record(
    group: Callable[..., World], monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    world = group()
    answered = itertools.count(1)

    def lose_host_and_stop() -> None:
        """Lose a host that has not started yet, and kill the controller after so many more answers."""
        world.hosts["h3"].is_up = False
        for host in world.hosts.values():
            monkeypatch.setattr(host, "call", partial(stopping, host.call))

    def stopping(call: Callable[..., Any], *given: Any) -> Any:
        result = call(*given)
        if next(answered) == stop:
            raise Killed
        return result

    def parts() -> dict[str, tuple[str, bool]]:
        """Return how the session is by each host's record, and whether its container is there."""
        return {
            name: (StateDirectory(str(host.root)).records()[0][0].status, bool(host.containers))
            for name, host in world.hosts.items()
            if host.is_up
        }

    wanted = request(name="ash", size=3, cpus="2", max_replicas_per_host=1)
    world.launch(request(name="birch", size=1, cpus="2"))
    assert world.launch(wanted)["outcome"]["status"] == "PENDING"
    world.teardown("birch")
    with pytest.raises(Killed):
        world.launch(wanted, 7, lose_host_and_stop)
    # When h2 has started; when h1 is cleaned; when h2 is cleaned as well.
    running, waiting = (RUNNING, True), ("PENDING", False)
    assert (
        tuple(parts().values())
        == {
            1: (running, running),
            4: (waiting, running),
            5: (waiting, waiting),
        }[stop]
    )
    monkeypatch.undo()
    end(world)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("moment", range(4, 10))
def test_a_launch_after_one_that_was_killed_waits_for_what_that_holds_or_takes_it_over(
    group: Callable[..., World], moment: int, is_known: bool
) -> None:
    world = group()
    wanted = request(name="ash", size=3, cpus="2", max_replicas_per_host=1)
    with suppress(Killed):
        world.launch(wanted, moment)
    world.has_ended = lambda _lease_owner: is_known
    begun = world.now
    assert world.launch(wanted)["outcome"]["status"] == RUNNING
    if is_known:
        assert world.now - begun < 5
    elif moment < 9:  # at the last the session runs
        assert world.now - begun >= LEASE - 5
    world.check_places()
    end(world)


@pytest.mark.parametrize("stop", [None, *range(1, 10)])
def test_growth_that_waits_is_done_by_the_queue_wherever_that_is_stopped(
    group: Callable[..., World], stop: int | None
) -> None:
    world = group()
    small, large = (request(name="ash", size=size, max_size=6, max_replicas_per_host=2) for size in (2, 5))
    world.launch(request(name="birch", size=2, cpus="2", max_replicas_per_host=1))
    world.launch(small)
    before = world.places("ash")
    assert "stays in the queue" in world.launch(large, on_no_capacity="wait")["failure"]
    assert world.places("ash") == before
    world.teardown("birch")
    with suppress(Killed):
        world.schedule(stop)
    world.check_places()
    world.now += DEADLINE + 1
    world.schedule()
    after = world.places("ash")
    assert (len(after), {name: after[name] for name in before}) == (5, before)
    world.schedule()
    assert world.places("ash") == after
    end(world)


@pytest.mark.parametrize("moment", range(3, 9))
def test_a_change_takes_over_what_one_held_that_was_killed(group: Callable[..., World], moment: int) -> None:
    world = group()
    small, large = (request(name="ash", size=size, max_size=6, max_replicas_per_host=2) for size in (2, 5))
    world.launch(small)
    with suppress(Killed):
        world.launch(large, moment)
    world.has_ended = lambda _lease_owner: True
    begun = world.now
    outcome = world.launch(large)["outcome"]
    assert outcome["status"] == RUNNING, outcome
    assert world.now - begun < 5
    assert len(world.places("ash")) == 5
    world.check_places()
    end(world)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("moment", range(4, 10))
def test_what_a_launch_held_that_was_ended_is_given_back_by_a_clean_up_that_knows_it(
    group: Callable[..., World], moment: int, is_known: bool
) -> None:
    world = group()
    with suppress(Killed):
        world.launch(request(name="ash", size=3, cpus="2", max_replicas_per_host=1), moment)
    world.has_ended = lambda _lease_owner: is_known
    begun, found = world.now, world.gc()
    assert (world.now, found["unremoved"]) == (begun, [])
    birch = world.launch(request(name="birch", size=3, cpus="2", max_replicas_per_host=1))
    running = set(world.running())
    # At the last moment the session runs, and then it stays.
    assert running == ({"birch"} if is_known and moment < 9 else {"ash"} if moment == 9 else set()), found["lines"]
    assert (birch["outcome"]["status"] == RUNNING) == ("birch" in running)
    world.has_ended = lambda _lease_owner: True
    world.check_places()
    end(world)


@pytest.mark.parametrize("moment", range(1, 10))
def test_of_two_launches_that_meet_at_any_moment_one_gets_the_place(group: Callable[..., World], moment: int) -> None:
    world = group()
    first, second = (request(name=name, size=3, cpus="2", max_replicas_per_host=1) for name in ("ash", "birch"))
    ends: list[State] = []
    ends.append(world.launch(first, moment, lambda: ends.append(world.launch(second))))
    world.check_places()
    (placed,) = world.running()
    statuses = {state["outcome"]["session_name"]: state["outcome"]["status"] for state in ends}
    assert statuses.pop(placed) == RUNNING
    assert list(statuses.values()) == ["PENDING"]
    # Of the other there is its request on every host, and nothing that was made under a lease.
    for host in world.hosts.values():
        kept = {record.name: record.status for record in StateDirectory(str(host.root)).records()[0]}
        assert kept == {placed: RUNNING, **statuses}
        assert {reservation.claim.session_name for reservation in LedgerFile(str(host.root)).read().values()} == {
            placed
        }
        keys = [path for path in host.root.rglob("*.pub") if world.running()[placed]["id"] not in str(path)]
        assert keys == []
    end(world)


def test_a_name_that_waits_twice_is_launched(group: Callable[..., World]) -> None:
    world = group()
    wanted = request(name="birch", size=3, cpus="2", max_replicas_per_host=1)
    world.launch(request(name="ash", size=3, cpus="2", max_replicas_per_host=1))
    # As an earlier release left it where both had looked before the other was written down.
    world.launch(wanted)
    for host in world.hosts.values():
        state = StateDirectory(str(host.root))
        (first,) = [record for record in state.records()[0] if record.name == "birch"]
        second = replace(first, id="eeeeeeee-0000-4000-8000-000000000000")
        state.session(second.id).write_record(second)
        kept = [record.status for record in StateDirectory(str(host.root)).records()[0] if record.name == "birch"]
        assert kept == ["PENDING", "PENDING"]
    world.teardown("ash")
    assert world.launch(wanted)["outcome"]["status"] == RUNNING
    assert "birch" in world.running()
    end(world)


@pytest.mark.parametrize("moment", range(4, 8))
def test_a_machine_that_is_two_hosts_of_the_inventory_gives_no_place_twice(
    group: Callable[..., World], moment: int
) -> None:
    world = group()
    first, second = world.hosts["h1"], world.hosts["h3"]
    second.root, second.containers = first.root, first.containers
    wanted, other = (request(name=name, size=1, cpus="2") for name in ("ash", "birch"))
    world.launch(wanted, moment, lambda: world.launch(other))
    world.check_places()


def test_what_becomes_of_a_session_is_written_down_before_its_parts_go(group: Callable[..., World]) -> None:
    world = group()

    def stays(*_given: Any, **_named: Any) -> None:
        raise OSError("It is busy.")

    session_id = world.launch(request(name="ash", size=1))["record"]["id"]
    host = NOW.host = next(host for host in world.hosts.values() if host.containers)
    host.remove_container = stays  # type: ignore[method-assign]
    found = StateDirectory(str(host.root)).records()[0][0]
    arguments = {"state": "absent", "session_id": session_id, "keep_record": True, "undo": True}
    ended = advance(found, ERROR, "It could not be started.", plan=None, hosts=())
    assert "It is busy." in host.call("session_host", {**arguments, "record": encode(ended)})["msg"]
    assert StateDirectory(str(host.root)).records()[0] == [ended]


def test_a_host_that_leaves_with_a_change_does_nothing_while_another_one_is_under_way(
    group: Callable[..., World],
) -> None:
    world = group()
    record = read_record(world.launch(request(name="ash", size=3, cpus="2", max_replicas_per_host=1))["record"])
    host, change = world.hosts["h1"], Claim("aaaaaaaa-0000-4000-8000-000000000000", "ash+", amends=record.id)
    LedgerFile(str(host.root)).reserve(change, [], None, LEASE, "a run")
    leaves = {"state": "absent", "session_id": record.id, "keep_record": True, "unless_reserved": True}
    answer = host.call("session_host", {**leaves, "change_id": "bbbbbbbb-0000-4000-8000-000000000000"})
    assert "was changed while this run was at work" in answer["msg"]
    assert list(host.containers) == ["ash-main1"]
    assert host.call("session_host", {**leaves, "change_id": change.session_id})["changed"]
    assert (list(host.containers), list(LedgerFile(str(host.root)).read())) == ([], [change.session_id])


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("stop", range(15, 20))
def test_a_repair_starts_what_was_to_replace_a_lost_replica_once_all_others_have_let_go_of_it(
    group: Callable[..., World], stop: int, is_full: bool
) -> None:
    world = group((2000,) * 5)
    wanted = request(name="ash", size=3, cpus="2", max_replicas_per_host=1, on_host_loss="replace")
    world.launch(wanted)
    world.hosts["h3"].is_up = False
    with suppress(Killed):
        world.schedule(stop)
    half = {copy.revision for copy in world.copies("ash").values() if copy.plan is not None} == {2, 3}
    world.now += DEADLINE + 1
    world.hosts["h2"].is_full = is_full
    seen: list[set[int]] = []
    create = world.hosts["h4"].create

    def look_and_create(*given: Any, **named: Any) -> None:
        seen.append({world.copies("ash")[host].revision for host in ("h1", "h2")})
        create(*given, **named)

    world.hosts["h4"].create = look_and_create  # type: ignore[method-assign]
    newest = 3
    problems = world.repair()["problems"]
    if any("have not agreed to that. The schedule_pending playbook finishes it, or" in line for line in problems):
        # Witnesses were not asked yet: that is for a run that asks them.
        assert half
        assert "ash-sub2" not in world.hosts["h4"].containers
        world.hosts["h2"].is_full = False
        world.schedule()
        newest = 4  # it has them agree under a revision of its own
        assert "ash-sub2" in world.hosts["h4"].containers
    elif half and "ash-sub2" not in world.hosts["h4"].containers:
        assert is_full
        assert any("waits for h2 to let go" in problem for problem in problems)
        world.repair()
        assert "ash-sub2" not in world.hosts["h4"].containers
        world.hosts["h2"].is_full = False
        world.repair()
        assert "ash-sub2" in world.hosts["h4"].containers
    assert all(revisions == {newest} for revisions in seen)


def test_who_gives_back_takes_all_that_it_made_and_nothing_of_another_run(group: Callable[..., World]) -> None:
    world = group()
    with pytest.raises(Killed):
        world.launch(request(name="ash", size=3, cpus="2", max_replicas_per_host=1), 4)
    host = world.hosts["h1"]
    (held,) = LedgerFile(str(host.root)).read().values()
    (record,) = StateDirectory(str(host.root)).records()[0]
    arguments = {"state": "released", "claim": encode(held.claim), "record": encode(record), "host": "h1"}
    before = host.left(HOSTS)
    assert any(path.endswith(".pub") for path in before)
    assert host.call("session_host", {**arguments, "lease_owner": "another run"})["changed"] is False
    assert host.left(HOSTS) == before
    answer = host.call("session_host", {**arguments, "lease_owner": held.lease_owner})
    assert (answer["changed"], host.left(HOSTS)) == (True, [])
    assert host.call("session_host", {**arguments, "lease_owner": held.lease_owner})["changed"] is False


def test_a_lease_that_has_run_out_starts_nothing(group: Callable[..., World]) -> None:
    world = group()

    def wait() -> None:
        world.now += LEASE + 1

    state = world.launch(request(name="ash", size=3, cpus="2", max_replicas_per_host=1), 6, wait)
    assert "has run out. Launch again" in state["failure"]
    assert {name: host.left(HOSTS) for name, host in world.hosts.items()} == {name: [] for name in world.hosts}


def test_a_queue_is_launched_in_the_model_and_a_lost_container_is_put_back(group: Callable[..., World]) -> None:
    world = group()
    world.launch(request(name="ash", size=3, cpus="2", max_replicas_per_host=1))
    world.launch(request(name="birch", size=3, cpus="2", max_replicas_per_host=1))
    assert [entry["session_name"] for entry in world.schedule()["queue"]] == ["birch"]
    world.teardown("ash")
    assert [outcome["status"] for outcome in world.schedule()["outcomes"]] == [RUNNING]
    before = world.running()["birch"]
    world.hosts["h2"].containers.clear()
    assert world.running() == {}
    assert world.repair()["lines"] == ["h2: session birch: create container birch-sub1"]
    assert world.running()["birch"] == before
    end(world)
