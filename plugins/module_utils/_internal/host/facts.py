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
from functools import partial
from typing import TYPE_CHECKING, Any

from ..adapters import cpus, engine_objects, firewall, folders, link
from ..adapters.bounded import bounded, patience
from ..adapters.engine import Engine, EngineError
from ..adapters.engine_api import SOCKET
from ..adapters.engine_objects import Container, EngineNetwork, HostPort
from ..adapters.ledger import DamagedLedger, LedgerFile
from ..adapters.state import DamagedFile, PublicKeys, SessionDirectory, StateDirectory
from ..adapters.suspicion import SuspicionFile
from ..core.cluster import state as cluster_state
from ..core.model.claims import Reservation
from ..core.model.decode import encode
from ..core.model.host_parts import Underlay
from ..core.model.record import PENDING, RUNNING, Record, stub_of, told_of
from ..core.values.errors import InvalidPlan, SessionError, hangs
from ..core.values.places import RUNTIME_MANIFEST, RUNTIME_ON_HOST
from . import default_runtime, engine_settings, firewall_rules
from .durations import part_times
from .exit_status import read_exit_code, read_failure
from .identity import read_identity
from .use import read_use

if TYPE_CHECKING:
    from ..core.model.call.host_info import LookAtHost

OF_ENGINE = ("version", "api_version", "architecture", "limits_swap", "cdi", "remaps_users", "root", "image_store")
"""The parts of the engine's data that a host compares by itself."""


def host_facts(state: StateDirectory, wanted: LookAtHost) -> dict[str, Any]:
    """Return the facts of this host.

    A host that cannot run sessions returns ``usable: false`` and a ``problem``, a full sentence, instead of an
    exception. The caller decides whether that is an error.
    """
    if os.geteuid() != 0:
        return {
            "usable": False,
            "problem": f"Ansible works on this host as uid {os.geteuid()}, but networks and containers need root. Set "
            "ansible_become=true, or log in as root.",
        }
    try:
        return {"usable": True, "problem": "", **_collected(state, wanted)}
    except SessionError as error:
        return {"usable": False, "problem": str(error), "hangs": hangs(error)}


def _collected(state: StateDirectory, wanted: LookAtHost) -> Mapping[str, Any]:
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
    facts |= _on_request(engine, state, wanted, records, (facts.get("underlay") or {}).get("address", ""))
    facts["not_waiting"] = [record.id for record in records if _acts_on_loss(record)]
    reservations, damage = _reservations(state, wanted.whole_records)
    facts["reservations"] = [held.to_dict() for held in reservations]
    facts["drained"], facts["suspect"] = encode(state.read_drain()), encode(SuspicionFile(str(state.root)).read())
    facts["identity"], facts["names"], facts["clock"] = identity.id, list(identity.names), clock
    facts["ports"] = port_list(_with_reserved(facts["ports"], reservations))
    facts["batches"] = batches
    in_figures = {record.id for record in records if wanted.usage or record.name == wanted.session_name}
    times = part_times(engine, state, records, in_figures)
    facts["times"], facts["use"] = encode(times), read_use(state)
    in_full = {
        *(session_id for session_id, part in times.items() if part.over or part.is_idle),
        *(container["session_id"] for container in facts["containers"] if container["failure"]),
        *batches,
        *(record.id for record in records if record.growth or state.session(record.id).expects_some),
    }
    recorded = _records(state, wanted.session_name, records, wanted.whole_records, in_full)
    recorded["damaged"] = [*map(str, unreadable), *recorded["damaged"], *damage]
    recorded["signature"] = waited_for
    if wanted.ways_in:
        recorded |= _ways_in([state.session(record.id) for record in records if record.name == wanted.session_name])
    return {**facts, **recorded, "ledger_is_damaged": bool(damage)}


def _ways_in(sessions: Collection[SessionDirectory]) -> dict[str, object]:
    """Return what the owner of sessions needs to log in."""
    return {
        "public_keys": {directory.path.name: directory.read_public_keys() for directory in sessions},
        "users": {directory.path.name: directory.read_logins() for directory in sessions},
    }


