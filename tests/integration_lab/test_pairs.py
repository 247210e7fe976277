# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pairs of hosts work together in a real session, and the slow or broken one is named: with three hosts.

The command of docs/preflight.md, which test_docs runs, names no host where all work well. tests/benchmarks,
bench_pairs, does the same with eight hosts, and counts how often a healthy host is named.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.tests.support.crippled import losing_packets, throttled
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    DEMO,
    HOSTS,
    Run,
    play,
    replicas,
    script,
)

CHECK: dict[str, Any] = {
    "session_image": DEMO,
    "check_pairs_size": "32m",
    "check_pairs_cpus": "0.5",
    "check_pairs_memory": "64m",
}
# What a site may set for all of its sessions, or somebody for another one, is no matter of the check.
CHECK |= {"session_name": "another", "session_size": 1, "session_memory": "900g", "session_batch_command": "false"}
SUSPECT = "/run/cluster-compute-suspect-*.json"


def check() -> Run:
    run = play("check_pairs", CHECK)
    assert replicas("check-pairs") == {}, run.output
    return run


def test_a_throttled_host_is_named_and_suspect_and_one_that_loses_packets_is() -> None:
    try:
        with throttled(lambda text: script("n2", text)):
            slow = check()
        assert slow.code != 0
        assert list(slow.artifacts["cluster_compute_pairs"]["named"]) == ["n2"], slow.output
        assert "n2 is slow or broken. round " in slow.failures
        assert "check_pairs: slow or broken with 2 other hosts." in script("n2", f"cat {SUSPECT}")
        with losing_packets(lambda text: script("n3", text)):
            lossy = check()
        assert list(lossy.artifacts["cluster_compute_pairs"]["named"]) == ["n3"], lossy.output
    finally:
        for host in HOSTS:
            script(host, f"rm -f {SUSPECT}")
