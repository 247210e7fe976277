# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a removal takes away, and what it leaves, whatever is left of a session on this host."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Engine,
    NetworkKept,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import stub_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    HERE,
    Call,
    Host,
    output_of,
    things,
    until,
)


@pytest.mark.every_engine
def test_everything_goes_and_no_other_session(host: Host, engine: Engine) -> None:
    before = things(engine)
    other = host.launch(name="other", size=1)
    session = host.launch(size=2, others=1, max_replicas_per_host=1)
    link, network, egress = (
        session.plan["network"]["link"],
        session.plan["network"]["name"],
        session.plan["egress"]["name"],
    )
    wanted = [
        "remove container demo-main1",
        *sorted([f"remove network {network}", f"remove network {egress}"]),
        f"remove link {link}",
        "remove firewall rules demo",
        f"remove state {session.files.path}",
        "release reservation demo",
    ]
    for check_mode in (True, False):
        found = session.call("session_host", check_mode, state="absent", session_name="demo")
        actions = found["actions"]
        assert [actions[0], *sorted(actions[1:3]), *actions[3:]] == wanted
        whose = {"owner": "somebody", "shared_with": []}
        assert found["sessions"] == [{"id": session.id, "name": "demo", "hosts": [HERE, "there1"], **whose}]
    assert other.bring("started")["actions"] == []
    other.remove()
    assert things(engine) == before


