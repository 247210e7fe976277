# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The queue of a resource group: which session is next, and which may start before it.

Sessions wait by priority, the highest first, then by the number they got when they began to wait. If a site gives
owners shares (`share`), sessions of the owner with the smallest recent use come first; what they request counts as used
as soon as they have their turn, and only then the number decides. The first session that does not fit is the *head*.
The place it would have if nothing else ran, its *kept place*, is reserved for it. It depends only on the hosts, so
every controller computes the same one, however often. Sessions behind the head may start only on what is free outside
the kept place. So the head waits only for the sessions that ran when it became the head, however many come after it.
(Batch systems call this backfill.) With shares another owner may come before it at the next scheduling. To keep it from
being passed repeatedly, the session that was found to be the head is marked, and stays before all others of its
priority.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from heapq import heapify, heappop, heappush
from itertools import groupby

from ..model.record import Record
from ..model.request import Request
from ..values.deferred import dataclass
from ..values.errors import InvalidInput
from ..values.resources import Resources
from .placement import Capacity, Host, Placement, Shortfall, limited, place


@dataclass(frozen=True)
class Waiting:
    """One session that wants to start. number: its place in the order of arrival.

    owner: the user it belongs to. used: what the owner's sessions have used recently, and cost: what this one is
    expected to use, in CPU seconds; both are 0 if owners have no shares. is_head: whether it has been found to be the
    head before. slots: how many of its replicas some hosts may take, whatever is free there: for a running session that
    is to grow, every host. obstacles: why some hosts may take none.
    """

    session_id: str
    request: Request
    number: int
    owner: str = ""
    used: float = 0.0
    cost: float = 0.0
    is_head: bool = False
    slots: Mapping[str, int] = field(default_factory=dict)
    obstacles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueEntry:
    """One waiting session, and what becomes of it now.

    position: from 1 on. placement: where it can start now. shortfall: what it lacks, also if it would fit except for
    the place kept for *blocked_by*, the name of the session at the head. problem: why no host of the group can take it.
    is_head: whether it is at the head.
    """

    waiting: Waiting
    position: int
    placement: Placement | None = None
    shortfall: Shortfall | None = None
    blocked_by: str | None = None
    problem: InvalidInput | None = None
    is_head: bool = False


def next_number(records: Iterable[Record]) -> int:
    """Return the number for a session that begins to wait: one more than the highest of those that wait."""
    return 1 + max((record.queue_number for record in records), default=0)


def in_order(waiting: Iterable[Waiting]) -> list[Waiting]:
    """Return the queue: by priority, then by the use of owners, if they have shares, then by number.

    Two launches that took the same number are ordered by their id. A session that has been the head comes first of its
    priority.
    """
    by_number = sorted(waiting, key=lambda entry: (-entry.request.priority, entry.number, entry.session_id))
    found: list[Waiting] = []
    charged: dict[str, float] = {}
    for _rank, same in groupby(by_number, lambda entry: -entry.request.priority):
        owners: dict[str, deque[Waiting]] = {}
        for entry in same:
            if entry.is_head:
                found.append(entry)
                charged[entry.owner] = charged.get(entry.owner, 0.0) + entry.cost
            else:
                owners.setdefault(entry.owner if entry.cost else "", deque()).append(entry)
        found += _in_turns(owners, charged)
    return found


def _in_turns(owners: Mapping[str, deque[Waiting]], charged: dict[str, float]) -> Iterator[Waiting]:
    """Take sessions out of the queues of *owners*: the next of each owner, whose use grows with each turn.

    charged: what owners are expected to use by sessions that were taken.
    """
    order = [_charge_key(line[0], charged, owner) for owner, line in owners.items()]
    heapify(order)
    while order:
        owner = heappop(order)[-1]
        entry = owners[owner].popleft()
        yield entry
        charged[owner] = charged.get(owner, 0.0) + entry.cost
        if owners[owner]:
            heappush(order, _charge_key(owners[owner][0], charged, owner))


def _charge_key(entry: Waiting, charged: Mapping[str, float], owner: str) -> tuple[float, int, str, str]:
    return entry.used + charged.get(owner, 0.0), entry.number, entry.session_id, owner


def schedule_queue(
    waiting: Iterable[Waiting], hosts: Sequence[Host], topology_keys: Sequence[str], known_hosts: Sequence[str]
) -> list[QueueEntry]:
    """Schedule the queue once, as if every session that fits started at once; return the entries in order.

    A session that would not fit on idle hosts either does not hold up others.
    """
    entries = []
    head: str | None = None
    for position, session in enumerate(in_order(waiting), 1):
        own = _limited(hosts, session.slots)
        try:
            found = place(session.request, own, topology_keys, known_hosts)
        except InvalidInput as error:
            entries.append(QueueEntry(session, position, problem=error))
            continue
        if isinstance(found, Placement):
            hosts = without(hosts, session.request, found)
            entries.append(QueueEntry(session, position, placement=found))
            continue
        is_head = False
        blocked_by = head
        if head is None:
            kept = place(session.request, [idle(host) for host in own], topology_keys, known_hosts)
            if isinstance(kept, Placement):
                head, is_head = session.request.name, True
                hosts = without(hosts, session.request, kept)
        entries.append(QueueEntry(session, position, shortfall=found, blocked_by=blocked_by, is_head=is_head))
    return entries


def _limited(hosts: Sequence[Host], slots: Mapping[str, int]) -> Sequence[Host]:
    """Return the hosts for a session that may have only so many more replicas on some of them."""
    if not slots:
        return hosts
    return [limited(host, slots[host.name]) if host.name in slots else host for host in hosts]


def idle(host: Host) -> Host:
    """Return the host as it would be if no session held anything of it."""
    return replace(host, free=host.allocatable, max_replicas=host.replica_limit)


def without(hosts: Sequence[Host], request: Request, placement: Placement) -> list[Host]:
    """Return the hosts with what is free reduced by what the session takes in its placement; never below zero."""
    roles = {name: role.resources for name, role, _index in request.replicas()}
    taken: dict[str, list[Resources]] = {}
    for replica, name in placement.assignments:
        taken.setdefault(name, []).append(roles[replica])
    return [_reduced(host, taken[host.name]) if host.name in taken else host for host in hosts]


def _reduced(host: Host, taken: Sequence[Resources]) -> Host:
    """Return a host with what is free reduced by what replicas take there."""
    devices = dict(host.free.devices)
    for resources in taken:
        for key, count in resources.devices(host.threads):
            devices[key] = max(0, devices.get(key, 0) - count)
    free = Capacity(
        max(0, host.free.cpus - sum(resources.cpus for resources in taken)),
        max(0, host.free.memory - sum(resources.memory for resources in taken)),
        tuple(sorted(devices.items())),
    )
    limit = None if host.max_replicas is None else max(0, host.max_replicas - len(taken))
    return replace(host, free=free, max_replicas=limit)
