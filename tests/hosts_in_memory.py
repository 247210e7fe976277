# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A resource group without machines: real state directories and ledgers, an engine that only remembers.

Each verb is a generator that goes on by one small thing on one host, in any order of the hosts, as their calls do. It
asks the verbs of the core. Who stops to go on has killed the controller there;
two that take turns are two controllers. Containers, networks, links and rules are entries of a dict: whether a host can
make real ones is for other tests.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core import cluster_state
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.plan import read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import (
    PREPARING,
    RUNNING,
    Record,
    is_stub,
    line_of,
    read_record,
    started,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.request import Request, parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.ledger import (
    CONFIRMED,
    Allocatable,
    Claim,
    claims_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs import (
    launch,
    repair,
    schedule,
    teardown,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs.launch import launch_request
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs.verb import (
    Outside,
    State,
    calls_of,
    combined,
    hosts_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.host.prepare import (
    keep_records,
    keep_tombstones,
    make_keys,
    release_name,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.host.removal import has_moved_on
from ansible_collections.cluster_compute.session.plugins.module_utils.host.reservation import refused_by_name

LEASE, DEADLINE = 60.0, 600.0
"""Seconds for which a part is held until all have answered, and until the session has to run."""
IMAGE = {"id": f"sha256:{'5' * 64}", "digests": [], "architecture": "amd64"}
Result = dict[str, Any]
Steps = Generator[None, None, Any]
KINDS = {cluster_state.NETWORK: "networks", cluster_state.LINK: "links", cluster_state.RULES: "rules"}


def request(name: str, **given: Any) -> Request:
    """Return a request for replicas of one CPU; given: what it asks for besides, without the prefix."""
    asked = {"name": name, "image": "busybox", "memory": "8m", **given}
    return parse_request({f"session_{key}": value for key, value in asked.items()})


class Host:
    """One host: what it has, and what its modules do, each a generator that ends with the module's result."""

    def __init__(self, name: str, number: int, folder: Path, clock: Callable[[], float], cpus: int) -> None:
        self.name = name
        self.number = number
        self.cpus = cpus
        self.is_away = False
        self.state = StateDirectory(str(folder))
        self.ledger = LedgerFile(str(folder), lambda: "boot", clock)
        self.containers: dict[str, Result] = {}
        self.networks: dict[str, Result] = {}
        self.links: dict[str, Result] = {}
        self.rules: dict[str, Result] = {}

    def everything(self) -> list[str]:
        """Return what is there of any session, in words."""
        found = [f"container {name}" for name in self.containers]
        found += [f"{kind} of {one['name']}" for kind, name in KINDS.items() for one in getattr(self, name).values()]
        found += [f"{path.relative_to(self.state.root)}" for path in self.state.root.rglob("*")]
        return [f"{self.name}: {one}" for one in found]

    def facts(self, session_name: str = "", whole_records: bool = False) -> Result:
        """Return what host_info would."""
        records, damaged = self.state.records()
        held = self.ledger.read()
        networks = list(self.networks.values())
        return {
            "usable": True,
            "engine": {"architecture": "x86_64", "limits_swap": True, "image_store": "docker"},
            "capacity": {"cpus": self.cpus, "memory": 8 << 30},
            "topology": {"cores": [{"node": 0, "cpus": [one]} for one in range(8)], "memory": {"0": 8 << 30}},
            "containers": list(self.containers.values()),
            "foreign_containers": [],
            "objects": self._objects(),
            "reservations": [held[key].to_dict() for key in sorted(held) if held[key].claim.replicas],
            "underlay": {"address": f"192.0.2.{self.number}", "interface": "eth0", "mtu": 1500},
            "addresses": [f"192.0.2.{self.number}"],
            "subnets": sorted(subnet for network in networks for subnet in network["subnets"]),
            "vnis": sorted(network["vni"] for network in networks if network["vni"] is not None),
            "overlays": {"port": 4789, "first": 4096, "last": 16777215, "interface": "eth0"},
            "ports": [],
            "images": {"busybox": IMAGE, IMAGE["id"]: IMAGE},
            "paths": {},
            "volumes": {},
            "accelerators": {},
            "batches": {},
            "records": [
                encode(
                    line_of(one) if whole_records or session_name == one.name or one.status != RUNNING else stub_of(one)
                )
                for one in records
            ],
            "public_keys": {one.id: {} for one in records} if whole_records else {},
            "damaged": [str(one) for one in damaged],
            "tombstones": self.state.tombstones(),
            "ledger_is_damaged": False,
        }

    def _objects(self) -> Result:
        found: Result = {}

        def add(key: str, name: str, kind: str) -> None:
            about = found.setdefault(key, {"name": name, "kinds": []})
            about["kinds"] = sorted({*about["kinds"], kind})

        for container in self.containers.values():
            add(container["session_id"], container["session_name"], cluster_state.CONTAINER)
        for kind, attribute in KINDS.items():
            for key, one in getattr(self, attribute).items():
                add(key, one["name"], kind)
        for key in self.state.session_ids():
            session = self.state.session(key)
            if session.replicas.exists() or not session.record_file.exists():
                add(key, "", cluster_state.STATE)
        for key, held in self.ledger.expired().items():
            add(key, held.claim.session_name, cluster_state.LEASE)
        return found

    def look(self, session_name: str, whole_records: bool) -> Steps:
        yield
        return {"host": self.facts(session_name, whole_records)}

    def calls(self, asked: list[tuple[str, Result, dict[str, str]]]) -> Steps:
        """Do the calls of a step one after another, until one fails, and return their results as one."""
        results = []
        for module, arguments, _variables in asked:
            try:
                results.append((yield from self._call(module, arguments)))
            except SessionError as error:
                results.append({"failed": True, "msg": str(error)})
                break
        return combined(results)

    def _call(self, module: str, given: Result) -> Steps:
        if module == "host_info":
            return self.look(given.get("session_name", ""), given.get("whole_records", False))
        if module == "session_record":
            names = ("recorded", "tombstones", "forget", "lease_owner")
            kept = {name: given[name] for name in names if name in given}
            return self.keep(**{**kept, "records": [read_record(one) for one in given.get("records", [])]})
        assert module == "session_host", module
        if given.get("record") is not None:
            given = {**given, "record": read_record(given["record"])}
        state, recorded = given.get("state"), given.get("recorded", [])
        if state == "held":
            return self.hold(given["claim"], given["allocatable"], given["record"], given["lease_owner"], recorded)
        if state == "named":
            return self.hold_name(Claim.from_dict(given["claim"]), given["lease_owner"])
        if state == "released" and "record" not in given:
            return self.release_name(Claim.from_dict(given["claim"]), given["lease_owner"])
        if state == "released":
            return self.release(given["record"], given["lease_owner"])
        if state == "stub":
            return self.keep_stub(given["record"], given["lease_owner"], recorded)
        if state == "started":
            return self.start(given["record"], given["lease_owner"], recorded)
        if state == "verified":
            return self.verify()
        assert state == "absent", state
        if given.get("record") is not None:
            keep_records(self.state, [given["record"]], False, recorded)
        names = ("session_name", "session_id", "keep_record", "unless_reserved")
        return self.remove(
            **{name: given[name] for name in names if name in given}, revision=given.get("judged_revision")
        )

    def hold(
        self, claim: Result, allocatable: Result, record: Record, lease_owner: str, recorded: Iterable[str]
    ) -> Steps:
        """Do as launch_steps.hold, each write by itself."""
        yield
        untracked = [one for one in self._labelled() if one.session_id not in self.ledger.read()]
        answer = self.ledger.reserve(
            Claim.from_dict(claim), untracked, Allocatable.from_dict(allocatable), LEASE, lease_owner
        )
        if answer.granted:
            yield
            answer = refused_by_name(self.state, self.ledger, Claim.from_dict(claim), lease_owner)
        if not answer.granted:
            return {**answer.to_dict(), "actions": []}
        yield
        self._refuse_if_gone(record, recorded)
        if record.status == PREPARING and record.queue is None:
            keep_records(self.state, [record], False)
            yield
        keys, made = make_keys(self.state.session(record.id), record.plan, self.name, False, False)
        return {**answer.to_dict(), "public_keys": keys, "actions": made}

    def _refuse_if_gone(self, record: Record, recorded: Iterable[str]) -> None:
        if record.id in recorded and self.state.session(record.id).read_record() is None:
            raise SessionError(f"Session {record.name} was torn down while this launch was at work.")

    def _labelled(self) -> list[Claim]:
        return [
            Claim(
                container["session_id"],
                container["session_name"],
                replicas=1,
                cpus=container["cpus"],
                memory=container["memory"],
            )
            for container in self.containers.values()
        ]

    def release(self, record: Record, lease_owner: str) -> Steps:
        """Do as launch_steps.roll_back."""
        yield
        held = self.ledger.read().get(record.id)
        if held is not None and held.lease_owner == lease_owner and record.status == PREPARING:
            yield from self.remove(session_id=record.id, keep_record=record.queue is not None)
        return {"changed": self.ledger.release(record.id, lease_owner), "actions": []}

    def hold_name(self, claim: Claim, lease_owner: str) -> Steps:
        """Do as reservation.lease_name, each write by itself."""
        yield
        answer = self.ledger.reserve(claim, [], None, LEASE, lease_owner)
        yield
        if answer.granted:
            answer = refused_by_name(self.state, self.ledger, claim, lease_owner)
        return {**answer.to_dict(), "actions": []}

    def release_name(self, claim: Claim, lease_owner: str) -> Steps:
        """Do as reservation.release."""
        yield
        return {"changed": self.ledger.release(claim.session_id, lease_owner)}

    def keep_stub(self, record: Record, lease_owner: str, recorded: Iterable[str]) -> Steps:
        """Do as prepare.keep_stub: keep a stub record of a session that others carry."""
        yield
        actions = keep_records(self.state, [stub_of(record)], False, list(recorded))
        yield
        release_name(self.ledger, record.id, lease_owner)
        return {"actions": actions}

    def start(self, record: Record, lease_owner: str, recorded: Iterable[str]) -> Steps:
        """Do as launch_steps.start."""
        yield
        self._refuse_if_gone(record, recorded)
        if record.status == PREPARING:
            self.ledger.advance(record.id, CONFIRMED, DEADLINE, lease_owner)
            keep_records(self.state, [record], False)
            self.ledger.require(record.id, lease_owner)
        yield
        made = yield from self.converge(record, lease_owner)
        return {**made, "replicas": []}

    def converge(self, record: Record, lease_owner: str) -> Steps:
        """Make what is missing in the order of session_stages."""
        key, name, plan = record.id, record.name, record.plan
        self.rules[key] = {"name": name}
        yield
        if plan["network"] is not None and plan["network"]["vni"] is not None:
            self.links[key] = {"name": name}
            yield
        subnets = [plan[kind]["subnet"] for kind in ("network", "egress") if plan[kind] is not None]
        self.networks[key] = {"name": name, "subnets": subnets, "vni": (plan["network"] or {}).get("vni")}
        yield
        for replica in plan["replicas"]:
            if replica["host"] == self.name and f"{name}-{replica['name']}" not in self.containers:
                self.containers[f"{name}-{replica['name']}"] = {
                    "name": f"{name}-{replica['name']}",
                    "session_id": key,
                    "session_name": name,
                    "replica": replica["name"],
                    "cpus": replica["resources"]["cpus"],
                    "memory": replica["resources"]["memory"],
                    "devices": {},
                    "state": "running",
                    "exit_code": None,
                    "failure": None,
                }
                yield
        session = self.state.session(key)
        found = session.read_record()
        if found is None or found.revision < started(record).revision:
            session.write_record(started(record))
            yield
        self.ledger.commit(claims_of(read_plan(plan))[self.name], lease_owner)
        return {"actions": []}

    def verify(self) -> Steps:
        yield
        return {"replicas": []}

    def keep(
        self,
        records: list[Record],
        recorded: Iterable[str] = (),
        tombstones: list[Result] | None = None,
        forget: list[str] | None = None,
        lease_owner: str | None = None,
    ) -> Steps:
        yield
        actions = keep_records(self.state, records, False, list(recorded))
        for record in records if lease_owner is not None else []:
            yield
            release_name(self.ledger, record.id, str(lease_owner))
        return {"actions": actions + keep_tombstones(self.state, tombstones or [], forget or [], False)}

    def remove(
        self,
        session_name: str | None = None,
        session_id: str | None = None,
        keep_record: bool = False,
        unless_reserved: bool = False,
        revision: int | None = None,
    ) -> Steps:
        """Remove a session by its name, its id or both, in the order of removal_stages."""
        yield

        def is_meant(key: str, name: str) -> bool:
            return session_name in (None, name) and session_id in (None, key)

        entries = {**self.ledger.expired(), **self.ledger.read()}
        ids = {
            container["session_id"]: []
            for container in self.containers.values()
            if is_meant(container["session_id"], container["session_name"])
        }
        for attribute in KINDS.values():
            ids |= {key: [] for key, one in getattr(self, attribute).items() if is_meant(key, one["name"])}
        ids |= {key: [] for key, held in self.ledger.read().items() if is_meant(key, held.claim.session_name)}
        records = [one for one in self.state.records()[0] if is_meant(one.id, one.name)]
        names = {one.id: one.name for one in records}
        ids |= {one.id: list(one.hosts) for one in records}
        found = {
            "sessions": [
                {"id": key, "name": session_name or names.get(key, ""), "hosts": hosts}
                for key, hosts in sorted(ids.items())
            ],
            "tombstones": [
                tombstone for tombstone in self.state.tombstones() if session_name in (None, tombstone["name"])
            ],
        }
        if session_id is not None and has_moved_on(self.state, self.ledger, session_id, unless_reserved, revision):
            return {"actions": [], **found}
        for container in [
            name
            for name, container in self.containers.items()
            if is_meant(container["session_id"], container["session_name"])
        ]:
            del self.containers[container]
            yield
        every = {*ids, *([] if session_id is None else [session_id])}
        kept = {one.id for one in records if keep_record and is_stub(one) and one.status == RUNNING}
        for attribute in KINDS.values():
            there = getattr(self, attribute)
            for key in [key for key in there if is_meant(key, there[key]["name"])]:
                if attribute != "rules" or key not in kept:
                    del there[key]
                    yield
        for key in sorted(every):
            session = self.state.session(key)
            if session.exists():
                if keep_record:
                    session.clear()
                else:
                    self.state.remove_session(key)
                yield
        for key in [key for key, held in entries.items() if is_meant(key, held.claim.session_name)]:
            self.ledger.release(key)
        return {"actions": ["removed"], **found}


@dataclass
class Outcome:
    """What became of a launch. lines: what people are told."""

    status: str
    lines: list[str] = field(default_factory=list)


class Group:
    """The hosts, and a controller that runs verbs on them."""

    def __init__(self, folder: Path, cpus: Iterable[int] = (2000, 2000, 2000), seed: int = 0) -> None:
        self.now = 1000.0
        self.chance = random.Random(seed)
        self.site: dict[str, Any] = {}
        self._checked: dict[str, tuple[int, int]] = {}
        self.hosts = {
            f"h{number}": Host(f"h{number}", number, folder / f"h{number}", lambda: self.now, amount)
            for number, amount in enumerate(cpus, 1)
        }

    def let_leases_run_out(self) -> None:
        """Let so much time pass that whoever is not at work any more holds nothing."""
        self.now += LEASE + DEADLINE

    def finish(self, steps: Steps) -> Any:
        """Go through a verb to its end and return its result."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            self.check()

    def check(self) -> None:
        """Nothing is promised or used twice, on any host at any moment."""
        for host in self.hosts.values():
            about = host.ledger.path.stat() if host.ledger.path.exists() else None
            seen = about and (about.st_ino, about.st_mtime_ns)
            if seen is not None and seen != self._checked.get(host.name):
                self._checked[host.name] = seen
                promised = sum(held.claim.cpus for held in host.ledger.read().values())
                assert promised <= host.cpus, f"{host.name} has promised {promised} of {host.cpus}"
            used = sum(container["cpus"] for container in host.containers.values())
            assert used <= host.cpus, f"{host.name} carries {used} of {host.cpus}"

    def running(self, name: str) -> dict[str, str]:
        """Return by container of a session the host that it is on."""
        return {
            container: host.name
            for host in self.hosts.values()
            for container, one in host.containers.items()
            if one["session_name"] == name
        }

    def copies(self, name: str) -> dict[str, Record]:
        """Return by host the copies of a session's record."""
        return {host.name: one for host in self.hosts.values() for one in host.state.records()[0] if one.name == name}

    def everything(self) -> list[str]:
        """Return what is there of any session on any host."""
        return [one for host in self.hosts.values() for one in host.everything()]

    # ---- the steps of all verbs -------------------------------------------------------------------------------------

    def _everywhere(self, modules: Mapping[str, Steps]) -> Steps:
        """Run a module on each of some hosts side by side, and return their results."""
        results: dict[str, Result] = {}
        at_work = dict(modules)
        while at_work:
            name = self.chance.choice(sorted(at_work))
            if self.hosts[name].is_away:
                results[name] = {"unreachable": True, "msg": "No route to host."}
                del at_work[name]
                continue
            try:
                next(at_work[name])
            except StopIteration as end:
                results[name] = end.value
                del at_work[name]
            except SessionError as error:
                results[name] = {"failed": True, "msg": str(error)}
                del at_work[name]
            yield
        return {name: results[name] for name in modules}

    # ---- verbs ------------------------------------------------------------------------------------------------------

    def _verb(self, verb: Any, state: State) -> Steps:
        """Go through a verb of the core as the roles do, and return its last state."""
        while state["step"]:
            state = verb.advance(state, (yield from self._answers(state)), self._outside())
        return state

    def _answers(self, state: State) -> Steps:
        """Do the calls of a state's step on its hosts, and return their results."""
        return self._everywhere({name: self.hosts[name].calls(calls_of(state, name)) for name in hosts_of(state)})

    def _outside(self) -> Outside:
        inventory = {name: dict(self.site) for name in self.hosts}
        return Outside(
            self.now,
            lambda: str(uuid.UUID(int=self.chance.getrandbits(128), version=4)),
            5,
            False,
            inventory,
            self.site,
        )

    def teardown(self, name: str) -> Steps:
        """Remove a session; return what could not be removed, in words."""
        state = teardown.begin(name, list(self.hosts), fails=False)
        # The role's first task says itself what is to be removed.
        state["calls"][0]["arguments"] = {"state": "absent", "session_name": name}
        state = yield from self._verb(teardown, state)
        return state["report"]

    def gc(self) -> Steps:
        """Remove what nobody owns; return what was found."""
        state = yield from self._verb(repair, repair.begin(list(self.hosts), leaks=True, puts_back=False))
        return state["findings"]

    def queue(self) -> Steps:
        """Return the queue as it is, before anything is cleaned up or launched."""
        state = schedule.begin(list(self.hosts))
        return schedule.advance(state, (yield from self._answers(state)), self._outside())

    def schedule(self) -> Steps:
        """Launch who waits and has room; return by name what became of each."""
        state = schedule.begin(list(self.hosts))
        outcomes: dict[str, Outcome] = {}
        while state["step"]:
            if state["step"] == "launch":
                one = state["launchable"][len(outcomes)]
                outcome = outcomes[one["session_name"]] = yield from self.launch_from_queue(one)
                told = {"session_name": one["session_name"], "status": outcome.status, "report": outcome.lines}
                state = schedule.advance(state, {"launch": told}, self._outside())
            else:
                state = schedule.advance(state, (yield from self._answers(state)), self._outside())
        assert "failure" not in state, state["failure"]
        return outcomes

    def launch(self, asked: Request, owner: str = "alice", **options: Any) -> Steps:
        """Launch a session, or let it wait; return the outcome."""
        return self._launch(launch_request(asked, owner, **options), from_queue=False)

    def launch_from_queue(self, launchable: Result) -> Steps:
        """Launch one of those that the queue says have room; return the outcome."""
        return self._launch(launchable, from_queue=True)

    def _launch(self, asked: Result, from_queue: bool) -> Steps:
        begin = launch.begin(asked, list(self.hosts), self.now, from_queue=from_queue)
        state = yield from self._verb(launch, begin)
        if "failure" in state:
            return Outcome("FAILED", state["failure"].splitlines())
        return Outcome(state["outcome"]["status"], state["outcome"]["report"])
