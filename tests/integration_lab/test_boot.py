# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that reboot and engines that restart bring their sessions back by themselves, as they were."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    CHECKOUT,
    DEMO,
    HOSTS,
    INVENTORY,
    STATE,
    Replica,
    Run,
    Snapshot,
    clear,
    differences,
    launch,
    on,
    play,
    record,
    recorded,
    replicas,
    script,
    snapshot,
    teardown,
    try_on,
)

LOG = "/var/log/cluster-compute.log"
SECONDS = 60.0
"""For how long to wait until a session is back: a host boots in less than a second, its engine takes a few."""
REQUEST: dict[str, Any] = {
    "session_name": "phoenix",
    "session_size": 3,
    "session_max_replicas_per_host": 1,
    "session_image": DEMO,
    "session_cpus": "0.5",
    "session_memory": "128m",
    "session_env": {"GREETING": "good morning"},
}
NAMES = ("main1", "sub1", "sub2")
HOMES = dict(zip(NAMES, HOSTS))


@pytest.fixture(scope="module")
def phoenix(untouched_lab: Snapshot) -> Iterator[dict[str, dict[str, Any]]]:
    """Launch three replicas, one on each host, and give what has to be the same for as long as the session lives."""
    try:
        assert launch(REQUEST).ok().placed == HOMES
        yield _lasting()
    finally:
        teardown("phoenix").ok()
        for host in HOSTS:
            on(host, "rm", "-f", LOG)


def _lasting() -> dict[str, dict[str, Any]]:
    """Return what of every replica has to survive, and of every host what belongs to the session's network."""
    found: dict[str, dict[str, Any]] = {name: _lasting_of(replica) for name, replica in replicas("phoenix").items()}
    taken = snapshot()
    for host in HOSTS:
        found[host] = {kind: taken[host][kind] for kind in ("forwarding", "neighbours")}
        found[host]["links"] = sorted(link for link in taken[host]["links"] if link[0].startswith("ccx"))
        # Without the time of writing; the ledger names the boot.
        found[host]["state"] = {
            path: [*entry[:3], entry[4]]
            for path, entry in taken[host]["state"].items()
            if not path.endswith("ledger.json")
        }
    found["record"] = record("phoenix")
    return found


def _assert_lasting(before: dict[str, dict[str, Any]]) -> None:
    after = _lasting()
    assert {key for key in before if after.get(key) != before[key]} == set(), [
        (key, kind, state[kind], after[key].get(kind))
        for key, state in before.items()
        for kind in state
        if state[kind] != after[key].get(kind)
    ]


def _lasting_of(replica: Replica) -> dict[str, Any]:
    interface = replica.run("ip", "-o", "link", "show", "dev", "eth1").split()
    keys = replica.run("sh", "-ec", "for key in /etc/cluster-compute/ssh/*key.pub; do ssh-keygen -l -f $key; done")
    return {
        "host": replica.host,
        "id": replica.inspected["Id"],
        "mac": interface[interface.index("link/ether") + 1],
        "addresses": replica.run("ip", "-o", "-4", "addr", "show", "dev", "eth1").split()[3],
        "environment": replica.environment(),
        "fingerprints": keys,
        "private keys": replica.run("sh", "-ec", "cat /etc/cluster-compute/ssh/*ed25519*[!b] | sha256sum", user="root"),
    }


def _await_replica(name: str) -> float:
    """Wait until a replica runs and answers the others, without any help; return how long it took."""
    began = time.monotonic()
    host, container = HOMES[name], f"phoenix-{name}"
    while True:
        done = try_on(host, ["docker", "exec", container, "true"])
        if done.returncode == 0:
            return time.monotonic() - began
        assert time.monotonic() - began < SECONDS, f"{done.stderr}\n{on(host, 'cat', LOG)}"
        time.sleep(0.2)


def _all_reach_all() -> None:
    """Every replica logs in to every replica by SSH; a server may need a moment after its replica's start."""
    found = replicas("phoenix")
    assert tuple(found) == NAMES
    for replica in found.values():
        for other in NAMES:
            deadline = time.monotonic() + 20
            while (login := replica.attempt("ssh", other, "hostname")).returncode != 0:
                assert time.monotonic() < deadline, f"{replica.name} to {other}: {login.stdout}{login.stderr}"
                time.sleep(0.2)
            assert login.stdout.strip() == other


def _power_cycle(*hosts: str) -> None:
    for playbook in ("lab_power_cut", "lab_boot"):
        play(playbook, {"lab_host": ":".join(hosts)}).ok()


def test_hosts_that_lost_power_bring_their_replicas_back(phoenix: dict[str, dict[str, Any]]) -> None:
    """One of each release, while the third host runs on."""
    _power_cycle("n1", "n3")
    for name in ("main1", "sub2"):
        _await_replica(name)
    _all_reach_all()
    _assert_lasting(phoenix)
    assert launch(REQUEST).ok().changed_hosts == set()


def test_all_hosts_at_once(phoenix: dict[str, dict[str, Any]]) -> None:
    # For two the second time: an engine remembers some things from one boot to the next.
    _power_cycle(*HOSTS)
    for name in NAMES:
        _await_replica(name)
    _all_reach_all()
    _assert_lasting(phoenix)


@pytest.mark.parametrize("name", ["sub1", "sub2"], ids=["n2", "n3"])
def test_an_engine_that_was_restarted(name: str, phoenix: dict[str, dict[str, Any]]) -> None:
    # With systemd the engine's start starts the program; this init does not know such a tie.
    script(HOMES[name], "service docker restart; service cluster-compute start")
    _await_replica(name)
    _all_reach_all()
    _assert_lasting(phoenix)


