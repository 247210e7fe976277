# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Of any two groups of hosts that decide about a session one host is part of both, and one of two halves decides."""

from __future__ import annotations

from itertools import combinations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.quorum import is_quorum

HOSTS = ("h1", "h2", "h3", "h4", "h5")


@pytest.mark.parametrize("count", range(1, 6))
@pytest.mark.parametrize("main", ["h1", "elsewhere", ""])
def test_two_sides_never_both_decide(count: int, main: str) -> None:
    known = HOSTS[:count]
    sides = [set(some) for size in range(count + 1) for some in combinations(known, size)]
    for side in sides:
        other = {*known} - side
        assert not (is_quorum(side, known, main) and is_quorum(other, known, main))
        if main in known:
            assert is_quorum(side, known, main) or is_quorum(other, known, main), "one of them does"
    assert not is_quorum({"h9", "h8", "h7"}, known, main), "others have no say"


def test_half_of_them_decides_with_the_host_of_main1_alone() -> None:
    assert is_quorum({"h1"}, ("h1", "h2"), "h1")
    assert not is_quorum({"h2"}, ("h1", "h2"), "h1")
    assert not is_quorum({"h1"}, ("h1", "h2", "h3"), "h1")
    assert is_quorum({"h2", "h3"}, ("h1", "h2", "h3"), "h1")
