# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host's part of a session on its way to run: held, started, verified, and what becomes of failures."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import firewall, selinux
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import RUNTIME as ENTRY
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_api import Api
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    CONFIRMED,
    LEASED,
    Allocatable,
    Claim,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode, encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PREPARING,
    RUNNING,
    is_stub,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.isolation import STANDING
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.places import (
    RUNTIME,
    RUNTIME_ON_HOST,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import image_notes
from ansible_collections.cluster_compute.session.tests.support.contract.modules import run
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    BUSYBOX,
    HERE,
    LEASE_OWNER,
    Call,
    Host,
    Session,
    output_of,
    things,
    until,
)


def files(host: Host) -> dict[str, bytes]:
    """Return every file of the state directory."""
    return {str(path): path.read_bytes() for path in host.state.root.rglob("*") if path.is_file()}


def test_a_session_begins_and_ends(host: Host, ledger: LedgerFile) -> None:
    session = host.launch(size=2)
    found = session.containers()
    assert {name: container["State"]["Status"] for name, container in found.items()} == {
        "main1": "running",
        "sub1": "running",
    }
    assert session.run_in("main1", "ssh", "sub1", "hostname").strip() == "sub1"
    assert ledger.read()[session.id].stage == COMMITTED
    assert session.files.read_record() == session.record
    assert session.bring("started")["actions"] == []
    assert session.repair()["actions"] == []
    dry_run = session.remove(check_mode=True)["actions"]
    assert session.remove()["actions"] == dry_run
    assert session.containers() == {}
    assert ledger.read() == {}
    assert session.remove()["changed"] is False


def test_check_mode_tells_all_that_is_done_and_does_nothing(host: Host, engine: Engine) -> None:
    session = host.plan(size=2, others=1, max_replicas_per_host=1)
    before = (things(engine), files(host))
    dry_held = session.bring("held", check_mode=True)
    assert dry_held["public_keys"] == {"main1": {"client": None, "host": None}}
    dry_started = session.bring("started", check_mode=True)
    assert session.bring("verified", check_mode=True)["replicas"] == []
    assert (things(engine), files(host)) == before
    held = session.bring("held")
    for key in ("granted", "changed", "actions"):
        assert held[key] == dry_held[key]
    begun = session.bring("started")
    assert begun["actions"] == dry_started["actions"]
    assert [re.sub("^([a-z]+ [A-Za-z]+).*", r"\1", action) for action in begun["actions"]] == [
        "create firewall",
        *["create file"] * (len(begun["actions"]) - 8),
        "create link",
        "update peers",
        "create network",
        "create network",
        "create container",
        "create record",
        "commit reservation",
    ]
    again = (session.bring("started"), session.bring("started", check_mode=True))
    assert [answer["actions"] for answer in again] == [[], []]


# ---- reservation ----------------------------------------------------------------------------------------------------


def test_a_reservation_goes_through_its_stages(host: Host, ledger: LedgerFile) -> None:
    session = host.plan(size=1)
    answer = session.bring("held")
    assert (answer["changed"], answer["granted"], answer["reasons"], answer["tentative"]) == (True, True, [], [])
    assert session.bring("held")["changed"] is False
    assert (ledger.read()[session.id].stage, ledger.read()[session.id].lease_owner) == (LEASED, LEASE_OWNER)
    assert session.bring("released", check_mode=True, lease_owner="another run")["changed"] is False
    assert session.bring("released", lease_owner="another run")["changed"] is False
    assert session.bring("released", check_mode=True)["changed"] is True
    assert session.bring("released")["changed"] is True
    assert ledger.read() == {}
    session.bring("held")
    session.bring("started")
    assert ledger.read()[session.id].stage == COMMITTED
    assert session.bring("released")["changed"] is False


def test_what_does_not_fit_is_refused_with_reasons(host: Host) -> None:
    first = host.plan(name="first", size=1, cpus="3", ports="18080:80")
    second = host.plan(name="second", size=1, cpus="3", ports="18080:80")
    assert first.bring("held")["granted"]
    for check_mode in (True, False):
        answer = second.bring("held", check_mode=check_mode)
        assert (answer["granted"], answer["changed"]) == (False, False)
        assert any("cpus" in reason.lower() for reason in answer["reasons"])
        assert any("18080" in reason for reason in answer["reasons"])
        assert answer["tentative"] == [first.id]
    first.bring("released")
    assert second.bring("held")["granted"]


def test_containers_that_the_ledger_does_not_know_count(host: Host, ledger: LedgerFile) -> None:
    first = host.launch(name="first", size=1, cpus="3")
    second = host.plan(name="second", size=1, cpus="1")
    ledger.path.unlink()
    answer = second.bring("held", claim={**second.claim, "cpus": 3000})
    assert answer["granted"] is False
    assert answer["tentative"] == []
    # A launch in check mode, which is to replace the session, is not in its own way.
    same = host.plan(name="first", size=1, cpus="3")
    assert same.bring("held", check_mode=True)["granted"]
    assert first.containers()


def test_a_lease_that_has_run_out_is_nobodys(host: Host, ledger: LedgerFile) -> None:
    session = host.plan(size=1)
    assert session.bring("held", lease_seconds=0)["granted"]
    assert ledger.read() == {}
    assert list(ledger.expired()) == [session.id]
    with pytest.raises(SessionError, match="reservation"):
        session.bring("started")
    assert session.remove()["actions"] != []


def test_only_who_holds_the_place_may_use_it(host: Host) -> None:
    session = host.held(size=1)
    with pytest.raises(SessionError, match="has run out"):
        session.bring("started", lease_owner="another run")
    assert session.containers() == {}


def test_a_session_whose_lease_is_given_back_while_it_is_started_does_not_say_that_it_runs(
    host: Host, ledger: LedgerFile
) -> None:
    session = host.held(size=2)

    def give_back() -> None:
        assert until(lambda: ledger.read()[session.id].stage == CONFIRMED)
        assert ledger.release(session.id, LEASE_OWNER)

    with ThreadPoolExecutor() as pool:
        taken = pool.submit(give_back)
        with pytest.raises(SessionError, match="has run out"):
            session.bring("started")
        taken.result()
    record = session.files.read_record()
    assert record is not None
    assert (record.status, session.containers()) == (PREPARING, {})


# ---- held -----------------------------------------------------------------------------------------------------------


