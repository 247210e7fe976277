# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host makes of sessions that lost their state or their place, failed by themselves, or left something."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import (
    RESERVE,
    RESERVE_SIZE,
    StateDirectory,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import GroupFacts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.answers import (
    FactsAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    Allocatable,
    Claim,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    RUNNING,
    Record,
    advance,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    HERE,
    Call,
    Host,
    Session,
    has_ended,
    output_of,
    until,
)

SESSION, OTHER = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa", "00000000-0e04-4a3c-9d2a-53a1f7b2c8aa"
FAILS = ["sh", "-c", "until [ -e /tmp/fail ]; do sleep 0.1; done; exit 7"]


def test_a_session_whose_only_host_lost_its_state_is_made_from_labels(host: Host, state: StateDirectory) -> None:
    session = host.launch(size=2)
    shutil.rmtree(session.files.path)
    (state.root / "ledger.json").unlink()
    session.repair(public_keys={})
    assert session.files.read_record() == session.record
    assert session.run_in("main1", "ssh", "sub1", "hostname").strip() == "sub1"
    assert session.repair(public_keys={})["actions"] == []


def test_a_key_that_is_made_again_belongs_to_the_user_of_the_image(host: Host, image_of_user: Any) -> None:
    session = host.launch(size=2, image=image_of_user("7:8"))
    folder = session.files.replica("sub1") / "ssh"
    (folder / "id_ed25519").unlink()
    assert f"update owner of key {folder}/id_ed25519" in session.repair(public_keys={})["actions"]
    assert ((folder / "id_ed25519").stat().st_uid, (folder / "id_ed25519").stat().st_gid) == (7, 8)
    assert session.run_in("sub1", "ssh", "main1", "hostname").strip() == "main1"
    assert session.repair(public_keys={})["actions"] == []


def test_a_session_that_was_torn_down_meanwhile_is_not_brought_back(host: Host) -> None:
    session = host.launch(size=1)
    session.remove()
    given: dict[str, Any] = {"records": {session.id: session.record}, "recorded": [session.id]}
    assert session.repair(**given)["actions"] == []
    assert session.containers() == {}


def test_a_damaged_file_is_refused_by_name_and_kept_aside(host: Host, call: Call, state: StateDirectory) -> None:
    session = host.launch(size=1)
    other = host.plan(name="other")
    path, book = session.files.record_file, state.root / "ledger.json"
    path.write_text('{"schema": 1, "plan": "hostile"}\n', encoding="utf-8")
    with pytest.raises(SessionError, match=f"{path} is damaged"):
        session.bring("started")
    whole_ledger = json.loads(book.read_text(encoding="utf-8"))
    book.write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(SessionError, match=f"{book} is damaged"):
        other.bring("held")
    assert f"{book} is damaged" in call("host_info")["host"]["problem"]
    facts = call("host_info", whole_records=True)["host"]
    assert facts["ledger_is_damaged"] is True
    assert [str(path) in facts["damaged"][0], str(book) in facts["damaged"][1]] == [True, True]
    newer = json.dumps({**whole_ledger, "schema": 9})
    book.write_text(newer, encoding="utf-8")
    with pytest.raises(SessionError, match="schema 9"):
        session.repair()
    assert book.read_text(encoding="utf-8") == newer
    book.write_text("nonsense\n", encoding="utf-8")
    session.repair()
    kept = "".join(file.read_text(encoding="utf-8") for file in (state.root / "damaged").iterdir())
    assert "hostile" in kept
    assert "nonsense" in kept
    assert session.files.read_record() == session.record


@pytest.mark.parametrize(
    ("request_", "reason"),
    [({"ports": "18080:80"}, "18080"), ({"cpus": "3"}, "CPUs")],
    ids=["what others have by name", "room"],
)
def test_a_place_that_was_lost_is_taken_again_only_where_it_is_free(
    request_: dict[str, Any],
    reason: str,
    host: Host,
    engine: Engine,
    state: StateDirectory,
) -> None:
    session = host.launch(size=1, **request_)
    for container in session.containers().values():
        engine.remove_container(container["Id"])
    (state.root / "ledger.json").unlink()
    other = host.plan(name="other", size=1, **request_)
    assert other.bring("held")["granted"]
    with pytest.raises(
        SessionError, match=f"The place of session demo on here was lost and is taken by now: .*{reason}"
    ):
        session.repair()
    assert session.containers() == {}
    other.bring("released")
    assert "create container demo-main1" in session.repair()["actions"]


# ---- policies -------------------------------------------------------------------------------------------------------


def fail(session: Session, replica: str) -> None:
    """Have a replica's program end with exit code 7."""
    session.run_in(replica, "touch", "/tmp/fail")
    output_of("docker", "wait", f"{session.name}-{replica}")
    assert until(lambda: has_ended(f"{session.name}-{replica}"))


def judged(session: Session) -> Record:
    """Return the record as it is to be by what this host says."""
    facts = session.call("host_info", whole_records=True)["host"]
    assert facts["usable"], facts["problem"]
    answers = read_answers(FactsAnswer, {HERE: {"host": facts}})
    return GroupFacts.read(answers, {HERE: {}}).cluster_state().records[session.id]


def test_strict_ends_the_session_with_the_first_failure(host: Host) -> None:
    session = host.launch(size=2, command=FAILS, failure_policy="strict")
    assert judged(session).status == RUNNING
    fail(session, "sub1")
    found = judged(session)
    assert found.status == ERROR
    assert "Replica sub1 on here ended with exit code 7." in found.report[0]
    assert session.repair()["actions"] == []