def _on_request(
    engine: Engine, state: StateDirectory, wanted: LookAtHost, records: list[Record], underlay: str
) -> dict[str, object]:
    """Return the facts that take long, empty where they are not wanted. underlay: the address of tunnels."""
    facts: dict[str, object] = {"accelerators": {}, "silent_peers": {}}
    if wanted.encryption:
        from ..adapters import wireguard

        facts["encryption"] = wireguard.problem(underlay)
    if wanted.accelerators:
        from ..adapters.accelerators import detect

        facts["accelerators"] = detect(wanted.accelerators)
    if wanted.peers_of:
        facts["silent_peers"] = _silent_peers(engine, state, records, wanted.peers_of, underlay)
    return facts


def _silent_peers(
    engine: Engine, state: StateDirectory, records: list[Record], peers_of: Collection[str], underlay: str
) -> dict[str, list[str]]:
    from .membership import silent_peers

    pids = {}
    for entry in engine.session_containers():
        session_id = entry.labels.session_id
        if entry.runs and session_id in peers_of and session_id not in pids:
            pids[session_id] = engine.pid_of(entry.id)
    return silent_peers(state, records, peers_of, {key: pid for key, pid in pids.items() if pid}, underlay)


def _acts_on_loss(record: Record) -> bool:
    """Return whether the loss of a host has more consequences than that a session waits for it."""
    return record.status == RUNNING and (record.request or {}).get("on_host_loss", "wait") != "wait"


def image_names() -> list[str]:
    """Return the sorted names of all images that the engine of this host has. Raises EngineError."""
    found = Engine.connect().image_names()
    return sorted(name for name, image in found.items() if name not in (image, "<none>:<none>"))


def _facts(engine: Engine, state: StateDirectory, wanted: LookAtHost, images: set[str]) -> dict[str, Any]:
    if not os.path.isfile(f"{RUNTIME_ON_HOST}/{RUNTIME_MANIFEST}"):
        raise EngineError(f"This host lacks the SSH runtime {RUNTIME_ON_HOST}. Run the prepare_hosts playbook.")
    engine.require_sight(RUNTIME_ON_HOST)
    info = engine.info()
    every = engine.containers()
    networks = engine.networks()
    links = link.details()
    tables = firewall.tables()
    overlays = firewall_rules.overlays_in_force(engine.uses_nftables(), tables)
    entries = [entry for entry in every if entry.is_replica]
    underlay = _underlay(wanted.underlay_address, links)
    return {
        "engine": {
            **{key: getattr(info, key) for key in OF_ENGINE},
            "stale_runtime": default_runtime.stale(info.runtimes, info.default_runtime),
            "no_rules": engine_settings.why_no_rules(engine.process()),
        },
        "topology": cpus.topology(cpus.usable_cpus()),
        "capacity": {"cpus": info.cpus, "memory": info.memory},
        "containers": [_container(engine, state, entry) for entry in entries],
        "foreign_containers": [
            entry.name for entry in every if not entry.is_replica and entry.name.startswith(f"{wanted.session_name}-")
        ],
        "objects": _objects(state, entries, networks, links, tables),
        "overlays": encode(overlays),
        "no_overlay": link.why_no_port(
            overlays.port if overlays is not None else link.VXLAN_PORT,
            links,
            underlay.address if underlay is not None else None,
        ),
        "underlay": encode(underlay),
        "addresses": link.addresses(links),
        "subnets": sorted({*link.subnets(links), *(subnet for network in networks for subnet in network.subnets)}),
        "vnis": link.vnis(links),
        # The published ports of containers need no listener.
        "ports": link.listening_ports().union(*(entry.ports for entry in entries)),
        "images": {reference: _image(engine, reference) for reference in sorted(images)},
        "paths": {path: bounded_path_facts(path) for path in sorted(set(wanted.paths))},
        "private": private_places(state),
        "volumes": {name: encode(engine.volume(name)) for name in sorted(set(wanted.volumes))},
    }


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