def test_keys_are_made_once_or_all_at_once_when_asked(host: Host) -> None:
    session = host.plan(size=2)
    made = session.bring("held")
    assert made["actions"] == [f"create key {replica}/{key}" for replica in ("main1", "sub1") for key in KEYS]
    assert session.bring("held")["actions"] == []
    dry_run = session.bring("held", check_mode=True, regenerate_keys=True)
    assert dry_run["actions"] == made["actions"]
    session.public_keys = dict(made["public_keys"])
    renewed = session.bring("held", regenerate_keys=True)
    assert renewed["actions"] == made["actions"]
    assert not {json.dumps(key) for key in made["public_keys"].values()} & {
        json.dumps(key) for key in renewed["public_keys"].values()
    }
    assert session.bring("held")["actions"] == []
    for path in session.files.path.rglob("*_ed25519*"):
        assert path.stat().st_mode & 0o777 == (0o644 if path.suffix == ".pub" else 0o600)


KEYS = ("id_ed25519", "ssh_host_ed25519_key")


def stub(session: Session, check_mode: bool = False) -> list[str]:
    """Keep a stub record of a session here and return what was done."""
    given = {"state": "stub", "record": session.record, "lease_owner": LEASE_OWNER}
    return list(session.call("session_host", check_mode, **given)["actions"])


def test_a_host_without_replicas_keeps_a_stub(host: Host) -> None:
    session = host.plan(size=1)
    for check_mode in (True, False):
        assert stub(session, check_mode) == ["create record demo"]
    record = session.files.read_record()
    assert record is not None
    assert is_stub(record)
    assert record.status == RUNNING
    assert stub(session) == []


def test_its_containers_are_kept_out_of_the_overlay_once_for_all_or_session_by_session(
    host: Host, keep_out: Call
) -> None:
    session = host.plan(size=2, others=1, max_replicas_per_host=1)
    assert stub(session) == ["create record demo", "create firewall rules demo"]
    session.remove()
    keep_out(vni_pool="1-4095")
    assert stub(session) == ["create record demo", "create firewall rules demo"]
    session.remove()
    keep_out()
    assert stub(session) == ["create record demo"]
    firewall.remove(STANDING[0])
    assert stub(session, check_mode=True) == ["create firewall rules standing"]
    assert stub(session) == ["create firewall rules standing"]


def test_a_launch_puts_back_what_keeps_containers_out_of_all_overlays(host: Host, keep_out: Call) -> None:
    keep_out()
    session = host.held(size=1, ports="18080:80")
    firewall.remove(STANDING[0])
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 18080))
        taken.listen()
        with pytest.raises(SessionError, match="Could not create container demo-main1"):
            session.bring("started")
    assert STANDING[0] in firewall.owners(), "what is no part of the session is not undone with it"
    firewall.remove(STANDING[0])
    assert session.bring("started")["actions"][0] == "create firewall rules standing"
    assert session.bring("started")["actions"] == []


def test_of_two_sessions_of_one_name_a_host_knows_one(host: Host, ledger: LedgerFile) -> None:
    first, second = host.plan(size=1), host.plan(size=1)

    def hold_name(session: Session, lease_owner: str) -> dict[str, Any]:
        claim = encode(Claim(session.id, session.name))
        return session.call("session_host", state="named", claim=claim, lease_owner=lease_owner)

    assert hold_name(first, LEASE_OWNER)["granted"]
    assert hold_name(first, LEASE_OWNER)["granted"], "its own lease is no hindrance"
    refused = hold_name(second, "another run")
    assert (refused["granted"], refused["tentative"]) == (False, [first.id])
    assert refused["reasons"] == [f"The name demo is taken by session demo ({first.id})."]
    stub(first)
    assert ledger.read() == {}
    refused = hold_name(second, "another run")
    assert (refused["granted"], refused["tentative"]) == (False, [])
    assert refused["reasons"] == [f"The name demo is taken by session {first.id} of {first.record.owner}."]
    assert second.bring("held")["reasons"] == refused["reasons"]
    assert ledger.read() == {}
    assert second.files.read_record() is None


def test_a_session_that_was_torn_down_meanwhile_is_not_launched(host: Host, ledger: LedgerFile) -> None:
    session = host.plan(size=1)
    with pytest.raises(SessionError, match="was torn down while this launch was at work"):
        session.bring("held", recorded=[session.id])
    assert ledger.read() == {}
    assert session.files.read_record() is None


def test_a_session_that_was_changed_meanwhile_is_left_as_it_is(host: Host) -> None:
    session = host.launch(size=1)
    session.files.write_record(replace(session.record, revision=session.record.revision + 1))
    for state in ("held", "started"):
        with pytest.raises(SessionError, match="was changed while this launch was at work"):
            session.bring(state)
    assert session.containers()


# ---- started --------------------------------------------------------------------------------------------------------


def test_a_step_that_fails_undoes_all_that_the_call_made(host: Host, engine: Engine, ledger: LedgerFile) -> None:
    session = host.held(size=3, others=1, max_replicas_per_host=2, ports="18080:80")
    before = things(engine)
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 18080))
        taken.listen()
        with pytest.raises(SessionError, match=r"Could not create container demo-main1: .*18080"):
            session.bring("started")
    # What tells others that ask goes when the session is removed here.
    firewall.remove(session.id)
    assert things(engine) == before
    assert ledger.read()[session.id].stage == CONFIRMED
    record = session.files.read_record()
    assert record is not None
    assert record.status == PREPARING
    session.bring("started")
    assert set(session.containers()) == {"main1", "sub1"}


def test_a_session_that_runs_keeps_what_works_when_a_step_fails(host: Host) -> None:
    session = host.launch(size=2, ports="18080:80")
    output_of("docker", "rm", "-f", "demo-main1", "demo-sub1")
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 18080))
        taken.listen()
        with pytest.raises(SessionError, match="Could not create container demo-main1"):
            session.repair()
    assert set(session.containers()) == {"sub1"}
    assert session.repair()["actions"] == ["create container demo-main1"]


def test_an_image_that_is_not_there_any_more_is_told(host: Host, engine: Engine) -> None:
    session = host.held(size=1)
    session.plan["images"][BUSYBOX]["ids"][HERE] = "sha256:" + "0" * 64
    before = things(engine)
    with pytest.raises(SessionError, match=r"Could not create container demo-main1: here does not have the image \S+ "):
        session.bring("started")
    assert things(engine) == before


def test_a_repair_whose_image_was_pruned_says_how_it_comes_back(
    host: Host, image_of_user: Callable[[str], str]
) -> None:
    image = image_of_user("root")
    session = host.launch(size=2, image=image)
    output_of("docker", "rm", "-f", "demo-main1", "demo-sub1")
    output_of("docker", "rmi", "-f", image)
    why = rf"here does not have the image {image} \(sha256:\w+\) any more, .*Launch the session again, which brings it"
    with pytest.raises(SessionError, match=why):
        session.repair()


@pytest.fixture
def foreign(host: Host) -> Iterator[None]:
    """Give somebody else's container the name of a replica, and remove it."""
    yield
    output_of("docker", "rm", "-f", "demo-main1")