def test_keep_goes_on_while_main1_lives(host: Host) -> None:
    session = host.launch(size=2, command=FAILS, failure_policy="keep")
    fail(session, "sub1")
    assert judged(session).status == RUNNING
    assert session.repair()["actions"] == []
    assert session.containers()["main1"]["State"]["Running"] is True
    fail(session, "main1")
    assert judged(session).status == ERROR


def test_restart_is_bounded(host: Host) -> None:
    session = host.launch(size=2, command=FAILS, failure_policy="restart", restart_limit=1)
    fail(session, "sub1")
    assert judged(session).status == RUNNING
    assert session.repair()["actions"] == ["restart container demo-sub1"]
    # The file that makes it fail is still in the container.
    output_of("docker", "wait", "demo-sub1")
    assert until(lambda: has_ended("demo-sub1"))
    found = judged(session)
    assert found.status == ERROR
    assert "after 1 restart." in found.report[0]
    assert session.repair()["actions"] == []


def test_what_goes_down_with_its_engine_has_not_failed(host: Host) -> None:
    session = host.launch(size=2, command=FAILS, failure_policy="strict")
    output_of("service", "docker", "restart")
    deadline = time.monotonic() + 30
    while subprocess.run(["docker", "version"], capture_output=True, check=False).returncode:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert judged(session).status == RUNNING
    assert {"start container demo-main1", "start container demo-sub1"} <= set(session.repair()["actions"])
    assert session.run_in("main1", "ssh", "sub1", "hostname").strip() == "sub1"
    assert session.repair()["actions"] == []


# ---- leaks ----------------------------------------------------------------------------------------------------------

GHOST = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def ghost() -> Iterator[str]:
    """Leave a link, a network and rules of a session that no record explains."""
    alias = f"cluster-compute {GHOST} ghost"
    output_of("ip", "link", "add", "ccxghost", "type", "bridge")
    output_of("ip", "link", "set", "dev", "ccxghost", "alias", alias)
    labels = [f"--label=cluster-compute.session-id={GHOST}", "--label=cluster-compute.session-name=ghost"]
    output_of("docker", "network", "create", "--internal", *labels, "cc-ghost")
    comment = ["-m", "comment", "--comment", f"{alias} 0123456789ab", "-j"]
    output_of("iptables", "-N", "cc-00000000")
    output_of("iptables", "-A", "cc-00000000", *comment, "DROP")
    output_of("iptables", "-I", "DOCKER-USER", "-s", "192.0.2.9", *comment, "cc-00000000")
    yield GHOST
    for argv in (["ip", "link", "delete", "ccxghost"], ["docker", "network", "rm", "cc-ghost"]):
        subprocess.run(argv, capture_output=True, check=False)
    firewall.remove(GHOST)


def test_leaks_are_told_and_removed_only_by_name(ghost: str, call: Call) -> None:
    found = call("host_info", whole_records=True)["host"]["objects"]
    assert found[ghost] == {"name": "ghost", "kinds": ["network", "link", "rules"]}
    assert call("session_repair", host=HERE)["actions"] == []
    assert call("host_info", whole_records=True)["host"]["objects"] == found
    dry_run = call("session_host", True, state="absent", session_id=ghost)["actions"]
    assert dry_run == ["remove network cc-ghost", "remove link ccxghost", "remove firewall rules ghost"]
    assert call("session_host", state="absent", session_id=ghost)["actions"] == dry_run
    assert call("session_host", state="absent", session_id=ghost)["actions"] == []


def test_a_session_ends_on_a_full_disk_where_there_is_a_reserve_and_none_begins(tmp_path: Path) -> None:
    """A file system of its own, filled to its last byte."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", tmp_path], check=True)
    try:
        state, ledger = StateDirectory(str(tmp_path)), LedgerFile(str(tmp_path))
        record = new_record(SESSION, "alice", {"name": "train"})
        claim = Claim(SESSION, "train", replicas=1, cpus=1, memory=1)
        subprocess.run(["fallocate", "--posix", "--length", "1MiB", tmp_path / RESERVE], check=True)
        assert ledger.reserve(claim, [], Allocatable(2, 2), 600.0, "run").granted
        state.session(SESSION).write_record(record)
        with suppress(OSError), open(tmp_path / "full", "wb", buffering=0) as full:
            while full.write(bytes(4096)):
                pass
        with pytest.raises(OSError, match="No space left on device"):
            ledger.reserve(replace(claim, session_id=OTHER, session_name="other"), [], Allocatable(2, 2), 600.0, "run")
        assert (tmp_path / RESERVE).stat().st_size == RESERVE_SIZE, "what could be done elsewhere leaves it alone"
        later = advance(record, ERROR, "It failed.", report=("It failed.",))
        state.session(SESSION).write_record(later)
        assert state.session(SESSION).read_record() == later
        state.write_tombstone(OTHER, "other", [HERE])
        assert ledger.release(SESSION)
        state.remove_session(SESSION)
        (tmp_path / "full").unlink()
        state.write_tombstone(OTHER, "other", [HERE])
        assert (tmp_path / RESERVE).stat().st_blocks * 512 >= RESERVE_SIZE
    finally:
        subprocess.run(["umount", tmp_path], check=True)
