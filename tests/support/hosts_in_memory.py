# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A resource group without machines, to run verbs on: each host has a real state directory and a real ledger.

What a host does there is the collection's own (host/calls); its engine, links and firewall only remember. A verb runs
from its beginning to its end, or as `Steps`: then hosts do what they are asked side by side, in any order, by one small
thing after another. Who stops to go on has killed the controller there; two that take turns are two controllers.
"""

from __future__ import annotations

import concurrent.futures
import errno
import itertools
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import (
    engine_objects,
    firewall,
    folders,
    link,
    locks,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import ledger as ledger_file
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import output as output_files
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state as state_files
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.bounded import Hung
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Engine,
    EngineError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    Container,
    EngineNetwork,
    Labels,
    read_container,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import (
    VERSION_FILE,
    StateDirectory,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster import (
    state as cluster_state,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.base import (
    Answer,
    failed,
    plain_answer,
    read,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.host_info import (
    LookAtHost,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_host import (
    ProvenReplica,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.facts import HostFacts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import QUEUE
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import (
    PlannedSession,
    Replica,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import RUNNING, Record
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.images import ArchivedImage
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.job import (
    LONGEST,
    parse_job_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.scope import Scope
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    SessionError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import (
    job,
    launch,
    repair,
    schedule,
    teardown,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.launch import launch_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    Outside,
    State,
    calls_of,
    combined,
    hosts_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import (
    change_steps,
    disk,
    engine_trial,
    firewall_rules,
    launch_steps,
    membership,
    prepare,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import facts as facts_of_host
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import names as host_names
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import repair as host_repair
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import verify as host_verify
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import (
    session_host,
    session_images,
    session_job,
    session_output,
    session_repair,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import (
    session_record as call_of_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session import (
    files as files_of_session,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session import (
    record as session_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session.context import Context
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.steps import Stage, Step
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.verify import PeersSilent
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    IMAGE,
    facts,
)
from ansible_collections.cluster_compute.session.tests.support.images_in_memory import Images, Server, serve_in_memory
from ansible_collections.cluster_compute.session.tests.support.in_one_process import patch_bounded
from ansible_collections.cluster_compute.session.tests.support.jobs_in_memory import Command, Jobs, run_in_memory
from ansible_collections.cluster_compute.session.tests.support.small_steps import NOW, Killed, Steps, rest

RECORDED = ("records", "public_keys", "damaged", "tombstones", "host_names")
"""The facts that come from records."""
LEASE, DEADLINE = 120, 600
"""Seconds for which a part is held until all have answered, and until the session has to run."""
CODE: dict[str, Any] = {
    "session_host": session_host,
    "session_images": session_images,
    "session_job": session_job,
    "session_output": session_output,
    "session_record": call_of_record,
    "session_repair": session_repair,
}


class _AtOnce:
    """A pool of threads that does all in the thread that asks."""

    def __init__(self, max_workers: int | None = None) -> None:
        """Threads are none of its business."""

    def __enter__(self) -> _AtOnce:
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing is left to wait for."""

    def submit(self, function: Callable[..., Any], *given: object) -> Future[Any]:
        """Do it."""
        done: Future[Any] = Future()
        try:
            done.set_result(function(*given))
        except Exception as error:
            done.set_exception(error)
        return done


class _Hangs(BaseException):
    """The process that does a call waits for ever, and is left behind; no program catches it."""


class _Locks:
    """The folder of the locks of whichever host is at work."""

    def __fspath__(self) -> str:
        folder = Path(NOW.host.root).parent / f"{NOW.host.name} run"
        folder.mkdir(exist_ok=True)
        return str(folder)