def test_a_foreign_container_is_refused_and_left_alone(host: Host, foreign: None, engine: Engine) -> None:
    session = host.held(size=1)
    output_of("docker", "run", "-d", "--name", "demo-main1", BUSYBOX, "sleep", "8888")
    before = things(engine)
    for check_mode in (True, False):
        with pytest.raises(SessionError, match="named demo-main1, which does not belong to any session and is not"):
            session.bring("started", check_mode=check_mode)
    assert things(engine) == before


def test_a_container_of_another_session_of_the_name_is_refused(host: Host, engine: Engine) -> None:
    host.launch(size=1)
    second = host.plan(size=1)
    # Its place is held although the other one is there, as where a ledger was lost.
    host.ledger.path.unlink()
    host.ledger.reserve(
        decode(Claim, second.claim, "It"), [], decode(Allocatable, second.allocatable, "It"), 60, LEASE_OWNER
    )
    second.bring("held")
    before = things(engine)
    with pytest.raises(SessionError, match="belongs to another session named 'demo'"):
        second.bring("started")
    assert things(engine) == before
    # In check mode the session that this one replaces is still there, and will not be.
    assert "create container demo-main1" in second.bring("started", check_mode=True)["actions"]


def test_a_foreign_link_is_refused_and_left_alone(host: Host, engine: Engine) -> None:
    session = host.held(size=2, others=1, max_replicas_per_host=1)
    name = session.plan["network"]["link"]
    for kind, reason in (
        (["bridge"], "exists and is not a VXLAN device"),
        (["vxlan", "id", "77", "dstport", "4799"], "that belongs to somebody else; it is not touched"),
    ):
        output_of("ip", "link", "add", name, "type", *kind)
        before = things(engine)
        with pytest.raises(SessionError, match=reason):
            session.bring("started")
        firewall.remove(session.id)  # what tells others that ask
        assert things(engine) == before
        output_of("ip", "link", "delete", name)


def test_half_a_launch_is_finished(host: Host) -> None:
    session = host.held(size=3, others=1, max_replicas_per_host=2)
    everything = session.bring("started")["actions"]
    # As a power cut between two steps leaves it.
    output_of("docker", "rm", "-f", "demo-sub1")
    session.files.write_record(session.record)
    assert session.bring("started")["actions"] == ["create container demo-sub1", "create record demo"]
    assert set(everything) > {"create container demo-sub1", "create record demo"}


def test_containers_of_another_plan_are_refused_and_surplus_ones_removed(host: Host) -> None:
    session = host.launch(size=2)
    other = copy.deepcopy(session.record)
    other.plan["replicas"][0]["resources"]["memory"] *= 2
    reason = "demo-main1 on here differs from the plan that is recorded, in memory: 32MiB, planned 64MiB. Launch with"
    with pytest.raises(SessionError, match=reason):
        session.bring("started", record=other)
    less = copy.deepcopy(session.record)
    del less.plan["replicas"][1]
    assert "remove container demo-sub1" in session.bring("started", record=less)["actions"]
    assert set(session.containers()) == {"main1"}


def test_what_was_changed_by_hand_is_changed_back(host: Host) -> None:
    session = host.launch(size=2, others=1, max_replicas_per_host=1)
    link, network, egress = (
        session.plan["network"]["link"],
        session.plan["network"]["name"],
        session.plan["egress"]["name"],
    )
    output_of("docker", "network", "disconnect", egress, "demo-main1")
    output_of("ip", "link", "set", "dev", link, "mtu", "1200")
    assert session.bring("started")["actions"] == [
        f"replace link {link}",
        f"update peers of link {link}",
        f"connect container demo-main1 to network {egress}",
        f"connect container demo-main1 to network {network}",
    ]
    assert session.bring("started")["actions"] == []


def test_nothing_starts_without_the_keys_of_every_replica(host: Host, engine: Engine) -> None:
    session = host.held(size=2)
    before = things(engine)
    with pytest.raises(SessionError, match="cannot be written without the public keys of every replica"):
        session.bring("started", public_keys={})
    assert things(engine) == before


def test_keys_belong_to_the_user_of_the_image(image_of_user: Any, host: Host) -> None:
    session = host.launch(size=2, image=image_of_user("7:8"))
    assert session.files.read_owner("sub1") == (7, 8)
    key = Path(session.files.replica("sub1")) / "ssh" / "id_ed25519"
    assert (key.stat().st_uid, key.stat().st_gid) == (7, 8)
    assert session.run_in("main1", "ssh", "sub1", "id", "-u").strip() == "7"


