# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Collect the facts about one host for placement and addressing. Nothing here changes anything."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..adapters import cpus, engine_objects, firewall, folders, link
from ..adapters.bounded import bounded, patience
from ..adapters.engine import Engine, EngineError
from ..adapters.engine_api import SOCKET
from ..adapters.engine_objects import EngineNetwork, HostPort
from ..adapters.ledger import DamagedLedger, LedgerFile
from ..adapters.state import DamagedFile, StateDirectory
from ..adapters.suspicion import SuspicionFile
from ..core.cluster import state as cluster_state
from ..core.model.claims import Reservation
from ..core.model.decode import encode
from ..core.model.facts import (
    Container,
    ContainerFailure,
    Corrections,
    EngineCapacity,
    EngineFacts,
    HostFacts,
    ImageFacts,
    Parts,
    PathFacts,
    Port,
    Unusable,
)
from ..core.model.host_parts import Underlay
from ..core.model.record import PENDING, RUNNING, PublicKeys, Record, stub_of, told_of
from ..core.values.cpus import Topology
from ..core.values.errors import InvalidPlan, SessionError, hangs
from ..core.values.image_names import digest_of, is_pack
from ..core.values.places import RUNTIME_MANIFEST, RUNTIME_ON_HOST
from . import default_runtime, engine_settings, firewall_rules, packs
from .durations import part_times
from .exit_status import read_exit_code, read_failure
from .identity import read_identity
from .use import read_use

if TYPE_CHECKING:
    from ..core.model.call.host_info import LookAtHost
    from ..core.model.output import JobOutcome

OF_ENGINE = ("version", "api_version", "architecture", "limits_swap", "cdi", "remaps_users", "root", "image_store")
"""The parts of the engine's own report that are facts of the host."""


def host_facts(state: StateDirectory, wanted: LookAtHost) -> HostFacts | Unusable:
    """Return the facts of this host.

    A host that cannot run sessions returns the reason, a full sentence, instead of an exception. The caller decides
    whether that is an error.
    """
    if os.geteuid() != 0:
        return Unusable(
            f"Ansible works on this host as uid {os.geteuid()}, but networks and containers need root. Set "
            "ansible_become=true, or log in as root.",
        )
    try:
        return _collected(state, wanted)
    except SessionError as error:
        return Unusable(str(error), hangs(error))


def _collected(state: StateDirectory, wanted: LookAtHost) -> HostFacts:
    # Before anything is read, and rounded down, so that every later teardown counts as after this collection.
    identity = read_identity(state)
    clock = math.floor(time.clock_gettime(time.CLOCK_BOOTTIME) * 10) / 10
    engine = Engine.connect()
    # Records first and the ledger last. A launch reserves before it writes a record, so a launch that begins in
    # the meantime is never seen without its reservation.
    records, unreadable = state.records()
    # A waiting session watches for changes that this run may not have seen, so the signature is read first.
    batches = _batches(state, records)
    waited_for = signature(state, wanted.session_name, records, batches)
    facts = _facts(engine, state, wanted, {*wanted.images, *_pinned_images(wanted.session_name, records)})
    facts = _on_request(facts, engine, state, wanted, records)
    reservations, damage = _reservations(state, wanted.whole_records)
    in_figures = {record.id for record in records if wanted.usage or record.name == wanted.session_name}
    times = part_times(engine, state, records, in_figures)
    in_full = {
        *(session_id for session_id, part in times.items() if part.over or part.is_idle),
        *(container.session_id for container in facts.containers if container.failure),
        *batches,
        *(record.id for record in records if record.growth or state.session(record.id).expects_some),
    }
    facts = replace(
        facts,
        not_waiting=tuple(record.id for record in records if _acts_on_loss(record)),
        reservations=tuple(reservations),
        drained=state.read_drain(),
        suspect=SuspicionFile(str(state.root)).read(),
        identity=identity.id,
        names=identity.names,
        clock=clock,
        ports=_with_reserved(facts.ports, reservations),
        batches=batches,
        times=times,
        use=read_use(state),
        signature=waited_for,
        ledger_is_damaged=bool(damage),
        damaged=(*map(str, unreadable), *damage),
    )
    facts = _with_records(facts, state, records, wanted, in_full)
    return _with_ways_in(facts, state, records, wanted.session_name) if wanted.ways_in else facts


