# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Damage of every kind to a running session: audit tells exactly it, repair puts exactly it back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.integration_lab.driver import (
    BUSYBOX,
    DEMO,
    HOSTS,
    STATE,
    Run,
    Snapshot,
    differences,
    launch,
    on,
    play,
    record,
    replicas,
    script,
    snapshot,
    teardown,
    try_on,
)

REQUEST: dict[str, Any] = {
    "session_name": "trio",
    "session_size": 3,
    "session_max_replicas_per_host": 1,
    "session_image": DEMO,
    "session_cpus": "0.5",
    "session_memory": "64m",
    "session_command": ["sh", "-c", "until [ -e /tmp/eat ]; do sleep 0.2; done; rm /tmp/eat; exec tail /dev/zero"],
}


@pytest.fixture(scope="module")
def trio(untouched_lab: Snapshot) -> Iterator[dict[str, Any]]:
    """Launch three replicas, main1 on n1, sub1 on n2, sub2 on n3, and give the session's record."""
    try:
        launch(REQUEST).ok()
        yield record("trio")
    finally:
        teardown("trio").ok()


def told(run: Run) -> list[str]:
    """Return what audit or repair said, without what a session's files are called."""
    lines = [line for one in run.results if "Say what" in one["task"] for line in one["values"].get("msg") or []]
    return [re.sub(rf"{STATE}/sessions/[-0-9a-f]+/", "", line) for line in lines]


