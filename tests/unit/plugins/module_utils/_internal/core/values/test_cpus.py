# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which cores replicas get, on machines of many kinds."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.cpus import (
    Core,
    Topology,
    give_out,
    whole_cores,
)
from hypothesis import given, settings
from hypothesis import strategies as st

bounded = settings(max_examples=300, derandomize=True)

PLAIN = Topology(tuple(Core(0, (cpu,)) for cpu in range(8)), ((0, 64),))
"""Eight cores of one thread."""
DOUBLE = Topology(tuple(Core(cpu // 4, (cpu, cpu + 8)) for cpu in range(8)), ((0, 64), (1, 64)))
"""Two sockets of four cores with two threads, the second ones numbered after all first ones."""
ALTERNATING = Topology(tuple(Core(node, (cpu,)) for node in (0, 1) for cpu in range(node, 8, 2)), ((0, 64), (1, 64)))
"""Two sockets whose cores are numbered in turn."""
UNEVEN = Topology((Core(0, (0, 4)), Core(0, (1,)), Core(0, (2, 6)), Core(0, (3, 7))), ((0, 64),))
"""A thread is offline."""


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Return a machine of up to four nodes with up to six free cores of up to four threads each."""
    cores = []
    number = 0
    threads = draw(st.sampled_from([1, 2, 4, None]))
    for node in range(draw(st.integers(1, 4))):
        for _core in range(draw(st.integers(0, 6))):
            size = threads or draw(st.integers(1, 3))
            cores.append(Core(node, tuple(range(number, number + size))))
            number += size
    return Topology(tuple(cores), tuple((node, 100) for node in range(draw(st.integers(0, 4)))))


@bounded
@given(machines(), st.data())
def test_whatever_counts_as_free_can_be_given_away(free: Topology, data: st.DataObject) -> None:
    left = free.count
    requests: list[tuple[str, int, int]] = []
    while left and len(requests) < 8 and data.draw(st.booleans()):
        cpus = data.draw(st.integers(1, left))
        if whole_cores(cpus, free.threads) * free.threads > left:
            continue
        left -= whole_cores(cpus, free.threads) * free.threads
        requests.append((f"r{len(requests)}", cpus, data.draw(st.integers(1, 150))))
    found = give_out(free, requests)
    assert set(found) == {name for name, _cpus, _memory in requests}
    core_of = {str(cpu): core for core in free.cores for cpu in core.cpus}
    taken = [cpu for share in found.values() for cpu in share.cpus]
    assert len(set(taken)) == len(taken), "no CPU twice"
    owners: dict[Core, set[str]] = {}
    for name, cpus, memory in requests:
        mine = found[name].cpus
        cores = {core_of[cpu] for cpu in mine}
        for core in cores:
            owners.setdefault(core, set()).add(name)
        assert list(mine) == sorted(mine, key=int)
        assert {str(cpu) for core in cores for cpu in core.cpus} == set(mine), "whole cores"
        assert len(cores) == whole_cores(cpus, free.threads)
        assert len(mine) >= cpus
        nodes = {core.node for core in cores}
        if found[name].memory_nodes:
            assert set(found[name].memory_nodes) == nodes
            assert sum(dict(free.memory)[node] for node in nodes) >= memory
    assert all(len(names) == 1 for names in owners.values()), "no core of two"
    assert give_out(free, requests) == found, "the same again"


@bounded
@given(machines(), st.data())
def test_one_node_where_one_has_enough_else_as_few_as_possible(free: Topology, data: st.DataObject) -> None:
    if not free.cores:
        return
    count = data.draw(st.integers(1, len(free.cores)))
    found = give_out(free, [("main1", count * free.threads, 1)])["main1"]
    core_of = {str(cpu): core for core in free.cores for cpu in core.cpus}
    nodes = {core_of[cpu].node for cpu in found.cpus}
    sizes: dict[int, int] = {}
    for core in free.cores:
        sizes[core.node] = sizes.get(core.node, 0) + 1
    least, largest = 0, 0
    for size in sorted(sizes.values(), reverse=True):
        if largest < count:
            least, largest = least + 1, largest + size
    assert len(nodes) == least
    if least == 1:
        assert sizes[nodes.pop()] == min(size for size in sizes.values() if size >= count), "the tightest"


def test_no_replica_shares_a_core_with_another() -> None:
    found = give_out(DOUBLE, [("main1", 1, 1), ("sub1", 3, 1), ("sub2", 4, 1)])
    assert {name: (share.cpus, share.memory_nodes) for name, share in found.items()} == {
        "sub2": (("0", "1", "8", "9"), (0,)),
        "sub1": (("2", "3", "10", "11"), (0,)),
        "main1": (("4", "12"), (1,)),
    }
    assert give_out(PLAIN, [("main1", 3, 1)])["main1"].cpus == ("0", "1", "2")
    assert give_out(ALTERNATING, [("main1", 3, 1)])["main1"].cpus == ("0", "2", "4")


def test_nodes_stay_whole_for_who_needs_more() -> None:
    free = Topology(DOUBLE.cores[2:], DOUBLE.memory)
    assert give_out(free, [("main1", 4, 1)])["main1"].memory_nodes == (0,), "two cores are left there"
    assert give_out(free, [("main1", 5, 1)])["main1"].memory_nodes == (1,)
    assert give_out(free, [("main1", 9, 1)])["main1"].memory_nodes == (0, 1)
    assert give_out(free, [("main1", 1, 1), ("sub1", 8, 1)])["sub1"].memory_nodes == (1,)


def test_memory_that_the_nodes_do_not_have_comes_from_all() -> None:
    assert give_out(DOUBLE, [("main1", 1, 64)])["main1"].memory_nodes == (0,)
    assert give_out(DOUBLE, [("main1", 1, 65)])["main1"].memory_nodes == ()
    assert give_out(DOUBLE, [("main1", 9, 65)])["main1"].memory_nodes == (0, 1)


def test_what_is_kept_back_are_the_first_cores_and_no_part_of_one() -> None:
    assert DOUBLE.last(16) == DOUBLE
    assert DOUBLE.last(99) == DOUBLE
    assert DOUBLE.last(15).cores == DOUBLE.cores[1:]
    assert DOUBLE.last(1).cores == ()
    assert PLAIN.last(3).names == ("5", "6", "7")
    assert UNEVEN.last(5).names == ("1", "2", "6", "3", "7")
    assert (UNEVEN.threads, UNEVEN.count) == (1, 4)
    assert (DOUBLE.threads, DOUBLE.count) == (2, 16)
    assert (Topology().threads, Topology().count) == (1, 0)


def test_of_a_core_that_is_taken_in_part_nothing_is_free() -> None:
    assert DOUBLE.among([*map(str, range(9))]).cores == DOUBLE.cores[:1]


def test_more_than_there_is() -> None:
    with pytest.raises(ValueError, match="2 cores are asked for where 1 are free"):
        give_out(Topology(DOUBLE.cores[:1]), [("main1", 3, 1)])
