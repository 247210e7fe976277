# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement against brute force on small cases, the two traps, large cases, and what is refused."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules import packing
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Capacity,
    Host,
    Missing,
    Placement,
    Shortfall,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import PINNED
from ansible_collections.cluster_compute.session.tests.support.core.rules.requests import make_request
from ansible_collections.cluster_compute.session.tests.support.plans import placed
from hypothesis import given, settings
from hypothesis import strategies as st

GIB = 1024**3
KEYS = ("zone", "rack")
POLICIES = ("pack", "spread", "inventory")

bounded = settings(max_examples=200, derandomize=True)


def make_host(
    name, cpus, memory=64, accelerators=None, free=None, max_replicas=None, allocatable=None, **labels
) -> Host:
    free_cpus = cpus if free is None else free
    pairs = tuple(sorted((accelerators or {}).items()))
    most = max(cpus, 64) if allocatable is None else allocatable
    return Host(
        name,
        Capacity(most * 1000, 1024 * GIB, tuple((key, 64) for key, _count in pairs)),
        Capacity(free_cpus * 1000, memory * GIB, pairs),
        tuple(sorted(labels.items())),
        max_replicas,
    )


def counts_by_host(placement: Placement) -> dict[str, int]:
    counts = Counter(host for _replica, host in placement.assignments)
    return {host: counts[host] for host in placement.hosts}


# Brute force, written without a look at the code under test.


def demand(role) -> dict[str, int]:
    resources = role.resources
    return {"cpus": resources.cpus, "memory": resources.memory, **dict(resources.accelerators)}


def amounts_of(host: Host) -> dict[str, int]:
    return {"cpus": host.free.cpus, "memory": host.free.memory, **dict(host.free.devices)}


def host_fits(request: Request, host: Host, counts) -> bool:
    """Whether a host takes so many replicas of each role."""
    limits = [limit for limit in (request.max_replicas_per_host, host.max_replicas) if limit is not None]
    if any(sum(counts) > limit for limit in limits):
        return False
    amounts = amounts_of(host)
    needed: Counter = Counter()
    for role, number in zip(request.roles, counts):
        for resource, amount in demand(role).items():
            needed[resource] += amount * number
    return all(amounts.get(resource, 0) >= amount for resource, amount in needed.items())


def subset_fits(request: Request, hosts) -> bool:
    """Whether these hosts together take the whole session: every way to fill them, one after the other."""
    wanted = tuple(role.replicas for role in request.roles)
    reached = {tuple(0 for _role in wanted)}
    for host in hosts:
        ways = [
            counts for counts in itertools.product(*(range(n + 1) for n in wanted)) if host_fits(request, host, counts)
        ]
        reached = {
            tuple(min(w, a + b) for w, a, b in zip(wanted, have, more)) for have in reached for more in ways
        } | reached
    return wanted in reached


def group_cost(hosts, keys) -> tuple[int, ...]:
    labels = [dict(host.labels) for host in hosts]
    return tuple(
        len({tuple(label.get(key, "") for key in keys[: level + 1]) for label in labels}) for level in range(len(keys))
    )


def brute_force(request: Request, hosts, keys):
    """Return (least number of hosts, least groups among such sets), None where nothing fits."""
    for k in range(1, len(hosts) + 1):
        good = [subset for subset in itertools.combinations(hosts, k) if subset_fits(request, subset)]
        if good:
            return k, min(group_cost(subset, keys) for subset in good)
    return None


@st.composite
def homogeneous(draw):
    size = draw(st.integers(1, 9))
    request = make_request(
        size=size,
        cpus=draw(st.integers(1, 3)),
        memory=f"{draw(st.integers(1, 4))}g",
        mode=draw(st.sampled_from(["single-node", "multi-node"])),
        policy=draw(st.sampled_from(POLICIES)),
        max_replicas_per_host=draw(st.sampled_from(["", 1, 2, 3])),
    )
    return request, draw(some_hosts(6))


@st.composite
def main_and_sub(draw):
    subs = draw(st.integers(1, 7))
    request = make_request(
        roles=[
            {"name": "main", "cpus": draw(st.integers(1, 6)), "memory": f"{draw(st.integers(1, 6))}g"},
            {"name": "sub", "replicas": subs, "cpus": draw(st.integers(1, 4)), "memory": f"{draw(st.integers(1, 4))}g"},
        ],
        policy=draw(st.sampled_from(POLICIES)),
        max_replicas_per_host=draw(st.sampled_from(["", 1, 2, 3])),
    )
    return request, draw(some_hosts(6))


