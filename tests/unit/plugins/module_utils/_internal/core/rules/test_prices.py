# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prices of shapes: their bound against all ways to fill hosts, what they fill, and cases that need them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules import packing
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Capacity,
    Host,
    Placement,
    doubts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.prices import (
    PRECISION,
    Prices,
)
from ansible_collections.cluster_compute.session.tests.support.core.rules.requests import make_request
from ansible_collections.cluster_compute.session.tests.support.plans import placed
from hypothesis import given, settings
from hypothesis import strategies as st

SHAPES = 3


@st.composite
def markets(draw):
    """Options of two to four classes with one to three hosts each, what is needed, and first prices."""
    option = st.tuples(*[st.integers(0, 4)] * SHAPES).filter(any)
    options = draw(st.lists(st.lists(option, min_size=1, max_size=4), min_size=2, max_size=4))
    hosts = [draw(st.integers(1, 3)) for _class in options]
    counts = draw(st.tuples(*[st.integers(1, 7)] * SHAPES))
    first = draw(st.lists(st.floats(0.001, 1), min_size=SHAPES, max_size=SHAPES))
    return options, hosts, counts, first


def fewest(options, hosts, counts) -> int | None:
    """Find the least number of hosts by trying what each host takes."""
    best = {(0,) * SHAPES: 0}
    for ways, number in zip(options, hosts):
        for _host in range(number):
            for (have, used), way in product(list(best.items()), ways):
                more = tuple(min(h + w, count) for h, w, count in zip(have, way, counts))
                best[more] = min(used + 1, best.get(more, used + 1))
    return best.get(counts)


@settings(max_examples=150, derandomize=True)
@given(markets())
def test_no_prices_ask_for_more_hosts_than_are_enough_and_what_they_fill_is_enough(market):
    options, hosts, counts, first = market
    least = fewest(options, hosts, counts)
    prices = Prices(options, hosts, counts, first)
    for _round in range(8):
        bound = prices.least()
        if least is not None:
            assert bound is not None
            assert bound <= least
        found = prices.fill(sum(hosts))
        if found is not None:
            assert least is not None
            assert len(found) >= least
            assert prices.fill(len(found)) == found
            assert prices.fill(len(found) - 1) is None, "no more hosts than allowed"
            assert tuple(map(sum, zip(*(taken for _c, taken in found)))) == counts
            assert all(number <= hosts[c] for c, number in Counter(c for c, _taken in found).items())
            for c, taken in found:
                assert any(all(t <= o for t, o in zip(taken, option)) for option in options[c])
        prices.change(bound or sum(hosts))
        assert max(prices.values) == PRECISION
        assert min(prices.values) >= 1


def test_a_bound_is_met_exactly():
    """Two hosts are worth eight and one is needed for the ninth, of the class that is worth least."""
    prices = Prices([[(4,)], [(1,)]], [2, 3], (9,), [1.0])
    assert prices.least() == 3
    assert prices.fill(3) == [(0, (4,)), (0, (4,)), (1, (1,))]
    assert Prices([[(4,)], [(1,)]], [2, 3], (8,), [1.0]).least() == 2
    assert Prices([[(4,)], [(1,)]], [2, 3], (11,), [1.0]).least() == 5
    assert Prices([[(4,)], [(1,)]], [2, 3], (12,), [1.0]).least() is None


def test_what_is_short_becomes_dearer_and_what_is_plenty_cheaper():
    """The host that is worth most takes five of the first shape, where two are needed, and none of the second."""
    prices = Prices([[(5, 0), (0, 1)]], [1], (2, 3), [1.0, 1.0])
    before = prices.values
    assert before == [PRECISION, PRECISION]
    prices.change(1)
    assert prices.values[1] == PRECISION
    assert prices.values[0] < PRECISION // 2
    values = []
    for _round in range(30):
        values.append(prices.values[0])
        prices.change(1)
    steps = [abs(after - before) / before for before, after in zip(values, values[1:])]
    assert max(steps[-5:]) < max(steps[:5]) / 2, "they settle"


def unlike_hosts(number: int, source: random.Random) -> list[Host]:
    """Hosts that are nearly all different."""
    amounts = [
        Capacity(
            source.randint(4, 128) * 1000, source.randint(16, 768) * 1024**3, (("gpu", source.choice([0, 1, 2, 8])),)
        )
        for _host in range(number)
    ]
    return [Host(f"h{i}", free, free) for i, free in enumerate(amounts)]


def several_roles(source: random.Random, scale: int):
    """Four roles with different amounts."""
    roles = [
        {
            "name": name,
            "replicas": source.randint(1, scale),
            "cpus": source.randint(1, 24),
            "memory": f"{source.randint(1, 96)}g",
            "accelerators": source.choice([{}, {}, {"gpu": 1}]),
        }
        for name in ("ps", "worker", "reader")
    ]
    return make_request(roles=[{"name": "main", "cpus": 2, "memory": "4g"}, *roles])


# The least numbers are those that CP-SAT of OR-tools proved (`make yardstick` compares more of them).
@pytest.mark.parametrize(("seed", "least"), [(4, 25), (5, 14), (6, 16), (11, 10)])
def test_hosts_that_are_all_different_are_as_few_as_can_be(seed, least):
    source = random.Random(seed)
    hosts = unlike_hosts(100, source)
    found = placed(several_roles(source, 60), hosts)
    assert (len(found.hosts), found.proven, doubts(found)) == (least, True, [])


def test_what_was_not_found_out_is_told():
    near = Placement("multi-node", (), ("h1", "h2", "h3"), (), (("zone", 1), ("rack", 2)), 3, True)
    assert doubts(near) == []
    assert doubts(replace(near, closest_proven=False)) == [
        "The search for 3 hosts that are closer to each other was given up (rack: 2)."
    ]
    assert doubts(replace(near, closest_proven=False, groups=(("zone", 1),))) == []
    assert doubts(replace(near, least_hosts=2)) == [
        "The replicas are on 3 hosts. At least 2 are needed; the search for a way with fewer than 3 was given up."
    ]


def test_without_all_ways_to_fill_a_host_nothing_is_called_proven_that_is_not(monkeypatch):
    """Each host is filled in one way only, of those that it has: what is found may be too many hosts, and says so."""
    monkeypatch.setattr(packing, "MAXIMUM_OPTIONS", 1)
    for seed, least in ((4, 25), (6, 16), (11, 10)):
        source = random.Random(seed)
        hosts = unlike_hosts(100, source)
        found = placed(several_roles(source, 60), hosts)
        assert found.least_hosts <= least < len(found.hosts)
