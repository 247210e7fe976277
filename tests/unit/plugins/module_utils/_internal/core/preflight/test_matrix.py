# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was measured, as a table, and who is slow."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.matrix import (
    Measured,
    format_delay,
    format_rate,
    matrix_lines,
    read_measured,
    slow_pairs,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.probe_plan import rounds

GIGABIT = 1e9


def group(hosts: int, slow: dict[tuple[str, str], tuple[float, float]]) -> list[Measured]:
    """Return a matrix in which all but *slow* (delay, rate) are alike."""
    names = [f"n{number}" for number in range(hosts)]
    pairs = [(name, other) for name in names for other in names if name != other]
    return [Measured(pair, *slow.get(pair, (0.0001, 9.4 * GIGABIT))) for pair in pairs]


def test_the_slow_are_named_with_their_ratio_the_worst_first() -> None:
    slow = {("n1", "n2"): (0.0001, 0.94 * GIGABIT), ("n2", "n1"): (0.01, 9.4 * GIGABIT), ("n0", "n1"): (0.0001, 5e9)}
    found = slow_pairs(group(4, slow), 2)
    assert [pair.measured.pair for pair in found] == [("n2", "n1"), ("n1", "n2")]
    assert found[0].describe() == "round trip 10 ms, 100.0 times the median"
    assert found[1].describe() == "940 Mbit/s, 1/10.0 of the median"


def test_a_difference_that_nobody_notices_is_none() -> None:
    assert slow_pairs(group(4, {("n1", "n2"): (0.00025, 9.4 * GIGABIT)}), 2) == []
    assert slow_pairs([], 2) == []
    assert len(slow_pairs(group(4, {("n1", "n2"): (0.0001, 0.0)}), 2)) == 1


def test_few_hosts_are_shown_as_a_matrix() -> None:
    lines = matrix_lines(group(3, {("n0", "n2"): (0.002, 5e7)}), ["n0", "n1", "n2"])
    assert lines[0] == "6 directed pairs: median 9.4 Gbit/s, round trip 0.1 ms."
    assert [line.split() for line in lines[1:3]] == [
        ["FROM/TO", "n0", "n1", "n2"],
        ["n0", "-", "9.4Gbit/s/0.1ms", "50Mbit/s/2ms"],
    ]
    assert matrix_lines([], ["n0"]) == []


def test_of_many_hosts_the_slowest_pairs_are_listed() -> None:
    names = [f"n{number}" for number in range(400)]
    answers = [
        {
            "from": names[source],
            "to": names[other],
            "delay": 0.0001,
            "there": 1e10,
            "back": 1e9 if source == 7 else 1e10,
        }
        for pairs in rounds(400, 16)
        for source, other in pairs
    ]
    measured = read_measured(answers)
    assert len(measured) == 2 * 16 * 200
    lines = matrix_lines(measured, names)
    assert len(lines) == 13
    assert lines[3].split()[1:3] == ["n7", "1Gbit/s"]
    assert {pair.measured.pair[1] for pair in slow_pairs(measured, 2)} == {"n7"}


@pytest.mark.parametrize(
    ("rate", "shown"), [(9.41e9, "9.41 Gbit/s"), (4e11, "400 Gbit/s"), (9.5e8, "950 Mbit/s"), (0.0, "0 kbit/s")]
)
def test_rates_are_readable(rate: float, shown: str) -> None:
    assert format_rate(rate) == shown


def test_delays_are_readable() -> None:
    assert [format_delay(value) for value in (0.0000512, 0.12, None)] == ["0.0512 ms", "120 ms", "-"]