def test_containers_of_one_image_are_looked_into_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look into a container that does not run takes the engine long; each is given what all of them lack."""
    read_file, read = Engine.read_file, []

    def count(engine: Engine, container: str, path: str) -> str | None:
        read.append(path)
        return read_file(engine, container, path)

    monkeypatch.setattr(Engine, "read_file", count)
    session = host.launch(size=3)
    assert read == ["/etc/passwd", "/etc/shadow"]
    texts = {session.run_in(name, "cat", "/etc/passwd") for name in ("main1", "sub1", "sub2")}
    assert [text.count("\nsshd:") for text in texts] == [1]
    for name in ("main1", "sub1", "sub2"):
        assert session.run_in(name, "stat", "-c", "%a %u %F", "/run/sshd").strip() == "755 0 directory"


def test_a_user_that_the_image_does_not_know_is_told(image_of_user: Any, host: Host, engine: Engine) -> None:
    session = host.held(size=2, image=image_of_user("nosuch"))
    before = things(engine)
    with pytest.raises(SessionError, match="The image's user 'nosuch' is not in its /etc/passwd"):
        session.bring("started")
    assert things(engine) == before


# ---- roles that come after others -----------------------------------------------------------------------------------

SERVE = ["sh", "-c", "mkdir /tmp/www; echo hello > /tmp/www/x; sleep $1; eval exec httpd -f -h /tmp/www -p $0:7000"]


def served(host: Host, where: str, timeout: int = 20, seconds: int = 1) -> tuple[Session, Call]:
    """Plan a session whose main comes after a role that listens somewhere, some seconds after it was started."""
    db = {"name": "db", "replicas": 1, "ready_port": 7000, "command": [*SERVE, where, str(seconds)]}
    session = host.held(roles=[{"name": "main", "after": ["db"]}, db])
    return session, lambda **more: session.bring("started", roles=["db"], timeout=timeout, **more)


PLACES = {"db": "0.0.0.0", "six": "[::]", "own": "$(awk '/own1/ {print $1; exit}' /etc/hosts)"}
"""The address on which each role listens."""


def test_who_comes_first_is_ready_when_the_call_returns_and_the_session_does_not_run_yet(
    host: Host, ledger: LedgerFile
) -> None:
    first = [
        {"name": name, "replicas": 1, "ready_port": 7000, "command": [*SERVE, where, "1"]}
        for name, where in PLACES.items()
    ]
    session = host.held(roles=[{"name": "main", "after": list(PLACES)}, *first])

    def begin(**more: Any) -> dict[str, Any]:
        return session.bring("started", roles=list(PLACES), timeout=20, **more)

    answer = begin()
    names = sorted(f"{name}1" for name in PLACES)
    assert (sorted(answer["begun"]), sorted(session.containers())) == (names, names)
    assert {f"create container demo-{name}" for name in names} <= set(answer["actions"])
    assert not [action for action in answer["actions"] if "main1" in action and "container" in action]
    record = session.files.read_record()
    assert record is not None
    assert (record.status, ledger.read()[session.id].stage) == (PREPARING, CONFIRMED)
    again = begin(turns_seconds=3000)
    assert (sorted(again["begun"]), again["actions"]) == (names, [])
    expires = ledger.read()[session.id].expires
    assert expires is not None
    assert expires > time.clock_gettime(time.CLOCK_BOOTTIME) + 3000, "others have their turn before it is called again"
    rest = session.bring("started")
    assert rest["actions"] == ["create container demo-main1", "create record demo", "commit reservation demo"]
    assert sorted(replica["name"] for replica in rest["replicas"]) == sorted([*names, "main1"])
    for name in names:
        page = f"http://{address_of(session, name)}:7000/x"
        assert session.run_in("main1", "wget", "-q", "-O-", page).strip() == "hello"


def test_who_may_need_hosts_whose_turn_comes_later_is_not_waited_for_until_it_is_asked(host: Host) -> None:
    session, begin = served(host, "0.0.0.0", seconds=4)  # longer than a busy machine takes for the call
    answer = begin(patience=0)
    assert answer["unproven"] == "The replica db1 on here is not ready; others may have to start."
    assert ("begun" in answer, list(session.containers())) == (False, ["db1"])
    assert session.bring("verified", roles=["db"])["begun"] == ["db1"]
    assert begin(patience=0)["begun"] == ["db1"]
    assert session.bring("started", patience=0)["replicas"]


def test_a_service_that_only_its_own_replica_reaches_is_not_ready(host: Host) -> None:
    _session, begin = served(host, "127.0.0.1", timeout=4)
    why = r"db1 on here runs and does not listen on \S+ port 7000, .* It listens there on 127\.0\.0\.1 alone\."
    with pytest.raises(SessionError, match=why):
        begin()


def test_who_ends_before_it_is_ready_is_told_with_its_last_words(host: Host) -> None:
    db = {"name": "db", "replicas": 1, "ready_port": 7000, "command": ["sh", "-c", "echo no disk; sleep 1; exit 4"]}
    session = host.held(roles=[{"name": "main", "after": ["db"]}, db])
    with pytest.raises(SessionError, match=r"db1 on here is not running: .* exit code 4\.(.|\n)*no disk"):
        session.bring("started", roles=["db"])


def test_who_waits_is_told_of_a_teardown(host: Host) -> None:
    session, begin = served(host, "127.0.0.1", timeout=60)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(begin)
        assert until(lambda: "db1" in session.containers(), 10)
        session.call("session_host", state="absent", session_name="demo", lease_owner="another run")
        with pytest.raises(SessionError, match="Session demo was torn down while this launch was at work"):
            waiting.result()


NEVER_WELL = "HEALTHCHECK --interval=5m CMD false"


def test_a_health_check_that_nobody_asked_for_decides_nothing(host: Host, image_with: Callable[..., str]) -> None:
    ill = image_with("true", "HEALTHCHECK --interval=1s --retries=1 CMD false")
    session = host.launch(size=2, image=ill)
    health = "{{.State.Health.Status}}"
    assert until(lambda: output_of("docker", "inspect", "-f", health, "demo-main1").strip() == "unhealthy")
    assert session.bring("started", timeout=1)["actions"] == []
    session.remove()
    db = {"name": "db", "replicas": 1}
    session = host.held(image=ill, roles=[{"name": "main", "after": ["db"]}, {**db, "image": BUSYBOX}])
    assert session.bring("started", roles=["db"])["begun"] == ["db1"]
    assert session.bring("started", timeout=1)["replicas"], "nobody comes after main"


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (NEVER_WELL, "not known yet: it is tried for the first time after 300 s"),
        (
            "HEALTHCHECK --interval=1s --retries=1 CMD echo no database; false",
            "unhealthy: it was tried every 1 s and failed the last",
        ),
    ],
    ids=["not tried yet", "ill"],
)
def test_who_is_not_healthy_keeps_those_that_come_after(
    check: str, why: str, host: Host, image_with: Callable[..., str]
) -> None:
    db = {"name": "db", "replicas": 1, "image": image_with("true", check)}
    session = host.held(roles=[{"name": "main", "after": ["db"]}, db])
    expected = rf"db1 on here runs, and roles come after 'db', .* by the HEALTHCHECK of its image first; that is {why}"
    with pytest.raises(SessionError, match=expected) as raised:
        session.bring("started", roles=["db"], timeout=4)
    message = raised.value.args[0]
    assert message.endswith("raise launch_ready_timeout." if check == NEVER_WELL else "\n| no database")


INIT = """
cat >/init <<'END'
#!/bin/sh
[ $$ = 1 ] || { echo can only run as pid 1; exit 100; }
echo "$@" >/began
exec "$@"
END
chmod +x /init
"""
ENDS = ["sh", "-c", "trap exit TERM; while :; do sleep 0.2; done"]
"""A first process that ends when it is asked to, as no other does without a handler."""


@pytest.mark.every_engine
def test_an_image_s_own_init_is_the_first_process(host: Host, image_with: Callable[..., str]) -> None:
    image = image_with(INIT, 'ENTRYPOINT ["/init"]', 'CMD ["no", "such"]')
    session = host.held(size=2, image=image, command=ENDS)
    with pytest.raises(SessionError) as raised:
        session.bring("started")
    message = raised.value.args[0]
    assert "exit code 100. In front of its command ran Docker's init and the image's entrypoint '/init': " in message
    assert message.endswith("\n| can only run as pid 1")
    session.remove(undo=True)
    session = host.launch(size=2, image=image, command=ENDS, init=False)
    assert session.run_in("sub1", "cat", "/began").strip() == " ".join(ENDS)
    assert session.run_in("sub1", "cat", "/proc/1/cmdline").split("\0")[:-1] == ENDS
    assert session.run_in("main1", "ssh", "sub1", "hostname").strip() == "sub1"
    output_of("docker", "restart", "--time", "0", "demo-sub1")
    assert session.repair()["actions"] == ["start SSH server demo-sub1"]
    assert session.run_in("main1", "ssh", "sub1", "hostname").strip() == "sub1"
    session.remove()
    sub = {"name": "sub", "replicas": 1, "entrypoint": ["sh", "-c", "exec $0 7777"], "command": ["sleep"]}
    session = host.launch(image=image, roles=[{"name": "main", "command": ENDS, "init": False}, sub])
    assert session.run_in("main1", "cat", "/proc/1/cmdline").split("\0")[:-1] == ENDS
    assert "7777" in session.run_in("sub1", "ps")
    assert session.run_in("main1", "ssh", "sub1", "hostname").strip() == "sub1"


# ---- verified -------------------------------------------------------------------------------------------------------


def test_a_program_that_has_ended_is_told_with_its_last_words(host: Host) -> None:
    session = host.held(size=2, command=["sh", "-c", "echo last words; exit 3"])
    with pytest.raises(
        SessionError, match=r"main1 on here is not running: .* is exited, exit code 3\.(.|\n)*last word"
    ):
        session.bring("started")


def test_what_is_verified(host: Host) -> None:
    session = host.launch(size=2)
    found = session.bring("verified")["replicas"]
    assert [(replica["name"], replica["rank"], replica["host"], replica["status"]) for replica in found] == [
        ("main1", 0, HERE, "RUNNING"),
        ("sub1", 1, HERE, "RUNNING"),
    ]
    assert {replica["interface"] for replica in found} == {"eth1"}
    assert "pid" not in found[0]


def test_what_does_not_work_is_told(host: Host) -> None:
    """The newest damage is reported, although damage from before may still be there."""
    session = host.launch(size=2)
    pid = session.containers()["sub1"]["State"]["Pid"]
    network = f"nsenter -t {pid} -n ip"
    end = f"p=$(pgrep -P {pid} sshd || pgrep -P {pid} -f sshd); kill $p; while kill -0 $p; do sleep 0.05; done"
    for damage, reason, afterwards in (
        ("docker pause demo-sub1", "is not running: its container demo-sub1 is paused", "docker unpause demo-sub1"),
        (
            f"{network} link set dev eth1 name eth9",
            "is not as planned: interface eth9, planned eth1",
            f"{network} link set dev eth9 name eth1",
        ),
        (end, "The SSH server of the replica sub1 on here does not listen on", ""),
        (f"{network} addr flush dev eth1", "sub1 on here has no interface with its address", ""),
        ("docker kill demo-sub1", "sub1 on here is not running: .* is exited, exit code 137", ""),
        ("docker rm -f demo-sub1", "The container demo-sub1 on here does not exist: somebody has removed it.", ""),
    ):
        output_of("sh", "-euc", damage)
        with pytest.raises(SessionError, match=reason):
            session.bring("verified", timeout=1)
        output_of("sh", "-euc", afterwards)


@pytest.fixture
def image_of(host: Host) -> Iterator[Callable[..., str]]:
    """Return what makes an image from a container; what it made is removed after the test."""
    made: list[str] = []

    def make(container: str, *changes: str) -> str:
        made.append(f"cluster-compute/made{len(made)}:latest")
        output_of(
            "docker", "commit", *(word for change in changes for word in ("--change", change)), container, made[-1]
        )
        return made[-1]

    yield make
    host.clear()
    output_of("docker", "rmi", "-f", *made)


@pytest.fixture
def image_with(image_of: Callable[..., str]) -> Callable[..., str]:
    """Return what makes an image by a script."""

    def make(script: str, *changes: str) -> str:
        output_of("docker", "run", "--name", "for-the-image", "--network", "none", BUSYBOX, "sh", "-c", script)
        image = image_of("for-the-image", *changes)
        output_of("docker", "rm", "for-the-image")
        return image

    return make


def address_of(session: Session, replica: str) -> str:
    """Return a replica's address in the session."""
    (address,) = (entry["address"] for entry in session.plan["replicas"] if entry["name"] == replica)
    return str(address)


