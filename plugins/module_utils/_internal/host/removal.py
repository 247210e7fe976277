# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Remove all parts of a session on one host, found by labels, link aliases and state, however much is left."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..adapters import engine_objects, firewall, link
from ..adapters.engine import Engine, NetworkKept
from ..adapters.engine_objects import Container, EngineNetwork
from ..adapters.ledger import LedgerFile
from ..adapters.output import OutputDirectory
from ..adapters.state import DamagedFile, StateDirectory
from ..core.model.call.session_host import SessionElsewhere
from ..core.model.claims import COMMITTED
from ..core.model.host_parts import KnownSession
from ..core.model.output import MAIN
from ..core.model.record import Record, carriers, group_of, is_stub, latest
from ..core.rules.isolation import Isolation
from ..core.rules.ledger import CHANGE
from ..core.rules.output import batch_job
from ..core.rules.scope import is_left_alone
from ..core.values.deferred import dataclass
from . import data, firewall_rules
from .labels import labelled_records
from .output import LogArchive
from .session.containers import end_container
from .session.ssh import examination_prefix
from .steps import Stage, Step, perform


@dataclass(frozen=True)
class Terms:
    """The parts of a removed session that stay, and other things that are removed with it.

    keep_record: the records stay, and for a stub of a running session also the rules that keep others out of it.
    undo: also removes empty directories and volumes that a failed launch created, and the output of its batch command.
    With keep_data, volumes are removed only if they are empty. archive: keeps the output of the containers. left: the
    record that the session has here afterwards. change_id: the change to which this belongs, whose lease stays.
    """

    keep_record: bool = False
    undo: bool = False
    keep_data: bool = False
    archive: LogArchive | None = None
    left: Record | None = None
    change_id: str | None = None


EVERYTHING = Terms()
"""Terms by which only data directories and named volumes stay."""


def removal_stages(
    engine: Engine,
    state: StateDirectory,
    ledger: LedgerFile,
    session_name: str | None,
    session_id: str | None,
    known: Iterable[str],
    terms: Terms = EVERYTHING,
) -> list[Stage]:
    """Return the steps that remove a session, found by name, by id or by both: containers, networks, links, state.

    Data directories and named volumes are kept. Objects are found independently of each other, so a session that is
    incomplete or has lost its record is also removed. known: ids of the matching `known_sessions`. Without a record,
    the whole directory of a session is removed. `remove` performs the steps.
    """
    labels, is_meant = _meant(session_name, session_id)
    containers = engine.session_containers(labels)
    networks = engine.networks(labels)
    links = {name for name, owner in link.session_links().items() if is_meant(owner[1], owner[0])}
    tunnels = {name for name in links if name.startswith(link.TUNNEL_PREFIX)}
    entries = {**ledger.expired(), **ledger.read()}
    ids = sorted({*known, *([] if session_id is None else [session_id])})
    reserved = {key for key, held in entries.items() if is_meant(held.claim.session_name, key)}
    reserved |= {key for key, held in entries.items() if held.claim.amends in ids}
    what = session_name or session_id or ""
    output = OutputDirectory(str(state.root))
    guarded = _guarded_sessions(state, ids, terms)
    return [
        # First, because the batch command can be started again under its id when its containers are gone.
        _aside_steps(output, ids, terms.keep_record),
        [*(_container_step(engine, entry, terms.archive) for entry in containers), *_examination_steps(engine, ids)],
        [_network_step(engine, network) for network in networks],
        # Links on a tunnel are removed before it, because the kernel would remove them with it.
        [_link_step(name) for name in sorted(links - tunnels)],
        [_link_step(name) for name in sorted(tunnels)],
        firewall_rules.removal_steps(
            {key: name for key, name in firewall.sessions().items() if is_meant(name, key) and key not in guarded}
        ),
        *(firewall_rules.rule_steps(guarded[key], engine.uses_nftables()) for key in sorted(guarded)),
        *_data_stages(state, engine, ids, terms),
        list(_state_steps(state, ids, terms.keep_record)),
        list(_output_steps(output, ids if terms.undo else (), what, terms.keep_record)),
        [
            Step("release", "reservation", what, partial(ledger.release, key), before="held")
            for key in sorted(reserved - {terms.change_id})
        ],
    ]


