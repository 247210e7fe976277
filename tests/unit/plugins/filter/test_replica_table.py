# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of a session."""

from __future__ import annotations

from ansible_collections.cluster_compute.session.plugins.filter.replica_table import FilterModule, replica_table

REPLICAS = [
    {"name": "sub1", "host": "node-b", "address": "10.213.0.3", "rank": 1, "status": "RUNNING"},
    {"name": "main1", "host": "a", "address": None, "rank": 0},
]


def test_rows_are_aligned_and_in_rank_order() -> None:
    assert replica_table(REPLICAS) == [
        "REPLICA  HOST    ADDRESS     RANK  STATUS",
        "main1    a       -           0     PLANNED",
        "sub1     node-b  10.213.0.3  1     RUNNING",
    ]


def test_no_replicas_leave_the_header() -> None:
    assert replica_table([]) == ["REPLICA  HOST  ADDRESS  RANK  STATUS"]


def test_ansible_finds_the_filter() -> None:
    assert FilterModule().filters() == {"replica_table": replica_table}
