# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Damage to a session of three hosts: audit tells exactly it, repair puts exactly it back, with what all hosts know.

Leaks are beside it: audit tells them, and gc alone removes them.

What one host does about each kind of damage is shown in tests/contract; only here do playbooks put together what the
hosts say, and hosts have from each other what they lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    DEMO,
    HOSTS,
    ON_EACH,
    STATE,
    Run,
    Snapshot,
    differences,
    launch,
    play,
    record,
    replicas,
    script,
    snapshot,
    teardown,
    try_on,
)

REQUEST: dict[str, Any] = {**ON_EACH, "session_name": "trio", "session_image": DEMO, "session_cpus": "0.5"}


@pytest.fixture(scope="module")
def trio(untouched_lab: Snapshot) -> Iterator[dict[str, Any]]:
    """Launch three replicas, main1 on n1, sub1 on n2, sub2 on n3, and give the session's record."""
    try:
        launch(REQUEST).ok()
        yield record("trio")
    finally:
        teardown("trio").ok()


def lines_of(run: Run) -> list[str]:
    """Return what audit or repair said, without what a session's files are called."""
    tasks = ("Report what was restored", "Report the differences")
    lines = [line for task in tasks for result in run.of(task) for line in result["values"].get("msg") or []]
    return [re.sub(rf"{STATE}/sessions/[-0-9a-f]+/", "", line) for line in lines]


def invariants() -> dict[str, Any]:
    """Return all that has to be the same after a repair: who runs where with which address, keys and variables."""
    found = {}
    for name, replica in replicas("trio").items():
        network = replica.networks
        addresses = sorted(endpoint["IPAddress"] for key, endpoint in network.items() if not key.endswith("egress"))
        found[name] = {
            "running": replica.inspected["State"]["Running"],
            "host": replica.host,
            "addresses": addresses,
            "mac": replica.run("cat", "/sys/class/net/eth1/address").strip(),
            "environment": replica.environment(),
            "hosts": replica.run("cat", "/etc/hosts"),
        }
    return found


def reach_all() -> None:
    """Log in from every replica to every other."""
    found = replicas("trio")
    for replica in found.values():
        for name in found:
            assert replica.run("ssh", name, "hostname").strip() == name


LINK = "$(ls /sys/class/net | grep ^ccx)"
DAMAGE: dict[str, tuple[str, list[str]]] = {
    "n1": ("docker kill trio-main1", ["restart container trio-main1"]),
    "n2": (
        f"ip link delete {LINK}",
        ["create link", "update peers of link", "connect container trio-sub1 to network"],
    ),
    "n3": ("docker rm -f trio-sub2", ["create container trio-sub2"]),
}


GHOST = "cluster-compute 00000000-0000-4000-8000-000000000000 ghost"
RULE = f"-m comment --comment '{GHOST} 0123456789ab' -j"
LABELS = (
    "--label cluster-compute.session-id=00000000-0000-4000-8000-000000000000 --label cluster-compute.session-name=ghost"
)
LEAKS = {
    "n1": f"ip link add ccxghost type bridge; ip link set dev ccxghost alias '{GHOST}'",
    "n2": f"docker network create --internal {LABELS} cc-ghost",
    "n3": f"iptables -N cc-00000000; iptables -A cc-00000000 {RULE} DROP; "
    f"iptables -I DOCKER-USER -s 192.0.2.9 {RULE} cc-00000000",
}
"""Parts of a session that no record explains. `untouched_lab` sees that they are gone."""


def test_repair_puts_back_exactly_what_is_missing(trio: dict[str, Any]) -> None:
    """It leaves alone what nobody owns, which gc removes."""
    before = invariants()
    for host, (command, _wanted) in DAMAGE.items():
        script(host, command)
        script(host, LEAKS[host])
    broken = snapshot()
    audit = play("audit", {}, "--check")
    assert audit.code != 0
    for host in HOSTS:
        assert f"{host}: leak: session ghost" in audit.failures
    assert differences(broken, snapshot()) == []
    run = play("repair", {}).ok()
    done = [line for line in lines_of(run) if ": damaged: " not in line and ": leak: " not in line]
    expected = [(host, text) for host, (_command, wanted) in DAMAGE.items() for text in wanted]
    assert len(done) == len(expected), done
    for host, text in expected:
        assert [line for line in done if line.startswith(f"{host}: ") and text in line], (host, text, done)
    assert set(done) <= set(lines_of(audit))
    assert try_on("n1", ["ip", "link", "show", "ccxghost"]).returncode == 0
    assert play("gc", {}).ok().changed_hosts == set(HOSTS)
    for host in HOSTS:
        assert "ghost" not in script(host, "ip link; docker network ls; iptables-save")
    assert invariants() == before
    assert record("trio") == trio
    reach_all()
    assert play("audit", {}, "--check").ok().changed_hosts == set()


def test_a_host_that_lost_its_state_gets_it_back_from_the_others(trio: dict[str, Any]) -> None:
    before = invariants()
    script("n3", f"mkdir /root/kept; mv {STATE}/.reserve {STATE}/identity.json /root/kept; rm -r {STATE}")
    broken = snapshot()
    assert len(lines_of(play("audit", {}).ok())) > 4
    assert differences(broken, snapshot()) == []
    lines = lines_of(play("repair", {}).ok())
    for text in ("record trio", "create key sub2/id_ed25519", "commit reservation", "restart container trio-sub2"):
        assert [line for line in lines if line.startswith("n3: ") and text in line], (text, lines)
    assert invariants() == before
    assert record("trio") == trio
    reach_all()
    assert launch(REQUEST).ok().changed_hosts == set()
    script("n3", f"mv /root/kept/* /root/kept/.reserve {STATE}; rmdir /root/kept")  # as the preparation makes them