@pytest.mark.every_engine
def test_a_network_that_the_engine_keeps_keeps_nothing_else(
    host: Host, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine whose count of containers on it is wrong, which nobody can bring about at will, until its restart."""

    def refuse(_engine: Engine, _name: str) -> None:
        raise NetworkKept("The network stays.")

    session = host.launch(size=2, others=1, max_replicas_per_host=1)
    network = session.plan["network"]["name"]
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "remove_network", refuse)
        found = session.call("session_host", state="absent", session_name="demo")
        assert "release reservation demo" in found["actions"]
        assert set(found["warnings"]) == {"The network stays. The session's place is free."}
        assert len(found["warnings"]) == 2
        assert session.id not in host.ledger.read()
        assert not session.files.path.exists()
        again = session.call("session_host", state="absent", session_name="demo")
        assert (again["changed"], again["actions"]) == (False, [])
    assert f"remove network {network}" in session.call("session_host", state="absent", session_name="demo")["actions"]


def things_at_rest(engine: Engine) -> dict[str, Any]:
    """Return what is on this host when its containers have started whole: their init forks before it runs a program."""
    before: dict[str, Any] = {}
    while before != (found := things(engine)):
        before = found
        time.sleep(0.3)
    return found


@pytest.mark.parametrize("lost", ["nothing", "state"])
def test_nothing_of_a_session_goes_for_others(lost: str, host: Host, engine: Engine) -> None:
    session = host.launch(size=1)
    if lost == "state":
        shutil.rmtree(session.files.path)  # the label of its network says whose it is
    before = things_at_rest(engine)
    for check_mode in (True, False):
        with pytest.raises(SessionError, match=r"It belongs to somebody\. You are eve\."):
            session.call("session_host", check_mode, state="absent", session_name="demo", asker="eve")
    with pytest.raises(SessionError, match=r"It belongs to somebody\. You are eve\."):
        session.call("replica_exec", session_name="demo", replica="main1", command=["true"], user="", asker="eve")
    assert things(engine) == before
    assert not host.ledger.was_removed("demo", session.id, 0.0, None)
    assert session.call("session_host", state="absent", session_name="demo", asker="somebody")["changed"]
    assert host.ledger.was_removed("demo", session.id, 0.0, None)


def test_what_nobody_knows_the_owner_of_goes_for_admins_only(host: Host) -> None:
    session = host.launch(size=1)
    shutil.rmtree(session.files.path)
    network = session.plan["egress"]["name"]
    output_of("docker", "network", "disconnect", "--force", network, "demo-main1")
    output_of("docker", "network", "rm", network)
    with pytest.raises(SessionError, match=r"Nobody knows any more whose it is\."):
        session.call("session_host", state="absent", session_name="demo", asker="somebody")
    assert (
        session.call("session_host", state="absent", session_name="demo")["actions"][0] == "remove container demo-main1"
    )


@pytest.mark.every_engine
@pytest.mark.parametrize("lost", ["state", "containers", "networks", "link", "rules and ledger"])
def test_what_is_left_of_a_session_goes(lost: str, host: Host, engine: Engine) -> None:
    before = things(engine)
    session = host.launch(size=2, others=1, max_replicas_per_host=1)
    if lost == "state":
        shutil.rmtree(host.state.root / "sessions")
        host.ledger.path.unlink()
    else:
        output_of("docker", "rm", "-f", "demo-main1")
    if lost == "networks":
        output_of("docker", "network", "rm", session.plan["network"]["name"], session.plan["egress"]["name"])
    if lost == "link":
        output_of("ip", "link", "delete", session.plan["network"]["link"])
    if lost == "rules and ledger":
        host.ledger.path.write_text("nonsense", encoding="utf-8")
    found = host.call("session_host", state="absent", session_name="demo")
    assert [session["id"] for session in found["sessions"]] == [session.id]
    assert things(engine) == before
    assert host.call("session_host", state="absent", session_name="demo")["actions"] == []


def test_only_the_session_of_the_id_goes(host: Host) -> None:
    session = host.launch(size=1)
    found = host.call("session_host", state="absent", session_name="demo", session_id=host.plan(name="x").id)
    assert (found["sessions"], found["actions"]) == ([], [])
    assert session.containers()


def test_a_teardown_by_name_leaves_what_another_group_has(host: Host, engine: Engine) -> None:
    before = things(engine)
    session = host.launch(size=2, others=1, max_replicas_per_host=1)
    theirs = replace(stub_of(session.record), id=host.plan(name="x").id, resource_group="pool_b", hosts=("there1",))
    host.call("session_record", records=[theirs])
    scope = {"group": "cluster_compute_hosts", "elsewhere": ["there2"]}
    outside = {"group": "cluster_compute_hosts", "elsewhere": ["there1"]}
    # It has a replica on a host outside the group: nothing of it is touched.
    kept = host.call("session_host", state="absent", session_name="demo", scope=outside)
    assert ([found["id"] for found in kept["elsewhere"]], kept["actions"]) == (sorted([session.id, theirs.id]), [])
    assert session.containers()
    found = host.call("session_host", state="absent", session_name="demo", scope=scope)
    assert [known["id"] for known in found["sessions"]] == [session.id]
    assert [(other["id"], other["resource_group"]) for other in found["elsewhere"]] == [(theirs.id, "pool_b")]
    assert session.containers() == {}
    assert host.state.session(theirs.id).read_record() == theirs
    # Its own rules keep the containers of this host out of it on.
    host.call("session_host", state="absent", session_name="demo", session_id=theirs.id)
    assert things(engine) == before


@pytest.mark.parametrize("lost", ["state", "record", "key"])
def test_what_a_host_has_lost_the_record_of_is_judged_by_its_proven_label(
    lost: str, host: Host, engine: Engine
) -> None:
    session = host.launch(size=2, others=1, max_replicas_per_host=1)
    key = host.state.make_label_key()
    if lost == "record":
        session.files.record_file.write_text("nonsense", encoding="utf-8")
    else:
        shutil.rmtree(host.state.root / "sessions")
        host.ledger.path.unlink()
    before = things_at_rest(engine)
    own, other, beside = (
        {"group": group, "elsewhere": elsewhere}
        for group, elsewhere in (("cluster_compute_hosts", []), ("pool_b", []), ("cluster_compute_hosts", ["there1"]))
    )
    scopes = [other, beside]
    if lost == "key":
        host.state.label_key_file.unlink()
        scopes.append(own)
    for scope in scopes:
        found = host.call("session_host", state="absent", session_name="demo", scope=scope)
        assert (found["actions"], found["sessions"]) == ([], [])
        (left,) = found["elsewhere"]
        assert (left["id"], left["name"]) == (session.id, "demo")
        proven = {"resource_group": "cluster_compute_hosts", "hosts": [HERE, "there1"], "status": "RUNNING"}
        unknown = {"resource_group": "", "hosts": [], "status": ""}
        assert left.items() >= (unknown if lost == "key" else proven).items()
        assert things_at_rest(engine) == before
    if lost == "key":
        host.state.label_key_file.write_text(key.hex(), encoding="ascii")
    found = host.call("session_host", state="absent", session_name="demo", scope=own)
    assert ([known["id"] for known in found["sessions"]], found["elsewhere"]) == ([session.id], [])
    assert session.containers() == {}


def test_what_nobody_knows_the_group_of_goes_by_its_id(host: Host) -> None:
    session = host.launch(size=1)
    shutil.rmtree(session.files.path)
    host.state.label_key_file.unlink()
    scope = {"group": "cluster_compute_hosts", "elsewhere": []}
    found = host.call("session_host", state="absent", session_name="demo", session_id=session.id, scope=scope)
    assert ([known["id"] for known in found["sessions"]], found["elsewhere"]) == ([session.id], [])
    assert session.containers() == {}


def test_what_is_launched_or_changed_meanwhile_stays(host: Host) -> None:
    session = host.held(size=1)
    assert session.remove(unless_reserved=True)["actions"] == []
    session.bring("started")
    # What runs is nobody's launch any more; it is the revision that tells that it was changed.
    revision = session.record.revision
    assert session.remove(unless_reserved=True, judged_revision=revision)["actions"] == []
    assert session.containers()
    assert session.remove(unless_reserved=True, judged_revision=revision + 1)["actions"] != []
    assert session.containers() == {}


def test_a_record_stays_where_it_is_to_be_kept(host: Host) -> None:
    session = host.launch(size=1)
    session.remove(keep_record=True)
    assert session.files.read_record() == session.record
    assert [path.name for path in session.files.path.iterdir()] == ["record.json"]
    assert host.ledger.read() == {}
    stub = stub_of(session.record)
    session.files.write_record(stub)
    assert session.remove(keep_record=True)["actions"] == []
    assert session.files.read_record() == stub
    assert session.remove()["actions"] == [f"remove state {session.files.path}"]


def test_a_repair_that_looked_before_replicas_left_starts_none_of_them(host: Host) -> None:
    session = host.launch(size=1)
    looked = time.clock_gettime(time.CLOCK_BOOTTIME)
    session.remove(keep_record=True)
    assert session.repair(looked=looked)["actions"] == []
    assert session.containers() == {}
    session.repair(looked=time.clock_gettime(time.CLOCK_BOOTTIME))
    assert session.containers(), "its record says that it has its part here"


def test_tombstones_are_told_and_forgotten(host: Host, call: Call) -> None:
    session = host.launch(size=1)
    stone = {"id": session.id, "name": "demo", "hosts": ["away"]}
    for check_mode in (True, False):
        assert call("session_record", check_mode, tombstones=[stone])["actions"] == ["set tombstone demo"]
    assert call("session_record", tombstones=[stone])["actions"] == []
    found = session.call("session_host", state="absent", session_name="demo")["tombstones"]
    assert [(known["id"], known["name"], known["hosts"]) for known in found] == [(session.id, "demo", ["away"])]
    assert call("session_record", tombstones=[{**stone, "hosts": ["too"]}])["actions"] == ["set tombstone demo"]
    assert [tombstone["hosts"] for tombstone in call("host_info")["host"]["tombstones"]] == [["away", "too"]]
    for check_mode in (True, False):
        assert call("session_record", check_mode, forget=[session.id])["actions"] == ["remove tombstone demo"]
    assert call("session_record", forget=[session.id])["actions"] == []


@pytest.mark.every_engine
def test_a_program_that_asks_to_be_left_alone_is_stopped_all_the_same(host: Host) -> None:
    program = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    session = host.launch(size=1, command=["sh", "-c", program])
    assert until(lambda: output_of("docker", "logs", "demo-main1") == "ready\n")
    session.remove()
    found = session.call("session_output", session_id=session.id)["sources"]
    assert [text for _time, _stream, text in found[0]["lines"]] == ["ready", "bye"]


# ---- data -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that sessions may mount."""
    path = Path("/srv/data")
    path.mkdir(parents=True)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def volume() -> Iterator[str]:
    """Return the name of a volume that a session may leave."""
    yield "contract-kept"
    output_of("docker", "volume", "rm", "-f", "contract-kept")


@pytest.mark.every_engine
def test_data_stays_and_mounts_go(host: Host, folder: Path, volume: str, engine: Engine) -> None:
    before = things(engine)["mounts"]
    mounts = [f"{folder}:/data", {"volume": volume, "target": "/volume"}]
    session = host.held(size=1, mounts=mounts)
    dry_run = session.bring("started", check_mode=True)["actions"]
    assert session.bring("started")["actions"] == dry_run
    assert session.bring("started")["actions"] == []
    session.run_in("main1", "sh", "-c", "echo of a session | tee /data/file >/volume/file")
    session.remove()
    assert (folder / "file").read_text(encoding="utf-8") == "of a session\n"
    assert things(engine)["mounts"] == before
    assert volume in things(engine)["volumes"]
    again = host.launch(name="again", size=1, mounts=mounts)
    assert again.run_in("main1", "cat", "/data/file", "/volume/file") == "of a session\n" * 2
    again.remove()


@pytest.mark.every_engine
def test_what_a_launch_made_of_data_goes_when_it_is_undone(host: Host, folder: Path, volume: str) -> None:
    made = folder / "new"
    session = host.plan(
        size=1,
        mounts=[
            {"source": str(made), "target": "/data", "owner": "7:8", "mode": "0750", "shared": False},
            {"volume": volume, "target": "/volume"},
        ],
    )
    for check_mode in (True, False):
        assert any(str(made) in action for action in session.bring("held", check_mode=check_mode)["actions"])
        assert made.exists() is not check_mode
    assert (made.stat().st_uid, made.stat().st_gid, made.stat().st_mode & 0o777) == (7, 8, 0o750)
    session.bring("started")
    session.remove(undo=True)
    assert not made.exists()
    assert volume not in output_of("docker", "volume", "ls", "-q")


@pytest.mark.every_engine
def test_data_that_was_written_stays_when_a_launch_is_undone(host: Host, folder: Path, volume: str) -> None:
    made = folder / "new"
    mounts = [
        {"source": str(made), "target": "/data", "owner": "0:0", "mode": "0750", "shared": False},
        {"volume": volume, "target": "/volume"},
    ]
    session = host.launch(size=1, mounts=mounts)
    session.run_in("main1", "sh", "-c", "echo kept | tee /data/file >/volume/file")
    session.remove(undo=True, keep_data=True)
    assert (made / "file").read_text(encoding="utf-8") == "kept\n"
    assert volume in output_of("docker", "volume", "ls", "-q")


@pytest.mark.every_engine
def test_a_session_finds_the_folder_that_it_was_given(host: Host, folder: Path, ledger: LedgerFile) -> None:
    session = host.launch(size=1, mounts=[f"{folder}:/data:local"])
    (folder / "file").write_text("here", encoding="utf-8")
    # Whoever moves another folder to the path does not get it into the session.
    folder.rename("/srv/moved")
    folder.mkdir()
    output_of("docker", "restart", "-t", "0", "demo-main1")
    assert session.run_in("main1", "cat", "/data/file") == "here"
    shutil.rmtree(folder)
    Path("/srv/moved").rename(folder)
    assert session.repair()["actions"] == []
