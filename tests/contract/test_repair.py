# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Damage of every kind to a session on one host: exactly it is told in check mode, and exactly it is put back."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import (
    firewall,
    link,
    ssh_keys,
    ssh_server,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.environment import SSH_PORT
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.isolation import STANDING
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.places import (
    RUNTIME_ON_HOST,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import firewall_rules
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    BUSYBOX,
    HERE,
    Call,
    Host,
    Session,
    rules,
)

EATS = ["sh", "-c", "until [ -e /tmp/eat ]; do sleep 0.1; done; rm /tmp/eat; exec tail /dev/zero"]
"""A program that takes all memory it may have, once it is told to."""
SSH_FILES = ("known_hosts", "authorized_keys")


@pytest.fixture(scope="module")
def trio(shared_host: Host) -> Session:
    """Launch a session with main1 and sub1 on this host and sub2 on another one, which nobody needs."""
    session = shared_host.launch(name="trio", others=1, size=3, max_replicas_per_host=2, command=EATS)
    assert [replica["host"] for replica in session.plan["replicas"]] == [HERE, HERE, "there1"]
    return session


def invariants(session: Session) -> dict[str, Any]:
    """Return all that has to be the same after a repair: what runs with which addresses, variables and names."""
    found: dict[str, Any] = {}
    for name, container in session.containers().items():
        addresses = {
            key.replace(session.id[:8], ""): network["IPAddress"]
            for key, network in container["NetworkSettings"]["Networks"].items()
            if not key.endswith("egress")
        }
        other = "sub1" if name == "main1" else "main1"
        look = f"cat /sys/class/net/eth1/address /proc/1/environ /etc/hosts; ssh {other} hostname"
        found[name] = [container["State"]["Running"], addresses, session.run_in(name, "sh", "-c", look)]
    found["peers"] = link.read_peers(session.plan["network"]["link"])
    found["rules"] = rules()
    return found


@pytest.fixture(scope="module")
def whole(trio: Session) -> dict[str, Any]:
    """Return what was there before the first damage, as it has to be after each repair."""
    return invariants(trio)


def shell(text: str, session: Session) -> None:
    """Run a script that knows what the session's things are called."""
    variables = {
        "LINK": session.plan["network"]["link"],
        "NETWORK": session.plan["network"]["name"],
        "STATE": str(session.owner.state.root),
        "SESSION": str(session.files.path),
        "BUSYBOX": BUSYBOX,
    }
    done = subprocess.run(
        ["sh", "-eu", "-c", text], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def plain(actions: list[str], session: Session) -> list[str]:
    """Return actions without what differs from session to session."""
    text = "\n".join(actions)
    for name, value in (
        ("SESSION/", f"{session.files.path}/"),
        ("STATE/", f"{session.owner.state.root}/"),
        ("LINK", session.plan["network"]["link"]),
        ("NETWORK", session.plan["network"]["name"]),
    ):
        text = text.replace(value, name)
    return text.splitlines()


ENDED = "timeout 15 sh -c 'while docker ps --format {{.Names}} | grep -qx trio-NAME; do sleep 0.05; done'"
"""Waits until the engine's list shows what its answer said before: that a container does not run."""

DAMAGE: dict[str, tuple[str, list[str]]] = {
    "killed": (f"docker kill trio-main1; {ENDED.replace('NAME', 'main1')}", ["restart container trio-main1"]),
    "killed because it ran out of memory": (
        "docker exec trio-sub1 touch /tmp/eat; docker wait trio-sub1 >/dev/null; "
        "docker inspect -f '{{.State.OOMKilled}}' trio-sub1 | grep -x true; "
        f"{ENDED.replace('NAME', 'sub1')}",
        ["restart container trio-sub1"],
    ),
    "container removed": ("docker rm -f trio-sub1", ["create container trio-sub1"]),
    "replaced by a foreign container": (
        "docker rm -f trio-sub1; docker run -d --name trio-sub1 $BUSYBOX sleep 8888",
        ["rename foreign container trio-sub1", "create container trio-sub1"],
    ),
    "link deleted": (
        "ip link delete $LINK",
        [
            "create link LINK",
            "update peers of link LINK",
            "connect container trio-main1 to network NETWORK",
            "connect container trio-sub1 to network NETWORK",
        ],
    ),
    "forwarding entry deleted": (
        "bridge fdb del $(bridge fdb show dev $LINK | grep -v '^00:00' | head -n 1 | cut -d ' ' -f 1) dev $LINK",
        ["update peers of link LINK"],
    ),
    "neighbour deleted": (
        "ip neigh del $(ip neigh show dev $LINK nud permanent | head -n 1 | cut -d ' ' -f 1) dev $LINK",
        ["update peers of link LINK"],
    ),
    "network deleted": (
        "for name in main1 sub1; do docker network disconnect -f $NETWORK trio-$name; done; docker network rm $NETWORK",
        [
            "create network NETWORK",
            "connect container trio-main1 to network NETWORK",
            "connect container trio-sub1 to network NETWORK",
        ],
    ),
    "file deleted": (
        "rm $SESSION/replicas/main1/environment",
        ["create file SESSION/replicas/main1/environment"],
    ),
    "file changed": ("echo 8.8.8.8 main1 >>$SESSION/replicas/sub1.hosts", ["update file SESSION/replicas/sub1.hosts"]),
    "ledger truncated": (
        "truncate -s 10 $STATE/ledger.json",
        ["set aside damaged file STATE/ledger.json", "commit reservation trio"],
    ),
    "record truncated": (
        "truncate -s 100 $SESSION/record.json",
        ["set aside damaged file SESSION/record.json", "create record trio"],
    ),
    "record and ledger deleted": (
        "rm $SESSION/record.json $STATE/ledger.json",
        ["create record trio", "commit reservation trio"],
    ),
}


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(name, marks=[pytest.mark.every_engine] if "container" in " ".join(wanted) else [])
        for name, (_command, wanted) in DAMAGE.items()
    ],
)
def test_repair_puts_back_exactly_what_is_missing(
    damage: str, trio: Session, whole: dict[str, Any], engine: Engine
) -> None:
    command, wanted = DAMAGE[damage]
    shell(command, trio)
    assert plain(trio.repair(check_mode=True)["actions"], trio) == wanted
    done = trio.repair()
    assert plain(done["actions"], trio) == wanted
    assert list(done["sessions"]) == [trio.id]
    for entry in engine.containers():
        if "set-aside" in entry.name:  # engine 28 has rules for each container
            engine.remove_container(entry.id)
    assert invariants(trio) == whole
    assert trio.files.read_record() == trio.record
    assert trio.repair()["actions"] == []
    shutil.rmtree(trio.owner.state.root / "damaged", ignore_errors=True)