def _with_ways_in(facts: HostFacts, state: StateDirectory, records: list[Record], session_name: str) -> HostFacts:
    """Return facts with what the owner of sessions needs to log in."""
    sessions = {record.id: state.session(record.id) for record in records if record.name == session_name}
    public_keys = {key: directory.read_public_keys() for key, directory in sessions.items()}
    users = {key: directory.read_logins() for key, directory in sessions.items()}
    return replace(facts, public_keys=public_keys, users=users)


def _on_request(
    facts: HostFacts, engine: Engine, state: StateDirectory, wanted: LookAtHost, records: list[Record]
) -> HostFacts:
    """Return facts with those that take long, as far as they are wanted."""
    underlay = "" if facts.underlay is None else facts.underlay.address
    if wanted.encryption:
        from ..adapters import wireguard

        facts = replace(facts, encryption=wireguard.problem(underlay))
    if wanted.accelerators:
        from ..adapters.accelerators import detect

        facts = replace(facts, accelerators=detect(wanted.accelerators))
    if wanted.peers_of:
        facts = replace(facts, silent_peers=_silent_peers(engine, state, records, wanted.peers_of, underlay))
    return facts


def _silent_peers(
    engine: Engine, state: StateDirectory, records: list[Record], peers_of: Collection[str], underlay: str
) -> dict[str, tuple[str, ...]]:
    from .membership import silent_peers

    pids = {}
    for entry in engine.session_containers():
        session_id = entry.labels.session_id
        if entry.runs and session_id in peers_of and session_id not in pids:
            pids[session_id] = engine.pid_of(entry.id)
    found = silent_peers(state, records, peers_of, {key: pid for key, pid in pids.items() if pid}, underlay)
    return {key: tuple(peers) for key, peers in found.items()}


def _acts_on_loss(record: Record) -> bool:
    """Return whether the loss of a host has more consequences than that a session waits for it."""
    return record.status == RUNNING and (record.request or {}).get("on_host_loss", "wait") != "wait"


def image_names() -> list[str]:
    """Return the sorted names of all images that the engine of this host has. Raises EngineError."""
    found = Engine.connect().image_names()
    return sorted(name for name, image in found.items() if name not in (image, "<none>:<none>"))


def _facts(engine: Engine, state: StateDirectory, wanted: LookAtHost, images: set[str]) -> HostFacts:
    if not os.path.isfile(f"{RUNTIME_ON_HOST}/{RUNTIME_MANIFEST}"):
        raise EngineError(f"This host lacks the SSH runtime {RUNTIME_ON_HOST}. Run the prepare_hosts playbook.")
    engine.require_sight(RUNTIME_ON_HOST)
    info = engine.info()
    every = engine.containers()
    networks = engine.networks()
    links = link.details()
    tables = firewall.tables()
    overlays = firewall_rules.overlays_in_force(info.uses_nftables, tables)
    entries = [entry for entry in every if entry.is_replica]
    underlay = _underlay(wanted.underlay_address, links)
    port = overlays.port if overlays is not None else link.VXLAN_PORT
    return HostFacts(
        engine=EngineFacts(
            **{key: getattr(info, key) for key in OF_ENGINE},
            stale_runtime=default_runtime.stale(info.runtimes, info.default_runtime),
            no_rules=engine_settings.why_no_rules(engine.process()),
        ),
        topology=Topology.from_dict(cpus.topology(cpus.usable_cpus())),
        capacity=EngineCapacity(info.cpus, info.memory),
        containers=tuple(_container(engine, state, entry) for entry in entries),
        foreign_containers=tuple(
            entry.name for entry in every if not entry.is_replica and entry.name.startswith(f"{wanted.session_name}-")
        ),
        objects=_objects(state, entries, networks, links, tables),
        overlays=overlays,
        no_overlay=link.why_no_port(port, links, underlay.address if underlay is not None else None),
        underlay=underlay,
        addresses=tuple(link.addresses(links)),
        subnets=tuple(sorted({*link.subnets(links), *(subnet for network in networks for subnet in network.subnets)})),
        vnis=tuple(link.vnis(links)),
        # The published ports of containers need no listener.
        ports=sorted_ports(link.listening_ports().union(*(entry.ports for entry in entries))),
        images={reference: _image(engine, state, reference) for reference in sorted(images)},
        paths={path: bounded_path_facts(path) for path in sorted(set(wanted.paths))},
        private=private_places(state),
        volumes={name: engine.volume(name) for name in sorted(set(wanted.volumes))},
    )


