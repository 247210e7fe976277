# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where replicas go, and what is said when they cannot go anywhere. Most of it in check mode, which decides alike."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.integration_lab.driver import (
    BUSYBOX,
    HOSTS,
    Run,
    Snapshot,
    differences,
    launch,
    replicas,
    snapshot,
    teardown,
)

BASE = {"session_name": "place", "session_image": BUSYBOX, "session_memory": "64m", "session_command": "sleep 8888"}


def _cpus(**cpus: object) -> dict[str, dict[str, Any]]:
    return {host: {"cluster_compute_cpus": value} for host, value in cpus.items()}


CASES: dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, str]]] = {
    "designated hosts": (
        {"session_size": 3, "session_hosts": "n2,n3"},
        {},
        {"main1": "n2", "sub1": "n2", "sub2": "n3"},
    ),
    "excluded hosts": (
        {"session_size": 2, "session_excluded_hosts": ["n1"]},
        {},
        {"main1": "n2", "sub1": "n2"},
    ),
    "a limit per host": (
        {"session_size": 3, "session_max_replicas_per_host": "1"},
        {},
        {"main1": "n1", "sub1": "n2", "sub2": "n3"},
    ),
    "a host's own limit": (
        {"session_size": 2},
        {"n1": {"cluster_compute_max_replicas": 1}, "n2": {"cluster_compute_max_replicas": 0}},
        {"main1": "n3", "sub1": "n3"},
    ),
    # n1 and n3 stand in rack r1; inventory order alone would take n1 and n2.
    "hosts of one rack": (
        {"session_size": 4},
        {},
        {"main1": "n1", "sub1": "n1", "sub2": "n3", "sub3": "n3"},
    ),
    "another resource group": (
        {"session_size": 3, "session_resource_group": "small_pool"},
        {},
        {"main1": "n2", "sub1": "n2", "sub2": "n3"},
    ),
    "pack leaves the least behind": (
        {"session_size": 2, "session_policy": "pack"},
        _cpus(n1=4, n2=2, n3=3),
        {"main1": "n2", "sub1": "n2"},
    ),
    "inventory takes the first that can": (
        {"session_size": 2, "session_policy": "inventory"},
        _cpus(n1=4, n2=2, n3=3),
        {"main1": "n1", "sub1": "n1"},
    ),
    "the fewest hosts, not the first ones": (
        {"session_size": 6},
        _cpus(n1=2, n2=3, n3=3),
        {"main1": "n2", "sub1": "n2", "sub2": "n2", "sub3": "n3", "sub4": "n3", "sub5": "n3"},
    ),
    "spread evens out": (
        {"session_size": 4, "session_policy": "spread"},
        _cpus(n1=3, n2=1, n3=3),
        {"main1": "n1", "sub1": "n1", "sub2": "n3", "sub3": "n3"},
    ),
    "reserved capacity is not given away": (
        {"session_size": 1, "session_cpus": "0.5"},
        {
            "n1": {"cluster_compute_cpus": "", "cluster_compute_reserved_cpus": 10000},
            "n2": {"cluster_compute_cpus": "400m"},
        },
        {"main1": "n3"},
    ),
}


@pytest.fixture(scope="module")
def runs(untouched_lab: Snapshot) -> dict[str, Run]:
    """Run all cases in check mode, some side by side: they wait for the hosts most of the time."""
    names = list(CASES)

    def decide(case: str) -> Run:
        request, hosts, _wanted = CASES[case]
        return launch({**BASE, **request}, "--check", hosts=hosts)

    with ThreadPoolExecutor(4) as pool:
        return dict(zip(names, pool.map(decide, names)))


@pytest.mark.parametrize("case", CASES)
def test_replicas_go_where_the_rules_say(case: str, runs: dict[str, Run]) -> None:
    wanted = CASES[case][2]
    run = runs[case].ok()
    assert run.placed == wanted
    assert {row["status"] for row in run.table.values()} == {"PLANNED"}
    # A host that carries no replica keeps a note of the session, and its own containers out of the session's tunnel.
    rest = {"create record place", "create firewall rules place"}
    touched = {host for host, actions in run.actions().items() if set(actions) - rest}
    assert touched == set(wanted.values())


def test_the_same_input_gives_the_same_plan_and_check_mode_touches_nothing(untouched_lab: Snapshot) -> None:
    request = {**BASE, "session_size": 5}
    first, second = (launch(request, "--check", "--diff").ok() for _try in range(2))
    assert first.placed == second.placed
    assert len(first.placed) == 5
    assert "place-sub4" in first.differences()
    assert differences(untouched_lab, snapshot()) == []


def _rows(report: list[str]) -> dict[tuple[str, str], list[str]]:
    """Return the table of a pending session: (host, resource) to asked, free, missing and replicas that fit."""
    lines = [re.split(r" {2,}", line) for line in report]
    head = next(line for line in lines if line[0] == "host")
    assert head == ["host", "resource", "asked", "free", "missing", "replicas that fit"]
    rows = {(line[0], line[1]): line[2:] for line in lines if line[0] in (*HOSTS, "all hosts")}
    assert len(rows) >= 2 * (len(HOSTS) + 1)
    return rows


class TestPending:
    """What does not fit now: a table, no error, and nothing started."""

    def test_multi_node_names_host_resource_shortfall_and_the_largest_size(self, untouched_lab: Snapshot) -> None:
        run = launch({**BASE, "session_size": 7, "session_memory": "1g"}).ok()
        report = run.said
        assert report[0] == "Session place is PENDING, position 1 in the queue."
        rows = _rows(report)
        for host in HOSTS:
            assert rows[host, "cpus"] == ["1", "2", "0", "2"]
            assert rows[host, "memory"][:3] == ["1GiB", "2GiB", "0B"]
        assert rows["all hosts", "cpus"] == ["7", "6", "1"]
        assert rows["all hosts", "memory"] == ["7GiB", "6GiB", "1GiB"]
        assert "Largest size that fits now in mode multi-node: 6." in report
        assert run.table == {}
        assert replicas("place") == {}
        teardown("place").ok()
        assert differences(untouched_lab, snapshot()) == []

    def test_single_node_that_fits_no_host_is_pending_although_all_hosts_together_have_room(
        self, untouched_lab: Snapshot
    ) -> None:
        run = launch({**BASE, "session_size": 3, "session_mode": "single-node"}).ok()
        assert run.said[0] == "Session place is PENDING, position 1 in the queue."
        assert "Largest size that fits now in mode single-node: 2." in run.said
        rows = _rows(run.said)
        for host in HOSTS:
            assert rows[host, "cpus"][:3] == ["3", "2", "1"]
            assert rows[host, "memory"][:3] == ["192MiB", "2GiB", "0B"]
        assert run.table == {}
        teardown("place").ok()
        assert differences(untouched_lab, snapshot()) == []

    def test_check_mode_says_the_same(self, untouched_lab: Snapshot) -> None:
        run = launch({**BASE, "session_size": 3, "session_mode": "single-node"}, "--check").ok()
        assert run.said[0] == "Session place is PENDING, position 1 in the queue."
        assert run.changed_hosts == set(HOSTS), "every host would keep the request"
        assert differences(untouched_lab, snapshot()) == []
