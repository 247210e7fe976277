# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Remove all parts of a session on one host, found by labels, link aliases and state, however much is left."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..adapters import engine as docker_engine
from ..adapters import firewall, link
from ..adapters.engine import Engine, NetworkKept, container_name
from ..adapters.ledger import LedgerFile
from ..adapters.output import OutputDirectory
from ..adapters.state import DamagedFile, StateDirectory
from ..core.model.claims import COMMITTED
from ..core.model.record import Record, carriers, group_of, is_stub, latest
from ..core.rules.isolation import Isolation
from ..core.rules.job import MAIN
from ..core.rules.ledger import CHANGE
from ..core.rules.output import batch_job
from ..core.rules.scope import is_left_alone
from . import data, firewall_rules
from .labels import labelled_records
from .output import LogArchive
from .session.containers import end_container
from .session.ssh import examination_prefix
from .steps import Stage, Step, perform


def removal_stages(
    engine: Engine,
    state: StateDirectory,
    ledger: LedgerFile,
    session_name: str | None,
    session_id: str | None,
    known: Iterable[str],
    keep_record: bool = False,
    undo: bool = False,
    keep_data: bool = False,
    archive: LogArchive | None = None,
    left: Record | None = None,
    change_id: str | None = None,
) -> list[Stage]:
    """Return the steps that remove a session, found by name, by id or by both: containers, networks, links, state.

    Data directories and named volumes are kept. Objects are found independently of each other, so a session that is
    incomplete or has lost its record is also removed. known: ids of the matching `known_sessions`. keep_record: their
    records stay, and for a stub of a running session also the rules that keep others out of it. Without a record, the
    whole directory of a session is removed. undo: also removes empty directories and volumes that a failed launch
    created, and the output of its batch command. With keep_data, volumes are removed only if they are empty. archive:
    keeps the output of the containers. left: the record that the session has here afterwards. change_id: the change to
    which this belongs, whose lease stays. `remove` performs the steps.
    """
    labels, is_meant = _meant(session_name, session_id)
    containers = engine.session_containers(labels)
    networks = engine.networks(labels)
    links = {name: owner for name, owner in link.session_links().items() if is_meant(owner[1], owner[0])}
    tunnels = {name for name in links if name.startswith(link.TUNNEL_PREFIX)}
    entries = {**ledger.expired(), **ledger.read()}
    ids = {*known, *([] if session_id is None else [session_id])}
    reserved = sorted(
        key
        for key, held in entries.items()
        if key != change_id and (is_meant(held.claim.session_name, key) or held.claim.amends in ids)
    )
    what = session_name or session_id or ""
    output = OutputDirectory(str(state.root))
    kept = {key: wanted for key in ids if keep_record and (wanted := _guarded(state, key, left)) is not None}
    return [
        # First, because the batch command can be started again under its id when its containers are gone.
        _aside_steps(output, ids if keep_record else ()),
        [
            Step(
                "remove",
                "container",
                (entry.get("Names") or [entry["Id"]])[0].lstrip("/"),
                partial(end_container, engine, entry, archive),
                before=entry["State"],
            )
            for entry in containers
        ]
        + [
            Step("remove", "container", name, partial(engine.remove_container, entry["Id"]), before="created")
            for key in sorted(ids)
            for entry in engine.examinations(examination_prefix(key))
            for name in [container_name(entry)]
        ],
        [
            Step(
                "remove",
                "network",
                network["Name"],
                partial(engine.remove_network, network["Id"]),
                before=network["Driver"],
            )
            for network in networks
        ],
        # Links on a tunnel are removed before it, because the kernel would remove them with it.
        [_link_step(name) for name in sorted(links) if name not in tunnels],
        [_link_step(name) for name in sorted(tunnels)],
        firewall_rules.removal_steps(
            {key: name for key, name in firewall.sessions().items() if is_meant(name, key) and key not in kept}
        ),
        *(firewall_rules.rule_steps(kept[key], engine.uses_nftables()) for key in sorted(kept)),
        *(
            stage
            for session_id in sorted(ids)
            for stage in data.removal_steps(state.session(session_id), session_id, engine, undo, keep_data)
        ),
        [
            Step(
                "remove",
                "state",
                str(state.session(session_id).path),
                partial(_remove_state, state, session_id, keep_record),
                before="present",
            )
            for session_id in sorted(ids)
            for folder in [state.session(session_id)]
            if (folder.replicas if keep_record and folder.record_file.exists() else folder.path).exists()
        ],
        [
            Step("remove", "output", what, partial(shutil.rmtree, path), before="present")
            for session_id in sorted(ids)
            for kept_output in [output.session(session_id)]
            # The output of an earlier start of a session that waits again was set aside and is kept.
            for path in [kept_output.job(batch_job(session_id)).path if keep_record else kept_output.path]
            if undo and path.exists()
        ],
        [
            Step("release", "reservation", what, partial(ledger.release, session_id), before="held")
            for session_id in reserved
        ],
    ]


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