def port_22(session: Session, replica: str) -> str:
    """Return what answers on port 22 of a replica's address in the session; nothing where nobody does."""
    return session.run_in("main1", "sh", "-c", f"echo | timeout 5 nc {address_of(session, replica)} 22 || true")


def test_clients_that_know_no_etc_ssh_find_what_they_read(
    host: Host, image_of_user: Callable[[str], str], image_of: Callable[..., str]
) -> None:
    image = image_of_user("1000:1000")
    session = host.launch(size=2, image=image, env={"HOME": "/tmp"})
    found = session.run_in("sub1", "sh", "-c", "stat -c '%a %u %g %n' /tmp/.ssh /tmp/.ssh/*").splitlines()
    assert found == [
        "700 1000 1000 /tmp/.ssh",
        "600 1000 1000 /tmp/.ssh/config",
        "777 1000 1000 /tmp/.ssh/id_ed25519",
        "600 1000 1000 /tmp/.ssh/known_hosts",
    ]
    assert "PRIVATE KEY" in session.run_in("sub1", "cat", "/tmp/.ssh/id_ed25519")
    for name, of_session in (("config", "ssh_config"), ("known_hosts", "known_hosts")):
        first, text = session.run_in("main1", "cat", f"/tmp/.ssh/{name}").split("\n", 1)
        assert session.id in first
        assert text == session.run_in("main1", "cat", f"/etc/cluster-compute/ssh/{of_session}")
    assert port_22(session, "sub1").startswith("SSH-2.0-")

    session.run_in("sub1", "sh", "-c", "echo mine >/tmp/.ssh/known_hosts; rm /tmp/.ssh/id_ed25519")
    again = image_of("demo-sub1")
    session.remove()
    session = host.launch(size=2, image=again, env={"HOME": "/tmp"})
    assert session.id in session.run_in("main1", "cat", "/tmp/.ssh/config"), "one of another session is as none"
    assert session.run_in("main1", "cat", "/tmp/.ssh/known_hosts") == "mine\n"
    assert "PRIVATE KEY" in session.run_in("sub1", "cat", "/tmp/.ssh/id_ed25519")


def test_an_image_s_own_files_and_server_stay(host: Host, image_with: Callable[..., str]) -> None:
    script = "mkdir -p /.ssh /usr/sbin; echo mine | tee /.ssh/config /.ssh/known_hosts /.ssh/id_ed25519 /usr/sbin/sshd"
    image, exposed = image_with(script), image_with("true", "EXPOSE 22")
    session = host.launch(size=2, image=image)
    for name in ("config", "known_hosts", "id_ed25519"):
        assert session.run_in("sub1", "cat", f"/.ssh/{name}") == "mine\n"
    assert port_22(session, "sub1") == ""
    session.remove()
    assert port_22(host.launch(size=2, image=exposed), "sub1") == ""