@st.composite
def several_roles(draw):
    request = make_request(
        roles=[
            {
                "name": name,
                "replicas": replicas,
                "cpus": draw(st.integers(1, 6)),
                "memory": f"{draw(st.integers(1, 5))}g",
            }
            for name, replicas in (
                ("main", 1),
                ("server", draw(st.integers(1, 3))),
                ("worker", draw(st.integers(1, 3))),
                *((("data", draw(st.integers(1, 2))),) if draw(st.booleans()) else ()),
            )
        ],
        policy=draw(st.sampled_from(POLICIES)),
        max_replicas_per_host=draw(st.sampled_from(["", "", 2])),
    )
    return request, draw(some_hosts(5))


@st.composite
def some_hosts(draw, most):
    number = draw(st.integers(1, most))
    return [
        make_host(
            f"h{i}",
            draw(st.integers(0, 9)),
            draw(st.integers(0, 9)),
            max_replicas=draw(st.sampled_from([None, None, None, 0, 1, 2])),
            zone=draw(st.sampled_from("ab")),
            rack=draw(st.sampled_from("rst")),
        )
        for i in range(number)
    ]


def check(request: Request, hosts) -> None:
    """The whole contract of one placement, against brute force."""
    result = place(request, hosts, KEYS)
    assert result == place(request, hosts, KEYS), "the same input must give the same answer"
    expected = brute_force(request, hosts, KEYS)
    alone = [host for host in hosts if subset_fits(request, [host])]
    if expected is None or (request.mode == "single-node" and not alone):
        assert isinstance(result, Shortfall)
        assert result.proven
        check_largest_size(request, hosts, result)
        return
    assert isinstance(result, Placement)
    assert [replica for replica, _host in result.assignments] == [name for name, _role, _index in request.replicas()]
    check_fits(request, hosts, result)
    by_name = {host.name: host for host in hosts}
    assert set(result.hosts) == {host for _replica, host in result.assignments}
    assert list(result.hosts) == [host.name for host in hosts if host.name in result.hosts]
    assert result.node_order[0] == result.assignments[0][1]
    assert list(result.node_order[1:]) == [name for name in result.hosts if name != result.node_order[0]]
    assert result.mode == ("single-node" if alone else "multi-node")
    assert result.proven
    least, cost = expected
    assert len(result.hosts) == least
    if least > 1:
        assert result.closest_proven
        assert group_cost([by_name[name] for name in result.hosts], KEYS) == cost


def check_fits(request: Request, hosts, result: Placement) -> None:
    """No host is given more than it has, and none is used for nothing."""
    by_name = {host.name: host for host in hosts}
    role_of = {name: number for number, role in enumerate(request.roles) for name in names_of(role)}
    for name in result.hosts:
        counts = [0] * len(request.roles)
        for replica, host in result.assignments:
            if host == name:
                counts[role_of[replica]] += 1
        assert sum(counts) > 0
        assert host_fits(request, by_name[name], counts)


def names_of(role) -> list[str]:
    return [f"{role.name}{index}" for index in range(1, role.replicas + 1)]


def check_largest_size(request: Request, hosts, shortfall: Shortfall) -> None:
    """The largest size fits, one more does not."""

    def fits(size: int) -> bool:
        counts = []
        left = size
        for role in request.roles:
            counts.append(min(left, role.replicas))
            left -= counts[-1]
        shorter = type("Shorter", (), {})()
        shorter.max_replicas_per_host = request.max_replicas_per_host
        shorter.roles = [
            type("R", (), {"replicas": number, "resources": role.resources})()
            for role, number in zip(request.roles, counts)
        ]
        if request.mode == "single-node":
            return any(subset_fits(shorter, [host]) for host in hosts)
        return subset_fits(shorter, hosts)

    assert shortfall.largest_size < request.size
    assert shortfall.largest_size == 0 or fits(shortfall.largest_size)
    assert not fits(shortfall.largest_size + 1)


@bounded
@given(homogeneous())
def test_one_shape_agrees_with_brute_force(case):
    check(*case)


@bounded
@given(main_and_sub())
def test_main_and_sub_agree_with_brute_force(case):
    check(*case)