def _guarded(state: StateDirectory, session_id: str, left: Record | None) -> Isolation | None:
    """Return the firewall rules of this host for a session that runs on other hosts, as far as its stub has them."""
    try:
        record = latest(
            copy for copy in (state.session(session_id).read_record(), left) if copy and copy.id == session_id
        )
    except DamagedFile:
        return None
    return None if record is None or not is_stub(record) else firewall_rules.isolation_of_stub(record)


def _aside_steps(output: OutputDirectory, ids: Iterable[str]) -> Stage:
    """Keep the output of batch commands that start again, like the output of other jobs."""
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
        labels[docker_engine.LABEL_SESSION_NAME] = session_name
    if session_id is not None:
        labels[docker_engine.LABEL_SESSION_ID] = session_id
    return labels, lambda name, found_id: session_name in (None, name) and session_id in (None, found_id)


def known_sessions(
    engine: Engine, state: StateDirectory, ledger: LedgerFile, session_name: str | None, session_id: str | None
) -> list[dict[str, Any]]:
    """Return every matching session of which this host has any part, sorted by id.

    Each has id and name, and if its record has them hosts, owner and shared_with.
    """
    labels, is_meant = _meant(session_name, session_id)
    found: dict[str, dict[str, Any]] = {}

    def add(key: str, name: str) -> None:
        found.setdefault(key, {"id": key, "name": name, "hosts": [], "owner": "", "shared_with": []})

    for entry in [*engine.session_containers(labels), *engine.networks(labels)]:
        held = entry["Labels"]
        if docker_engine.session_id_of(held):
            add(docker_engine.session_id_of(held), held.get(docker_engine.LABEL_SESSION_NAME, ""))
    for key, name in [*link.session_links().values(), *firewall.sessions().items()]:
        if is_meant(name, key):
            add(key, name)
    held = ledger.read()
    for key, reservation in {**ledger.expired(), **held}.items():
        claim = reservation.claim
        # An aborted launch from the queue may have created keys on a host without a record of its session.
        if is_meant(claim.session_name, key) and (key in held or state.session(key).exists()):
            add(key, claim.session_name)
        # An aborted change may have created parts of its session on a host without a record of it.
        name = claim.session_name.removesuffix(CHANGE)
        if claim.amends is not None and is_meant(name, claim.amends):
            add(claim.amends, name)
    for record in state.records()[0]:
        if is_meant(record.name, record.id):
            add(record.id, record.name)
            whose = {"owner": record.owner, "shared_with": list(record.shared_with)}
            found[record.id].update(hosts=list(record.hosts), **whose)
    return [found[key] for key in sorted(found)]


def sessions_of_others(
    engine: Engine,
    state: StateDirectory,
    session_name: str | None,
    session_id: str | None,
    told: Mapping[str, Any] | None,
) -> dict[str, dict[str, Any]]:
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
    containers = {docker_engine.session_id_of(entry["Labels"]) for entry in engine.session_containers(labels)}
    networks = {docker_engine.session_id_of(entry["Labels"]) for entry in engine.networks(labels)}
    if unrecorded := (containers | networks) - {*records, ""}:
        proven = labelled_records(engine, state)[0]
        records.update({key: proven[key] for key in unrecorded & proven.keys()})
        for key in unrecorded & containers - {*proven, session_id}:
            found[key] = {"id": key, "name": session_name or "", "resource_group": "", "hosts": [], "status": ""}
    for record in records.values():
        if is_left_alone(told, record):
            found[record.id] = {
                "id": record.id,
                "name": record.name,
                "resource_group": group_of(record),
                "hosts": list(carriers(record)),
                "status": record.status,
            }
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