@pytest.fixture
def shared(host: Host) -> Iterator[Path]:
    """Return a folder of the host that may be mounted."""
    folder = Path("/srv/for-the-links")
    folder.mkdir()
    yield folder
    host.clear()
    shutil.rmtree(folder)


def test_deepspeed_s_launcher_finds_all_replicas(
    host: Host,
    image_of_user: Callable[[str], str],
    image_of: Callable[..., str],
    image_with: Callable[..., str],
    shared: Path,
) -> None:
    listed = "main1 slots=1\nsub1 slots=1\n"
    session = host.launch(size=2, image=image_of_user("1000:1000"), cpus="1.5")
    assert session.run_in("sub1", "cat", "/job/hostfile") == listed
    again = image_of("demo-sub1")
    output_of("docker", "restart", "--time", "0", "demo-main1")
    session.bring("started")
    assert session.run_in("main1", "cat", "/job/hostfile") == listed
    session.remove()
    mounts = [{"source": str(shared), "target": "/job"}]
    session = host.launch(size=2, mounts=mounts)
    assert session.run_in("main1", "ls", "/job") == "", "what is mounted there is the user's"
    assert not any(shared.iterdir())
    session.remove()
    own = image_with("mkdir /job; echo mine >/job/hostfile", "USER 1000:1000")
    link = image_with("ln -s /data /job")
    session = host.launch(image=again, roles=[{"name": "main"}, {"name": "sub", "replicas": 1, "image": own}])
    assert session.run_in("main1", "cat", "/job/hostfile") == listed
    assert session.run_in("sub1", "cat", "/job/hostfile") == "mine\n"
    session.remove()
    host.launch(size=2, image=link, mounts=[{**mounts[0], "target": "/data"}])
    assert not any(shared.iterdir())


