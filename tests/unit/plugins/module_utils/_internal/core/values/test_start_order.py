# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.start_order import (
    start_waves,
)
from hypothesis import given
from hypothesis import strategies as st


def test_roles_start_side_by_side_as_far_as_they_can() -> None:
    assert start_waves({"main": ()}) == [("main",)]
    assert start_waves({"main": ("web",), "db": (), "web": ("db",), "log": ()}) == [("db", "log"), ("web",), ("main",)]
    for circle in ({"a": ("a",)}, {"a": ("b",), "b": ("c",), "c": ("a",), "d": ("a",)}):
        with pytest.raises(ValueError, match=", ".join(circle)):
            start_waves(circle)


@given(st.lists(st.sets(st.integers(0, 8)), min_size=1, max_size=9))
def test_each_role_is_in_the_first_wave_behind_those_it_comes_after(earlier: list[set[int]]) -> None:
    after = {str(role): [str(other) for other in ones if other < role] for role, ones in enumerate(earlier)}
    wave_of = {role: number for number, wave in enumerate(start_waves(after)) for role in wave}
    for role, ones in after.items():
        assert wave_of[role] == max((wave_of[other] + 1 for other in ones), default=0)
