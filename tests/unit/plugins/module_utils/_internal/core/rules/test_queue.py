# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The queue: its order, and that whoever goes before the head takes nothing of the place kept for it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    QueueTicket,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Capacity,
    Host,
    Placement,
    Shortfall,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.queue import (
    QueueEntry,
    Waiting,
    idle,
    in_order,
    next_number,
    schedule_queue,
    without,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import PINNED
from hypothesis import given, settings
from hypothesis import strategies as st

GIB = 1024**3


def make_request(name: str = "demo", **given_values: Any) -> Request:
    values = {"name": name, "image": "debian:12", "memory": "1g", **given_values}
    return parse_request({f"session_{key}": value for key, value in values.items()})


def make_host(name: str, cpus: int, free: int | None = None, gpus: int = 0, limit: int | None = None) -> Host:
    def capacity(number: int) -> Capacity:
        return Capacity(number * 1000, 64 * GIB, (("gpu", gpus),) if gpus else ())

    return Host(name, capacity(cpus), capacity(cpus if free is None else free), max_replicas=limit, replica_limit=limit)


def waiting(name: str, number: int, **given_values: Any) -> Waiting:
    return Waiting(f"id-{name}", make_request(name, **given_values), number)


def entries_of(queue: Iterable[Waiting], hosts: list[Host]) -> dict[str, QueueEntry]:
    entries = schedule_queue(queue, hosts, (), [host.name for host in hosts])
    assert [entry.position for entry in entries] == list(range(1, len(entries) + 1))
    assert all((entry.placement is None) != (entry.shortfall is None) for entry in entries)
    return {entry.waiting.request.name: entry for entry in entries}


def started(entries: dict[str, QueueEntry]) -> dict[str, list[str]]:
    """Return the hosts of the replicas of each session that starts."""
    return {
        name: [host for _replica, host in entry.placement.assignments]
        for name, entry in entries.items()
        if entry.placement
    }


def test_hosts_that_growth_cannot_use_are_neither_given_to_it_nor_kept_for_it() -> None:
    hosts = [make_host("h1", 4), make_host("h2", 4, free=1)]
    grows = waiting("grows", 1, size=2, cpus="2")
    one_each = entries_of([replace(grows, slots={"h1": 1})], hosts)["grows"]
    assert one_each.placement is None
    # h2 has the other place as soon as it is empty, so both are kept.
    assert started(entries_of([replace(grows, slots={"h1": 1}), waiting("b", 2, cpus="1")], hosts)) == {"b": ["h1"]}
    entries = entries_of([replace(grows, slots={"h1": 0, "h2": 0}), waiting("big", 2, cpus="4")], hosts)
    assert started(entries) == {"big": ["h1"]}
    assert not entries["grows"].is_head
    assert entries["grows"].shortfall is not None
    assert not entries["grows"].shortfall.when_idle


def test_the_order_is_priority_then_number_then_id() -> None:
    queue = [
        waiting("first", 5, priority=1),
        waiting("second", 1),
        Waiting("id-a", make_request("third"), 2),
        Waiting("id-b", make_request("fourth"), 2),
        waiting("last", 0, priority=-1),
    ]
    for seed in range(20):
        shuffled = random.Random(seed).sample(queue, len(queue))
        assert in_order(shuffled) == queue


def test_the_next_number_is_one_more_than_the_highest() -> None:
    assert next_number([]) == 1
    record = new_record("3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa", "alice", {"name": "train"})
    assert next_number([record]) == 1
    assert next_number([replace(record, queue=QueueTicket(7)), record, replace(record, queue=QueueTicket(3))]) == 8


def test_whatever_fits_starts_and_takes_its_room_from_those_behind() -> None:
    queue = [waiting("a", 1, cpus=2), waiting("b", 2, cpus=2), waiting("c", 3, cpus=2)]
    entries = entries_of(queue, [make_host("h1", 4)])
    assert started(entries) == {"a": ["h1"], "b": ["h1"]}
    assert (entries["c"].position, entries["c"].blocked_by) == (3, None)
    assert isinstance(entries["c"].shortfall, Shortfall)


def test_a_smaller_session_behind_the_head_starts_only_outside_the_kept_place() -> None:
    hosts = [make_host("h1", 4, free=2), make_host("h2", 2)]
    entries = entries_of([waiting("head", 1, cpus=4), waiting("small", 2, cpus=2)], hosts)
    assert started(entries) == {"small": ["h2"]}
    assert entries["head"].blocked_by is None
    entries = entries_of([waiting("head", 1, cpus=4), waiting("small", 2, cpus=2, hosts="h1")], hosts)
    assert started(entries) == {}
    assert entries["small"].blocked_by == "head"
    entries = entries_of([waiting("small", 1, cpus=2, hosts="h1"), waiting("head", 2, cpus=4)], hosts)
    assert started(entries) == {"small": ["h1"]}, "whoever is before the head waits for nobody"


def test_room_beyond_the_kept_place_on_its_own_host_is_free_for_others() -> None:
    hosts = [make_host("h1", 8, free=4)]
    queue = [waiting("head", 1, cpus=6), waiting("b", 2), waiting("c", 3), waiting("d", 4)]
    assert started(entries_of(queue, hosts)) == {}, "two CPUs are outside, and they are the running session's"
    hosts = [make_host("h1", 8, free=5)]
    assert started(entries_of([replace(queue[0], request=make_request("head", cpus=6)), *queue[1:]], hosts)) == {}
    hosts = [make_host("h1", 8, free=5, gpus=1)]
    held = replace(hosts[0], free=Capacity(8000, 64 * GIB, (("gpu", 0),)))
    head = waiting("head", 1, cpus=6, accelerators="gpu=1")
    entries = entries_of([head, *queue[1:]], [held])
    assert started(entries) == {"b": ["h1"], "c": ["h1"]}
    assert entries["d"].blocked_by == "head"


def test_replicas_that_a_host_may_have_count_for_the_kept_place() -> None:
    full = replace(make_host("h1", 8, limit=3), max_replicas=1)
    queue = [waiting("head", 1, size=2, mode="single-node"), waiting("small", 2)]
    assert started(entries_of(queue, [full])) == {}
    assert started(entries_of(queue[1:], [full])) == {"small": ["h1"]}


def test_only_one_place_is_kept() -> None:
    hosts = [make_host("h1", 4, free=2), make_host("h2", 4, free=2)]
    queue = [waiting("head", 1, cpus=4, hosts="h1"), waiting("next", 2, cpus=4, hosts="h2")]
    entries = entries_of([*queue, waiting("small", 3, cpus=2), waiting("last", 4, cpus=2)], hosts)
    assert started(entries) == {"small": ["h2"]}
    assert [entries[name].blocked_by for name in ("head", "next", "last")] == [None, "head", "head"]


def test_a_session_that_can_never_fit_keeps_nobody_waiting() -> None:
    hosts = [make_host("h1", 4, free=2), make_host("h2", 4)]
    never = waiting("never", 1, size=3, cpus=4)
    entries = entries_of([never, waiting("head", 2, size=2, cpus=4), waiting("small", 3, cpus=2)], hosts)
    assert started(entries) == {}
    assert [entries[name].blocked_by for name in ("never", "head", "small")] == [None, None, "head"]
    assert started(entries_of([never, waiting("small", 2, cpus=2)], hosts)) == {"small": ["h1"]}


@pytest.mark.parametrize(
    "never",
    [{"cpus": 9}, {"hosts": "h9"}, {"hosts": "gone"}, {"excluded_hosts": "h1"}],
    ids=["larger than every host", "its host is down", "its host left the group", "no host is left"],
)
def test_a_session_that_no_host_can_take_any_more_keeps_nobody_waiting(never: dict[str, Any]) -> None:
    queue = [waiting("never", 1, **never), waiting("small", 2)]
    entries = schedule_queue(queue, [make_host("h1", 4)], (), ["h1", "h9"])
    assert [entry.waiting.request.name for entry in entries if entry.placement] == ["small"]


def test_nobody_waits_in_an_empty_queue() -> None:
    assert schedule_queue([], [make_host("h1", 4)], (), ["h1"]) == []


def test_idle_hosts_and_hosts_with_less() -> None:
    host = replace(make_host("h1", 8, free=3, gpus=2, limit=5), max_replicas=1)
    other = make_host("h2", 2)
    assert (idle(host).free, idle(host).max_replicas) == (host.allocatable, 5)
    request = make_request(size=2, cpus=2, memory="2g", accelerators="gpu=1")
    placement = Placement("single-node", (("main1", "h1"), ("sub1", "h1")), ("h1",), ("h1",), (), 1, True)
    first, second = without([idle(host), other], request, placement)
    assert (first.free, first.max_replicas) == (Capacity(4000, 60 * GIB, (("gpu", 0),)), 3)
    assert (first.allocatable, second) == (host.allocatable, other)
    (least, _other) = without([host, other], request, placement)
    assert (least.free.cpus, least.max_replicas) == (0, 0), "never less than nothing"


# Arrivals and ends at random.

KNOWN = ("h1", "h2", "h3", "h4")
"""Hosts of the group; some of them may be unusable."""

requests = st.builds(
    lambda size, cpus, mode, hosts, per_host, policy, gpu, priority: make_request(
        size=size,
        cpus=cpus,
        mode=mode,
        hosts=hosts,
        max_replicas_per_host=per_host,
        policy=policy,
        accelerators="gpu=1" if gpu else "",
        priority=priority,
    ),
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from(["single-node", "multi-node", "multi-node"]),
    st.sampled_from(["", "", "h1", "h1,h2"]),
    st.sampled_from(["", "", 1]),
    st.sampled_from(["pack", "spread", "inventory"]),
    st.sampled_from([False, False, True]),
    st.sampled_from([0, 0, 0, 0, 1]),
)
groups = st.builds(
    lambda sizes, gpus, limit: [
        make_host(f"h{number}", cpus, gpus=gpus if number == 1 else 0, limit=limit)
        for number, cpus in enumerate([4, *sizes], 1)
    ],
    st.lists(st.integers(1, 4), max_size=3),
    st.integers(1, 2),
    st.sampled_from([None, None, 2]),
)
steps = st.lists(st.one_of(requests, requests, st.integers(0, 99)), min_size=5, max_size=30)
"""A request arrives, or one of the sessions that run ends."""


class Group:
    """Hosts, who runs there and who waits; it starts what `schedule_queue` says can start, and does its own sums."""

    def __init__(self, hosts: list[Host]) -> None:
        self.hosts = hosts
        self.running: dict[str, tuple[Request, Placement]] = {}
        self.waiting: list[Waiting] = []

    def free(self) -> list[Host]:
        """Return the hosts with what is free now, which is never less than nothing."""
        result = []
        for host in self.hosts:
            here = [
                role.resources
                for request, placement in self.running.values()
                for (_name, role, _index), (_replica, where) in zip(request.replicas(), placement.assignments)
                if where == host.name
            ]
            gpus = dict(host.allocatable.devices)
            if gpus:
                gpus["gpu"] -= sum(dict(replica.accelerators).get("gpu", 0) for replica in here)
            free = Capacity(
                host.allocatable.cpus - sum(replica.cpus for replica in here),
                host.allocatable.memory - sum(replica.memory for replica in here),
                tuple(gpus.items()),
            )
            more = None if host.replica_limit is None else host.replica_limit - len(here)
            assert min(free.cpus, free.memory, *gpus.values(), more or 0) >= 0, "more is promised than there is"
            result.append(replace(host, free=free, max_replicas=more))
        return result

    def go(self) -> list[QueueEntry]:
        """Start what can start; return the entries."""
        entries = schedule_queue(self.waiting, self.free(), (), KNOWN)
        for entry in entries:
            if entry.placement is not None:
                self.running[entry.waiting.session_id] = (entry.waiting.request, entry.placement)
        self.waiting = [entry.waiting for entry in entries if entry.placement is None]
        self.free()
        return entries

    def fits_idle(self, request: Request) -> bool:
        return isinstance(place(request, self.hosts, (), KNOWN), Placement)


@settings(max_examples=250, derandomize=True)
@given(groups, steps)
def test_the_head_waits_only_for_those_that_ran_when_it_became_the_head(
    hosts: list[Host], happened: list[Request | int]
) -> None:
    """Besides those, it waits for sessions of a higher priority that came since: they are before it."""
    group = Group(hosts)
    head, blockers = None, set()
    for number, event in enumerate(happened, 1):
        if isinstance(event, Request):
            group.waiting.append(Waiting(f"id-{number:03}", replace(event, name=f"s{number}"), number))
        elif group.running:
            del group.running[sorted(group.running)[event % len(group.running)]]
        before = set(group.running)
        entries = group.go()
        first = next(
            (entry for entry in entries if entry.placement is None and group.fits_idle(entry.waiting.request)),
            None,
        )
        if first is None:
            head = None
            continue
        if first.waiting.session_id != head:
            head, blockers = first.waiting.session_id, before
        blockers |= {
            entry.waiting.session_id
            for entry in entries
            if entry.placement is not None and entry.position < first.position
        }
        assert blockers & set(group.running), f"{head} is kept waiting by sessions that started after it was first"
    # Nobody else comes: whoever can fit at all starts in the end.
    for _round in range(2 * len(happened)):
        if group.running:
            del group.running[min(group.running)]
        group.go()
    assert not [entry for entry in group.waiting if group.fits_idle(entry.request)]


@settings(max_examples=60, derandomize=True)
@given(groups, st.lists(requests, max_size=8), st.randoms(use_true_random=False))
def test_the_same_queue_is_scheduled_the_same_way(
    hosts: list[Host], submitted: list[Request], chance: random.Random
) -> None:
    queue = [Waiting(f"id-{n}", replace(request, name=f"s{n}"), n // 2) for n, request in enumerate(submitted)]
    assert schedule_queue(chance.sample(queue, len(queue)), hosts, (), KNOWN) == schedule_queue(queue, hosts, (), KNOWN)


def test_who_goes_first_leaves_whole_cores():
    double = replace(make_host("h1", 8), threads=2)
    have = replace(double.free, devices=((PINNED, 4),))
    host = replace(double, allocatable=have, free=have)
    request = parse_request({"session_name": "a", "session_image": "i", "session_pin_cpus": True})
    found = place(request, [host])
    assert isinstance(found, Placement)
    (left,) = without([host], request, found)
    assert left.free.devices == ((PINNED, 2),)
    (left,) = without([left], request, found)
    assert isinstance(place(request, [left]), Shortfall)
