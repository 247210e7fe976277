# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines that reboot, lose power, restart or upgrade their engine keep their sessions, by their own systemd."""

from __future__ import annotations

import time
from typing import Any

from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    DEMO,
    HOSTS,
    ON_EACH,
    Replica,
    differences,
    launch,
    on,
    play,
    replicas,
    script,
    snapshot,
    teardown,
    try_on,
)
from ansible_collections.cluster_compute.session.tests.support.machines.machine import Machine

REQUEST: dict[str, Any] = {**ON_EACH, "session_name": "phoenix", "session_image": DEMO}
NAMES = ("main1", "sub1", "sub2")
HOMES = dict(zip(NAMES, HOSTS))
SECONDS = 900.0
"""For how long to wait until replicas are back; a boot alone takes minutes."""
PID = "{{.State.Pid}}"


def lasting(replica: Replica) -> list[str]:
    """Return what of a replica does not change as long as the session lives."""
    address = "ip -o -4 address show dev eth1 | cut -d' ' -f7; cat /sys/class/net/eth1/address"
    keys = "cat /etc/cluster-compute/ssh/*key.pub"
    return [replica.host, replica.inspected["Id"], *replica.run("sh", "-ec", f"{address}; {keys}").splitlines()]


def session() -> dict[str, list[str]]:
    """Return what of the whole session does not change, by replica."""
    return {name: lasting(replica) for name, replica in replicas("phoenix").items()}


def await_all(before: dict[str, list[str]]) -> None:
    """Wait until every replica reaches every other by SSH, without any help, and is what it was."""
    deadline = time.monotonic() + SECONDS
    reach = "for name in main1 sub1 sub2; do ssh $name hostname; done"
    for name, host in HOMES.items():
        while True:
            done = try_on(host, ["docker", "exec", f"phoenix-{name}", "sh", "-ec", reach])
            if done.stdout.split() == list(NAMES):
                break
            assert time.monotonic() < deadline, f"{name}: {done.stdout}{done.stderr}"
            time.sleep(2)
    assert session() == before


def process(name: str) -> str:
    """Return the number of a replica's first process on its host."""
    return on(HOMES[name], "docker", "inspect", "-f", PID, f"phoenix-{name}").strip()


def test_a_reboot_a_power_cut_and_restarts_of_the_engine(machines: dict[str, Machine]) -> None:
    untouched = snapshot()
    assert launch(REQUEST).ok().placed == HOMES
    before = session()

    # One reboots, one loses power, the third restarts its engine.
    machines["n2"].ssh("systemctl", "reboot")
    machines["n3"].cut_power()
    on("n1", "systemctl", "restart", "docker", seconds=300)
    machines["n3"].start()
    machines["n3"].await_ssh()
    await_all(before)

    # What the distribution's upgrade of the engine does: its package stops and starts it.
    upgrade = "DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --reinstall docker.io"
    script("n1", f"cp -r /var/cache/lab-packages/. /var/cache/apt/archives/; {upgrade}")
    # And with live-restore nothing of a session notices that its engine restarts.
    script(
        "n3",
        """python3 - <<'END'
import json
path = "/etc/docker/daemon.json"
with open(path) as file:
    settings = json.load(file)
with open(path, "w") as file:
    json.dump({**settings, "live-restore": True}, file)
END
systemctl reload docker""",
    )
    runs = process("sub2")
    on("n3", "systemctl", "restart", "docker", seconds=300)
    assert process("sub2") == runs
    await_all(before)
    assert process("sub2") == runs

    assert launch(REQUEST).ok().changed_hosts == set()
    teardown("phoenix").ok()
    assert [line for line in differences(untouched, snapshot()) if "daemon" not in line] == []


def test_a_host_whose_clock_is_a_day_wrong() -> None:
    """Preflight names it; what a session needs of time, it takes from each host's own count of seconds."""
    on("n2", "date", "--set", "+1 day")
    run = play("preflight")
    assert "n2" in run.output
    assert launch({**REQUEST, "session_max_duration": "1h"}).ok().placed == HOMES
    before = session()
    on("n2", "systemctl", "start", "cluster-compute-disks.service")
    assert session() == before
    on("n3", "date", "--set", "-2 days")
    assert launch({**REQUEST, "session_max_duration": "1h"}).ok().changed_hosts == set()
    teardown("phoenix").ok()
    assert replicas("phoenix") == {}
