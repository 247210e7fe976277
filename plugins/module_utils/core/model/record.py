# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The record: the durable account of one session.

Copies of it lie on hosts. A change makes a new revision; of several copies the one with the highest revision is right,
whatever the hosts' clocks say. While a session waits, every host of its resource group has the whole of it. Once it has
a place, its hosts keep the whole and every other host a *stub record*: the record without request and plan. Of one
that has ended a line stays.
"""

import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Optional

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import CoreError, show
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.decode import (
    NEWER,
    OPTIONAL,
    Malformed,
    decode,
    encode,
)

SCHEMA = 1
"""Version of the record's form. A record of another schema is refused, not guessed at."""

PENDING = "PENDING"
PREPARING = "PREPARING"
RUNNING = "RUNNING"
ERROR = "ERROR"
TERMINATED = "TERMINATED"
STATUSES = (PENDING, PREPARING, RUNNING, ERROR, TERMINATED)
"""Waiting for capacity; being started; started; ended by a failure, with nothing left but the record; likewise, its
batch command having succeeded."""
ENDED = (ERROR, TERMINATED)

DEFAULT_GROUP = "cluster_compute_hosts"
"""The resource group of a request that names none."""
LONGEST_HISTORY = 50
"""Entries of the history that are kept, the newest ones."""
REPORT_LINES, REPORT_WIDTH = 5, 300
"""What stays of the report of a session that has ended: lines, and characters of each."""

_SESSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class QueueTicket:
    """The place of a session in the queue. number: of sessions of one priority the lowest comes first.

    is_head: whether it was found to be the first that has no room, where owners have shares: it stays that until it has
    what it waits for.
    """

    number: int
    is_head: bool = field(default=False, metadata=OPTIONAL)


@dataclass(frozen=True)
class HistoryEntry:
    """What one revision changed. reason: one sentence."""

    revision: int
    status: str
    reason: str


@dataclass(frozen=True)
class OverlayTunnel:
    """What hosts without a replica have to know of a session's overlay to keep their containers out of it.

    vni: its identifier. port: the UDP port. endpoints: the underlay addresses of all its hosts.
    """

    vni: int
    port: int
    endpoints: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """What a revision changed of a session that runs, so that what was begun can be finished, or undone.

    kind: RESIZE, REPLACE or MOVE. places: the replicas that have another place since, to the host that each had before,
    None for a new one.
    """

    kind: str
    places: dict[str, Optional[str]]


@dataclass(frozen=True)
class Growth:
    """What a session that runs is to become when there is room. request: as it is then. number: as of a QueueTicket."""

    request: Any
    number: int


RESIZE, REPLACE, MOVE = "resize", "replace", "move"


@dataclass
class PlacedReplica:
    """Which host a replica is planned on."""

    name: str
    host: str


@dataclass
class _Placed:
    """What every reader of a record relies on of its plan; the whole is for `plan.read_plan`."""

    replicas: tuple[PlacedReplica, ...]