def whole() -> dict[str, Any]:
    """Return all that has to be the same after a repair: who runs where with which address, keys and variables."""
    found = {}
    for name, replica in replicas("trio").items():
        network = replica.networks
        addresses = sorted(one["IPAddress"] for key, one in network.items() if not key.endswith("egress"))
        found[name] = {
            "running": replica.about["State"]["Running"],
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
ENTRY = f"bridge fdb show dev {LINK} | grep -v '^00:00' | head -n 1 | cut -d ' ' -f 1"
NETWORK = "$(docker network ls --format '{{.Name}}' | grep -E '^cc-[0-9a-f]{8}$')"
TOLD = ["update file replicas/{}/ssh/{}", "update file public_keys.json"]
"""What every other host has to be told of a new key."""
Damage = dict[str, tuple[str, list[str]]]
DAMAGE: dict[str, Damage] = {
    "killed, link deleted, removed": {
        "n1": ("docker kill trio-main1", ["restart container trio-main1"]),
        "n2": (
            f"ip link delete {LINK}",
            ["create link", "update peers of link", "connect container trio-sub1 to network"],
        ),
        "n3": ("docker rm -f trio-sub2", ["create container trio-sub2"]),
    },
    "file, forwarding entry, network deleted": {
        "n1": (
            f"rm {STATE}/sessions/*/replicas/main1/environment",
            ["create file replicas/main1/environment"],
        ),
        "n2": (f"bridge fdb del $({ENTRY}) dev {LINK}", ["update peers of link"]),
        "n3": (
            f"name={NETWORK}; docker network disconnect -f $name trio-sub2; docker network rm $name",
            ["create network", "connect container trio-sub2 to network"],
        ),
    },
    "ledger truncated, killed for want of memory, replaced by a foreign container": {
        "n1": (
            f"truncate -s 10 {STATE}/ledger.json",
            [f"set aside damaged file {STATE}/ledger.json", "commit reservation trio"],
        ),
        "n2": (
            "docker exec trio-sub1 touch /tmp/eat; docker wait trio-sub1 >/dev/null; "
            "docker inspect -f '{{.State.OOMKilled}}' trio-sub1 | grep -x true",
            ["restart container trio-sub1"],
        ),
        "n3": (
            f"docker rm -f trio-sub2; docker run -d --name trio-sub2 {BUSYBOX} sleep 8888",
            ["rename foreign container trio-sub2", "create container trio-sub2"],
        ),
    },
    "host key deleted": {
        "n3": (
            f"rm {STATE}/sessions/*/replicas/sub2/ssh/ssh_host_ed25519_key*",
            [
                "create key sub2/ssh_host_ed25519_key",
                "update file replicas/sub2/ssh/known_hosts",
                "update owner of key replicas/sub2/ssh/ssh_host_ed25519_key",
                "update file public_keys.json",
                "restart SSH server trio-sub2",
            ],
        ),
        "n1": ("true", [one.format("main1", "known_hosts") for one in TOLD]),
        "n2": ("true", [one.format("sub1", "known_hosts") for one in TOLD]),
    },
    "record truncated": {
        "n2": (
            f"truncate -s 100 {STATE}/sessions/*/record.json",
            ["set aside damaged file record.json", "create record trio"],
        ),
    },
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_repair_puts_back_exactly_what_is_missing(damage: str, trio: dict[str, Any]) -> None:
    before = whole()
    calm_hosts = [host for host in HOSTS if host not in DAMAGE[damage]]
    calm = snapshot(calm_hosts) if calm_hosts else {}
    for host, (command, _wanted) in DAMAGE[damage].items():
        script(host, command)
    broken = snapshot()
    audit = play("audit", {}, "--check")
    assert audit.code != 0
    assert differences(broken, snapshot()) == []
    run = play("repair", {}).ok()
    done = [line for line in told(run) if ": damaged: " not in line]
    expected = [(host, text) for host, (_command, wanted) in DAMAGE[damage].items() for text in wanted]
    assert len(done) == len(expected), done
    for host, text in expected:
        assert [line for line in done if line.startswith(f"{host}: ") and text in line], (host, text, done)
    foretold = [line for line in told(audit) if ": damaged: " not in line]
    if "record" not in damage:
        assert {line for line in done if "owner of key" not in line} <= set(foretold)
    if calm_hosts:
        assert differences(calm, snapshot(calm_hosts)) == []
    assert whole() == before
    assert record("trio") == trio
    reach_all()
    assert play("audit", {}, "--check").ok().changed_hosts == set()
    for host in HOSTS:
        script(host, f"docker rm -f $(docker ps -aq -f name=set-aside) 2>/dev/null || true; rm -rf {STATE}/damaged")


def test_a_host_that_lost_its_state_gets_it_back_from_the_others(trio: dict[str, Any]) -> None:
    before = whole()
    script("n3", f"rm -r {STATE}")
    broken = snapshot()
    assert len(told(play("audit", {}).ok())) > 4
    assert differences(broken, snapshot()) == []
    lines = told(play("repair", {}).ok())
    for text in ("record trio", "create key sub2/id_ed25519", "commit reservation", "restart container trio-sub2"):
        assert [line for line in lines if line.startswith("n3: ") and text in line], (text, lines)
    assert whole() == before
    assert record("trio") == trio
    reach_all()
    assert told(play("repair", {}).ok()) == ["Nothing was missing."]
    assert launch(REQUEST).ok().changed_hosts == set()


def test_a_damaged_file_is_kept_aside_and_a_launch_refuses_it_by_name(trio: dict[str, Any]) -> None:
    path = on("n2", "sh", "-c", f"echo {STATE}/sessions/*/record.json").strip()
    script("n2", f'echo \'{{"schema": 1, "plan": "hostile"}}\' >{path}; cp {STATE}/ledger.json /tmp/ledger')
    try:
        run = launch(REQUEST)
        assert run.code != 0
        assert path in run.failures
        script("n2", f"echo nonsense >{STATE}/ledger.json")
        run = launch({**REQUEST, "session_name": "other"})
        assert run.code != 0
        assert f"{STATE}/ledger.json is damaged" in run.failures
        script("n2", f'sed \'s/"schema":1/"schema":9/\' /tmp/ledger >{STATE}/ledger.json')
        run = play("repair", {})
        assert run.code != 0
        assert "schema 9" in run.failures
        assert '"schema":9' in on("n2", "cat", f"{STATE}/ledger.json")
        script("n2", f"echo nonsense >{STATE}/ledger.json")
        play("repair", {}).ok()
        aside = on("n2", "sh", "-c", f"cat {STATE}/damaged/*")
        assert "hostile" in aside
        assert "nonsense" in aside
        assert record("trio") == trio
    finally:
        script("n2", f"rm -rf {STATE}/damaged /tmp/ledger")
        play("repair", {}).ok()


def test_a_session_whose_only_host_lost_its_state_is_made_anew_from_labels(untouched_lab: Snapshot) -> None:
    alone = {
        **REQUEST,
        "session_name": "alone",
        "session_size": 2,
        "session_max_replicas_per_host": "",
        "session_hosts": "n2",
    }
    try:
        launch(alone).ok()
        before = record("alone")
        script("n2", f"rm -r {STATE}/sessions/{before['id']} {STATE}/ledger.json")
        play("repair", {}).ok()
        assert record("alone") == before
        assert launch(alone).ok().changed_hosts == set()
        assert replicas("alone")["main1"].run("ssh", "sub1", "hostname").strip() == "sub1"
    finally:
        teardown("alone").ok()


def test_leaks_are_found_and_removed(untouched_lab: Snapshot) -> None:
    alias = "cluster-compute 00000000-0000-4000-8000-000000000000 ghost"
    before = snapshot()
    script("n1", f"ip link add ccxghost type bridge; ip link set dev ccxghost alias '{alias}'")
    labels = "--label cluster-compute.session-id=00000000-0000-4000-8000-000000000000"
    comment = "cluster-compute 00000000-0000-4000-8000-000000000000 ghost 0123456789ab"
    rule = f"-m comment --comment '{comment}' -j"
    script(
        "n3",
        f"iptables -N cc-00000000; iptables -A cc-00000000 {rule} DROP; "
        f"iptables -I DOCKER-USER -s 192.0.2.9 {rule} cc-00000000",
    )
    script("n2", f"docker network create --internal {labels} --label cluster-compute.session-name=ghost cc-ghost")
    audit = play("audit", {}, "--check")
    assert audit.code != 0
    assert "n1: leak: session ghost" in audit.failures
    assert "n2: leak: session ghost" in audit.failures
    assert "n3: leak: session ghost" in audit.failures
    play("repair", {}).ok()
    assert try_on("n1", ["ip", "link", "show", "ccxghost"]).returncode == 0
    run = play("gc", {}).ok()
    assert run.changed_hosts == set(HOSTS)
    assert differences(before, snapshot()) == []
    assert play("gc", {}).ok().changed_hosts == set()


FAILING = {
    **REQUEST,
    "session_name": "brittle",
    "session_image": BUSYBOX,
    "session_command": ["sh", "-c", "until [ -e /tmp/fail ]; do sleep 0.2; done; exit 7"],
}


def fail(host: str, replica: str) -> None:
    """Make a replica's first process end with exit code 7."""
    script(host, f"docker exec brittle-{replica} touch /tmp/fail; docker wait brittle-{replica}")


def untimed() -> Snapshot:
    """Take a snapshot without the times at which files were written: the ledger holds another session as well."""
    taken = snapshot()
    for kinds in taken.values():
        kinds["state"] = {path: [*about[:3], about[4]] for path, about in kinds["state"].items()}
    return taken


@pytest.mark.parametrize("verb", ["repair", "schedule_pending"])
def test_strict_ends_the_session_with_the_first_failure(verb: str, trio: dict[str, Any]) -> None:
    before = untimed()
    try:
        launch({**FAILING, "session_failure_policy": "strict"}).ok()
        fail("n2", "sub1")
        fail("n3", "sub2")
        run = play(verb, {}).ok()
        assert replicas("brittle") == {}
        found = script("n1", f"grep -l brittle {STATE}/sessions/*/record.json | xargs cat")
        assert '"status":"ERROR"' in found
        assert "Replica sub1 on n2 ended with exit code 7." in found
        if verb == "repair":
            assert any("sub1 on n2 ended with exit code 7" in line for line in told(run))
        run = launch({**FAILING, "session_failure_policy": "strict"}).ok()
        assert len(run.table) == 3
    finally:
        teardown("brittle").ok()
    assert differences(before, untimed()) == []


def test_keep_goes_on_while_main1_lives(trio: dict[str, Any]) -> None:
    try:
        launch({**FAILING, "session_failure_policy": "keep"}).ok()
        fail("n2", "sub1")
        play("repair", {}).ok()
        assert {name: one.about["State"]["Running"] for name, one in replicas("brittle").items()} == {
            "main1": True,
            "sub1": False,
            "sub2": True,
        }
        fail("n1", "main1")
        play("repair", {}).ok()
        assert replicas("brittle") == {}
    finally:
        teardown("brittle").ok()


def test_restart_is_bounded(trio: dict[str, Any]) -> None:
    try:
        launch({**FAILING, "session_failure_policy": "restart", "session_restart_limit": 1}).ok()
        # What goes down with its engine has not failed, and does not count.
        on("n2", "service", "docker", "restart")
        play("repair", {}).ok()
        fail("n2", "sub1")
        run = play("repair", {}).ok()
        assert [line for line in told(run) if "restart container brittle-sub1" in line]
        # The file that makes it fail is still in the container.
        script("n2", "docker wait brittle-sub1")
        run = play("repair", {}).ok()
        assert any("after 1 restart." in line for line in told(run)), told(run)
        assert replicas("brittle") == {}
    finally:
        teardown("brittle").ok()