def test_the_program_has_nothing_to_do_and_says_nothing_on_a_host_that_is_intact(
    phoenix: dict[str, dict[str, Any]],
) -> None:
    for host in HOSTS:
        assert (
            script(host, "/usr/local/lib/cluster-compute/host.pyz; /usr/local/lib/cluster-compute/host.pyz --links")
            == ""
        )
    _assert_lasting(phoenix)


def test_it_waits_for_the_engine_and_puts_back_what_was_damaged(phoenix: dict[str, dict[str, Any]]) -> None:
    path = f"{STATE}/sessions/{phoenix['record']['id']}/replicas/sub1/environment"
    before = on("n2", "cat", path)
    script("n2", f"echo damage >>{path}; service docker stop")
    try:
        done = try_on("n2", ["timeout", "10", "/usr/local/lib/cluster-compute/host.pyz"])
        assert done.returncode == 124, done.stdout  # it waits for the engine
    finally:
        script("n2", "service docker start")
    on("n2", "/usr/local/lib/cluster-compute/host.pyz")
    assert on("n2", "cat", path) == before
    _await_replica("sub1")
    _all_reach_all()


def test_preparing_again_changes_nothing_and_the_unit_can_be_removed(phoenix: dict[str, dict[str, Any]]) -> None:
    before = snapshot()
    assert play("prepare_hosts").ok().changed_hosts == set()
    program = "/usr/local/lib/cluster-compute/host.pyz"
    files = f"ls -d {program} /etc/init.d/cluster-compute* /etc/rc?.d/S??cluster-compute* || true"
    assert all(program in script(host, files) and script(host, files).count("\n") > 3 for host in HOSTS)
    without = {"prepare_hosts_boot_unit": False, "prepare_hosts_disk_timer": False}
    limit = ("--limit", "n2")
    assert play("prepare_hosts", without, *limit, "--check").ok().changed_hosts == {"n2"}
    assert script("n2", files)
    try:
        assert play("prepare_hosts", without, *limit).ok().changed_hosts == {"n2"}
        assert script("n2", files) == ""
        assert play("prepare_hosts", without, *limit, "--check", "--diff").ok().changed_hosts == set()
    finally:
        assert play("prepare_hosts", {}, *limit).ok().changed_hosts == {"n2"}
    assert differences(before, snapshot()) == []


def test_hosts_go_to_the_next_release_and_back_under_a_session(
    phoenix: dict[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/upgrade.md says: another release prepares the hosts and launches again, then this one does.

    That one reads what the other wrote, also of a session that waits, is shown by tests/unit, host/test_upgrade.
    """
    collection = tmp_path / "ansible_collections/cluster_compute/session"
    for name in ("meta", "playbooks", "plugins", "roles", "galaxy.yml"):
        copy = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy
        copy(CHECKOUT / name, collection / name)
    with (collection / "plugins/module_utils/_internal/host/boot.py").open("a", encoding="utf-8") as file:
        file.write('\nRELEASE = "the next one"\n')

    def by_next(playbook: str, request: dict[str, Any] | None = None) -> Run:
        with monkeypatch.context() as patched:
            patched.setenv("ANSIBLE_COLLECTIONS_PATH", f"{tmp_path}{os.pathsep}{CHECKOUT / '.collections'}")
            given = ["-e", json.dumps(request or REQUEST)]
            return recorded(
                ["ansible-playbook", "-i", str(INVENTORY), f"cluster_compute.session.{playbook}", *given]
            ).ok()

    def started() -> dict[str, str]:
        return {name: each.inspected["State"]["StartedAt"] for name, each in replicas("guest").items()}

    guest = {**REQUEST, "session_name": "guest", "session_cpus": "0.1", "session_size": 2, "session_max_size": 4}

    # The archive is not packed.
    has_next = "grep -ac '^RELEASE = ' /usr/local/lib/cluster-compute/host.pyz || true"
    before = snapshot()
    assert by_next("prepare_hosts").changed_hosts == set(HOSTS)
    try:
        assert [script(host, has_next).strip() for host in HOSTS] == ["1"] * 3
        assert by_next("launch_cluster").changed_hosts == set()
        on("n2", "/usr/local/lib/cluster-compute/host.pyz")
        # What one release began goes on with the other, there and back.
        launch(guest).ok()
        began = started()
        by_next("launch_cluster", {**guest, "session_size": 3})
        assert {name: at for name, at in started().items() if name in began} == began
        assert by_next("repair").changed_hosts == set()
        launch({**guest, "session_size": 2}).ok()
        assert started() == began
        by_next("teardown_cluster", guest)
    finally:
        assert play("prepare_hosts").ok().changed_hosts == set(HOSTS)
        clear("guest")
    assert [script(host, has_next).strip() for host in HOSTS] == ["0"] * 3
    assert launch(REQUEST).ok().changed_hosts == set()
    assert differences(before, snapshot()) == []
    _all_reach_all()
    _assert_lasting(phoenix)


def test_a_timer_without_anything_to_run_it_is_refused_by_name() -> None:
    run = play("prepare_hosts", {"prepare_hosts_repair_timer": True}, "--limit", "n3")
    assert run.code != 0
    assert "prepare_hosts_repair_timer" in run.failures
    assert "package cron" in run.failures
    assert run.changed_hosts == set()