class Host(Images, Jobs):
    """One host: a state directory, and an engine, links and a firewall that remember."""

    def __init__(self, name: str, number: int, root: Path, cpus: int) -> None:
        self.name, self.number, self.root, self.cpus = name, number, root, cpus
        self.is_up, self.is_full = True, False
        self.is_silent: Callable[[str], bool] = lambda _name: False
        self.hangs = ""
        """What of it does not answer: ``ssh``, ``state``, ``engine``, or ``disk``, which reads and writes no more."""
        self.writes_left = 0  # until the disk hangs
        self.is_heard = True  # else it does what it is told, and its answer is lost
        self.containers: dict[str, Container] = {}
        self.links: dict[str, tuple[str, str]] = {}
        self.network_of: dict[str, EngineNetwork] = {}
        self.rules: dict[str, str] = {}
        self.uses_nftables = lambda: False
        self.images: dict[str, str] = {"busybox:latest": IMAGE, IMAGE: IMAGE}
        self.configurations: dict[str, str] = {}
        self.registry: dict[str, str] = {}
        self.servers: dict[int, Server] = {}
        self.commands: dict[str, Command] = {}
        self.runners: dict[int, Callable[[], object]] = {}
        self._held: tuple[object, Collection[Reservation]] = (None, ())  # the version of the ledger, and what is in it

    def session_containers(self, labels: Mapping[str, str] | None = None) -> list[Container]:
        return [
            container
            for container in self.containers.values()
            if all(container.labels.text(key) == value for key, value in (labels or {}).items())
        ]

    def examinations(self, _prefix: str) -> list[Container]:
        return []

    def networks(self, labels: Mapping[str, str] | None = None) -> list[EngineNetwork]:
        return [
            network
            for network in self.network_of.values()
            if all(network.labels.text(key) == value for key, value in (labels or {}).items())
        ]

    def remove_network(self, key: str) -> None:
        rest()
        del self.network_of[key]

    def remove_link(self, name: str) -> None:
        rest()
        del self.links[name]

    def remove_rules(self, session_id: str) -> None:
        rest()
        del self.rules[session_id]

    def connect(self, session: PlannedSession, subnets: list[str]) -> None:
        """Make what connects the replicas of a session."""
        labels = {engine_objects.LABEL_SESSION_ID: session.id, engine_objects.LABEL_SESSION_NAME: session.name}
        rest()
        self.rules[session.id] = session.name
        rest()
        self.links[f"link {session.id}"] = (session.id, session.name)
        rest()
        self.network_of[session.id] = EngineNetwork(session.id, session.name, "macvlan", Labels(labels), tuple(subnets))

    def containers_named(self, names: Collection[str]) -> dict[str, Container]:
        return {name: self.containers[name] for name in names if name in self.containers}

    def stop_container(self, _name: str, _grace: int) -> None:
        """Nothing runs in it."""

    def remove_container(self, name: str) -> None:
        rest()
        del self.containers[name]

    def create(self, replica: Replica, session: PlannedSession, image: str) -> None:
        labels = {
            engine_objects.LABEL_SESSION_ID: session.id,
            engine_objects.LABEL_SESSION_NAME: session.name,
            engine_objects.LABEL_REPLICA: replica.name,
            engine_objects.LABEL_CPUS: str(replica.resources.cpus),
            engine_objects.LABEL_MEMORY: str(replica.resources.memory),
        }
        name = replica.container
        rest()
        assert name not in self.containers, "an engine refuses that"
        if image not in self.images:
            raise EngineError(f"Docker Engine has no image {image}.")
        entry = {"Id": name, "Names": [f"/{name}"], "State": "running", "Labels": labels, "ImageID": image}
        self.containers[name] = read_container(entry)

    # ---- what it answers

    def host_info(
        self,
        session_name: str = "",
        whole_records: bool = False,
        peers_of: Collection[str] = (),
        images: Collection[str] = (),
        **_more: Any,
    ) -> dict[str, Any]:
        state, ledger = StateDirectory(str(self.root)), LedgerFile(str(self.root))
        records = state.records()[0]
        objects: dict[str, dict[str, Any]] = {}

        def add(session_id: str, of: str, kind: str) -> None:
            parts = objects.setdefault(session_id, {"name": of, "kinds": []})
            parts["kinds"] = [*parts["kinds"], *([] if kind in parts["kinds"] else [kind])]

        containers = []
        for container in self.containers.values():
            labels = container.labels
            session_id, of = labels.session_id, labels.session_name
            add(session_id, of, cluster_state.CONTAINER)
            containers.append(
                {
                    "name": container.id,
                    "session_id": session_id,
                    "session_name": of,
                    "replica": container.replica,
                    "cpus": labels.number(engine_objects.LABEL_CPUS),
                    "memory": labels.number(engine_objects.LABEL_MEMORY),
                    "devices": {},
                    "state": "running",
                    "exit_code": None,
                    "failure": None,
                }
            )
        for network in self.networks():
            add(network.labels.session_id, network.labels.session_name, cluster_state.NETWORK)
        for session_id, of in self.links.values():
            add(session_id, of, cluster_state.LINK)
        for session_id, of in self.rules.items():
            add(session_id, of, cluster_state.RULES)
        for session_id in state.session_ids():
            if state.session(session_id).replicas.exists() or not state.session(session_id).record_file.exists():
                add(session_id, "", cluster_state.STATE)
        for session_id, held in ledger.expired().items():
            add(session_id, held.claim.session_name, cluster_state.LEASE)
        references = {*images, *facts_of_host._pinned_images(session_name, records)}
        batches = facts_of_host._batches(state, records)
        in_full = {record.id for record in records if record.growth or state.session(record.id).expects_some}
        wanted = LookAtHost(session_name, whole_records=whole_records)
        recorded = facts_of_host._with_records(HostFacts(), state, records, wanted, in_full | {*batches})
        return facts(
            held=[held for held in ledger.read().values() if held.claim.replicas or held.claim.amends],
            number=self.number,
            engine={"architecture": "x86_64", "limits_swap": True, "image_store": self.store},
            capacity={"cpus": self.cpus, "memory": 8 << 30},
            containers=containers,
            objects=objects,
            subnets=sorted(subnet for network in self.networks() for subnet in network.subnets),
            images={
                reference: encode(facts_of_host._image(cast(Engine, self), state, reference))
                for reference in references
            },
            batches=encode(batches),
            clock=_clock().clock_gettime(0),
            overlays={"port": 4789, "first": 4096, "last": 16777215, "interface": "eth0"},
            silent_peers={
                record.id: [other for other in record.hosts if other != self.name and self.is_silent(other)]
                for record in records
                if record.id in peers_of and (record.plan is None or self.name in record.hosts)
            },
            identity=f"identity of {self.name}",
            names=[self.name],  # that of its preparation
            not_waiting=[record.id for record in records if facts_of_host._acts_on_loss(record)],
            **{name: encode(getattr(recorded, name)) for name in RECORDED},
        )

    def call(self, module: str, given: Mapping[str, Any]) -> dict[str, Any]:
        NOW.host, NOW.prepared = self, []
        rest()
        hung = dict(plain_answer(failed(Hung(f"{self.hangs} of {self.name}", 20), Answer())))
        if self.hangs == "state":
            return _unusable(hung) if module == "host_info" else hung
        if module == "host_info":
            return _unusable(hung) if self.hangs == "engine" else {"host": self.host_info(**given)}
        own = {"output_size": "0", **given, "state_directory": str(self.root)}
        arguments = {name: value for name, value in own.items() if name in ARGUMENTS[module]["argument_spec"]}
        assert given.keys() <= arguments.keys(), given.keys() - arguments.keys()
        if module == "session_images":
            transfer = arguments.get("transfer") or {}
            arguments["token"] = (
                f"{transfer.get('sender')} {transfer.get('receiver')} {transfer.get('image')} {NOW.secret}"
            )
            if arguments.get("archive"):  # it is brought along
                arguments["archive"] = str(shutil.copy(self.root.parent / "images.tar", self.root))
        if arguments.get("follow_seconds") == LONGEST:
            self.go_on(ends=True)
        try:
            return dict(plain_answer(CODE[module].call(read(CODE[module].STATES, arguments), False)))
        except _Hangs:
            return hung
        except (SessionError, OSError) as error:
            return dict(plain_answer(failed(error, Answer())))

    def held(self) -> Collection[Reservation]:
        """Return what the ledger holds, which is read again where another file is in its place."""
        ledger = LedgerFile(str(self.root))
        try:
            status = os.stat(ledger.path)
        except FileNotFoundError:
            return ()
        version = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._held[0] != version:
            self._held = (version, ledger.read().values())
        return self._held[1]

    def connect_to_engine(self) -> Host:
        """Return the engine. Raises EngineError where it hangs."""
        if self.hangs == "engine":
            raise EngineError("This host hangs: Docker Engine did not answer.", is_of_host=True, hangs=True)
        return self

    def write(self) -> None:
        """Write something to the disk. Raises OSError where it is full; waits for ever where it hangs."""
        if self.hangs == "disk" and not self.writes_left:
            raise _Hangs
        self.writes_left = max(0, self.writes_left - 1)
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def left(self, names: Collection[str]) -> list[str]:
        """Return all that a session could have left; what waits for a host that *names* has not has to stay."""
        connections = [
            *self.links,
            *(f"network {name}" for name in self.network_of),
            *(f"rules {name}" for name in self.rules),
        ]
        waits = [
            tombstone.id
            for tombstone in StateDirectory(str(self.root)).tombstones()
            if not {*tombstone.hosts} <= {*names}
        ]
        files = [path for path in self.root.rglob("*") if path.is_file() and path.name != VERSION_FILE]
        tombstones = [path for path in files if path.parent.name == "tombstones" and path.stem in waits]
        return [*self.containers, *connections, *(str(path) for path in files if path not in tombstones)]