@dataclass(frozen=True)
class Record:
    """The record of one session.

    owner: whose it is, as limits count. shared_with: who else may change, enter and read it. status: one of STATUSES;
    empty before the first revision. queue: None unless it came from the queue, or its growth is the head there. hosts:
    those that carry it. report: why it waits, or has ended. tunnel: only of a stub. request, plan: their plain forms,
    or None. change: what the last revision that changed a session that runs gave another place. growth: what one that
    runs waits for. resource_group: only of a copy without its request (`group_of`). witnesses: hosts most of which
    agree before it goes on without a lost host (`rules.quorum`); none of one that waits for its hosts, and of earlier
    releases. Of a PENDING one they are those that were to keep it. newer: what else a newer release wrote, by key: it
    stays, and `require_known` says who cannot go on with it.
    """

    schema: int
    id: str
    name: str
    owner: str
    status: str
    revision: int
    queue: Optional[QueueTicket]
    hosts: tuple[str, ...]
    report: tuple[str, ...]
    history: tuple[HistoryEntry, ...]
    tunnel: Optional[OverlayTunnel]
    request: Any
    plan: Any
    shared_with: tuple[str, ...] = field(default=(), metadata=OPTIONAL)
    change: Optional[Change] = field(default=None, metadata=OPTIONAL)
    growth: Optional[Growth] = field(default=None, metadata=OPTIONAL)
    resource_group: str = field(default="", metadata=OPTIONAL)
    witnesses: tuple[str, ...] = field(default=(), metadata=OPTIONAL)
    newer: dict[str, Any] = field(default_factory=dict, metadata=NEWER)

    @property
    def is_head(self) -> bool:
        """Whether it is the head of the queue, whoever comes later (`rules.queue`)."""
        return self.queue is not None and self.queue.is_head

    @property
    def queue_number(self) -> int:
        """The number in the queue, 0 of a session that did not come from there."""
        if self.growth is not None:
            return self.growth.number
        return 0 if self.queue is None else self.queue.number

    @cached_property
    def replicas(self) -> tuple[PlacedReplica, ...]:
        """Its replicas in rank order, none without a plan; good for a newer release's. Raises Malformed."""
        return decode(_Placed, self.plan, "The plan", forgiving=True).replicas if self.plan else ()


def is_session_id(value: object) -> bool:
    """Tell whether *value* is the id of a session: a UUID as Python writes it."""
    return isinstance(value, str) and _SESSION_ID.fullmatch(value) is not None


class InvalidRecord(CoreError):
    """A record that was read back is malformed."""


class UnknownSchema(InvalidRecord):
    """A record was written by another release, which can read it."""


def require_known(record: Record) -> None:
    """Refuse to go on with a session of which a newer release wrote more than this one knows. Raises UnknownSchema."""
    if record.newer:
        raise UnknownSchema(
            f"The record of session {record.name} has {show(', '.join(sorted(record.newer)))}, which this release of "
            "the collection does not know. Use the release that wrote it, or a newer one; this one can tear it down."
        )


def new_record(session_id: str, owner: str, request: Mapping[str, Any], shared_with: Iterable[str] = ()) -> Record:
    """Return the record of a session that has no status yet; `advance` gives it one."""
    return Record(
        SCHEMA,
        session_id,
        request["name"],
        owner,
        "",
        0,
        None,
        (),
        (),
        (),
        None,
        dict(request),
        None,
        tuple(shared_with),
    )


def advance(record: Record, status: str, reason: str, **changes: Any) -> Record:
    """Return the next revision of a record.

    reason: one sentence for the history. changes: fields that get a new value: queue, hosts, report, request, plan,
    change, growth. One that ends so is a line of it. One that has got what it waited for, or waits for something else,
    is the head of the queue no more.
    """
    if status != RUNNING:
        changes.update(change=None, growth=None)
    queue, growth = changes.get("queue", record.queue), changes.get("growth", record.growth)
    waits_on = RUNNING not in (record.status, status) or (growth is not None and growth == record.growth)
    if queue is not None and queue.is_head and not waits_on:
        changes["queue"] = replace(queue, is_head=False)
    revision = record.revision + 1
    history = (*record.history, HistoryEntry(revision, status, reason))[-LONGEST_HISTORY:]
    return line_of(replace(record, **changes, status=status, revision=revision, history=history))


def line_of(record: Record) -> Record:
    """Return what is kept of a session that has ended: why and where, all of it bounded; another stays as it is."""
    if record.status not in ENDED:
        return record
    report = tuple(_shortened(line) for line in record.report[:REPORT_LINES])
    last = tuple(replace(entry, reason=_shortened(entry.reason)) for entry in record.history[-1:])
    group = group_of(record)
    nothing: dict[str, Any] = {"tunnel": None, "request": None, "plan": None, "witnesses": ()}
    return replace(record, report=report, history=last, resource_group=group, **nothing)