@bounded
@given(st.one_of(homogeneous(), main_and_sub()), st.sampled_from([0, 20]), st.sampled_from([0, packing.TABLE_WORK]))
def test_what_is_called_proven_is_so_with_little_work_too(case, combination_work, table_work):
    """With next to no work allowed the answer may be worse, and must say so."""
    request, hosts = case
    expected = brute_force(request, hosts, KEYS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "COMBINATION_WORK", combination_work)
        patch.setattr(packing, "TABLE_WORK", table_work)
        result = place(request, hosts, KEYS)
    if isinstance(result, Placement) and result.mode == "multi-node":
        cost = group_cost([host for host in hosts if host.name in result.hosts], KEYS)
        assert (len(result.hosts), cost) >= expected
        assert not result.closest_proven or (len(result.hosts), cost) == expected


@st.composite
def tight_roles(draw):
    """Hosts that are filled exactly or nearly by some placement, several of them alike."""
    request, _hosts = draw(several_roles())
    sums = [[0, 0] for _host in range(draw(st.integers(2, 4)))]
    for _name, role, _index in request.replicas():
        chosen = sums[draw(st.integers(0, len(sums) - 1))]
        chosen[0] += role.resources.cpus // 1000
        chosen[1] += role.resources.memory // GIB
    if draw(st.booleans()):
        sums[-1] = list(sums[0])
    slack = draw(st.sampled_from([0, 0, 1]))
    sums += draw(st.lists(st.tuples(st.integers(2, 14), st.integers(2, 12)), max_size=2))
    order = draw(st.permutations(sums))
    hosts = [make_host(f"h{i}", cpus + slack, memory + slack) for i, (cpus, memory) in enumerate(order)]
    return request, hosts


@settings(bounded, max_examples=250)
@given(st.one_of(tight_roles(), several_roles()))
def test_the_search_alone_agrees_with_brute_force(case):
    """Without the greedy attempts that nearly always find the least number before the search has to."""
    request, hosts = case
    expected = brute_force(request, hosts, ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing._Search, "_greedy", lambda self, k: None)
        result = place(request, hosts)
    assert result.proven
    if expected is None:
        assert isinstance(result, Shortfall)
    else:
        assert isinstance(result, Placement)
        assert len(result.hosts) == expected[0]
        check_fits(request, hosts, result)


@settings(bounded, max_examples=150)
@given(several_roles())
def test_several_roles_agree_with_brute_force(case):
    check(*case)


@bounded
@given(
    st.integers(2, 45),
    st.lists(st.one_of(st.integers(1, 6), st.integers(1, 20)), min_size=2, max_size=9),
    st.sampled_from(POLICIES),
)
def test_policies_keep_their_promises_for_one_shape(size, slots, policy):
    """pack: the fewest slots left on the used hosts. spread: the least crowded. inventory: the first such hosts."""
    request = make_request(size=size, policy=policy)
    hosts = [make_host(f"h{i}", number) for i, number in enumerate(slots)]
    result = place(request, hosts)
    if isinstance(result, Shortfall):
        assert sum(slots) < size
        return
    k = len(result.hosts)
    sets = [subset for subset in itertools.combinations(range(len(slots)), k) if sum(slots[i] for i in subset) >= size]
    used = tuple(int(name[1:]) for name in result.hosts)
    counts = counts_by_host(result)
    if policy == "pack":
        assert sum(slots[i] for i in used) == min(sum(slots[i] for i in subset) for subset in sets)
    elif policy == "inventory":
        assert used == min(sets)
    else:
        even = min(max(fill_evenly(size, [slots[i] for i in subset])) for subset in sets)
        assert max(counts.values()) == even


def fill_evenly(size: int, slots) -> list[int]:
    used = [0] * len(slots)
    for _replica in range(size):
        i = min((i for i in range(len(slots)) if used[i] < slots[i]), key=lambda i: used[i])
        used[i] += 1
    return used