def _unusable(hung: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a host that hangs."""
    return {"host": {"usable": False, "problem": hung["msg"], "hangs": True}}


def stages_in_memory(
    context: Context,
    _public_keys: Any,
    _check_mode: bool = False,
    roles: list[str] | None = None,
    containers_too: bool = True,
) -> Any:
    """Return what a host makes of a session where the engine only remembers."""
    there = {
        container.replica
        for container in context.engine.session_containers({engine_objects.LABEL_SESSION_ID: context.session.id})
    }
    place: Stage = []
    if context.lease_owner is not None:
        context.ledger.require(context.session.id, context.lease_owner)
    else:
        place = session_record.place_steps(context, dict.fromkeys(there), False)
    host: Any = context.engine
    meant = [replica for replica in context.replicas if roles is None or replica.role in roles]
    waiting = context.arriving if context.waits else ()
    missing = [replica for replica in meant if replica.name not in there and replica.name not in waiting]
    directory = context.directory
    files = [Step("create", "file", "host", lambda: state_files.write_file(directory.host_file, context.host))]

    def make(replica: Replica) -> None:
        host.create(replica, context.session, context.image_of(replica))
        directory.has_arrived(replica.name)

    makes = [
        Step(
            "create",
            "container",
            replica.container,
            partial(make, replica),
            partial(host.remove_container, replica.container),
        )
        for replica in missing
    ]
    begun = [] if directory.host_file.exists() else files
    subnets = [net.subnet for net in (context.plan.network, context.plan.egress) if net is not None and net.subnet]
    if context.session.id not in host.network_of:
        begun.append(Step("create", "network", "session", lambda: host.connect(context.session, subnets)))
    if roles is not None:
        return [begun, makes]
    kept = session_record.record_steps(context)
    if context.amendment is not None and not containers_too:
        return [place, kept, begun]
    gone = [
        Step(
            "remove",
            "container",
            f"{context.session.name}-{name}",
            partial(host.remove_container, f"{context.session.name}-{name}"),
        )
        for name in sorted(there - {replica.name for replica in context.replicas})
    ]
    commit = session_record.commit_steps(context, bool(place))
    changes = [begun, gone, files_of_session.surplus_steps(context), makes]
    return [place, *changes, kept, commit] if context.amendment is None else [place, kept, *changes, commit]


def verify_in_memory(
    _engine: Any, plan: Any, host: str, _timeout: float, _keys: Any, waiting: host_verify.Waiting = host_verify.ALONE
) -> list[ProvenReplica]:
    """Return what works, where peers are waited for."""
    ready = wait_in_memory(None, plan, plan.on(host), 0, waits=bool(waiting.patience))
    return [host_verify._proven(None, found) for found in ready]


def give_up_in_memory(record: Record, _host: str, _nftables: bool) -> list[Step]:
    """Return what tells others that a session could not be started: rules of the session, which its removal takes."""
    rules = NOW.host.rules
    return [Step("create", "firewall rules", record.name, lambda: rules.setdefault(record.id, record.name))]


def wait_in_memory(
    _engine: Any, _plan: Any, replicas: Any, _deadline: float, waits: bool, check: Any = None, healthy: bool = False
) -> Any:
    """Return what is ready: nothing where it is not waited for."""
    if replicas and not waits:
        raise PeersSilent("Others may have to start.")
    return [host_verify.Ready(replica, 1, None) for replica in replicas]


class World:
    """Hosts, by default three of two CPUs each, and the verbs that are run on them.

    A host keeps its own name here; the inventory may call h1 node1, and what it calls it is all that verbs know.
    """

    def __init__(
        self,
        root: Path,
        cpus: Iterable[int] = (2000, 2000, 2000),
        *,
        seed: int = 0,
        attempts: int = 3,
        forks: int = 5,
    ) -> None:
        self.time, self.ids, self.forks = [1000.0], itertools.count(1), forks
        self.registry: dict[str, str] = {}
        self.archive: dict[str, ArchivedImage] = {}
        self.hosts = {
            f"h{number}": Host(f"h{number}", number, root / f"h{number}", amount)
            for number, amount in enumerate(cpus, 1)
        }
        self.cuts: set[frozenset[str]] = set()
        self.reaches = {*self.hosts}
        for host in self.hosts.values():
            host.is_silent = partial(self._is_silent, host)
            host.registry = self.registry
        self.chance, self.attempts = random.Random(seed), attempts
        self.site: dict[str, Any] = {}
        self.groups: dict[str, list[str]] = {}
        self.group = ""
        NOW.host = self.hosts["h1"]
        self.renamed: set[str] = set()
        self.has_ended: Callable[[str], bool] = lambda _lease_owner: False

    @property
    def now(self) -> float:
        """The time of every clock, in seconds."""
        return self.time[0]

    @now.setter
    def now(self, seconds: float) -> None:
        self.time[0] = seconds

    def _is_silent(self, host: Host, name: str) -> bool:
        other = self.named(name)
        return not other.is_up or frozenset((host.name, other.name)) in self.cuts

    def cut(self, *sides: Collection[str]) -> None:
        """Let no host of a side hear one of another side, until `heal`. A host in none hears all."""
        for one, other in itertools.combinations(sides, 2):
            self.cuts |= {frozenset((host, peer)) for host in one for peer in other if host != peer}

    def heal(self) -> None:
        """Let all hosts hear each other again."""
        self.cuts.clear()

    def controller(self, *reaches: str) -> World:
        """Return the same hosts as another controller sees them, which reaches only these."""
        other = copy(self)
        other.reaches = {*reaches}
        return other

    @property
    def known(self) -> list[str]:
        """What the inventory calls the hosts."""
        return [name.replace("h", "node") if name in self.renamed else name for name in self.hosts]

    def hosts_of(self, group: str) -> list[str]:
        """Return what the inventory calls the hosts of a group; of a world without groups all."""
        members = self.groups.get(group, [*self.hosts])
        return [name for name in self.known if self.named(name).name in members]

    @property
    def scope(self) -> Scope:
        """What a run for the group of now goes by."""
        return Scope(self.group, {group: self.hosts_of(group) for group in self.groups}) if self.group else Scope()

    @contextmanager
    def runs_for(self, group: str) -> Iterator[None]:
        """Let verbs be run for a group; while they are at work another controller may run others."""
        before, self.group = self.group, group
        try:
            yield
        finally:
            self.group = before

    def named(self, name: str) -> Host:
        """Return the host that an inventory, of now or earlier, calls so."""
        return self.hosts[name.replace("node", "h")]

    def run(self, verb: Any, state: State, moment: int | None, happens: Callable[[], Any] | None) -> State:
        """Run a verb; after so many answers of hosts something happens, or else the controller is killed."""
        return self._run(verb, state, moment, happens, itertools.count(1))

    def _run(
        self,
        verb: Any,
        state: State,
        moment: int | None,
        happens: Callable[[], Any] | None,
        answered: Iterator[int],
    ) -> State:
        known = list(state.get("known") or self.hosts_of(self.group))  # an inventory is read once
        scope = self.scope
        secret = f"secret {next(self.ids)}"
        for _turn in range(200):
            outside = Outside(
                now=self.now,
                draw=lambda: f"{next(self.ids):08x}-0000-4000-8000-000000000000",
                inventory={name: dict(self.site) for name in known},
                site=self.site,
                has_ended=self.has_ended,
                read_archive=lambda _request: self.archive,
                forks=self.forks,
                scope=scope,
            )
            if not state["step"]:
                return state
            answers: dict[str, Any] = {}
            if verb is schedule and state["step"] == "launch":
                launchable = state["launchable"][len(state["outcomes"])]
                first = begun(launch, known, self.now, request=launchable, attempts=self.attempts, from_queue=True)
                ended = self._run(launch, first, moment, happens, answered)
                if "failure" in ended:
                    raise Killed  # the play ends there
                answers["launch"] = ended["outcome"]
            if getattr(NOW, "steps", None) is not None:
                answers.update(self._side_by_side(state, secret))
            for name in [name for name in hosts_of(state) if name not in answers]:
                answers[name] = self._answer(state, name, secret)
                if not answers[name].get("unreachable") and next(answered) == moment:
                    if happens is None:
                        raise Killed
                    happens()
            state = verb.advance(state, answers, outside)
            self.now += state.get("pause") or 0
        raise AssertionError(f"{state['step']} goes on for ever")

    def _answer(self, state: State, name: str, secret: str = "") -> dict[str, Any]:
        """Return what a host answers to its calls in the state's step."""
        host, results = self.named(name), []
        if not host.is_up or host.name not in self.reaches:
            return {"unreachable": True, "msg": "No route to host."}
        if host.hangs == "ssh":
            return {"unreachable": True, "msg": "Connection timed out during banner exchange"}
        NOW.secret = secret
        for module, arguments, _variables in calls_of(state, name):
            results.append(host.call(module, arguments))
            if results[-1].get("failed"):
                break
        return combined(results) if host.is_heard else {"unreachable": True, "msg": "Broken pipe."}

    def _side_by_side(self, state: State, secret: str) -> dict[str, Any]:
        """Return what hosts answer that go on in an order by chance; one that vanishes does nothing any more."""
        answers: dict[str, Any] = {}
        at_work = {name: Steps(partial(self._answer, state, name, secret)) for name in hosts_of(state)}
        try:
            while at_work:
                name = self.chance.choice(sorted(at_work))
                if not self.named(name).is_up or self.named(name).name not in self.reaches:
                    at_work.pop(name).kill()
                    answers[name] = {"unreachable": True, "msg": "No route to host."}
                elif not at_work[name].step():
                    answers[name] = at_work.pop(name).result
                rest()
        finally:
            for steps in at_work.values():
                steps.kill()
        return {name: answers[name] for name in hosts_of(state)}

    def launch(
        self,
        request: Request,
        moment: int | None = None,
        happens: Callable[[], Any] | None = None,
        owner: str = "alice",
        *,
        on_no_capacity: str = QUEUE,
        recreate: bool = False,
    ) -> State:
        given = launch_request(request, owner, on_no_capacity=on_no_capacity, recreate=recreate)
        first = begun(launch, self.hosts_of(self.group), self.now, request=given, attempts=self.attempts)
        return self.run(launch, first, moment, happens)

    def launch_from_queue(self, launchable: dict[str, Any]) -> State:
        """Launch one of those that the queue says have room."""
        first = begun(launch, self.known, self.now, request=launchable, attempts=self.attempts, from_queue=True)
        return self.run(launch, first, None, None)

    def teardown(
        self,
        name: str,
        moment: int | None = None,
        happens: Callable[[], Any] | None = None,
        asker: str | None = None,
    ) -> State:
        known = self.hosts_of(self.group)
        first = {**begun(teardown, known, session_name=name), "calls": []}
        first["calls"] = [
            {
                "module": "session_host",
                "hosts": {host: {} for host in known},
                "arguments": {"state": "absent", "session_name": name, "asker": asker, "scope": self.scope.told},
                "of_role": [],
            }
        ]
        return self.run(teardown, first, moment, happens)

    def repair(self, moment: int | None = None, happens: Callable[[], Any] | None = None) -> State:
        return self.run(repair, begun(repair, self.hosts_of(self.group)), moment, happens)

    def gc(self, moment: int | None = None, happens: Callable[[], Any] | None = None) -> State:
        return self.run(repair, begun(repair, self.hosts_of(self.group), leaks=True, puts_back=False), moment, happens)

    def schedule(
        self, moment: int | None = None, happens: Callable[[], Any] | None = None, *, moves_from: Collection[str] = ()
    ) -> State:
        return self.run(schedule, begun(schedule, self.hosts_of(self.group), moves_from=[*moves_from]), moment, happens)

    def job(
        self, name: str, moment: int | None = None, happens: Callable[[], Any] | None = None, **given: Any
    ) -> State:
        """Run a job, or come back to one; where that is refused, the last state says why. given: without ``job_``."""
        request = encode(parse_job_request({f"job_{key}": value for key, value in given.items()}))
        look = {"state": "known", "session_name": name, "states": not request["id"]}
        outside = Outside(self.now, str)
        first = job.begin({"session_name": name, "resource_group": "all", "request": request}, self.known, outside)
        first["calls"][0]["arguments"] = look
        try:
            return self.run(job, first, moment, happens)
        except InvalidInput as error:
            return {"failure": str(error)}

    def queue(self) -> State:
        """Return the queue as it is, before anything is cleaned up or launched."""
        state = begun(schedule, self.hosts_of(self.group))
        answers = {name: self._answer(state, name) for name in hosts_of(state)}
        inventory = {name: dict(self.site) for name in self.known}
        outside = Outside(self.now, str, inventory=inventory, site=self.site, scope=self.scope)
        return schedule.advance(state, answers, outside)

    def act(self, kind: str, what: Any, moment: int | None, *meanwhile: Any) -> set[str]:
        """Let one thing happen, and in the midst of it others; return the names of the sessions that are meant."""
        names: set[str] = set()

        def happens() -> None:
            for act in meanwhile:
                names.update(self.act(*act))

        if kind == "lose":
            self.hosts[what].is_up = False
        elif kind == "bring back":
            self.hosts[what].is_up = True
            self.boot(what)
        elif kind in ("mute", "hear"):
            self.hosts[what].is_heard = kind == "hear"
        elif kind == "hang":
            name, hung, writes = what
            self.hosts[name].hangs, self.hosts[name].writes_left = hung, writes
        elif kind == "answer":
            self.hosts[what].hangs = ""
        elif kind == "rename":
            self.renamed ^= {what}
        elif kind in ("fill", "empty"):
            self.hosts[what].is_full = kind == "fill"
        elif kind == "let time pass":
            self.now += what
        elif kind == "launch":
            names.add(what.name)
            try:
                state = self.launch(what, moment, happens if meanwhile else None)
            except Killed:
                return names
            if state.get("outcome", {}).get("status") == RUNNING and not meanwhile:
                assert what.name in self.running()
        elif kind == "run":
            with suppress(Killed):
                getattr(self, what)(moment, happens if meanwhile else None)
        else:
            names.add(what)
            with suppress(Killed):
                self.teardown(what, moment, happens if meanwhile else None)
        return names

    def boot(self, name: str) -> None:
        """Let a host that is back give up what others say that they have by now, as its unit at boot does."""
        host = self.hosts[name]
        for record in StateDirectory(str(host.root)).records()[0]:
            if record.status != RUNNING or record.plan is None or name not in record.hosts:
                continue
            states = [
                StateDirectory(str(self.named(other).root))
                for other in record.hosts
                if other != name and not self._is_silent(host, other)
            ]
            known = [
                copy
                for state in states
                for copy in state.records()[0]
                if copy.id == record.id and copy.plan is not None
                if name in copy.hosts or not state.session(copy.id).is_undecided  # else it does not answer
            ]
            refused = [copy for copy in known if name not in copy.hosts and copy.plan.get("fenced")]
            if len(refused) > len(known) - len(refused):
                host.call("session_host", {"state": "absent", "session_id": record.id})

    # ---- what has to hold

    def check_names(self) -> None:
        """No replica is there twice where a third could reach both: on hosts that each other's records have."""
        newest: dict[str, Record] = {}
        for host in self.hosts.values():
            for record in StateDirectory(str(host.root)).records()[0]:
                if record.plan is not None and newest.get(record.id, record).revision <= record.revision:
                    newest[record.id] = record
        for host in self.hosts.values():
            for container in host.containers.values():
                known = newest.get(container.labels.session_id)
                if known is None or known.plan is None or not host.is_up or host.name not in known.hosts:
                    continue
                copy = StateDirectory(str(host.root)).session(known.id).read_record()
                if copy is not None and copy.revision == known.revision and known.status == RUNNING:
                    places = {replica["container"]: replica["host"] for replica in known.plan["replicas"]}
                    assert places.get(container.id, host.name) == host.name, container.id

    def running(self) -> dict[str, dict[str, Any]]:
        """Return the sessions that run wholly: name to what they are on all hosts that carry them."""
        return {found.pop("name"): found for found in self.whole().values()}

    def whole(self) -> dict[str, dict[str, Any]]:
        """Return the sessions that run wholly, by id: groups without common hosts may each have one of a name."""
        found: dict[str, Record] = {}
        for host in self.hosts.values():
            for record in StateDirectory(str(host.root)).records()[0]:
                newer = record.id not in found or found[record.id].revision < record.revision
                if record.status == RUNNING and record.plan is not None and newer:
                    found[record.id] = record
        return {
            key: {"name": record.name, "id": key, **{name: self.part(name, key) for name in record.hosts}}
            for key, record in found.items()
            if all(self.is_intact(name, record) for name in record.hosts)
        }

    def half_changed(self) -> set[str]:
        """Return the sessions of which hosts have different revisions: a change that was stopped, for a repair."""
        found: dict[str, set[int]] = {}
        for name in self.running():
            found[name] = {copy.revision for copy in self.copies(name).values() if copy.plan is not None}
        return {name for name, revisions in found.items() if len(revisions) > 1}

    def is_intact(self, name: str, record: Record) -> bool:
        host = self.named(name)
        held = LedgerFile(str(host.root)).read().get(record.id)
        mine = [replica["container"] for replica in record.plan["replicas"] if replica["host"] == name]
        return held is not None and held.stage == COMMITTED and all(container in host.containers for container in mine)

    def part(self, name: str, session_id: str) -> Any:
        host = self.named(name)
        files = sorted(StateDirectory(str(host.root)).session(session_id).path.rglob("*"))
        held = LedgerFile(str(host.root)).read()[session_id]
        labels = {engine_objects.LABEL_SESSION_ID: session_id}
        return (
            [path.read_bytes() for path in files if path.is_file()],
            held.to_dict(),
            [container.id for container in host.session_containers(labels)],
        )

    def check_places(self) -> None:
        """No place is given twice."""
        for host in self.hosts.values():
            held = host.held()
            assert sum(reservation.claim.cpus for reservation in held) <= host.cpus, host.name
            used: Counter[str] = Counter()
            for container in host.containers.values():
                used[container.labels.session_id] += container.labels.number(engine_objects.LABEL_CPUS)
            holds: Counter[str] = Counter()
            for reservation in held:
                holds[reservation.claim.amends or reservation.claim.session_id] += reservation.claim.cpus
            # What runs without a place may be taken by another session the next moment.
            assert sum((used | holds).values()) <= host.cpus, host.name

    def places(self, name: str) -> dict[str, str]:
        """Return by container of a session the host that it is on."""
        return {
            container: host.name
            for host in self.hosts.values()
            for container, entry in host.containers.items()
            if entry.labels.session_name == name
        }

    def jobs(self, name: str) -> list[str]:
        """Return the jobs of sessions of this name of which a host knows, the newest last."""
        outputs = [
            output.session(key)
            for output in (output_files.OutputDirectory(str(host.root)) for host in self.hosts.values())
            for key in output.session_ids()
        ]
        return sorted(
            {
                job.id
                for output in outputs
                if output.read_info()["name"] == name
                for job in output.jobs()
                if job.read_info()
            }
        )

    def copies(self, name: str) -> dict[str, Record]:
        """Return by host the copies of a session's record."""
        return {
            host.name: record
            for host in self.hosts.values()
            for record in StateDirectory(str(host.root)).records()[0]
            if record.name == name
        }


@contextmanager
def in_memory() -> Iterator[list[World]]:
    """Let what a host does see what remembers, and the clock of the last of the worlds that are put into the list."""
    worlds: list[World] = []
    make_file, write_file = tempfile.mkstemp, state_files.write_file

    def write(**given: Any) -> tuple[int, str]:
        rest()
        if worlds:  # others than hosts write as well
            NOW.host.write()
        return make_file(**given)

    def remove_link(name: str) -> None:
        NOW.host.remove_link(name)

    def remove_rules(session_id: str) -> None:
        NOW.host.remove_rules(session_id)

    removals = tempfile.TemporaryDirectory(prefix="cluster-compute-run-")
    with pytest.MonkeyPatch.context() as patch, removals as run_directory:
        patch.setattr(tempfile, "mkstemp", write)
        patch.setattr(Engine, "connect", classmethod(lambda _cls, *_given, **_more: NOW.host.connect_to_engine()))
        patch.setattr(launch_steps, "session_stages", stages_in_memory)
        patch.setattr(change_steps, "session_stages", stages_in_memory)
        patch.setattr(launch_steps, "verify", verify_in_memory)
        patch.setattr(host_verify, "verify", verify_in_memory)
        patch.setattr(launch_steps, "wait_until_ready", wait_in_memory)
        patch.setattr(host_names, "look", lambda *_given: {})  # no program runs that could write
        patch.setattr(engine_trial, "problem", lambda *_given: "")  # what fails here fails for this session alone
        patch.setattr(link, "session_links", lambda: dict(NOW.host.links))
        patch.setattr(link, "delete_link", remove_link)
        patch.setattr(firewall, "sessions", lambda: dict(NOW.host.rules))
        patch.setattr(firewall, "remove", remove_rules)
        patch.setattr(folders, "bind_mounts", lambda _session: [])
        for module in (prepare, change_steps):
            patch.setattr(module, "keep_out", lambda *_given: [])
        patch.setattr(host_repair, "session_stages", stages_in_memory)
        # Nobody answers questions of membership here; a host that is back asks in World.boot.
        patch.setattr(membership, "memberships", lambda *_given: {})
        patch_bounded(patch)
        patch.setattr(disk, "enforce_limits", lambda *_given: ({}, []))
        patch.setattr(firewall_rules, "standing_steps", lambda _nftables: [])
        patch.setattr(firewall_rules, "isolation_of_stub", lambda _stub: None)
        patch.setattr(firewall_rules, "give_up_steps", give_up_in_memory)
        patch.setattr(ledger_file, "boot_id", lambda: "boot")
        patch.setattr(ledger_file, "REMOVALS", run_directory)
        clock = SimpleNamespace(**{**vars(_clock()), "clock_gettime": lambda _which: worlds[-1].now, "sleep": rest})
        for module in (ledger_file, locks):
            patch.setattr(module, "time", clock)
        for module in (ledger_file, state_files, output_files):
            patch.setattr(module, "write_file", partial(_write_as_me, write_file))
        serve_in_memory(patch, lambda: worlds[-1])
        run_in_memory(patch, lambda: worlds[-1])
        patch.setattr(state_files, "LOCKS", _Locks())
        patch.setattr(os, "fsync", lambda _descriptor: None)
        patch.setattr(concurrent.futures, "ThreadPoolExecutor", _AtOnce)
        yield worlds


def _clock() -> Any:
    """Return what hosts read the time from: inside of `in_memory` that is the clock of the world."""
    return vars(ledger_file)["time"]


def _write_as_me(write: Callable[..., None], path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file that belongs to whoever runs the tests."""
    write(path, text, mode, (os.getuid(), os.getgid()))
