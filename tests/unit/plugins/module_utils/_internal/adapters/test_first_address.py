# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the numbers that a replica's interfaces get; that programs find them so is for tests/contract."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.first_address import in_order
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("outward", "session", "others", "wanted"),
    [
        (4, 3, {}, (4, 3)),
        (4, 6, {}, (4, 2)),
        (300, 301, {}, (3, 2)),
        (2, 3, {}, (4, 3)),
        (3, 2, {}, (3, 2)),
        (255, 256, {"tunl0": 2, "sit0": 3}, (255, 4)),
        (256, 9, {"tunl0": 2, "sit0": 3}, (5, 4)),
    ],
)
def test_one_stays_where_it_can(outward: int, session: int, others: dict[str, int], wanted: tuple[int, int]) -> None:
    found = in_order({"lo": 1, "eth0": outward, "eth1": session, **others})
    assert (found["eth0"], found["eth1"]) == wanted


@given(st.lists(st.integers(2, 1000), min_size=2, max_size=40, unique=True))
def test_the_session_s_comes_first_in_every_kernel_s_order_and_no_number_is_twice(numbers: list[int]) -> None:
    outward, session, *others = numbers
    found = in_order({"lo": 1, "eth0": outward, "eth1": session, **{f"x{number}": number for number in others}})
    assert found["eth1"] < found["eth0"] < 256
    assert len({1, *found.values(), *others}) == 3 + len(others)
    # What is moved goes one after the other, the outward one first: its number is free by then, or its own.
    assert found["eth0"] in (outward, *set(range(2, 256)) - {session, *others})