def _container_step(engine: Engine, entry: Container, archive: LogArchive | None) -> Step:
    end = partial(end_container, engine, entry, archive)
    return Step("remove", "container", entry.name or entry.id, end, before=entry.state)


def _examination_steps(engine: Engine, ids: Iterable[str]) -> Iterator[Step]:
    """Remove the containers in which images of sessions were examined."""
    for session_id in ids:
        for entry in engine.examinations(examination_prefix(session_id)):
            remove_it = partial(engine.remove_container, entry.id)
            yield Step("remove", "container", entry.name, remove_it, before="created")


def _network_step(engine: Engine, network: EngineNetwork) -> Step:
    return Step("remove", "network", network.name, partial(engine.remove_network, network.id), before=network.driver)


def _data_stages(state: StateDirectory, engine: Engine, ids: Iterable[str], terms: Terms) -> Iterator[Stage]:
    for session_id in ids:
        yield from data.removal_steps(state.session(session_id), session_id, engine, terms.undo, terms.keep_data)


def _state_steps(state: StateDirectory, ids: Iterable[str], keep_record: bool) -> Iterator[Step]:
    for session_id in ids:
        folder = state.session(session_id)
        if (folder.replicas if keep_record and folder.record_file.exists() else folder.path).exists():
            remove_it = partial(_remove_state, state, session_id, keep_record)
            yield Step("remove", "state", str(folder.path), remove_it, before="present")


def _output_steps(output: OutputDirectory, ids: Iterable[str], what: str, keep_record: bool) -> Iterator[Step]:
    for session_id in ids:
        found = output.session(session_id)
        # The output of an earlier start of a session that waits again was set aside and is kept.
        path = found.job(batch_job(session_id)).path if keep_record else found.path
        if path.exists():
            yield Step("remove", "output", what, partial(shutil.rmtree, path), before="present")


def remove(stages: Sequence[Stage]) -> tuple[list[Stage], list[str]]:
    """Perform the steps that remove a session. Return those that were done, and warnings.

    A network that the engine keeps although it is unused causes a warning, and does not stop other removals.
    """
    kept: dict[str, str] = {}

    def attempt(step: Step) -> None:
        try:
            step.do()
        except NetworkKept as error:
            kept[step.describe()] = f"{error} The session's place is free."

    perform([[replace(step, do=partial(attempt, step)) for step in stage] for stage in stages])
    return [[step for step in stage if step.describe() not in kept] for stage in stages], list(kept.values())


def _guarded_sessions(state: StateDirectory, ids: Iterable[str], terms: Terms) -> dict[str, Isolation]:
    """Return the firewall rules that stay here, by session."""
    if not terms.keep_record:
        return {}
    return {key: wanted for key in ids if (wanted := _guarded(state, key, terms.left)) is not None}


def _guarded(state: StateDirectory, session_id: str, left: Record | None) -> Isolation | None:
    """Return the firewall rules of this host for a session that runs on other hosts, as far as its stub has them."""
    try:
        record = latest(
            copy for copy in (state.session(session_id).read_record(), left) if copy and copy.id == session_id
        )
    except DamagedFile:
        return None
    return None if record is None or not is_stub(record) else firewall_rules.isolation_of_stub(record)


def _aside_steps(output: OutputDirectory, ids: Iterable[str], keep_record: bool) -> Stage:
    """Keep the output of batch commands that start again, like the output of other jobs."""
    if not keep_record:
        return []
    jobs = [output.session(session_id).job(batch_job(session_id)) for session_id in sorted(ids)]
    return [
        Step("set aside", "output", job.id, partial(job.set_aside, uuid.uuid4().hex), before="present")
        for job in jobs
        if (job.read_end(MAIN) or {}).get("requeue")
    ]


Meant = Callable[[str, str], bool]


def _meant(session_name: str | None, session_id: str | None) -> tuple[dict[str, str], Meant]:
    """Return the labels of matching objects, and a test by name and id for objects without labels."""
    labels = {}
    if session_name is not None:
        labels[engine_objects.LABEL_SESSION_NAME] = session_name
    if session_id is not None:
        labels[engine_objects.LABEL_SESSION_ID] = session_id
    return labels, lambda name, found_id: session_name in (None, name) and session_id in (None, found_id)


