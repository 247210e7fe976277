# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What check mode says of a launch on real hosts, which it does not touch.

Which rules decide where replicas go, and what is said where they go nowhere, is tried by recorded answers of these
hosts in tests/unit/plugins/action/test_launch_decisions.py.
"""

from __future__ import annotations

from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    HOSTS,
    Snapshot,
    differences,
    launch,
    snapshot,
)

BASE = {"session_name": "place", "session_image": BUSYBOX, "session_memory": "64m", "session_command": "sleep 8888"}


def test_check_mode_says_who_would_go_where_and_touches_nothing(untouched_lab: Snapshot) -> None:
    # n1 and n3 stand in rack r1; inventory order alone would take n1 and n2. A limit counts for this run.
    limits = {"n1": {"cluster_compute_max_replicas": 1}}
    run = launch({**BASE, "session_size": 3}, "--check", "--diff", hosts=limits).ok()
    assert run.placed == {"main1": "n3", "sub1": "n3", "sub2": "n1"}
    assert {row["status"] for row in run.table.values()} == {"PLANNED"}
    # A host that carries no replica keeps a stub of the session, and its own containers out of the session's tunnel.
    rest = {"create record place", "create firewall rules place"}
    touched = {host for host, actions in run.actions().items() if set(actions) - rest}
    assert touched == {"n1", "n3"}
    assert "place-sub2" in run.differences()
    assert run.artifacts["cluster_compute_session"]["status"] == "PLANNED"
    assert differences(untouched_lab, snapshot()) == []


def test_check_mode_says_who_would_wait_and_touches_nothing(untouched_lab: Snapshot) -> None:
    run = launch({**BASE, "session_size": 3, "session_mode": "single-node"}, "--check").ok()
    assert run.said[0] == "Session place is PENDING, position 1 in the queue."
    assert "Largest size that fits now in mode single-node: 2." in run.said
    assert run.changed_hosts == set(HOSTS), "every host would keep the request"
    assert differences(untouched_lab, snapshot()) == []
