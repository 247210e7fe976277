# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many neighbours a kernel has to know."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.neighbours import (
    LEAST,
    MOST,
    neighbour_limits,
    parse_max_replicas,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from hypothesis import given
from hypothesis import strategies as st

LIMIT = "net.{}.neigh.default.gc_thresh{}"


@given(st.none() | st.integers(0, 1_000_000))
def test_all_replicas_of_a_host_may_talk_to_each_other(replicas: int | None) -> None:
    limits = neighbour_limits(replicas)
    for family in ("ipv4", "ipv6"):
        first, second, third = (limits[LIMIT.format(family, number)] for number in (1, 2, 3))
        assert LEAST <= third <= MOST
        assert 0 < first < second < third
        assert third >= min(MOST, (replicas or 0) * ((replicas or 0) - 1))
    assert len(limits) == 6


def test_the_33_replicas_that_a_kernel_has_no_room_for_have_it() -> None:
    assert neighbour_limits(33)[LIMIT.format("ipv4", 3)] == 8448
    assert neighbour_limits(parse_max_replicas("")) == neighbour_limits(256)
    with pytest.raises(InvalidInput, match="cluster_compute_max_replicas is 'many'"):
        parse_max_replicas("many")
