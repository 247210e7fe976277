# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What two samples say of the use of CPU; that real replicas are measured is for tests/integration_lab."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.usage import measure, share

SECOND = 10**9
"""Nanoseconds."""


@pytest.mark.parametrize(
    ("seconds", "used", "thousandths"),
    [(1.0, SECOND, 1000), (0.5, SECOND, 2000), (0.5, SECOND // 20, 100), (2.0, 0, 0), (1.0, -SECOND, 0)],
)
def test_the_use_of_cpu_is_its_time_by_the_clock(seconds: float, used: int, thousandths: int) -> None:
    start = 5 * SECOND
    assert share((100.0, start, 1), (100.0 + seconds, start + used, 2)) == thousandths


def test_where_nothing_runs_no_engine_is_asked() -> None:
    assert measure([]) == {}