def bounded_path_facts(path: str) -> dict[str, Any]:
    """Return the facts about a path that planning needs. Raises Hung if its file system does not answer."""
    what = f"the file system of {path} (session_mounts)"
    return bounded(partial(folders.path_facts, path), what, patience(what, folders.SECONDS))


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


def _records(
    state: StateDirectory, session_name: str, records: list[Record], whole_records: bool, in_full: set[str]
) -> dict[str, Any]:
    """Return the records: whole if requested or needed for the queue, failures and changes, otherwise as stubs."""
    damaged = []
    tombstones = []
    try:
        tombstones = state.tombstones()
    except DamagedFile as error:
        damaged.append(str(error))
    return {
        "records": [
            encode(told_of(record))
            if whole_records or record.name == session_name or record.status != RUNNING or record.id in in_full
            else encode(stub_of(record))
            for record in records
        ],
        "public_keys": {record.id: state.session(record.id).read_public_keys() for record in records}
        if whole_records
        else _own_public_keys(state, [record for record in records if record.name == session_name]),
        "damaged": damaged,
        "tombstones": tombstones,
        "host_names": _host_names(state, records),
    }


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


def _batches(state: StateDirectory, records: list[Record]) -> dict[str, dict[str, Any]]:
    """Return the state of the batch commands that were started on this host, by session."""
    found = {}
    for record in records:
        if record.status == RUNNING and record.request is not None and record.request["batch_command"]:
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
    batches: Mapping[str, Mapping[str, Any]] | None = None,
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
    ended = [session_id for session_id, outcome in outcomes.items() if outcome["status"] != RUNNING]
    ended += [key for key, part in part_times(None, state, found).items() if part.over or part.is_idle]
    return hashlib.sha256(json.dumps([held, waiting, ended], sort_keys=True).encode()).hexdigest()


def _objects(
    state: StateDirectory,
    containers: Iterable[Container],
    networks: Iterable[EngineNetwork],
    links: link.Links,
    tables: Mapping[str, firewall.Iptables],
) -> dict[str, dict[str, Any]]:
    """Return the objects of each session in addition to its record: id to name and kinds."""
    found: dict[str, dict[str, Any]] = {}

    def add(session_id: str, name: str, kind: str) -> None:
        session = found.setdefault(session_id, {"name": name, "kinds": []})
        session["name"] = session["name"] or name
        if kind not in session["kinds"]:
            session["kinds"].append(kind)

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


def _container(engine: Engine, state: StateDirectory, entry: Container) -> dict[str, Any]:
    labels = entry.labels
    directory = state.session(labels.session_id)
    failed = read_failure(engine, directory, entry, "")
    since, count = directory.read_corrections(entry.replica)
    return {
        "name": entry.name,
        "session_id": labels.session_id,
        "session_name": labels.session_name,
        "replica": entry.replica,
        "corrections": {"since": since, "count": count} if count else None,
        "cpus": labels.number(engine_objects.LABEL_CPUS),
        "memory": labels.number(engine_objects.LABEL_MEMORY),
        "devices": dict(labels.devices),
        "state": entry.state,
        "exit_code": read_exit_code(engine, entry),
        "failure": failed
        and {
            "exit_code": failed.exit_code,
            "oom_killed": failed.oom_killed,
            "finished": failed.finished,
            "restarts": failed.restarts,
            "stopped": failed.stopped,
        },
    }


def _with_reserved(ports: set[HostPort], reservations: list[Reservation]) -> set[HostPort]:
    return ports.union(*(held.claim.ports for held in reservations))


def port_list(ports: Iterable[HostPort]) -> list[dict[str, object]]:
    """Return address, port and protocol of each port, sorted, in the form for JSON."""
    return [{"address": address, "port": port, "protocol": protocol} for address, port, protocol in sorted(ports)]


def _image(engine: Engine, reference: str) -> dict[str, Any] | None:
    found = engine.inspect_image(reference)
    if found is None:
        return None
    return {
        "id": found.id,
        "digests": list(found.digests),
        "architecture": found.architecture,
        "content": found.content,
    }