def _shortened(text: str) -> str:
    return text if len(text) <= REPORT_WIDTH else f"{text[: REPORT_WIDTH - 1]}…"


def prepared(record: Record, plan: Mapping[str, Any]) -> Record:
    """Return the revision that says that the session is being started as *plan* says."""
    hosts = tuple(plan["hosts"])
    reason = f"It holds its place on {', '.join(hosts)}."
    return advance(record, PREPARING, reason, plan=dict(plan), hosts=hosts, report=())


def started(record: Record) -> Record:
    """Return the revision that says that the session of a PREPARING record runs; a running one stays as it is."""
    return record if record.status == RUNNING else advance(record, RUNNING, "Its replicas were started.")


def kept_by(record: Record, hosts: Iterable[str]) -> Record:
    """Return a record as it is written to *hosts*: while a session waits it says who may have a copy."""
    return replace(record, witnesses=tuple(hosts)) if record.status == PENDING else record


def told_of(record: Record) -> Record:
    """Return what a host tells of a session: `line_of` it, and of one that waits not who may have a copy.

    Only the host itself goes by that (`carriers`), and these are all hosts of a group, told by all of them.
    """
    return kept_by(line_of(record), ())


def carriers(record: Record) -> tuple[str, ...]:
    """Return the hosts that a teardown has to reach: those that carry it, or while it waits may have all of it."""
    return record.witnesses if record.status == PENDING else record.hosts


def stub_of(record: Record) -> Record:
    """Return what hosts that carry no replica keep of a session that has its place.

    A stub says RUNNING from the start: nobody corrects it later, and where its hosts say otherwise they are right. Of
    the plan it has what keeps containers of the stub's host out of the session's tunnel.
    """
    status = RUNNING if record.status == PREPARING else record.status
    tunnel = tunnel_of(record.plan) if record.plan else record.tunnel
    nothing: dict[str, Any] = {
        "request": None,
        "plan": None,
        "report": (),
        "history": (),
        "change": None,
        "growth": None,
    }
    return replace(record, status=status, tunnel=tunnel, resource_group=group_of(record), **nothing)


def group_of(record: Record) -> str:
    """Return the resource group that a session belongs to: that of its request; empty where a copy does not tell."""
    return record.resource_group if record.request is None else str(record.request.get("resource_group", ""))


def says_the_same(found: Record, stub: Record) -> bool:
    """Tell whether a copy says what a stub says, in whatever revision: who carries the session, how it is, whose."""
    return all(getattr(found, name) == getattr(stub, name) for name in ("status", "hosts", "owner", "shared_with"))


def differs(copy: Record, other: Record) -> bool:
    """Tell whether two copies of one revision of a session at work place it otherwise.

    So it is only where two runs changed it that did not know of each other. Of a stub the hosts tell.
    """
    if copy.plan is not None and other.plan is not None:
        return bool(copy.plan != other.plan)
    return {*copy.hosts} != {*other.hosts}


def is_stub(record: Record) -> bool:
    """Tell whether a copy is a stub only."""
    return record.request is None


def latest(records: Iterable[Record]) -> Optional[Record]:
    """Return the copy with the highest revision, None where there is no copy.

    Of several with that a whole one comes before a stub, and before both one that has ended: its host has ended it by
    itself and could not know what a controller wrote at the same moment. Which of two contents it is does not depend on
    the order of the hosts; that there are two is for `cluster_state` to see.
    """
    copies = list(records)
    newest = max((record.revision for record in copies), default=0)
    copies = [record for record in copies if record.revision == newest]
    if not copies or all(record == copies[0] for record in copies):
        return copies[0] if copies else None

    def rank(record: Record) -> tuple[bool, bool, str]:
        return record.status in ENDED, not is_stub(record), json.dumps(encode(record), sort_keys=True)

    return max(copies, key=rank)