def private_places(state: StateDirectory) -> dict[str, str]:
    """Return the paths of this host that no session may mount, by real path."""
    places = {
        str(state.root): "the state of sessions",
        str(state.label_key_file): "the key that proves records",
        os.path.dirname(RUNTIME_ON_HOST): "programs that run as root",
        SOCKET: "Docker Engine's socket",
        folders.BIND_MOUNTS: "what sessions mount",
        "/etc": "the host's settings",
    }
    return {os.path.realpath(place): what for place, what in places.items()}


def bounded_path_facts(path: str) -> PathFacts:
    """Return the facts about a path that planning needs. Raises Hung if its file system does not answer."""
    what = f"the file system of {path} (session_mounts)"
    return PathFacts(**bounded(partial(folders.path_facts, path), what, patience(what, folders.SECONDS)))


def _underlay(wanted: str | None, links: link.Links) -> Underlay | None:
    """Return the underlay of this host's tunnels. None if it is not clear and no plan needs it."""
    try:
        return link.underlay(wanted, links)
    except link.LinkError:
        if wanted is not None:
            raise
        return None


def _reservations(state: StateDirectory, forgiving: bool = False) -> tuple[list[Reservation], list[str]]:
    """Return the ledger's reservations by session id, and why it cannot be read. Only a repair works without it.

    A launch that only holds a session's name for a moment has nothing that another could use or wait for. A change of a
    session blocks other changes, whatever it holds.
    """
    try:
        held = LedgerFile(str(state.root)).read()
        return [held[key] for key in sorted(held) if held[key].claim.replicas or held[key].claim.amends], []
    except DamagedLedger as error:
        if not forgiving:
            raise
        return [], [str(error)]


def _with_records(
    facts: HostFacts, state: StateDirectory, records: list[Record], wanted: LookAtHost, in_full: set[str]
) -> HostFacts:
    """Return facts with the records: whole if wanted or needed for the queue, failures and changes, else as stubs."""
    damaged, tombstones = list(facts.damaged), []
    try:
        tombstones = state.tombstones()
    except DamagedFile as error:
        damaged.append(str(error))
    named = [record for record in records if record.name == wanted.session_name]
    in_full = {*in_full, *(record.id for record in records if wanted.whole_records or record.status != RUNNING)}
    in_full |= {record.id for record in named}
    return replace(
        facts,
        records=tuple(told_of(record) if record.id in in_full else stub_of(record) for record in records),
        public_keys={record.id: state.session(record.id).read_public_keys() for record in records}
        if wanted.whole_records
        else _own_public_keys(state, named),
        damaged=tuple(damaged),
        tombstones=tuple(tombstones),
        host_names=_host_names(state, records),
    )


def _host_names(state: StateDirectory, records: list[Record]) -> dict[str, str]:
    """Return, by session, the name under which this host carries replicas of it."""
    copies = {record.id: record for record in records}
    names = {key: state.session(key).name_in(copies.get(key)) for key in state.session_ids()}
    return {session_id: name for session_id, name in names.items() if name}


def _own_public_keys(state: StateDirectory, records: list[Record]) -> dict[str, PublicKeys]:
    """Return the public keys of the replicas here, for running sessions that have all of their keys here."""
    found = {}
    for record in records:
        session = state.session(record.id)
        host = session.read_host()
        if host in record.hosts and record.status == RUNNING and record.plan is not None and host is not None:
            from ..core.model.plan import read_plan
            from .prepare import make_keys

            with suppress(InvalidPlan):  # the step that would start it reports this
                plan = read_plan(record.plan, forgiving=True)
                public_keys, lacking = make_keys(session, plan, host, regenerate=False, check_mode=True)
                if not lacking:
                    found[record.id] = public_keys
    return found


def _batches(state: StateDirectory, records: list[Record]) -> dict[str, JobOutcome]:
    """Return the state of the batch commands that were started on this host, by session."""
    found = {}
    for record in records:
        if record.status == RUNNING and (record.request or {}).get("batch_command"):
            # Only hosts that have run a batch command need these.
            from ..adapters.output import OutputDirectory
            from ..core.rules.output import batch_job
            from .jobs import outcomes

            job = OutputDirectory(str(state.root)).session(record.id).job(batch_job(record.id))
            for outcome in outcomes(job):
                found[record.id] = outcome
    return found


def _pinned_images(session_name: str, records: list[Record]) -> set[str]:
    """Return the ids of the images that a session of this name runs, if this host has its record."""
    return {
        image
        for record in records
        if record.name == session_name and record.plan is not None
        for pinned in (record.plan.get("images") or {}).values()
        for image in pinned["ids"].values()
        if image is not None
    }