def known_sessions(
    engine: Engine, state: StateDirectory, ledger: LedgerFile, session_name: str | None, session_id: str | None
) -> list[KnownSession]:
    """Return every matching session of which this host has any part, sorted by id."""
    labels, is_meant = _meant(session_name, session_id)
    found: dict[str, KnownSession] = {}

    def add(key: str, name: str) -> None:
        found.setdefault(key, KnownSession(key, name))

    entries = [entry.labels for entry in engine.session_containers(labels)]
    for of_entry in [*entries, *(network.labels for network in engine.networks(labels))]:
        if of_entry.session_id:
            add(of_entry.session_id, of_entry.session_name)
    for key, name in [*link.session_links().values(), *firewall.sessions().items(), *_reserved_sessions(state, ledger)]:
        if is_meant(name, key):
            add(key, name)
    for record in state.records()[0]:
        if is_meant(record.name, record.id):
            add(record.id, record.name)
            known = replace(found[record.id], hosts=record.hosts, owner=record.owner, shared_with=record.shared_with)
            found[record.id] = known
    return [found[key] for key in sorted(found)]


def _reserved_sessions(state: StateDirectory, ledger: LedgerFile) -> Iterator[tuple[str, str]]:
    """Yield id and name of sessions of which the ledger shows that this host has a part."""
    held = ledger.read()
    for key, reservation in {**ledger.expired(), **held}.items():
        claim = reservation.claim
        # An aborted launch from the queue may have created keys on a host without a record of its session.
        if key in held or state.session(key).exists():
            yield key, claim.session_name
        # An aborted change may have created parts of its session on a host without a record of it.
        if claim.amends is not None:
            yield claim.amends, claim.session_name.removesuffix(CHANGE)


def sessions_of_others(
    engine: Engine,
    state: StateDirectory,
    session_name: str | None,
    session_id: str | None,
    told: Mapping[str, Any] | None,
) -> dict[str, SessionElsewhere]:
    """Return by id the sessions with the name that belong to another resource group or have hosts outside this one.

    If a record is lost, the one in a label that this host has written counts. Containers without an identifiable owner
    belong to others, without a status, unless they match by id. told: of `core.rules.scope`, None if the caller has
    evaluated that.
    """
    if not told or not told["group"]:
        return {}
    labels, is_meant = _meant(session_name, session_id)
    records = {record.id: record for record in state.records()[0] if is_meant(record.name, record.id)}
    found = {}
    containers = {entry.labels.session_id for entry in engine.session_containers(labels)}
    networks = {entry.labels.session_id for entry in engine.networks(labels)}
    if unrecorded := (containers | networks) - {*records, ""}:
        proven = labelled_records(engine, state)[0]
        records.update({key: proven[key] for key in unrecorded & proven.keys()})
        for key in unrecorded & containers - {*proven, session_id}:
            found[key] = SessionElsewhere(key, session_name or "", "", (), "")
    for record in records.values():
        if is_left_alone(told, record):
            place = (group_of(record), tuple(carriers(record)), record.status)
            found[record.id] = SessionElsewhere(record.id, record.name, *place)
    return found


def has_moved_on(
    state: StateDirectory,
    ledger: LedgerFile,
    session_id: str,
    unless_reserved: bool,
    judged_revision: int | None,
    change_id: str | None = None,
) -> bool:
    """Return whether another run launches or changes the session now, or did since *judged_revision*.

    change_id: the change of the caller.
    """
    held = [
        claimed
        for key, claimed in ledger.read().items()
        if session_id in (key, claimed.claim.amends) and key != change_id
    ]
    if unless_reserved and any(claimed.stage != COMMITTED for claimed in held):
        return True
    if judged_revision is None:
        return False
    try:
        record = state.session(session_id).read_record()
    except DamagedFile:
        return False
    return record is not None and record.revision > judged_revision


def _link_step(name: str) -> Step:
    return Step("remove", "link", name, partial(link.delete_link, name), before="present")


def _remove_state(state: StateDirectory, session_id: str, keep_record: bool) -> None:
    if keep_record and state.session(session_id).record_file.exists():
        state.session(session_id).clear()
    else:
        state.remove_session(session_id)
