# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who tries and measures whom: every pair once where that is allowed, nobody twice at the same time."""

from __future__ import annotations

from itertools import combinations

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.probe_plan import (
    Place,
    ProbeHost,
    ProbePlan,
    offsets,
    rounds,
)
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(0, 60), st.integers(1, 80))
def test_each_host_is_in_one_pair_of_a_round_and_meets_nobody_twice(hosts: int, most: int) -> None:
    found = rounds(hosts, most)
    assert len(found) <= most
    met: list[frozenset[int]] = []
    for pairs in found:
        together = [host for pair in pairs for host in pair]
        assert len(set(together)) == len(together)
        assert all(0 <= host < hosts for host in together)
        # At most one pauses, where the number is odd.
        assert len(together) >= hosts - hosts % 2
        met += map(frozenset, pairs)
    assert len(set(met)) == len(met)


@given(st.integers(0, 60))
def test_with_enough_rounds_every_pair_is_measured_once(hosts: int) -> None:
    found = [frozenset(pair) for pairs in rounds(hosts, 100) for pair in pairs]
    assert sorted(map(sorted, found)) == sorted(map(list, combinations(range(hosts), 2)))


def test_400_hosts_are_measured_in_as_many_rounds_as_are_allowed() -> None:
    found = rounds(400, 16)
    assert [len(pairs) for pairs in found] == [200] * 16


@given(st.integers(2, 500), st.integers(1, 600))
def test_whom_a_host_tries_tries_it_too(hosts: int, most: int) -> None:
    found = offsets(hosts, most)
    assert len(set(found)) == len(found)
    assert set(found) <= set(range(1, hosts))
    assert {hosts - group for group in found} == set(found)
    assert len(found) <= max(2, most)
    assert found[0] == 1, "its neighbour is among them"
    if most >= hosts - 1:
        assert found == list(range(1, hosts))


@given(st.integers(3, 300), st.integers(2, 20))
def test_who_is_tried_is_spread_over_the_circle(hosts: int, most: int) -> None:
    found = [0, *offsets(hosts, most), hosts]
    widest = max(after - before for before, after in zip(found, found[1:]))
    assert widest <= 2 * (hosts / max(2, most - most % 2)) + 2


def test_places_differ_and_the_smaller_room_counts() -> None:
    hosts = {f"n{number}": ProbeHost(f"192.0.2.{number}", 1500, 1450 - number) for number in range(5)}
    probe_plan = ProbePlan(hosts, 7, offsets(5, 400), {})
    found = [probe_plan.place(host) for host in hosts]
    assert [place.number for place in found] == list(range(5))
    assert found[2] == Place(2, "198.18.0.3", "02:42:c6:12:00:03", "192.0.2.2")
    assert len({place.mac for place in found}) == 5
    assert probe_plan.targets("n3") == ["n4", "n0", "n1", "n2"]
    assert {place.name: place.size for place in probe_plan.places("n3")} == {
        "n4": 1446,
        "n0": 1447,
        "n1": 1447,
        "n2": 1447,
    }
    assert sorted(probe_plan.pairs()) == sorted((host, other) for host in hosts for other in hosts if host != other)
    assert [(host, other) for host in hosts for other in probe_plan.targets(host)] == probe_plan.pairs()
