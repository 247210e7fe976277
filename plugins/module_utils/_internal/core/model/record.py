# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The record: the durable description of one session.

Copies of it are stored on hosts. A change makes a new revision; the copy with the highest revision is right, whatever
the hosts' clocks show. While a session waits, every host of its resource group has the whole record. Once it has a
place, its hosts keep the whole record and every other host a *stub record*, without request and plan. A short form of
the record of an ended session stays.
"""

import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Optional

from ..values.deferred import dataclass
from ..values.errors import CoreError, show
from .decode import NEWER, OPTIONAL, Malformed, decode, encode

SCHEMA = 1
"""Version of the record's form. A record of another schema is rejected, not guessed at."""

PENDING = "PENDING"
PREPARING = "PREPARING"
RUNNING = "RUNNING"
ERROR = "ERROR"
TERMINATED = "TERMINATED"
STATUSES = (PENDING, PREPARING, RUNNING, ERROR, TERMINATED)
"""Waiting for capacity; being started; started; ended by a failure, with only the record left; ended in the same way
after its batch command succeeded."""
ENDED = (ERROR, TERMINATED)

DEFAULT_GROUP = "cluster_compute_hosts"
"""The resource group of a request that names none."""
LONGEST_HISTORY = 50
"""Number of entries of the history that are kept, the newest ones."""
REPORT_LINES, REPORT_WIDTH = 5, 300
"""The part of an ended session's report that is kept: lines, and characters of each."""

PublicKeys = Mapping[str, Mapping[str, Optional[str]]]
"""The public keys of each replica of a session: name to "client" and "host", and "tunnel" in an encrypted one. None for
a key that check mode did not create."""

_SESSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class QueueTicket:
    """The place of a session in the queue. number: among sessions of one priority the lowest comes first.

    is_head: whether it was found to be the first that does not fit, if owners have shares: it stays that until it has
    what it waits for.
    """

    number: int
    is_head: bool = field(default=False, metadata=OPTIONAL)


@dataclass(frozen=True)
class HistoryEntry:
    """The change that one revision made. reason: one sentence."""

    revision: int
    status: str
    reason: str


@dataclass(frozen=True)
class OverlayTunnel:
    """The parts of a session's overlay that hosts without a replica need to keep their containers out of it.

    vni: its identifier. port: the UDP port. endpoints: the underlay addresses of all its hosts.
    """

    vni: int
    port: int
    endpoints: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """The change that a revision made to a running session, so that what was begun can be finished or undone.

    kind: RESIZE, REPLACE or MOVE. places: the replicas that have another place since, each with the host it had before,
    None for a new one.
    """

    kind: str
    places: dict[str, Optional[str]]


@dataclass(frozen=True)
class Growth:
    """The state that a running session is to reach when there is capacity. request: as it is then. number: in queue."""

    request: Any
    number: int


@dataclass(frozen=True)
class Tombstone:
    """A session that was torn down. hosts: those that were unreachable then."""

    id: str
    name: str
    hosts: tuple[str, ...]
    schema: int = 1


RESIZE, REPLACE, MOVE = "resize", "replace", "move"


@dataclass
class PlacedReplica:
    """The host on which a replica is planned."""

    name: str
    host: str


@dataclass
class _Placed:
    """The parts of the plan that every reader of a record relies on; `plan.read_plan` reads the whole plan."""

    replicas: tuple[PlacedReplica, ...]