def signature(
    state: StateDirectory,
    session_name: str,
    records: list[Record] | None = None,
    batches: Mapping[str, JobOutcome] | None = None,
) -> str:
    """Return a digest of everything that decides if a waiting session fits on this host, without the session itself.

    records, batches: if they were already read.
    """
    found = state.records()[0] if records is None else records
    outcomes = _batches(state, found) if batches is None else batches
    held = [[encode(held.claim), held.stage] for held in _reservations(state, True)[0]]
    waiting = [
        [record.id, record.revision] for record in found if record.status == PENDING and record.name != session_name
    ]
    ended = [session_id for session_id, outcome in outcomes.items() if outcome.status != RUNNING]
    ended += [key for key, part in part_times(None, state, found).items() if part.over or part.is_idle]
    return hashlib.sha256(json.dumps([held, waiting, ended], sort_keys=True).encode()).hexdigest()


def _objects(
    state: StateDirectory,
    containers: Iterable[engine_objects.Container],
    networks: Iterable[EngineNetwork],
    links: link.Links,
    tables: Mapping[str, firewall.Iptables],
) -> dict[str, Parts]:
    """Return the objects of each session in addition to its record, by id."""
    found: dict[str, Parts] = {}

    def add(session_id: str, name: str, kind: str) -> None:
        known = found.get(session_id, Parts(name, ()))
        found[session_id] = Parts(known.name or name, tuple(dict.fromkeys((*known.kinds, kind))))

    for container in containers:
        add(container.labels.session_id, container.labels.session_name, cluster_state.CONTAINER)
    for network in networks:
        add(network.labels.session_id, network.labels.session_name, cluster_state.NETWORK)
    for session_id, name in link.session_links(links).values():
        add(session_id, name, cluster_state.LINK)
    for session_id, name in firewall.sessions(tables).items():
        add(session_id, name, cluster_state.RULES)
    for session_id in _sessions_with_files(state):
        add(session_id, "", cluster_state.STATE)
    for session_id, held in LedgerFile(str(state.root)).expired().items():
        add(session_id, held.claim.session_name, cluster_state.LEASE)
    return {key: found[key] for key in sorted(found) if key}


def _sessions_with_files(state: StateDirectory) -> Iterator[str]:
    """Yield the sessions that have something in the state directory or a mount, in addition to their record."""
    for session_id in state.session_ids():
        if state.session(session_id).replicas.exists() or not state.session(session_id).record_file.exists():
            yield session_id
    for session_id in folders.bind_mounted_sessions():
        if not state.session(session_id).exists():
            yield session_id


def _container(engine: Engine, state: StateDirectory, entry: engine_objects.Container) -> Container:
    labels = entry.labels
    directory = state.session(labels.session_id)
    failed = read_failure(engine, directory, entry, "")
    since, count = directory.read_corrections(entry.replica)
    failure = None
    if failed is not None:
        ended = (failed.exit_code, failed.oom_killed, failed.finished)
        failure = ContainerFailure(*ended, failed.restarts, failed.stopped)
    return Container(
        name=entry.name,
        session_id=labels.session_id,
        session_name=labels.session_name,
        replica=entry.replica,
        cpus=labels.number(engine_objects.LABEL_CPUS),
        memory=labels.number(engine_objects.LABEL_MEMORY),
        devices=dict(labels.devices),
        state=entry.state,
        exit_code=read_exit_code(engine, entry),
        failure=failure,
        corrections=Corrections(since, count) if count else None,
    )


def sorted_ports(ports: Iterable[HostPort]) -> tuple[Port, ...]:
    """Return ports in order."""
    return tuple(Port(*port) for port in sorted(ports))


def _with_reserved(ports: Iterable[Port], reservations: Iterable[Reservation]) -> tuple[Port, ...]:
    return tuple(sorted({*ports, *(Port(*port) for held in reservations for port in held.claim.ports)}))


def _image(engine: Engine, state: StateDirectory, reference: str) -> ImageFacts | None:
    """Return the facts of an image that the engine has, or of a pack that the state directory has."""
    if is_pack(reference):
        return ImageFacts(str(digest_of(reference)), (), "") if packs.has(state, reference) else None
    found = engine.inspect_image(reference)
    return None if found is None else ImageFacts(found.id, found.digests, found.architecture, found.content)
