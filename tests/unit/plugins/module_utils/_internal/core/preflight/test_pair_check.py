# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slow hosts are found in at most four rounds, and healthy ones are never named, however noisy the machine is."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.pair_check import (
    MOST_ROUNDS,
    Judgement,
    Times,
    judge,
    next_round,
)
from hypothesis import given, settings
from hypothesis import strategies as st

bounded = settings(max_examples=300, derandomize=True, deadline=None)


def check(
    count: int, crippled: Collection[str] = (), noise: float = 1.5, seed: int = 0, broken: bool = False
) -> tuple[Judgement, int]:
    """Go through the rounds; return what is found, and in how many. noise: by which factor healthy pairs differ."""
    chance = random.Random(seed)
    hosts = [f"h{number}" for number in range(count)]
    rounds: list[Times] = []
    while pairs := next_round(hosts, rounds):
        working = [host for pair in pairs for host in pair]
        assert len(working) == len(set(working)), "a host is in one pair at most"
        times: dict[tuple[str, str], float | None] = {}
        for pair in pairs:
            slow = set(pair) & set(crippled)
            times[pair] = None if slow and broken else chance.uniform(1, noise) * (10 if slow else 1)
        rounds.append(times)
        assert len(rounds) <= MOST_ROUNDS
    return judge(hosts, rounds), len(rounds)


@bounded
@given(st.integers(3, 60), st.integers(0, 59), st.integers(0, 99), st.booleans())
def test_one_slow_or_broken_host_is_named_and_nobody_else(count: int, number: int, seed: int, broken: bool) -> None:
    crippled = f"h{number % count}"
    found, _rounds = check(count, [crippled], seed=seed, broken=broken)
    assert list(found.named) == [crippled]
    assert found.unclear == ()
    others = {host for pair in found.named[crippled] for host in pair} - {crippled}
    assert len(others) == min(3, count - 1)


@bounded
@given(st.integers(8, 60), st.sets(st.integers(0, 59), min_size=2, max_size=2), st.integers(0, 99))
def test_two_slow_hosts_are_named_also_where_they_met_first(count: int, numbers: set[int], seed: int) -> None:
    crippled = {f"h{number % count}" for number in numbers}
    found, _rounds = check(count, crippled, seed=seed)
    assert set(found.named) == crippled


@bounded
@given(st.integers(0, 60), st.integers(0, 999), st.floats(1, 1.9))
def test_healthy_hosts_are_never_named(count: int, seed: int, noise: float) -> None:
    found, rounds = check(count, seed=seed, noise=noise)
    assert found.named == {}
    assert found.unclear == ()
    assert rounds <= (3 if count == 3 else 1 + count % 2), "nobody has to work twice where all is well"
    assert len(found.good) == (count if count > 1 else 0)


@bounded
@given(st.integers(8, 40), st.integers(0, 999))
def test_a_moment_of_trouble_names_nobody(count: int, seed: int) -> None:
    """Each pair is slow by chance once in ten, whoever it is."""
    chance = random.Random(seed)
    hosts = [f"h{number}" for number in range(count)]
    rounds: list[Times] = []
    while paired := next_round(hosts, rounds):
        rounds.append({pair: 10.0 if number == 0 else 1.0 for number, pair in enumerate(paired)})
        # The pair that is slow is always another one: no host is slow three times.
        if len(rounds) > 1:
            pairs = list(rounds[-1])
            rounds[-1] = dict.fromkeys(pairs, 1.0)
            if chance.random() < 0.5:
                rounds[-1] = {**rounds[-1], pairs[-1]: 10.0}
    assert judge(hosts, rounds).named == {}


def test_of_two_hosts_nobody_knows_which_it_is() -> None:
    found, rounds = check(2, ["h0"], broken=True)
    assert found == Judgement((), {}, (("h0", "h1"),))
    assert rounds == 1


def test_what_is_fast_is_never_slow() -> None:
    hosts = ["a", "b", "c", "d", "e", "f"]
    pairs = next_round(hosts, [])
    assert judge(hosts, [dict(zip(pairs, (0.01, 0.29, 0.01)))]).unclear == ()
    assert judge(hosts, [dict(zip(pairs, (0.01, 0.31, 0.01)))]).unclear == (pairs[1],)


@pytest.mark.parametrize("count", [100, 1000])
def test_many_hosts_are_judged_at_once(count: int) -> None:
    found, rounds = check(count, ["h7"])
    assert list(found.named) == ["h7"]
    assert rounds <= MOST_ROUNDS