@settings(bounded, max_examples=150)
@given(st.data())
def test_the_table_of_groups_is_exact(data):
    """Dynamic programming alone, without a useful ranking of groups, against all combinations of groups."""
    most = data.draw(st.integers(1, 9))
    hosts = [
        make_host(f"h{i}", data.draw(st.integers(1, most)), rack=f"r{data.draw(st.integers(0, 6))}") for i in range(11)
    ]
    request = make_request(
        roles=[
            {"name": "main", "cpus": data.draw(st.sampled_from([1, 1, most]))},
            {"name": "sub", "replicas": data.draw(st.integers(3, 5 * most))},
        ],
        policy=data.draw(st.sampled_from(POLICIES)),
    )
    thorough = place(request, hosts, ("rack",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "COMBINATION_WORK", 0)
        patch.setattr(packing, "_group_bound", lambda task, groups, k: (1, [list(range(len(groups)))]))
        result = place(request, hosts, ("rack",))
    if isinstance(thorough, Shortfall):
        assert result == thorough
        return
    assert isinstance(result, Placement)
    assert len(result.hosts) == len(thorough.hosts)
    assert result.groups == thorough.groups
    assert result.closest_proven
    assert thorough.closest_proven


@bounded
@given(st.data())
def test_the_bound_of_groups_is_one(data):
    """Without combinations and without the table, the ranking is sound and what it calls proven is."""
    most = data.draw(st.integers(1, 9))
    hosts = [
        make_host(f"h{i}", data.draw(st.integers(1, most)), rack=f"r{data.draw(st.integers(0, 6))}") for i in range(11)
    ]
    request = make_request(size=data.draw(st.integers(2, 5 * most)))
    thorough = place(request, hosts, ("rack",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "COMBINATION_WORK", 0)
        patch.setattr(packing, "TABLE_WORK", 0)
        result = place(request, hosts, ("rack",))
    if isinstance(thorough, Shortfall) or thorough.mode == "single-node":
        assert result == thorough
        return
    assert isinstance(result, Placement)
    assert len(result.hosts) == len(thorough.hosts)
    assert result.groups >= thorough.groups
    assert not result.closest_proven or result.groups == thorough.groups


# Examples with names.


def test_main_goes_where_it_fits_so_that_sub_fits_too():
    request = make_request(roles=[{"name": "main", "cpus": 4}, {"name": "sub", "replicas": 1, "cpus": 6}])
    for hosts in ([make_host("six", 6), make_host("four", 4)], [make_host("four", 4), make_host("six", 6)]):
        result = placed(request, hosts)
        assert dict(result.assignments) == {"main1": "four", "sub1": "six"}


def test_ten_replicas_fill_six_and_four():
    result = placed(make_request(size=10, cpus=1), [make_host("a", 6), make_host("b", 4)])
    assert counts_by_host(result) == {"a": 6, "b": 4}
    assert result.assignments[0] == ("main1", "a")


@pytest.mark.parametrize("mode", ["single-node", "multi-node"])
@pytest.mark.parametrize("policy", POLICIES)
def test_what_fits_one_host_goes_there(mode, policy):
    hosts = [make_host("a", 3), make_host("b", 3), make_host("c", 8)]
    result = placed(make_request(size=4, cpus=2, mode=mode, policy=policy), hosts)
    assert counts_by_host(result) == {"c": 4}
    assert result.mode == "single-node"


def test_single_node_is_pending_where_only_two_hosts_would_do():
    result = place(make_request(size=4, cpus=2, mode="single-node"), [make_host("a", 4), make_host("b", 4)])
    assert isinstance(result, Shortfall)
    assert result.largest_size == 2
    first = result.hosts[0]
    assert (first.host, first.fits) == ("a", 2)
    assert [(m.resource, m.requested, m.free, m.missing) for m in first.resources] == [
        ("cpus", 8000, 4000, 4000),
        ("memory", 4 * GIB, 64 * GIB, 0),
        ("replicas", 4, 4, 0),
    ]
    assert result.when_idle, "the hosts have 64 CPUs when nothing else runs"


def test_shortfall_of_a_multi_node_request():
    hosts = [make_host("a", 3, allocatable=3), make_host("b", 5, allocatable=5)]
    result = place(make_request(size=4, cpus=2), hosts)
    assert isinstance(result, Shortfall)
    assert (result.mode, result.size, result.largest_size) == ("multi-node", 4, 3)
    assert [(row.host, row.fits, row.resources[0].missing) for row in result.hosts] == [("a", 1, 0), ("b", 2, 0)]
    assert (result.total[0].requested, result.total[0].free, result.total[0].missing) == (8000, 8000, 0)
    assert not result.when_idle


def test_designated_excluded_and_limits():
    hosts = [make_host(name, 8) for name in "abcd"]
    assert place(make_request(size=2, hosts="c"), hosts).hosts == ("c",)
    assert place(make_request(size=2, excluded_hosts=["a", "b"]), hosts).hosts == ("c",)
    limited = placed(make_request(size=6, max_replicas_per_host=2), hosts)
    assert counts_by_host(limited) == {"a": 2, "b": 2, "c": 2}
    assert isinstance(place(make_request(size=9, max_replicas_per_host=2), hosts), Shortfall)
    full = [make_host("a", 8, max_replicas=0), make_host("b", 8, max_replicas=1), make_host("c", 8)]
    assert counts_by_host(placed(make_request(size=9), full)) == {"b": 1, "c": 8}


def test_unknown_names_are_errors_and_known_ones_that_are_down_are_not():
    hosts = [make_host("alpha", 8), make_host("beta", 8)]
    with pytest.raises(InvalidInput) as error:
        place(make_request(hosts="alhpa", excluded_hosts="gamma"), hosts)
    assert [(problem.variable, problem.value) for problem in error.value.problems] == [
        ("session_hosts", "alhpa"),
        ("session_excluded_hosts", "gamma"),
    ]
    assert "Did you mean alpha?" in str(error.value)
    assert place(make_request(excluded_hosts="gamma"), hosts, (), ["alpha", "beta", "gamma"]).hosts == ("alpha",)
    with pytest.raises(InvalidInput, match=r"session_hosts is 'gamma': None of these hosts can be used now"):
        place(make_request(hosts="gamma"), hosts, (), ["alpha", "beta", "gamma"])


def test_no_host_at_all():
    with pytest.raises(InvalidInput, match="session_resource_group is 'cluster_compute_hosts': It has no usable host"):
        place(make_request(), [])
    with pytest.raises(InvalidInput, match="session_excluded_hosts is 'a': This leaves no usable host"):
        place(make_request(excluded_hosts="a"), [make_host("a", 1)])


def test_a_replica_larger_than_every_host_is_bad_input_not_a_shortfall():
    hosts = [make_host("a", 2, allocatable=8), make_host("b", 4, allocatable=4)]
    assert isinstance(place(make_request(cpus=8), hosts), Shortfall)
    with pytest.raises(InvalidInput) as error:
        place(make_request(cpus="8.001", accelerators={"gpu": 1}), hosts)
    assert [problem.variable for problem in error.value.problems] == ["session_cpus", "session_accelerators.gpu"]
    assert "the most any has for sessions is 8." in str(error.value)
    with pytest.raises(InvalidInput, match=r"session_roles\[1\] \(sub\)\.cpus is '9'"):
        place(make_request(roles=[{"name": "main"}, {"name": "sub", "replicas": 2, "cpus": 9}]), hosts)


def test_resources_that_no_host_has_together_are_bad_input():
    hosts = [
        Host("cpu", Capacity(16000, GIB), Capacity(16000, GIB)),
        Host("memory", Capacity(1000, 64 * GIB), Capacity(1000, 64 * GIB)),
    ]
    with pytest.raises(InvalidInput, match="No single host has all of that for one replica"):
        place(make_request(cpus=16, memory="64g"), hosts)


def test_pinned_cpus_are_counted_by_themselves():
    hosts = [make_host("one", 4, accelerators={PINNED: 1}), make_host("two", 4, accelerators={PINNED: 2})]
    assert place(make_request(size=2, pin_cpus=True), hosts).hosts == ("two",)
    assert place(make_request(size=3, pin_cpus=True), hosts).hosts == ("one", "two")
    short = place(make_request(size=4, pin_cpus=True), hosts)
    assert isinstance(short, Shortfall)
    assert short.largest_size == 3
    assert place(make_request(size=2), hosts).hosts == ("one",), "nobody spares CPUs that may be pinned"
    with pytest.raises(InvalidInput) as error:
        place(make_request(cpus=65, pin_cpus=True), [make_host("wide", 80, accelerators={PINNED: 80})])
    assert [problem.variable for problem in error.value.problems] == ["session_pin_cpus"]


def test_hosts_whose_cores_have_several_threads_give_whole_cores_away():
    double = replace(make_host("double", 16, accelerators={PINNED: 8}), threads=2)
    plain = make_host("plain", 16, accelerators={PINNED: 5})

    def most(cpus, *hosts, **more):
        short = place(make_request(size=64, cpus=cpus, pin_cpus=True, **more), hosts)
        assert isinstance(short, Shortfall)
        return short.largest_size

    assert [most(cpus, double) for cpus in (1, 2, 3, 4, 5)] == [4, 4, 2, 2, 1]
    assert [most(cpus, plain) for cpus in (1, 2, 3, 4, 5)] == [5, 2, 1, 1, 1]
    assert [most(cpus, double, plain) for cpus in (1, 2, 3, 4, 5)] == [9, 6, 3, 3, 2]
    assert place(make_request(size=5, cpus=1, pin_cpus=True), [double, plain]).hosts == ("plain",)
    found = placed(make_request(size=9, cpus=1, pin_cpus=True), [double, plain])
    assert counts_by_host(found) == {"double": 4, "plain": 5}
    roles = [
        {"name": "main", "cpus": 5},
        {"name": "a", "replicas": 2, "cpus": 1},
        {"name": "b", "replicas": 1, "cpus": 2},
        {"name": "c", "replicas": 1, "pin_cpus": False},
    ]
    found = placed(make_request(roles=roles, pin_cpus=True), [double, plain])
    where = dict(found.assignments)
    takes = {"double": {"main1": 6, "a1": 2, "a2": 2, "b1": 2}, "plain": {"main1": 5, "a1": 1, "a2": 1, "b1": 2}}
    for host, most_of in (("double", 8), ("plain", 5)):
        assert sum(taken for name, taken in takes[host].items() if where[name] == host) <= most_of
    short = place(make_request(size=10, cpus=3, pin_cpus=True), [double, plain])
    assert isinstance(short, Shortfall)
    rows = {entry.host: [row for row in entry.resources if row.resource == PINNED] for entry in short.hosts}
    assert rows == {"double": [Missing(PINNED, 4, 8, 0)], "plain": [Missing(PINNED, 3, 5, 0)]}
    assert [row for row in short.total if row.resource == PINNED] == [Missing(PINNED, 30, 13, 17)]
    tiny = replace(double, allocatable=replace(double.allocatable, devices=((PINNED, 2),)))
    with pytest.raises(InvalidInput, match=r"session_pin_cpus is '3': No host can give that to one replica; .* is 2"):
        place(make_request(cpus=3, pin_cpus=True), [tiny])


def test_accelerators_are_counted_and_idle_ones_are_spared():
    hosts = [make_host("gpu", 8, accelerators={"gpu": 2}), make_host("plain", 8)]
    assert place(make_request(size=2), hosts).hosts == ("plain",)
    assert place(make_request(size=2, accelerators={"gpu": 1}), hosts).hosts == ("gpu",)
    assert isinstance(place(make_request(size=3, accelerators={"gpu": 1}), hosts), Shortfall)


def test_idle_are_accelerators_that_nobody_asked_for_and_no_cpus():
    """A host that leaves an unrequested accelerator idle comes last, however much else it has."""
    fpga = make_host("fpga", 8, accelerators={"fpga": 1, "gpu": 1})
    assert place(make_request(), [fpga, make_host("pinnable", 64, accelerators={PINNED: 64})]).hosts == ("pinnable",)
    asked = make_request(accelerators={"gpu": 1})
    assert place(asked, [fpga, make_host("gpus", 64, accelerators={"fpga": 0, "gpu": 8})]).hosts == ("gpus",)


def test_fewest_zones_come_before_fewest_racks_and_both_before_policy():
    hosts = [
        make_host("a1", 2, zone="a", rack="1"),
        make_host("b1", 2, zone="b", rack="1"),
        make_host("b2", 3, zone="b", rack="2"),
        make_host("b3", 3, zone="b", rack="2"),
    ]
    for policy in POLICIES:
        result = place(make_request(size=4, policy=policy), hosts, KEYS)
        assert result.hosts == ("b2", "b3")
        assert result.groups == (("zone", 1), ("rack", 1))
    assert place(make_request(size=4), hosts).hosts == ("a1", "b1"), "without keys the policy alone decides"


def test_racks_are_not_called_fewest_where_another_zone_was_not_looked_at(monkeypatch):
    hosts = [
        make_host("a1", 1, zone="a", rack="1"),
        make_host("a2", 1, zone="a", rack="2"),
        make_host("b1", 1, zone="b", rack="1"),
        make_host("b2", 1, zone="b", rack="1"),
    ]
    thorough = placed(make_request(size=2), hosts, KEYS)
    assert thorough.groups == (("zone", 1), ("rack", 1))
    assert thorough.closest_proven
    monkeypatch.setattr(packing, "COMBINATION_WORK", 0)
    hasty = placed(make_request(size=2), hosts, KEYS)
    assert hasty.groups == (("zone", 1), ("rack", 2))
    assert not hasty.closest_proven


def test_racks_of_one_name_in_two_zones_are_two_racks():
    hosts = [make_host("a", 1, zone="a", rack="1"), make_host("b", 1, zone="b", rack="1")]
    assert placed(make_request(size=2), hosts, KEYS).groups == (("zone", 2), ("rack", 2))


def test_pack_finds_the_set_without_waste_that_taking_small_hosts_first_misses():
    hosts = [make_host(name, cpus) for name, cpus in (("a", 10), ("b", 3), ("c", 6), ("d", 7), ("e", 4))]
    assert place(make_request(size=11), hosts).hosts == ("d", "e"), "not a and b, which would leave two slots"


def test_pack_spread_and_inventory_differ():
    hosts = [make_host("a", 6), make_host("b", 5), make_host("c", 3), make_host("d", 4)]
    assert counts_by_host(placed(make_request(size=8, policy="pack"), hosts)) == {"b": 5, "c": 3}
    assert counts_by_host(placed(make_request(size=8, policy="spread"), hosts)) == {"a": 4, "b": 4}
    assert counts_by_host(placed(make_request(size=8, policy="inventory"), hosts)) == {"a": 6, "b": 2}


def test_single_node_choice_follows_the_policy():
    hosts = [make_host(name, cpus) for name, cpus in (("a", 6), ("b", 4), ("c", 9), ("d", 4), ("e", 9))]
    wanted = {"pack": ("b",), "spread": ("c",), "inventory": ("a",)}
    for policy in POLICIES:
        assert place(make_request(size=3, policy=policy), hosts).hosts == wanted[policy]


def test_ranks_stay_together_and_main_is_on_the_fullest_host():
    hosts = [make_host("a", 2), make_host("b", 3)]
    result = placed(make_request(size=5), hosts)
    assert [host for _replica, host in result.assignments] == ["b", "b", "b", "a", "a"]
    assert result.node_order == ("b", "a")
    by_inventory = placed(make_request(size=5, policy="inventory"), hosts)
    assert [host for _replica, host in by_inventory.assignments] == ["a", "a", "b", "b", "b"]


def test_spread_evens_out_several_roles():
    request = make_request(
        roles=[
            {"name": "main", "cpus": 2},
            {"name": "server", "replicas": 2, "cpus": 3},
            {"name": "worker", "replicas": 9, "cpus": 1},
        ],
        policy="spread",
    )
    result = placed(request, [make_host("a", 12), make_host("b", 12), make_host("c", 1)])
    assert sorted(counts_by_host(result).values()) == [6, 6]
    narrow = placed(request, [make_host("a", 12), make_host("b", 12, memory=3)])
    assert counts_by_host(narrow) == {"a": 9, "b": 3}, "b has memory for three"


# Bounds.


@pytest.mark.parametrize(
    ("given_values", "policy"),
    [
        ({"size": 4096, "cpus": 2}, "pack"),
        (
            {"roles": [{"name": "main", "cpus": 16, "memory": "64g"}, {"name": "sub", "replicas": 4095, "cpus": 2}]},
            "spread",
        ),
    ],
    ids=["one-shape", "main-and-sub"],
)
def test_4096_replicas_on_10000_hosts_look_at_each_host_at_most_twice(given_values, policy, monkeypatch):
    """How long that takes is for make bench to measure."""
    source = random.Random(1)
    hosts = [
        make_host(f"h{i}", source.randint(1, 64), source.randint(1, 256), zone=f"z{i // 2500}", rack=f"r{i // 40}")
        for i in range(10_000)
    ]
    looks: Counter[str] = Counter()
    slots_of = packing.Task.slots_of
    monkeypatch.setattr(
        packing.Task, "slots_of", lambda self, *given: looks.update(["looks"]) or slots_of(self, *given)
    )
    result = placed(make_request(policy=policy, **given_values), hosts, KEYS)
    assert 10_000 <= looks["looks"] <= 20_000
    assert len(result.assignments) == 4096
    assert result.proven


def test_no_number_of_hosts_is_called_proven_because_the_work_ran_out():
    """Wherever the work ends: the least number of hosts is four."""
    large, wide, high = (9, 9), (12, 5), (6, 13)
    capacities = [large, high, wide, (7, 11), wide, high, large, wide, large]
    hosts = range(len(capacities))
    task = packing.Task([(3, 8), (8, 3), (1, 5)], [1, 3, 4], capacities, [(host,) for host in hosts], "pack", False)
    found = [task.fewest(hosts, work) for work in range(1, 600)]
    assert {result.hosts for result in found if result.proven} == {4}


def test_many_different_roles_end_and_say_what_is_proven():
    """Bin packing with no slack: whatever the answer, it is bounded, sound, and honest."""
    source = random.Random(7)
    hosts = [make_host(f"h{i}", 100, 1000) for i in range(12)]
    roles = [{"name": "main", "cpus": 31}]
    roles += [{"name": f"r{i}x", "replicas": 2, "cpus": source.randint(20, 45)} for i in range(16)]
    result = place(make_request(roles=roles), hosts)
    if isinstance(result, Placement):
        by_name = {host.name: host for host in hosts}
        cpus = {f"{role.name}{i}": role.resources.cpus for role in make_request(roles=roles).roles for i in (1, 2)}
        for name in result.hosts:
            assert sum(cpus[replica] for replica, host in result.assignments if host == name) <= by_name[name].free.cpus
    else:
        assert not result.proven


def test_many_distinct_hosts_with_three_shapes():
    source = random.Random(3)
    hosts = [
        make_host(f"h{i}", source.randint(1, 64), source.randint(1, 256), zone=f"z{i % 4}", rack=f"r{i // 40}")
        for i in range(3_000)
    ]
    roles = [{"name": "main", "cpus": 8}, {"name": "ps", "replicas": 5, "cpus": 3}, {"name": "w", "replicas": 1000}]
    result = placed(make_request(roles=roles), hosts, KEYS)
    assert len(result.assignments) == 1006


@pytest.mark.parametrize("mode", ["single-node", "multi-node"])
def test_a_host_that_is_suspect_is_used_only_where_others_are_no_choice(mode):
    def used(*suspect, **given):
        hosts = [replace(make_host(name, 2), is_suspect=name in suspect) for name in ("h1", "h2", "h3")]
        found = place(make_request(size=2, cpus=1, mode=mode, **given), hosts)
        assert isinstance(found, Placement)
        return found.hosts

    assert used() == ("h1",)
    assert used("h1") == ("h2",)
    assert used("h1", "h2") == ("h3",)
    assert used("h1", "h2", "h3") == ("h1",), "where all are suspect they are used as ever"
    assert used("h1", hosts=["h1"]) == ("h1",), "who names it gets it"
    if mode == "multi-node":
        assert used("h1", max_replicas_per_host=1) == ("h2", "h3")
        assert used("h1", "h2", max_replicas_per_host=1) == ("h1", "h2")


def test_a_host_that_can_have_no_overlay_has_sessions_of_its_own_alone():
    def used(*apart, **given):
        hosts = [replace(make_host(name, 2), is_endpoint=name not in apart) for name in ("h1", "h2", "h3")]
        found = place(make_request(**{"size": 2, "cpus": 1, **given}), hosts)
        return found.hosts if isinstance(found, Placement) else found

    assert used("h1") == ("h1",), "what one host can take needs none"
    assert used("h1", max_replicas_per_host=1) == ("h2", "h3")
    assert used("h1", max_size=4) == ("h2",), "one that may grow has an overlay from the start"
    assert used("h1", size=1, max_size=4) == ("h2",)
    assert used("h1", "h2", "h3", max_size=4) == ("h1",), "where none can have one it does not grow"
    assert used("h1", "h2", "h3", size=1) == ("h1",)
    for apart in (("h1", "h2"), ("h1", "h2", "h3")):
        short = used(*apart, max_replicas_per_host=1)
        assert isinstance(short, Shortfall)
        assert short.largest_size == 1
        assert not short.when_idle


def test_nothing_is_proven_where_it_is_not_within_each_set_of_groups(monkeypatch):
    """Of sets with equally few groups all are kept, for the policy to choose; one that was cut short says so."""
    levels, sets = [["a", "a", "b", "b"]], [[0, 1], [2, 3], [1, 2]]
    task = packing.Task([(1,)], [2], [(1,)] * 4, [(i,) for i in range(4)], "pack", False)
    for cut in (*sets, None):
        monkeypatch.setattr(packing, "_closest", lambda task, members, k, levels, cut=cut: ([members], members != cut))
        assert packing._closest_within(task, sets, 2, levels) == ([[0, 1], [2, 3]], cut is None, True)