@dataclass(frozen=True)
class Record:
    """The record of one session.

    owner: the user it belongs to, as limits count. shared_with: other users who may change, enter and read it. status:
    one of STATUSES; empty before the first revision. queue: None unless it came from the queue, or its growth is the
    head there. hosts: those that carry it. report: why it waits, or has ended. tunnel: only in a stub. request, plan:
    their plain forms, or None. change: the replicas that the last revision moved in a running session. growth: what a
    running session waits for. resource_group: only in a copy without its request (`group_of`). witnesses: the hosts of
    which most have to agree before it continues without a lost host (`rules.quorum`); none for a session that waits for
    its hosts, and in records of earlier releases. For a PENDING one they are those that were to keep it. newer: values
    that a newer release added, by key: they stay, and `require_known` rejects operations that cannot handle them.
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
        """Whether it is the head of the queue, whatever comes later (`rules.queue`)."""
        return self.queue is not None and self.queue.is_head

    @property
    def queue_number(self) -> int:
        """The number in the queue, 0 for a session that did not come from there."""
        if self.growth is not None:
            return self.growth.number
        return 0 if self.queue is None else self.queue.number

    @cached_property
    def replicas(self) -> tuple[PlacedReplica, ...]:
        """Its replicas in rank order, none without a plan; also readable for a newer release. Raises Malformed."""
        return decode(_Placed, self.plan, "The plan", forgiving=True).replicas if self.plan else ()


def is_session_id(value: object) -> bool:
    """Tell whether *value* is the id of a session: a UUID as Python writes it."""
    return isinstance(value, str) and _SESSION_ID.fullmatch(value) is not None


class InvalidRecord(CoreError):
    """A record that was read back is malformed."""


class UnknownSchema(InvalidRecord):
    """A record was written by another release, which can read it."""


def require_known(record: Record) -> None:
    """Reject a session whose record has keys of a newer release that this one does not know. Raises UnknownSchema."""
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
    change, growth. A session that ends keeps only the short form. A session that has got what it waited for, or that
    waits for something else, stops being the head of the queue.
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
    """Return the short form of an ended session: why and where, with a bounded size; others stay as they are."""
    if record.status not in ENDED:
        return record
    report = tuple(_shortened(line) for line in record.report[:REPORT_LINES])
    last = tuple(replace(entry, reason=_shortened(entry.reason)) for entry in record.history[-1:])
    return replace(_without_plan(record), report=report, history=last, tunnel=None, witnesses=())


def _without_plan(record: Record) -> Record:
    """Return a record without its request and plan; it keeps the resource group that the request names."""
    return replace(record, resource_group=group_of(record), request=None, plan=None)


def _shortened(text: str) -> str:
    return text if len(text) <= REPORT_WIDTH else f"{text[: REPORT_WIDTH - 1]}…"


def prepared(record: Record, plan: Mapping[str, Any]) -> Record:
    """Return the revision that records that the session is being started according to *plan*."""
    hosts = tuple(plan["hosts"])
    reason = f"It holds its place on {', '.join(hosts)}."
    return advance(record, PREPARING, reason, plan=dict(plan), hosts=hosts, report=())


def started(record: Record) -> Record:
    """Return the revision that records that a PREPARING session runs; a running one stays as it is."""
    return record if record.status == RUNNING else advance(record, RUNNING, "Its replicas were started.")


def kept_by(record: Record, hosts: Iterable[str]) -> Record:
    """Return a record as it is written to *hosts*: while a session waits it contains which hosts may have a copy."""
    return replace(record, witnesses=tuple(hosts)) if record.status == PENDING else record


def told_of(record: Record) -> Record:
    """Return what a host reports of a session: `line_of` it, and for a waiting one not which hosts may have a copy.

    Only the host itself uses that list (`carriers`), and it is all hosts of a group, which all of them would repeat.
    """
    return kept_by(line_of(record), ())


def carriers(record: Record) -> tuple[str, ...]:
    """Return the hosts that a teardown has to reach: those that carry it, or may have it while it waits."""
    return record.witnesses if record.status == PENDING else record.hosts


def stub_of(record: Record) -> Record:
    """Return the record that hosts without replicas keep of a session that has its place.

    A stub has the status RUNNING from the start: it is not corrected later, and where the session's hosts report
    another status, they are right. It contains the part of the plan that keeps containers of the stub's host out of the
    session's tunnel.
    """
    status = RUNNING if record.status == PREPARING else record.status
    tunnel = tunnel_of(record.plan) if record.plan else record.tunnel
    bare = _without_plan(record)
    return replace(bare, status=status, tunnel=tunnel, report=(), history=(), change=None, growth=None)


def group_of(record: Record) -> str:
    """Return the resource group that a session belongs to: that of its request; empty if a copy does not contain it."""
    return record.resource_group if record.request is None else str(record.request.get("resource_group", ""))


def says_the_same(found: Record, stub: Record) -> bool:
    """Tell whether a copy, in whatever revision, has the same hosts, status and users as a stub."""
    return all(getattr(found, name) == getattr(stub, name) for name in ("status", "hosts", "owner", "shared_with"))


def differs(copy: Record, other: Record) -> bool:
    """Tell whether two copies of one revision of a session at work place it differently.

    That happens only if two runs changed it without knowing of each other. For a stub the hosts are compared.
    """
    if copy.plan is not None and other.plan is not None:
        return bool(copy.plan != other.plan)
    return {*copy.hosts} != {*other.hosts}


def is_stub(record: Record) -> bool:
    """Tell whether a copy is a stub only."""
    return record.request is None


def latest(records: Iterable[Record]) -> Optional[Record]:
    """Return the copy with the highest revision, None if there is no copy.

    If several have it, a whole one comes before a stub, and the copy of an ended session before both: its host has
    ended it by itself and could not know what a controller wrote at the same moment. Which of two contents is returned
    does not depend on the order of the hosts; `cluster_state` detects that there are two.
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
    """Return what hosts without a replica have to know of a plan's overlay; None if it needs no protection.

    The overlay of an encrypted session receives only what its WireGuard let through: it accepts packets from that link
    alone.
    """
    network = plan.get("network")
    if network is None or network["vni"] is None or network["tunnel"] is not None:
        return None
    # In the order in which a record is kept, so that rules stay the same when it is read back.
    endpoints = tuple(str(host["underlay_address"]) for _name, host in sorted(plan["hosts"].items()))
    return OverlayTunnel(network["vni"], network["port"], endpoints)