def tunnel_of(plan: Mapping[str, Any]) -> Optional[OverlayTunnel]:
    """Return what hosts without a replica have to know of a plan's overlay; None where it has none to be guarded.

    Into the overlay of an encrypted session nothing gets that its WireGuard did not let through: it takes packets from
    that link alone.
    """
    network = plan.get("network")
    if network is None or network["vni"] is None or network["tunnel"] is not None:
        return None
    # In the order in which a record is kept, so that rules stay the same when it is read back.
    endpoints = tuple(str(host["underlay_address"]) for _name, host in sorted(plan["hosts"].items()))
    return OverlayTunnel(network["vni"], network["port"], endpoints)


def read_record(data: object, session_id: Optional[str] = None) -> Record:
    """Return a record from its JSON form, checked as far as everything that reads it relies on it.

    session_id: what the place it was found at says. What a plan holds is judged by `rules.check.validate_plan`.
    Raises UnknownSchema and InvalidRecord.
    """
    if not isinstance(data, Mapping):
        raise InvalidRecord(f"The record is {show(data)}, where a mapping is expected.")
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < SCHEMA:
        raise InvalidRecord(f"The record's schema is {show(schema)}, where {SCHEMA} is expected.")
    if schema > SCHEMA:
        raise UnknownSchema(
            f"The record has schema {schema}, this release of the collection reads schema {SCHEMA}. Use the release "
            "that wrote it."
        )
    try:
        record = decode(Record, data, "The record")
    except Malformed as error:
        if error.is_newer:
            raise UnknownSchema(f"{error} Use the release that wrote it, or a newer one.") from None
        raise InvalidRecord(str(error)) from None
    problems = list(_problems(record))
    if session_id is not None and record.id != session_id:
        problems.append(f"it is that of session {show(record.id)}, found at the place of session {session_id}")
    if problems:
        raise InvalidRecord(f"The record is malformed: {'; '.join(problems)}.")
    return record


def _problems(record: Record) -> Iterator[str]:
    """Yield what is wrong with the values of a record that has the right form."""
    is_good = {
        "id": is_session_id(record.id),
        "name": record.name != "",
        "status": record.status in STATUSES,
        "revision": record.revision > 0,
        "queue": record.queue_number >= 0,
        "tunnel": record.tunnel is None or _is_tunnel(record.tunnel),
        "request": record.request is None or isinstance(record.request, Mapping),
        "plan": record.plan is None or _is_plan(record.plan, record),
        "growth": record.growth is None or isinstance(record.growth.request, Mapping),
    }
    yield from (f"{name} is {show(encode(getattr(record, name)))}" for name, good in is_good.items() if not good)
    if isinstance(record.request, Mapping) and record.request.get("name") != record.name:
        yield f"its request is named {show(record.request.get('name'))}"
    if record.status == PENDING and (record.request is None or record.queue is None or record.plan is not None):
        yield "a pending session needs a request and its place in the queue, and has no plan"
    if record.status in (PREPARING, RUNNING) and (record.request is None) != (record.plan is None):
        yield "request and plan do not belong together"


def _is_plan(plan: object, record: Record) -> bool:
    if not isinstance(plan, Mapping) or not isinstance(plan.get("replicas"), list):
        return False
    session, hosts = plan.get("session"), plan.get("hosts")
    if not isinstance(session, Mapping) or not isinstance(hosts, Mapping):
        return False
    same = (session.get("id"), session.get("name")) == (record.id, record.name)
    return same and sorted(map(str, hosts)) == sorted(record.hosts)


def _is_tunnel(tunnel: OverlayTunnel) -> bool:
    return tunnel.vni >= 0 and tunnel.port >= 0 and _are_addresses(tunnel.endpoints)


def _are_addresses(found: Iterable[str]) -> bool:
    """Tell whether *found* are addresses, at least one and all of one version."""
    try:
        return len({ipaddress.ip_address(text).version for text in found}) == 1
    except ValueError:
        return False
