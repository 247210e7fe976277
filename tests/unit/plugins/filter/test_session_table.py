# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of a session."""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.plugins.filter.session_table import FilterModule, session_table

RESULT: dict[str, Any] = {
    "plan": {
        "session": {"name": "train", "resource_group": "cluster_compute_hosts"},
        "ssh_port": None,
        "replicas": [
            {"name": "main1", "host": "a", "address": None, "rank": 0, "container": "train-main1"},
            {"name": "sub1", "host": "node-b", "address": "10.213.0.3", "rank": 1, "container": "train-sub1"},
        ],
    }
}


def test_rows_are_aligned_and_in_rank_order() -> None:
    assert session_table(RESULT, [{"name": "sub1", "status": "RUNNING"}]) == [
        "REPLICA  HOST    ADDRESS     RANK  STATUS",
        "main1    a       -           0     PLANNED",
        "sub1     node-b  10.213.0.3  1     RUNNING",
        "Log in on a: docker exec -it train-main1 /bin/sh",
    ]


def test_the_owner_is_told_of_the_way_in() -> None:
    plan = {**RESULT["plan"], "ssh_port": 22017}
    last = session_table({"plan": plan}, [])[-1]
    told = "ansible-playbook cluster_compute.session.login -e session_name=train"
    assert last == f"Log in with your key, port 22017 of a: {told}"
    elsewhere = {**plan, "session": {"name": "train", "resource_group": "pool"}}
    assert session_table({"plan": elsewhere}, [])[-1] == f"{last} -e session_resource_group=pool"


def test_a_session_that_waits_has_no_table() -> None:
    assert session_table({"plan": None}, []) == []
    assert session_table(None, []) == []


def test_ansible_finds_the_filter() -> None:
    assert FilterModule().filters() == {"session_table": session_table}
