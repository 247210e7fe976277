# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What systemd does for a prepared machine: it ends sessions in time, and is taken away with all else."""

from __future__ import annotations

import time
from typing import Any

from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    HOSTS,
    ON_EACH,
    STATE,
    launch,
    on,
    play,
    script,
)

UNITS = ("cluster-compute.service", "cluster-compute-links.service", "cluster-compute-disks.timer")


def running(host: str) -> list[str]:
    """Return the containers of the two sessions that are left on a host."""
    names = on(host, "docker", "ps", "--all", "--format", "{{.Names}}").split()
    return [name for name in names if name.startswith(("timed-", "unused-"))]


def test_sessions_end_by_the_timer_of_each_host() -> None:
    timed: dict[str, Any] = {**ON_EACH, "session_name": "timed", "session_max_duration": "5m"}
    idle: dict[str, Any] = {**ON_EACH, "session_name": "unused", "session_memory": "32m", "session_max_idle": "5m"}
    # On emulated machines the time of the first may be over before the second has been launched.
    assert {*launch(timed).ok().placed.values()} == {*launch(idle).ok().placed.values()} == {*HOSTS}
    deadline = time.monotonic() + 1200
    while any(running(host) for host in HOSTS):
        assert time.monotonic() < deadline, script("n1", "systemctl status cluster-compute-disks.timer")
        time.sleep(10)
    said = "".join(script(host, "journalctl --unit cluster-compute-disks.service") for host in HOSTS)
    assert "Its session_max_duration of 5m is over." in said
    assert "Nobody has used it for 5m, its session_max_idle." in said


LISTING = f"""
find /etc /usr/local /var/lib/systemd /root -xdev -not -path '*/__pycache__*' -printf '%p %m %u %l\\n' | sort
ls {STATE} 2>/dev/null || true
iptables-save | grep -E '^[-:]' | sed -E 's/ ?\\[[0-9]+:[0-9]+\\]//' | sort
cat /etc/docker/daemon.json
sysctl -n net.ipv4.neigh.default.gc_thresh3
systemctl list-units --all 'cluster-compute*' --no-legend
"""
"""What an administrator would look at: files, firewall, the engine's settings, the kernel's, and units."""


def listed() -> dict[str, list[str]]:
    """Return what each machine has."""
    return {host: script(host, LISTING).splitlines() for host in HOSTS}


def test_preparing_twice_changes_nothing_and_all_of_it_can_be_taken_away() -> None:
    for host in HOSTS:
        for unit in UNITS:
            on(host, "systemctl", "is-enabled", unit)
    first = listed()
    assert play("prepare_hosts", seconds=600).ok().changed_hosts == set()
    assert listed() == first
    refused = launch({**ON_EACH, "session_name": "held", "session_image": BUSYBOX}).ok()
    assert set(refused.placed.values()) == set(HOSTS)
    run = play("unprepare_hosts")
    assert run.code != 0
    assert "held" in run.failures
    play("teardown_cluster", {"session_name": "held"}).ok()
    play("unprepare_hosts").ok()
    bare = listed()
    for host, lines in bare.items():
        left = [line for line in lines if "cluster-compute" in line or "cluster_compute" in line]
        assert left == [], host
    assert play("unprepare_hosts").ok().changed_hosts == set()
    play("prepare_hosts", seconds=900).ok()
    after = listed()
    assert {host: sorted(set(first[host]) ^ set(after[host])) for host in HOSTS} == {host: [] for host in HOSTS}
    launch({**ON_EACH, "session_name": "again"}).ok()
    play("teardown_cluster", {"session_name": "again"}).ok()
