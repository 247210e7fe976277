# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The queue of a resource group: who is next, and who may go before.

Sessions wait by priority, the highest first, then by the number they got when they began to wait. The first that has
no room is the *head*: the place it would have if nothing else ran, its *kept place*, is kept for it. It follows from
the hosts alone, so it stays the same however often it is computed and whoever computes it. Whoever is behind the head
may start only on what is free outside the kept place. So the head waits for nobody but the sessions that ran when it
became the head, however many come after it. (Batch systems call this backfill.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import Record
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.placement import (
    Capacity,
    Host,
    Placement,
    Shortfall,
    place,
)


@dataclass(frozen=True)
class Waiting:
    """One session that wants to start. number: its place in the order of arrival."""

    session_id: str
    request: Request
    number: int


@dataclass(frozen=True)
class QueueEntry:
    """One waiting session, and what becomes of it now.

    position: from 1 on. placement: where it can start now. shortfall: what it lacks, also where it would fit but for
    the place kept for *blocked_by*, the name of the session at the head. problem: why no host of the group can take it.
    """

    waiting: Waiting
    position: int
    placement: Placement | None = None
    shortfall: Shortfall | None = None
    blocked_by: str | None = None
    problem: InvalidInput | None = None


def next_number(records: Iterable[Record]) -> int:
    """Return the number for a session that begins to wait: one more than the highest of those that wait."""
    return 1 + max((record.queue_number for record in records), default=0)


def in_order(waiting: Iterable[Waiting]) -> list[Waiting]:
    """Return the queue: by priority, then by number; two launches that took the same number go by their id."""
    return sorted(waiting, key=lambda entry: (-entry.request.priority, entry.number, entry.session_id))


def schedule_queue(
    waiting: Iterable[Waiting], hosts: Sequence[Host], topology_keys: Sequence[str], known_hosts: Sequence[str]
) -> list[QueueEntry]:
    """Schedule the queue once, as if every session that fits started at once; return the entries in order.

    A session that would not fit on idle hosts either keeps nobody waiting.
    """
    entries = []
    head: str | None = None
    for position, session in enumerate(in_order(waiting), 1):
        try:
            found = place(session.request, hosts, topology_keys, known_hosts)
        except InvalidInput as error:
            entries.append(QueueEntry(session, position, problem=error))
            continue
        if isinstance(found, Placement):
            hosts = without(hosts, session.request, found)
            entries.append(QueueEntry(session, position, placement=found))
            continue
        entries.append(QueueEntry(session, position, shortfall=found, blocked_by=head))
        if head is None:
            kept = place(session.request, [idle(host) for host in hosts], topology_keys, known_hosts)
            if isinstance(kept, Placement):
                head = session.request.name
                hosts = without(hosts, session.request, kept)
    return entries


def idle(host: Host) -> Host:
    """Return the host as it would be if no session held anything of it."""
    return replace(host, free=host.allocatable, max_replicas=host.replica_limit)


def without(hosts: Sequence[Host], request: Request, placement: Placement) -> list[Host]:
    """Return the hosts with less that is free by what the session takes at its place; never less than nothing."""
    roles = {name: role.resources for name, role, _index in request.replicas()}
    taken: dict[str, list[Any]] = {}
    for replica, name in placement.assignments:
        taken.setdefault(name, []).append(roles[replica])
    result = []
    for host in hosts:
        there = taken.get(host.name)
        if there is None:
            result.append(host)
            continue
        devices = dict(host.free.devices)
        for resources in there:
            for key, count in resources.devices(host.threads):
                devices[key] = max(0, devices.get(key, 0) - count)
        free = Capacity(
            max(0, host.free.cpus - sum(resources.cpus for resources in there)),
            max(0, host.free.memory - sum(resources.memory for resources in there)),
            tuple(sorted(devices.items())),
        )
        limit = None if host.max_replicas is None else max(0, host.max_replicas - len(there))
        result.append(replace(host, free=free, max_replicas=limit))
    return result