def read_record(data: object, session_id: Optional[str] = None) -> Record:
    """Return a record from its JSON form, checked as far as all its readers rely on it.

    session_id: the id in the path at which it was found. `rules.check.validate_plan` checks the content of a plan.
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
        "request": record.request is None or _is_request(record.request),
        "plan": record.plan is None or _is_plan(record.plan, record),
        "growth": record.growth is None or _is_request(record.growth.request),
    }
    yield from (f"{name} is {show(encode(getattr(record, name)))}" for name, good in is_good.items() if not good)
    if isinstance(record.request, Mapping) and record.request.get("name") != record.name:
        yield f"its request is named {show(record.request.get('name'))}"
    if record.status == PENDING and (record.request is None or record.queue is None or record.plan is not None):
        yield "a pending session needs a request and its place in the queue, and has no plan"
    if record.status in (PREPARING, RUNNING) and (record.request is None) != (record.plan is None):
        yield "request and plan do not belong together"


def _is_request(request: object) -> bool:
    """Tell whether a request has the limits that hosts enforce by themselves in the right form."""
    if not isinstance(request, Mapping):
        return False
    limits = [request.get(key) for key in ("max_duration", "max_idle", "end_warning")]
    return all(limit is None or (isinstance(limit, (int, float)) and limit >= 0) for limit in limits)


def _is_plan(plan: object, record: Record) -> bool:
    if not isinstance(plan, Mapping) or not isinstance(plan.get("replicas"), list):
        return False
    session, hosts, images = plan.get("session"), plan.get("hosts"), plan.get("images") or {}
    if not isinstance(session, Mapping) or not isinstance(hosts, Mapping) or not isinstance(images, Mapping):
        return False
    if not all(isinstance(image, Mapping) and isinstance(image.get("ids"), Mapping) for image in images.values()):
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
