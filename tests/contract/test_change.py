# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A session that runs changes on one host: it grows, shrinks, is refused, and is stopped half-way."""

from __future__ import annotations

import copy
import errno
import shutil
import subprocess
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import link
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Engine,
    EngineError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import OutputDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    LEASED,
    Allocatable,
    Claim,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode, encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.health import Drain
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.patch import difference
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    RESIZE,
    RUNNING,
    Change,
    Record,
    advance,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.data import READS, WRITES
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import (
    beyond,
    claims_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import data, launch_steps, steps
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.repair import repair_host
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    BUSYBOX,
    HERE,
    LEASE_OWNER,
    Host,
    output_of,
    rules,
)


def without(plan: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a plan without some of its replicas, and without hosts that have none then."""
    plan = copy.deepcopy(plan)
    plan["replicas"] = [replica for replica in plan["replicas"] if replica["name"] not in names]
    for host, description in list(plan["hosts"].items()):
        description["replicas"] = [name for name in description["replicas"] if name not in names]
        if not description["replicas"]:
            del plan["hosts"][host]
    plan["session"]["size"] = len(plan["replicas"])
    return plan


class Changing:
    """A session, main1, sub1 and sub2 if nobody says otherwise, of which some come or go."""

    def __init__(self, host: Host, size: int = 3, **request: Any) -> None:
        self.host = host
        self.session = session = host.plan(size=size, **request)
        self.full = session.plan
        self.change_id = str(uuid.uuid4())

    def start(self, *missing: str) -> Changing:
        """Start the session without some of its replicas."""
        plan = without(self.full, missing)
        record = self.session.record
        self.session.record = Record(**{**vars(record), "plan": plan, "hosts": tuple(plan["hosts"])})
        self.session.start()
        return self

    def to(self, *missing: str) -> Record:
        """Return the next revision, in which only these replicas are missing."""
        plan, before = without(self.full, missing), {replica["name"] for replica in self.session.plan["replicas"]}
        former_hosts: dict[str, str | None] = {
            replica["name"]: None for replica in plan["replicas"] if replica["name"] not in before
        }
        given = {"plan": plan, "hosts": tuple(plan["hosts"]), "change": Change(RESIZE, former_hosts)}
        return advance(self.session.record, RUNNING, "It has another size.", **given)

    def beyond(self, record: Record) -> Claim:
        """Return what this host has to hold for the change."""
        held = claims_of(read_plan(self.session.plan)).get(HERE) or Claim(record.id, record.name)
        more = beyond(claims_of(read_plan(record.plan))[HERE], held)
        return Claim(**{**vars(more), "session_id": self.change_id, "session_name": f"{record.name}+"})

    def call(self, state: str, check_mode: bool = False, **more: Any) -> dict[str, Any]:
        """Bring this host into a state of the change."""
        given = {"state": state, "lease_owner": LEASE_OWNER, "host": HERE, "recorded": [self.session.id], **more}
        return self.host.call("session_host", check_mode, **given)

    def hold(self, record: Record, check_mode: bool = False, **more: Any) -> dict[str, Any]:
        """Hold what the change needs."""
        given = {
            "claim": encode(self.beyond(record)),
            "allocatable": self.session.allocatable,
            "record": record,
            **more,
        }
        answer = self.call("held", check_mode, **given)
        if answer.get("granted"):
            self.session.public_keys |= {key: keys for key, keys in answer["public_keys"].items() if keys["client"]}
        return answer

    def amend(self, to: Record, check_mode: bool = False, **more: Any) -> dict[str, Any]:
        """Change this host to a record; it becomes the session's."""
        given = {"change_id": self.change_id, "public_keys": self.session.public_keys, "prove": True, "patience": 0}
        answer = self.call("amended", check_mode, **{"record": to, **given, **more})
        if not check_mode and not answer.get("stale"):
            self.session.record = to
        return answer

    def started(self) -> dict[str, str]:
        """Return when each replica here was started."""
        return {name: container["State"]["StartedAt"] for name, container in self.session.containers().items()}

    def held(self) -> dict[str, tuple[str, int, int]]:
        """Return what is held here, by whose name: stage, replicas and CPUs."""
        found = LedgerFile(str(self.host.state.root)).read().values()
        return {
            reservation.claim.session_name: (reservation.stage, reservation.claim.replicas, reservation.claim.cpus)
            for reservation in found
        }

    def files(self) -> list[str]:
        """Return which replicas this host has keys for."""
        return self.session.files.replica_names()


def test_a_session_grows(host: Host) -> None:
    demo = Changing(host).start("sub2")
    before = demo.started()
    record = demo.to()
    assert demo.hold(record, check_mode=True)["actions"] == [
        "create key sub2/id_ed25519",
        "create key sub2/ssh_host_ed25519_key",
    ]
    assert demo.held() == {"demo": (COMMITTED, 2, 1000)}
    assert demo.hold(record)["granted"]
    assert demo.held() == {"demo": (COMMITTED, 2, 1000), "demo+": (LEASED, 1, 500)}
    changes = difference(encode(demo.session.record), encode(record))
    patch = {"id": record.id, "from": demo.session.record.revision, "changes": changes}
    new = {"sub2": demo.session.public_keys["sub2"]}
    foretold = demo.amend(record, check_mode=True, record=None, patch=patch, public_keys=new)
    assert demo.held()["demo+"] == (LEASED, 1, 500)
    done = demo.amend(record, record=None, patch=patch, public_keys=new)
    assert (done["actions"], done["diff"]) == (foretold["actions"], foretold["diff"])
    assert [replica["name"] for replica in done["replicas"]] == ["main1", "sub1", "sub2"]
    assert "create container demo-sub2" in done["actions"]
    assert demo.held() == {"demo": (COMMITTED, 3, 1500)}
    assert host.state.session(record.id).read_record() == record
    now = demo.started()
    assert {name: now[name] for name in before} == before, "who stays was not started anew"
    assert demo.session.run_in("main1", "ssh", "sub2", "hostname") == "sub2\n"
    assert demo.session.run_in("sub2", "ssh", "sub1", "echo $WORLD_SIZE") == "3\n"
    assert "\tsub2\n" in demo.session.run_in("sub1", "cat", "/etc/hosts")
    again = demo.amend(record, record=None, patch={**patch, "from": record.revision, "changes": {}}, change_id=None)
    assert again["actions"] == []
    assert demo.session.repair()["actions"] == []
    output_of("docker", "rm", "-f", "demo-sub2")
    assert "create container demo-sub2" in repair_host(host.state, alone=True).actions, "nobody waits for it any more"
    shutil.rmtree(demo.session.files.path)
    repaired = demo.session.repair()["actions"]
    assert not [action for action in repaired if action.startswith(("create container", "remove container"))]
    assert host.state.session(record.id).read_record() == record, "a label has the newest"


def test_a_host_that_has_another_record_says_so(host: Host) -> None:
    demo = Changing(host).start("sub2")
    record = demo.to()
    demo.hold(record)
    patch = {"id": record.id, "from": record.revision, "changes": {}}
    stale = {"changed": False, "actions": [], "stale": True, "revision": record.revision - 1}
    assert demo.amend(record, record=None, patch=patch) == stale
    changes = difference(encode(demo.session.record), encode(record))
    patch = {"id": record.id, "from": record.revision - 1, "changes": changes}
    assert demo.amend(record, record=None, patch=patch, public_keys={}) == stale, "keys of sub2 are missing"
    assert "create container demo-sub2" in demo.amend(record)["actions"]
    other = advance(demo.session.record, RUNNING, "Another change.")
    demo.session.record = advance(demo.session.record, RUNNING, "A change.")
    demo.session.files.write_record(demo.session.record)
    with pytest.raises(SessionError, match="Session demo was changed while this run was at work"):
        demo.amend(other)
    with pytest.raises(SessionError, match="Session demo was changed while this run was at work"):
        demo.amend(record)
    with pytest.raises(SessionError, match="Session demo has no replica on there1 any more"):
        demo.amend(advance(other, RUNNING, "A third change."), host="there1")


def test_a_session_shrinks(host: Host) -> None:
    command = ["sh", "-c", "trap 'echo bye; exit 3' TERM; echo hello; sleep 8888 & wait"]
    demo = Changing(host, command=command).start()
    before = demo.started()
    record = demo.to("sub2")
    foretold = demo.amend(record, check_mode=True, change_id=None)
    done = demo.amend(record, change_id=None)
    assert (done["actions"], done["diff"]) == (foretold["actions"], foretold["diff"])
    assert [replica["name"] for replica in done["replicas"]] == ["main1", "sub1"]
    assert demo.started() == {name: before[name] for name in ("main1", "sub1")}
    assert demo.held() == {"demo": (COMMITTED, 2, 1000)}
    assert demo.files() == ["main1", "sub1"]
    assert not list(demo.session.files.replicas.glob("sub2*"))
    assert demo.session.files.read_public_keys().keys() == {"main1", "sub1"}
    kept = OutputDirectory(str(host.state.root)).session(record.id)
    assert [replica for replica, _container in kept.containers()] == ["sub2"]
    assert (kept.read_info()["ended"], kept.read_info()["replicas"]["sub2"]["exit_code"]) == (None, 3)
    sources = host.call("session_output", session_id=record.id, replicas=["sub2"])["sources"]
    assert [line[2] for source in sources for line in source["lines"]] == ["hello", "bye"]
    assert demo.session.run_in("main1", "ssh", "sub1", "echo $WORLD_SIZE") == "2\n"
    assert demo.session.repair()["actions"] == []


def test_an_ssh_session_goes_on_when_its_server_is_started_anew(host: Host) -> None:
    demo = Changing(host).start("sub2")
    command = ["docker", "exec", "-i", "demo-main1", "ssh", "sub1", "while read x; do echo $WORLD_SIZE $x; done"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as login:
        writer, heard = login.stdin, login.stdout
        assert writer is not None
        assert heard is not None

        def ask(word: str) -> str:
            print(word, file=writer, flush=True)
            return str(heard.readline())

        assert ask("before") == "2 before\n"
        record = demo.to()
        demo.hold(record)
        assert "restart SSH server demo-sub1" in demo.amend(record)["actions"]
        assert ask("larger") == "2 larger\n"
        assert demo.session.run_in("main1", "ssh", "sub1", "echo $WORLD_SIZE") == "3\n"
        demo.amend(demo.to("sub2"), change_id=None)
        assert ask("smaller") == "2 smaller\n"
        assert demo.session.run_in("main1", "ssh", "sub1", "echo $WORLD_SIZE") == "2\n"
        assert demo.session.repair()["actions"] == []
        writer.close()
        assert login.wait() == 0


def test_a_refusal_leaves_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = Changing(host).start("sub2")
    record = demo.to()

    def nothing_stays() -> None:
        assert demo.held() == {"demo": (COMMITTED, 2, 1000)}
        assert demo.files() == ["main1", "sub1"]
        assert host.state.session(record.id).read_record() == demo.session.record

    answer = demo.hold(record, allocatable={**demo.session.allocatable, "cpus": 1250})
    assert (answer["granted"], answer["reasons"]) == (False, ["0.5 CPUs asked, 0.25 free of 1.25."])
    nothing_stays()
    host.state.write_drain(Drain("It is to be repaired.", "somebody", ""))
    assert not demo.hold(record)["granted"]
    host.state.drain_file.unlink()
    nothing_stays()
    output_of("docker", "create", "--name", "demo-sub2", BUSYBOX)
    answer = demo.hold(record)
    assert (answer["granted"], answer["reasons"]) == (False, ["There is a container named demo-sub2 already."])
    output_of("docker", "rm", "demo-sub2")
    nothing_stays()
    with monkeypatch.context() as patched:
        patched.setattr(launch_steps, "make_keys", no_keys)
        with pytest.raises(SessionError, match="No space left on device"):
            demo.hold(record)
    nothing_stays()
    assert demo.hold(record)["granted"]
    assert demo.files() == ["main1", "sub1", "sub2"]
    other = {**encode(demo.beyond(record)), "session_id": str(uuid.uuid4())}
    answer = demo.hold(record, claim=other, lease_owner="another run")
    assert (answer["granted"], answer["tentative"]) == (False, [demo.change_id])
    empty = encode(Claim(str(uuid.uuid4()), "demo+"))
    assert not demo.hold(record, claim=empty, lease_owner="another run")["granted"], "one change at a time"
    assert demo.call("released", claim=other, lease_owner="another run", record=record)["actions"] == []
    assert demo.files() == ["main1", "sub1", "sub2"], "what another run holds stays"
    given: dict[str, Any] = {"session_id": record.id, "state": "absent", "unless_reserved": True}
    assert host.call("session_host", **given)["actions"] == [], "nobody takes it for orphaned"
    released = demo.call("released", claim=encode(demo.beyond(record)), record=record)
    assert (released["changed"], released["actions"]) == (True, ["remove files of replica sub2"])
    nothing_stays()
    demo.session.remove()
    with pytest.raises(SessionError, match="Session demo was torn down while this run was at work"):
        demo.hold(record)
    assert demo.held() == {}
    assert not demo.session.files.exists()


def no_keys(*_arguments: Any) -> None:
    """Be a disk that is full when keys are made."""
    raise OSError(errno.ENOSPC, "No space left on device")


STOPS = {"leased": 0, "committed": 2, "recorded": 3, "peers": 8, "half the containers": 99}
"""How many stages of a change were done when it was stopped."""


@pytest.mark.parametrize("stop", STOPS)
def test_a_change_that_was_stopped_is_finished_or_refused(
    stop: str, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = Changing(host, size=4).start("sub2", "sub3")
    old, record = demo.session.record, demo.to()
    demo.hold(record)
    create = Engine.create_container

    def create_some(engine: Engine, name: str, *rest: Any) -> str:
        if name == "demo-sub3":
            raise EngineError("It was stopped.")
        return create(engine, name, *rest)

    if STOPS[stop]:
        with monkeypatch.context() as patched:
            perform = steps.perform
            patched.setattr(steps, "perform", lambda stages, **more: perform(stages[: STOPS[stop]], **more))
            patched.setattr(Engine, "create_container", create_some)
            with suppress(SessionError):
                demo.amend(record, prove=False)
    # Nobody carries it on, and the host's own timer comes.
    host.ledger.release(demo.change_id, LEASE_OWNER)
    demo.session.repair(allocatable=None)
    is_there = stop not in ("leased", "committed")
    some = {"main1", "sub1", "sub2"} if stop == "half the containers" else {"main1", "sub1"}
    assert demo.started().keys() == some, "it does not start what may run elsewhere"
    assert demo.held() == {"demo": (COMMITTED, 4, 2000) if is_there else (COMMITTED, 2, 1000)}
    assert host.state.session(record.id).read_record() == (record if is_there else old)
    assert demo.files() == ["main1", "sub1", "sub2", "sub3"][: 4 if is_there else 2]
    # All that is free goes to another session.
    limits = decode(Allocatable, demo.session.allocatable, "It")
    free = limits.cpus - demo.held()["demo"][2]
    other = Claim(str(uuid.uuid4()), "other", replicas=1, cpus=free)
    assert host.ledger.reserve(other, [], limits, 60, "another run").granted
    given: dict[str, Any] = {"records": {record.id: encode(record)}, "recorded": [record.id]}
    if is_there:
        assert demo.session.repair(**given)["actions"]
        assert demo.started().keys() == {"main1", "sub1", "sub2", "sub3"}
    else:
        with pytest.raises(SessionError, match=r"demo does not have the place on this host that it needs: 1 CPUs"):
            demo.session.repair(**given)
        with pytest.raises(SessionError, match="demo does not have the place on this host that it needs"):
            demo.amend(record)
        assert demo.started().keys() == some
        host.ledger.release(other.session_id)
        assert demo.session.repair(**given)["actions"]
    assert sum(cpus for _stage, _replicas, cpus in demo.held().values()) <= limits.cpus
    assert demo.held()["demo"] == (COMMITTED, 4, 2000)
    assert demo.session.repair(allocatable=None)["actions"] == []
    host.ledger.release(other.session_id)


def test_peers_drop_a_host_before_its_replicas_are_anywhere_else(host: Host) -> None:
    demo = Changing(host, others=1, max_replicas_per_host=2).start()
    link_name = demo.session.plan["network"]["link"]
    assert [len(entries) for entries in link.read_peers(link_name)] == [1, 1]
    before = demo.started()
    demo.session.run_in("main1", "grep", "-q", "sub2", "/etc/hosts")
    record = demo.to("sub2")
    demo.amend(record, containers=False, prove=False, change_id=None)
    assert [len(entries) for entries in link.read_peers(link_name)] == [0, 0]
    assert "sub2" not in demo.session.run_in("main1", "cat", "/etc/hosts", "/etc/cluster-compute/ssh/known_hosts")
    assert demo.started() == before
    patch = {"id": record.id, "from": record.revision, "changes": {}}
    done = demo.amend(record, record=None, patch=patch, change_id=None)
    assert done["actions"] == ["restart SSH server demo-main1", "restart SSH server demo-sub1"]
    assert demo.started() == before


def test_a_session_comes_to_another_host(host: Host) -> None:
    """What the plan has on another host before is the session; this host has nothing of it but the stub."""
    demo = Changing(host, others=1, max_replicas_per_host=2, mounts=["for-the-change:/data"])
    full = demo.session.record
    plan = without(full.plan, ["main1", "sub1"])
    demo.session.record = started(Record(**{**vars(full), "plan": plan, "hosts": ("there1",)}))
    record = demo.to()
    assert demo.hold(record, recorded=[])["granted"]
    assert demo.session.files.read_record() is None
    given: dict[str, Any] = {"claim": encode(demo.beyond(record)), "record": record}
    assert demo.call("released", **given)["changed"]
    assert (demo.held(), demo.session.files.exists()) == ({}, False)
    assert demo.hold(record, recorded=[])["granted"]
    demo.amend(record, recorded=[])
    assert demo.held() == {"demo": (COMMITTED, 2, 1000)}
    assert demo.started().keys() == {"main1", "sub1"}
    assert demo.session.repair()["actions"] == []
    demo.session.remove()
    output_of("docker", "volume", "rm", "for-the-change")


@pytest.fixture
def folder(host: Host) -> Iterator[Path]:
    """Return a folder of the host that may be mounted."""
    path = Path("/srv/of-the-change")
    path.mkdir()
    yield path
    host.clear()
    shutil.rmtree(path)


def test_a_folder_that_is_not_the_shared_one_keeps_a_session_from_a_host(host: Host, folder: Path) -> None:
    """On this host, to which the session comes, the folder is another one until it has what another host wrote."""
    demo = Changing(host, others=1, max_replicas_per_host=2, mounts=[f"{folder}:/data"])
    for name, proof in ((HERE, READS), ("there1", WRITES)):
        demo.full["hosts"][name]["data"][str(folder)]["proof"] = proof
    full = demo.session.record
    plan = without(demo.full, ["main1", "sub1"])
    demo.session.record = started(Record(**{**vars(full), "plan": plan, "hosts": ("there1",)}))
    record = demo.to()
    assert demo.hold(record, recorded=[])["granted"]
    with pytest.raises(SessionError, match=f"The folder {folder} on here is not the folder that there1 has there"):
        demo.amend(record, recorded=[])
    assert (demo.started(), list(folder.iterdir())) == ({}, [])
    (folder / data.probe_name(record.id, LEASE_OWNER)).write_text(data.probe_text(LEASE_OWNER, str(folder)))
    demo.amend(record, recorded=[])
    assert demo.started().keys() == {"main1", "sub1"}
    demo.session.run_in("main1", "touch", "/data/from-main1")
    assert (folder / "from-main1").exists()


def test_a_host_that_loses_its_last_replica_keeps_its_containers_out(host: Host, keep_out: Any) -> None:
    demo = Changing(host, others=1, max_replicas_per_host=2).start()
    plan = without(demo.full, ["main1", "sub1"])
    left = stub_of(advance(demo.session.record, RUNNING, "It moved.", plan=plan, hosts=("there1",)))
    given: dict[str, Any] = {"session_id": left.id, "state": "absent", "keep_record": True, "record": left}
    foretold = host.call("session_host", True, **given)
    assert host.call("session_host", **given)["actions"] == foretold["actions"]
    assert (demo.started(), demo.held(), demo.files()) == ({}, {}, [])
    assert demo.session.files.read_record() == left
    wanted = {rule for rule in rules() if left.id in rule}
    assert wanted
    assert demo.session.repair(records={left.id: encode(left)})["actions"] == []
    assert {rule for rule in rules() if left.id in rule} == wanted