def test_on_a_host_with_selinux_replicas_may_read_their_own_files_and_shared_folders_stay_as_they_are(
    host: Host, shared: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such a kernel is not here; it has the labels that this one stores."""
    assert selinux.confines(lambda: ["name=selinux"]) is False
    monkeypatch.setattr(selinux, "ENABLED", tmp_path)
    assert selinux.confines(lambda: ["name=seccomp,profile=builtin"]) is False
    monkeypatch.setattr(selinux, "confines", lambda _options: True)
    (shared / "data").touch()
    session = host.launch(size=2, mounts=[{"source": str(shared), "target": "/data"}])
    own = [session.files.hosts_file("main1"), session.files.replica("main1")]
    for path in (*own, *own[1].rglob("*")):
        assert os.getxattr(path, selinux.ATTRIBUTE, follow_symlinks=False) == selinux.LABEL, path
    for path in (shared, shared / "data", session.files.replicas, host.state.root):
        assert selinux.ATTRIBUTE not in os.listxattr(path), path


@pytest.mark.every_engine
def test_nothing_is_written_where_an_image_s_links_lead_out_of_it(
    host: Host, image_with: Callable[..., str], shared: Path
) -> None:
    script = "ln -s /data /.ssh; rm -f /etc/passwd; ln -s /data/passwd /etc/passwd; ln -s /data/run /run"
    image = image_with(script)
    (shared / "passwd").write_text("root:x:0:0::/:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n")
    (shared / "run" / "sshd").mkdir(parents=True)
    before = (shared / "passwd").read_bytes()
    session = host.launch(size=2, image=image, mounts=[f"{shared}:/data"])
    assert sorted(path.name for path in shared.iterdir()) == ["passwd", "run"]
    assert (shared / "passwd").read_bytes() == before
    assert session.run_in("main1", "ls", "/.ssh").split() == ["passwd", "run"]


LINKED = """
mkdir -p /data/ssh /data/profile /data/opt /data/etc/usr /var; touch /data/resolv.conf
rm -rf /etc/ssh /etc/profile.d /opt /etc/resolv.conf /var/run
ln -s /data/ssh /etc/ssh; ln -s /data/profile /etc/profile.d; ln -s /data/opt /opt
ln -s /data/resolv.conf /etc/resolv.conf; ln -s /run /var/run
"""


@pytest.mark.every_engine
def test_absolute_links_on_the_way_to_mounts(
    host: Host, image_with: Callable[..., str], image_of: Callable[..., str], shared: Path
) -> None:
    """Docker Engine 28.5.2 reads and writes no file in a container that has a mount behind one."""
    image = image_with(LINKED)
    (shared / "here").touch()
    session = host.launch(size=2, image=image, mounts=[f"{shared}:/var/run/shared"])
    assert session.run_in("main1", "ssh", "sub1", "ls", "/run/shared").strip() == "here"
    assert session.run_in("main1", "ls", "/data/opt").strip() == "cluster-compute"
    output_of("docker", "kill", "demo-sub1")
    assert session.repair()["actions"] == ["restart container demo-sub1"]
    output_of("docker", "restart", "--time", "0", "demo-sub1")
    assert session.repair()["actions"] == ["start SSH server demo-sub1"]
    assert session.bring("verified")["replicas"]
    assert f"{address_of(session, 'sub1')}:22 " in session.run_in("sub1", "netstat", "-ltn")


def test_a_volume_of_the_image_does_not_take_the_place_of_a_mount(
    host: Host, image_with: Callable[..., str], shared: Path
) -> None:
    (shared / "here").touch()
    image = image_with("rm -rf /var/run; mkdir -p /run /var; ln -s ../run /var/run", "VOLUME /var/run/shared")
    session = host.launch(size=2, image=image, mounts=[f"{shared}:/var/run/shared"])
    assert session.run_in("main1", "ls", "/run/shared").strip() == "here"


def test_what_an_ended_run_examined_an_image_with_goes_with_the_session(host: Host, engine: Engine) -> None:
    session = host.launch(size=2)
    with suppress(ValueError), pytest.MonkeyPatch.context() as patched:
        patched.setattr(Engine, "remove_container", lambda *_given: None)
        with engine.image_files(f"cc-{session.id[:8]}-image-x", BUSYBOX, ()):
            raise ValueError
    assert set(session.containers()) == {"main1", "sub1"}
    assert f"remove container cc-{session.id[:8]}-image-x" in session.remove()["actions"]


def test_gc_removes_what_an_ended_run_examined_an_image_with(
    host: Host, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("cc-01234567-image-89abcdef", "cc-of-somebody-else")
    with suppress(ValueError), pytest.MonkeyPatch.context() as patched:
        patched.setattr(Engine, "remove_container", lambda *_given: None)
        with engine.image_files(names[0], BUSYBOX, ()), engine.image_files(names[1], BUSYBOX, ()):
            raise ValueError
    pruned = {"state": "pruned", "days": 1, "sessions": 9, "state_directory": str(host.state.root)}
    try:
        assert run("session_output", pruned, False)["leftovers"] == [], "somebody may be at work with it"
        monkeypatch.setattr(image_notes, "OLD", -60.0)
        for check_mode in (True, False):
            assert run("session_output", pruned, check_mode)["leftovers"] == [f"container {names[0]}"]
        assert set(engine.containers_named({*names})) == {names[1]}
    finally:
        for entry in engine.containers_named({*names}).values():
            engine.remove_container(entry.id)


def test_an_image_is_examined_without_its_volumes(engine: Engine, image_with: Callable[..., str]) -> None:
    """The engine would make them, and copy into them what the image has there."""
    image = image_with(
        "mkdir -p /data/in; echo here >/data/in/file; ln -s in /data/link", "VOLUME /data /data/in/ /new"
    )
    found = engine.inspect_image(image)
    volumes = found.volumes if found is not None else ()
    assert len(volumes) == 3
    before = output_of("docker", "volume", "ls", "-q")
    with engine.image_files("cc-examined", image, volumes) as container:
        assert output_of("docker", "volume", "ls", "-q") == before
        assert engine.read_file(container, "/data/in/file") == "here\n"
        assert engine.link_at(container, "/data/link") == "in"
        assert not engine.has_path(container, "/new/file")
    assert output_of("docker", "volume", "ls", "-q") == before


@pytest.mark.every_engine
def test_an_image_is_examined_once(
    host: Host, engine: Engine, image_with: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is counted are calls of the engine: each is the same on every machine."""
    asked: list[tuple[str, str]] = []
    ask = Api.ask

    def count(self: Api, method: str, path: str, *given: Any, **named: Any) -> Any:
        asked.append((method, path))
        return ask(self, method, path, *given, **named)

    monkeypatch.setattr(Api, "ask", count)

    def launch(image: str, **more: Any) -> tuple[int, int]:
        """Return how many containers were made to examine it, and how often files were looked for."""
        asked.clear()
        host.launch(size=2, image=image, **more).remove()
        made = [path for method, path in asked if path.startswith("/containers/create?name=cc-")]
        looks = [path for method, path in asked if method == "HEAD" and path.endswith("/archive")]
        return len(made), len(looks)

    image = image_with("true")
    (first, looks), (second, looks_again) = launch(image), launch(image)
    assert (first, second) == (1, 0)
    assert looks_again < looks
    notes = host.state.root / "images"
    found = engine.inspect_image(image)
    assert found is not None
    own = notes / f"{found.id.partition(':')[2]}.json"
    assert own.exists()
    own.write_text("[", encoding="utf-8")
    assert launch(image)[0] == 1, "what cannot be read counts as unknown"
    assert launch(image)[0] == 0
    output_of("docker", "rmi", image)
    assert launch(BUSYBOX)[0] == 1
    assert not own.exists(), "what is known of an image goes with it"
    (notes / own.name).touch()
    run("session_output", {"state": "pruned", "days": 1, "sessions": 9, "state_directory": str(host.state.root)}, False)
    assert not own.exists()
    assert launch(BUSYBOX)[0] == 0


def as_it_is(folder: Path) -> list[tuple[str, int, int, bytes]]:
    """Return name, mode, owner and content of all that is in a folder."""
    found = [(path, path.lstat()) for path in sorted(folder.rglob("*"))]
    return [(str(path), at.st_mode, at.st_uid, path.read_bytes() if path.is_file() else b"") for path, at in found]


@pytest.mark.parametrize(
    ("script", "target", "homes"),
    [
        # Dots and slashes, a folder on the way, nothing there yet, and in each of them the server's folder.
        (
            "ln -s /mid /homes; ln -s data /mid; ln -s /data/home/.ssh /.ssh; rm -rf /run; ln -s data/run /run",
            "/data",
            ["/tmp/..//data/home", "/homes/home", "/", "/tmp"],
        ),
        ("mkdir /real; ln -s real /link", "/link/data", ["/real/data/home", "/real/data/home"]),
    ],
    ids=["links to the mount", "the mount is at a link"],
)
def test_nothing_is_written_below_a_mount_however_a_path_leads_there(
    script: str, target: str, homes: list[str], host: Host, image_with: Callable[..., str], shared: Path
) -> None:
    image = image_with(script)
    (shared / "home").mkdir()
    (shared / "run" / "sshd").mkdir(parents=True, mode=0o700)
    before = as_it_is(shared)
    subs = [{"name": f"sub-{key}", "replicas": 1, "env": {"HOME": home}} for key, home in zip("abc", homes[1:])]
    main = {"name": "main", "env": {"HOME": homes[0]}}
    session = host.launch(image=image, mounts=[f"{shared}:{target}"], roles=[main, *subs])
    assert as_it_is(shared) == before
    others = [replica["name"] for replica in session.plan["replicas"][1:]]
    assert len(others) == len(homes) - 1
    for other in others:
        assert session.run_in("main1", "ssh", other, "hostname") == f"{other}\n"


def test_files_that_are_mounted_are_left_as_they_are(host: Host, image_with: Callable[..., str], shared: Path) -> None:
    """The accounts lack a shell, and the file of the home looks like one of another session."""
    image = image_with("ln -s etc /link")
    (shared / "passwd").write_text("root:x:0:0::/:\nsshd:x:100:65534::/run/sshd:/bin/false\n")
    (shared / "config").write_text("# Made for session of old.\n")
    before = as_it_is(shared)
    mounts = [f"{shared}/passwd:/link/passwd", f"{shared}/config:/.ssh/config"]
    session = host.launch(size=2, image=image, mounts=mounts)
    assert as_it_is(shared) == before
    assert session.run_in("main1", "ls", "/.ssh").split() == ["config", "id_ed25519", "known_hosts"]
    assert session.run_in("main1", "ssh", "sub1", "hostname") == "sub1\n"


def test_nothing_is_written_to_a_volume(host: Host) -> None:
    session = host.launch(size=2, mounts=["for-the-links:/data"], env={"HOME": "//data"})
    assert session.run_in("main1", "find", "/data") == "/data\n"
    session.remove()
    output_of("docker", "volume", "rm", "-f", "for-the-links")


def test_session_run_with_a_shell_that_prints_when_it_starts(host: Host, image_with: Callable[..., str]) -> None:
    """sshd(8) starts the agents of other replicas by the user's shell, whose start files say what they like."""
    shell = '#!/bin/sh\necho Welcome! o 0 9\necho and to you >&2\nset -x\nexec /bin/sh "$@"\n'
    accounts = "root:x:0:0::/:/bin/loud\n"
    script = f"printf '{shell}' >/bin/loud; chmod +x /bin/loud; printf '{accounts}' >/etc/passwd"
    session = host.launch(size=2, image=image_with(script))
    assert "Welcome" in session.run_in("main1", "ssh", "sub1", "true")
    output = session.run_in("main1", "session-run", "hostname").splitlines()
    assert sorted(output) == ["main1: main1", "sub1: sub1"]


def test_what_a_failed_command_of_session_run_has_started_is_ended(host: Host) -> None:
    session = host.launch(size=2)
    command = "session-run sh -c 'sleep 8871 & test $RANK = 0 || exit 4; sleep 8871'; echo $?; sleep 0.2; ps"
    for replica in ("main1", "sub1"):
        code, *left = session.run_in(replica, "sh", "-c", command).splitlines()
        assert code == "4"
        assert not [line for line in left if "sleep 8871" in line and "session-run" not in line]
        assert "sleep 8871" not in session.run_in("main1" if replica == "sub1" else "sub1", "ps")


def test_processes_of_session_run_find_their_place_as_slurm_tells_it(host: Host) -> None:
    session = host.launch(size=3, slurm_variables=True, env={"SLURM_NPROCS": "8"})
    tell = "echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURM_NTASKS $SLURM_NPROCS $SLURM_TASKS_PER_NODE"
    tell += "; scontrol show hostnames"
    run = ["session-run", "--on", "sub", "-n", "2", "sh", "-c", tell]
    for replica in ("main1", "sub2"):
        output = session.run_in(replica, *run).splitlines()
        for rank, name in enumerate(("sub1.0", "sub1.1", "sub2.0", "sub2.1")):
            assert [line for line in output if line.startswith(name)] == [
                f"{name}: {rank} {rank // 2} {rank % 2} 4 8 2(x2)",
                f"{name}: sub1",
                f"{name}: sub2",
            ]
    nested = session.run_in("main1", "session-run", "--on", "sub2", "session-run", "--on", "sub1", "sh", "-c", tell)
    assert nested.splitlines() == ["sub2: sub1: 0 0 0 1 8 1", "sub2: sub1: sub1"]


def test_a_session_without_network_and_login_has_no_server(host: Host) -> None:
    session = host.launch(size=1)
    assert session.plan["network"] is None
    assert session.bring("verified")["replicas"][0]["status"] == "RUNNING"
    assert not (session.files.replica("main1") / "ssh" / "sshd_config").exists()
    assert session.containers()["main1"]["HostConfig"]["Runtime"] != ENTRY, "its first address is its only one"
    session.run_in("main1", "test", "!", "-e", "/job")


def test_facts_name_what_a_session_has_here(host: Host, call: Call) -> None:
    session = host.launch(size=2, others=1, max_replicas_per_host=1)
    facts = call("host_info", session_name="demo", usage=True)["host"]
    assert facts["objects"] == {
        session.id: {"name": "demo", "kinds": ["container", "network", "link", "rules", "state"]}
    }
    (container,) = facts["containers"]
    assert (container["name"], container["state"], container["failure"]) == ("demo-main1", "running", None)
    assert set(container["usage"]) == {"cpus", "memory"}
    assert [record["id"] for record in facts["records"]] == [session.id]
    assert session.plan["network"]["vni"] in facts["vnis"]


# ---- the network between hosts --------------------------------------------------------------------------------------


@pytest.fixture
def second_network() -> Iterator[None]:
    """Give this host, which has no default route, a second interface by which others might reach it."""
    output_of("ip", "link", "add", "other", "type", "bridge")
    output_of("ip", "address", "add", "10.199.0.1/24", "dev", "other")
    output_of("ip", "link", "set", "dev", "other", "up")
    yield
    output_of("ip", "link", "delete", "other")


def test_only_who_plans_has_to_know_by_which_address_others_reach_a_host(second_network: None, call: Call) -> None:
    own = call("host_info", underlay_address="10.199.0.1")["host"]
    assert own["underlay"]["interface"] == "other"
    assert "cluster_compute_underlay_address" in call("host_info", underlay_address="")["host"]["problem"]
    assert "10.199.0.2" in call("host_info", underlay_address="10.199.0.2")["host"]["problem"]
    found = call("host_info")["host"]
    assert (found["usable"], found["underlay"]) == (True, None)


READ_MEMORY = """
import os, sys
sys.path.insert(0, "/parts")
import ctypes
libc = ctypes.CDLL(None)
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
theirs, own = ctypes.create_string_buffer(4), ctypes.create_string_buffer(4)
ready, done = os.pipe(), os.pipe()
child = os.fork()
if not child:
    theirs.raw = b"text"
    os.write(ready[1], b".")
    os.read(done[0], 1)
    os._exit(0)
os.read(ready[0], 1)
into, of = Part(ctypes.addressof(own), 4), Part(ctypes.addressof(theirs), 4)
found = libc.process_vm_readv(child, ctypes.byref(into), 1, ctypes.byref(of), 1, 0)
os.write(done[1], b".")
print(found, own.raw.decode() if found > 0 else "")
"""
"""Reads the memory of another process of the same user, as Open MPI does; its own child, so that Yama permits it."""
PARTS = ("*.py", "collections", "ctypes", "re", "sysconfig", "lib-dynload/_ctypes.*", "lib-dynload/_struct.*")


@pytest.mark.parametrize("capabilities", [[], ["SYS_PTRACE"]])
def test_open_mpi_reads_the_memory_of_others_where_it_may(
    host: Host, engine: Engine, capabilities: list[str], shared: Path
) -> None:
    library = Path(os.__file__).parent
    for path in [found for part in PARTS for found in library.glob(part)]:
        (shutil.copytree if path.is_dir() else shutil.copy)(path, shared / path.name)
    shutil.copy(next(Path("/usr/lib").glob("*/libffi.so.8")), shared)
    session = host.launch(size=2, capabilities=capabilities, mounts=[f"{shared}:/parts:ro"])
    loader = next(Path(f"{RUNTIME_ON_HOST}/lib").glob("ld-linux*")).name
    python = [f"{RUNTIME}/lib/{loader}", "--library-path", f"{RUNTIME}/lib:/parts", f"{RUNTIME}/libexec/python3"]
    found = session.run_in("main1", *python, "-I", "-S", "-c", READ_MEMORY).split()
    assert found == (["-1"] if engine.filters_process_reads() and not capabilities else ["4", "text"])
    values = session.run_in("main1", "cat", "/etc/cluster-compute/environment")
    assert ("OMPI_MCA_btl_vader_single_copy_mechanism='none'" in values) is (found == ["-1"])
    assert ("OMPI_MCA_smsc='^cma'" in values) is (found == ["-1"])