def test_a_server_that_has_ended_is_started(trio: Session, whole: dict[str, Any]) -> None:
    pid = trio.containers()["sub1"]["State"]["Pid"]
    ssh_server.end(
        pid, next(replica["address"] for replica in trio.plan["replicas"] if replica["name"] == "sub1"), SSH_PORT
    )
    assert trio.repair(check_mode=True)["actions"] == ["start SSH server trio-sub1"]
    assert trio.repair()["actions"] == ["start SSH server trio-sub1"]
    assert invariants(trio) == whole
    assert trio.repair()["actions"] == []


def test_a_server_that_is_newer_than_its_key_is_not_asked_for_it(
    trio: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A handshake takes a host longer than all else that it looks at of a replica that runs."""
    asked = tmp_path / "asked"  # a file, as the repair of a session is a process of its own

    def host_key(pid: int, *_place: object) -> None:
        with asked.open("a", encoding="ascii") as file:
            file.write(f"{pid}\n")

    monkeypatch.setattr(ssh_server, "host_key", host_key)
    assert trio.repair(check_mode=True)["actions"] == []
    assert not asked.exists()
    os.utime(trio.files.replica("sub1") / "ssh" / ssh_keys.HOST_KEY)
    assert trio.repair(check_mode=True)["actions"] == []
    assert asked.read_text(encoding="ascii").split() == [str(trio.containers()["sub1"]["State"]["Pid"])]


@pytest.mark.every_engine
def test_rules_that_are_gone_are_written(trio: Session) -> None:
    before = rules()
    firewall.remove(trio.id)
    assert rules() != before
    assert trio.repair(check_mode=True)["actions"] == ["create firewall rules trio"]
    assert trio.repair()["actions"] == ["create firewall rules trio"]
    assert rules() == before


def own_rules() -> list[str]:
    """Return the rules of sessions, and of the preparation."""
    return [rule for rule in rules() if "cluster-compute" in rule]


@pytest.mark.every_engine
@pytest.mark.parametrize(
    "command",
    [
        "iptables-save | grep -v cluster-compute | iptables-restore",  # as a file that was saved before the session
        "printf '*filter\\nCOMMIT\\n*nat\\nCOMMIT\\n' | iptables-restore",  # as nft flush ruleset
    ],
    ids=["replaced", "flushed"],
)
def test_rules_that_another_firewall_has_removed_are_written(trio: Session, command: str) -> None:
    """Those of the engine are its own: it writes them when it is started."""
    saved = subprocess.run(["iptables-save"], check=True, capture_output=True, text=True).stdout
    before, own = rules(), own_rules()
    assert own
    try:
        shell(command, trio)
        assert own_rules() == []
        assert trio.repair(check_mode=True)["actions"] == trio.repair()["actions"] != []
        assert own_rules() == own
        assert trio.repair()["actions"] == []
    finally:
        subprocess.run(["iptables-restore"], input=saved, text=True, check=True)
    assert rules() == before


def test_docker_prune_takes_nothing_of_a_session(trio: Session, whole: dict[str, Any]) -> None:
    shell("docker system prune --force --volumes; docker network prune --force", trio)
    assert trio.repair()["actions"] == []
    assert invariants(trio) == whole


@pytest.mark.every_engine
def test_containers_are_kept_out_of_all_sessions_from_the_preparation_on(trio: Session, keep_out: Call) -> None:
    before, call = rules(), trio.call

    def overlays() -> Any:
        return call("host_info")["host"]["overlays"]

    try:
        assert overlays() is None
        wanted = ["create firewall rules standing", f"create file {firewall_rules.OVERLAYS}"]
        assert keep_out(check_mode=True)["actions"] == wanted
        assert rules() == before
        made = keep_out()
        assert (made["actions"], made["overlays"]) == (wanted, overlays())
        assert [made["overlays"][key] for key in ("port", "first", "last")] == [4789, 4096, 2**24 - 1]
        assert not keep_out()["changed"]
        prepared = rules()
        assert call("host_info")["host"]["objects"].keys() == {trio.id}, "no session owns the rules"
        firewall.remove(STANDING[0])
        assert (rules(), overlays()) == (before, None)
        for check_mode in (True, False):
            assert trio.repair(check_mode=check_mode)["actions"] == ["create firewall rules standing"]
        assert (rules(), overlays()) == (prepared, made["overlays"])
        wanted = ["update firewall rules standing", f"update file {firewall_rules.OVERLAYS}"]
        assert keep_out(vni_pool="5000-5999")["actions"] == wanted
        assert (overlays()["first"], overlays()["last"]) == (5000, 5999)
    finally:
        keep_out(state="absent")
    assert (rules(), overlays()) == (before, None)
    assert not keep_out(state="absent")["changed"]


def test_a_host_key_that_is_gone_is_made_and_told(trio: Session, whole: dict[str, Any]) -> None:
    for path in (trio.files.replica("sub1") / "ssh").glob("ssh_host_ed25519_key*"):
        path.unlink()
    dry_run = plain(trio.repair(check_mode=True)["actions"], trio)
    done = plain(trio.repair()["actions"], trio)
    assert done == [
        "create key sub1/ssh_host_ed25519_key",
        "update file SESSION/replicas/main1/ssh/known_hosts",
        "update file SESSION/replicas/sub1/ssh/known_hosts",
        "update file SESSION/public_keys.json",
        # Before OpenSSH 9.8 a server reads its key for each login.
        *(["restart SSH server trio-sub1"] if Path(f"{RUNTIME_ON_HOST}/libexec/sshd-session").exists() else []),
    ]
    assert done == dry_run
    assert invariants(trio) == whole
    assert trio.repair()["actions"] == []


def test_replicas_are_told_of_a_new_key_on_another_host(trio: Session, tmp_path: Path) -> None:
    old = trio.public_keys["sub2"]
    made, _names = ssh_keys.converge_keys(tmp_path / "new", False, False)
    trio.public_keys["sub2"] = made
    wanted = [f"update file SESSION/replicas/{name}/ssh/{file}" for name in ("main1", "sub1") for file in SSH_FILES]
    assert plain(trio.repair()["actions"], trio) == [*wanted, "update file SESSION/public_keys.json"]
    assert str(made["host"]) in trio.run_in("main1", "cat", "/etc/cluster-compute/ssh/known_hosts")
    assert trio.repair()["actions"] == []
    trio.public_keys["sub2"] = old
    assert plain(trio.repair()["actions"], trio) == [*wanted, "update file SESSION/public_keys.json"]


def test_a_host_that_lost_its_state_gets_it_back_from_the_others(trio: Session, whole: dict[str, Any]) -> None:
    shutil.rmtree(trio.owner.state.root / "sessions")
    (trio.owner.state.root / "ledger.json").unlink()
    others = {trio.id: {"sub2": trio.public_keys["sub2"]}}
    given: dict[str, Any] = {"records": {trio.id: trio.record}, "public_keys": others}
    dry_run = trio.repair(check_mode=True, **given)["actions"]
    done = trio.repair(**given)["actions"]
    for text in ("create record trio", "create key sub1/id_ed25519", "commit reservation trio"):
        assert text in done
        assert text in dry_run
    assert "restart container trio-sub1" in done
    assert invariants(trio) == whole
    assert trio.files.read_record() == trio.record
    assert trio.repair()["actions"] == []


def test_a_host_that_the_inventory_calls_otherwise_is_what_its_session_calls_it(
    trio: Session, whole: dict[str, Any]
) -> None:
    names: dict[str, Any] = {"host": "node1", "known_as": {trio.id: HERE}}
    assert trio.repair(**names)["actions"] == []
    shell("docker rm -f trio-sub1", trio)
    assert trio.repair(**names)["actions"] == ["create container trio-sub1"]
    trio.files.host_file.unlink()
    assert trio.call("host_info")["host"]["host_names"] == {trio.id: HERE}, "its keys tell the name as well"
    assert len(trio.repair(**names)["actions"]) == 1
    assert trio.files.read_host() == HERE
    assert invariants(trio) == whole
