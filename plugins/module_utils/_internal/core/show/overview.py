# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The overview: everything that is known of a resource group now.

People and programs see it in several forms: a table, a page, an inventory, artifacts. So its keys stay the same, and
its order is that of the inventory and of the alphabet. It contains no secrets: only the names of environment variables
and of options of volume drivers are included, and the rest according to `rules.access`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ..cluster.group import GroupFacts
from ..cluster.state import ClusterState, Removal
from ..model.facts import Container, Corrections, EngineFacts, HostFacts
from ..model.fields import WAIT
from ..model.health import Drain
from ..model.host_parts import Underlay
from ..model.record import ENDED, HistoryEntry, Record, group_of
from ..model.times import Limits
from ..rules.access import EVERYBODY, Asker, shown, shown_lines
from ..rules.admission import render_shortfall
from ..rules.capacity import held_claims, hosts_from_facts
from ..rules.durations import describe, limits_of, together
from ..rules.names import MOST_TIMES
from ..rules.obstacles import render_obstacles
from ..rules.queue import QueueEntry
from ..rules.scope import EVERYTHING, Scope
from ..rules.share import Share, Shares
from ..values.deferred import dataclass
from ..values.errors import InvalidInput
from ..values.failure import Failure
from ..values.resources import PINNED, Devices

FAILED, MISSING, UNKNOWN, PLANNED = "FAILED", "MISSING", "UNKNOWN", "PLANNED"
"""Statuses of a replica beyond the states that the engine reports in capitals (RUNNING, EXITED, PAUSED, ...): ended by
itself with an exit code other than 0 or because it ran out of memory; without a container; on an unreachable host; not
started yet."""

Containers = Mapping[tuple[str, str], Container]
"""The containers of a session, by host and replica."""
NO_SHARES = Shares()


@dataclass(frozen=True)
class Amounts:
    """Thousandths of CPUs, bytes, replicas (None: no limit), names of accelerators and numbers of CPUs."""

    cpus: int
    memory: int
    replicas: int | None
    accelerators: dict[str, list[str]]
    pinned_cpus: list[str]


@dataclass(frozen=True)
class WhySuspect:
    """Why a host is avoided, without the time left: so a page without metrics changes only if something is new."""

    reason: str


@dataclass(frozen=True)
class ShownHost:
    """A host. usable: whether its facts are known. problem: why not, or why it can take no session. sessions: names."""

    name: str
    reachable: bool
    usable: bool
    problem: str
    drained: Drain | None = None
    suspect: WhySuspect | None = None
    labels: dict[str, str] = field(default_factory=dict)
    engine: EngineFacts | None = None
    underlay: Underlay | None = None
    capacity: Amounts | None = None
    held: Amounts | None = None
    free: Amounts | None = None
    sessions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ShownTimes(Limits):
    """The limits of a session, and how much of them has passed, in seconds and in words."""

    ran: int | None = None
    idle: int | None = None
    message: str = ""


@dataclass(frozen=True)
class ShownFailure(Failure):
    """A replica that failed, and its failure in words."""

    message: str = ""


@dataclass(frozen=True)
class Seen:
    """A host's report of a replica. usage: what it uses now, if that was requested."""

    status: str
    exit_code: int | None = None
    oom_killed: bool = False
    finished: str | None = None
    restarts: int = 0
    stopped: str = ""
    usage: object = None


@dataclass(frozen=True)
class ShownSession:
    """A session. None for what is not known of it.

    readable: whether the user may read it. network, egress, request and replicas are parts of its record as they are,
    with keys that a newer release added; replicas also have `Seen`.
    """

    id: str
    name: str
    owner: str
    status: str
    revision: int
    readable: bool
    resource_group: str | None
    mode: str | None
    requested_mode: str | None
    size: int | None
    max_size: int | None
    on_host_loss: str | None
    priority: int | None
    hosts: tuple[str, ...]
    network: Any
    egress: Any
    ssh_port: int | None
    request: Any
    report: list[str]
    history: list[HistoryEntry]
    times: ShownTimes | None
    replicas: list[Any]
    ports: list[Any]
    failures: list[ShownFailure]


@dataclass(frozen=True)
class Pending:
    """A session that waits: its place in the queue, and why it waits as lines of text."""

    position: int
    session_name: str
    session_id: str
    owner: str
    priority: int
    number: int
    share: int | None
    size: int
    fits: bool
    reason: list[str]


@dataclass(frozen=True)
class WaitsElsewhere:
    """A session that waits in another resource group; only runs for that group start it."""

    session_name: str
    session_id: str
    owner: str
    resource_group: str
    reason: list[str]


@dataclass(frozen=True)
class Overview:
    """Everything that is known of a resource group now."""

    resource_group: str
    hosts: list[ShownHost]
    sessions: list[ShownSession]
    pending: list[Pending]
    waiting_elsewhere: list[WaitsElsewhere]
    shares: list[Share]
    findings: list[str]

    def only(self, name: str) -> Overview:
        """Return it with the sessions of one name alone."""
        return replace(
            self,
            sessions=[session for session in self.sessions if session.name == name],
            pending=[entry for entry in self.pending if entry.session_name == name],
            waiting_elsewhere=[entry for entry in self.waiting_elsewhere if entry.session_name == name],
        )


def overview(
    resource_group: str,
    group: GroupFacts,
    cluster: ClusterState,
    entries: Sequence[QueueEntry],
    shares: Shares = NO_SHARES,
    asker: Asker = EVERYBODY,
) -> Overview:
    """Return the overview of a resource group.

    group: with whole records. cluster: the facts of all hosts combined. entries: the queue. shares: of owners. asker:
    the user to whom it is shown.
    """
    facts, scope = group.facts, group.scope
    hosts = [_host(name, group) for name in group.known]
    containers: dict[str, dict[tuple[str, str], Container]] = {}
    for name, reported in facts.items():
        for container in reported.containers:
            containers.setdefault(container.session_id, {})[name, container.replica] = container
    why_missing = {name: group.why_missing[name] for name in group.known if name in group.why_missing}
    return Overview(
        resource_group,
        hosts,
        [
            session_of(record, facts, containers.get(record.id, {}), asker)
            for record in sorted(cluster.records.values(), key=lambda record: (record.name, record.id))
        ],
        [queue_entry(entry, cluster.records[entry.waiting.session_id], shares) for entry in entries],
        [entry_elsewhere(record, scope) for record in cluster.pending() if not scope.is_own(record)],
        shares.table(),
        [*_host_findings(hosts, facts), *findings(facts, why_missing, cluster, scope)],
    )


def _host_findings(hosts: Iterable[ShownHost], facts: Mapping[str, HostFacts]) -> list[str]:
    """Return problems that each host reports itself, as sentences."""
    found = []
    for host in hosts:
        if host.usable and host.problem:
            found.append(f"{host.name}: {host.problem}")
        if host.name in facts:
            reasons = (facts[host.name].drained, facts[host.name].suspect)
            found += [f"{host.name}: {reason}" for reason in reasons if reason is not None]
    return found


def _host(name: str, group: GroupFacts) -> ShownHost:
    facts = group.facts.get(name)
    why_missing = group.why_missing.get(name, "")
    shown_host = ShownHost(name, name not in group.unreachable, facts is not None, why_missing)
    if facts is None:
        return shown_host
    shown_host = replace(
        shown_host,
        drained=facts.drained,
        suspect=None if facts.suspect is None else WhySuspect(facts.suspect.reason),
        engine=facts.engine,
        underlay=facts.underlay,
    )
    try:
        host = hosts_from_facts({name: facts}, {name: group.inventory.get(name, {})})[0]
    except InvalidInput as error:
        return replace(shown_host, problem=str(error))
    claims = held_claims(facts, None, True)
    replicas = sum(claim.replicas for claim in claims)
    cpus, memory = sum(claim.cpus for claim in claims), sum(claim.memory for claim in claims)
    taken = {
        kind: tuple(label for label in names if label not in dict(host.free_devices).get(kind, ()))
        for kind, names in host.devices
    }
    return replace(
        shown_host,
        labels=dict(host.labels),
        capacity=_amounts(host.allocatable.cpus, host.allocatable.memory, host.replica_limit, host.devices),
        held=_amounts(cpus, memory, replicas, tuple(taken.items())),
        free=_amounts(host.free.cpus, host.free.memory, host.max_replicas, host.free_devices),
        sessions=sorted({claim.session_name for claim in claims if claim.session_name}),
    )


def _amounts(cpus: int, memory: int, replicas: int | None, devices: Devices) -> Amounts:
    accelerators = {kind: list(names) for kind, names in devices if kind != PINNED}
    return Amounts(cpus, memory, replicas, accelerators, list(dict(devices).get(PINNED, ())))


def session_of(
    record: Record, facts: Mapping[str, HostFacts], containers: Containers, asker: Asker = EVERYBODY
) -> ShownSession:
    """Return everything that is known of one session.

    record: whole, a stub, or the short form of an ended session, of which little is known. facts: of the usable hosts.
    containers: of the session. asker: the user to whom it is shown.
    """
    is_readable = asker.may_read(record.owner, record.shared_with)
    plan, request = record.plan or {}, record.request or {}
    replicas = [
        {
            **replica_of(plan, replica, is_readable),
            **vars(_seen(containers.get((replica["host"], replica["name"])), replica["host"] in facts)),
        }
        for replica in plan.get("replicas", ())
    ]
    return ShownSession(
        id=record.id,
        name=record.name,
        owner=record.owner,
        status=record.status,
        revision=record.revision,
        readable=is_readable,
        resource_group=group_of(record) or None,
        mode=plan["session"].get("mode") if plan else None,
        requested_mode=request.get("mode"),
        size=sum(role["replicas"] for role in request["roles"]) if request else None,
        max_size=request.get("max_size"),
        on_host_loss=request.get("on_host_loss", WAIT) if request else None,
        priority=request.get("priority"),
        hosts=record.hosts,
        network=plan.get("network"),
        egress=plan.get("egress"),
        ssh_port=plan.get("ssh_port"),
        request=request_of(request, is_readable) if request else None,
        report=shown_lines(record.report, is_readable),
        history=[
            replace(entry, reason="\n".join(shown_lines([entry.reason], is_readable))) for entry in record.history
        ],
        times=_times(record, facts),
        replicas=replicas,
        ports=[
            {"replica": replica["name"], "host": replica["host"], **port}
            for replica in replicas
            for port in replica["ports"]
        ],
        failures=_failures(containers),
    )


def _failures(containers: Containers) -> list[ShownFailure]:
    failures = [
        Failure(container.replica, host, **vars(container.failure))
        for (host, _replica), container in sorted(containers.items())
        if container.failure
    ]
    return [ShownFailure(**vars(failure), message=failure.describe()) for failure in failures]


def _times(record: Record, facts: Mapping[str, HostFacts]) -> ShownTimes | None:
    """Return when a session ends by its request; None without limits."""
    limits = limits_of(record.request)
    if not limits.exist:
        return None
    found = together(facts[host].times.get(record.id) if host in facts else None for host in record.hosts)
    return ShownTimes(**vars(limits), ran=found.ran, idle=found.idle, message=describe(limits, found))


def request_of(request: Mapping[str, Any], is_readable: bool) -> dict[str, Any]:
    """Return the JSON form of a request without values that may be secret, and without private ones for other users."""
    return {
        **shown(request, is_readable),
        "roles": [shown({**role, "env": sorted(role["env"])}, is_readable) for role in request["roles"]],
        "mounts": _mounts(request["mounts"]),
    }


def replica_of(plan: Mapping[str, Any], entry: Mapping[str, Any], is_readable: bool = True) -> dict[str, Any]:
    """Return a replica from a plan, with the image that its reference resolves to, if that is known.

    Its environment is left out, and so are other values that may be secret. is_readable: as of `rules.access.shown`.
    """
    image = plan["images"][entry["image"]]
    return {
        **shown({key: value for key, value in entry.items() if key != "env"}, is_readable),
        "mounts": _mounts(entry["mounts"]),
        "image_id": image["ids"][entry["host"]],
        "image_digest": image["digest"],
    }


def _mounts(mounts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return mounts with only the names of their drivers' options: a password for a file server may be among them."""
    return [{**mount, "driver_options": sorted(mount["driver_options"])} for mount in mounts]


def _seen(container: Container | None, answers: bool) -> Seen:
    """Return a host's report of a replica. answers: whether the host is reachable."""
    if container is None:
        return Seen(MISSING if answers else UNKNOWN)
    if container.failure:
        return Seen(FAILED, **vars(container.failure), usage=container.usage)
    return Seen(container.state.upper(), container.exit_code, usage=container.usage)


def queue_entry(entry: QueueEntry, record: Record, shares: Shares) -> Pending:
    """Return the state of a session that waits."""
    request = entry.waiting.request
    if entry.placement is not None:
        reason = [f"It can start on {', '.join(entry.placement.hosts)}."]
    elif entry.problem is not None:
        reason = str(entry.problem).splitlines()
    else:
        reason = [] if entry.shortfall is None else render_shortfall(entry.shortfall)
        if entry.blocked_by is not None:
            reason.insert(0, f"Capacity reserved for session {entry.blocked_by} does not count as free.")
        reason += render_obstacles(entry.waiting.obstacles)
    if record.growth is not None:
        replicas = "1 more replica" if request.size == 1 else f"{request.size} more replicas"
        reason.insert(0, f"It runs, and waits for room for {replicas}.")
    return Pending(
        entry.position,
        request.name,
        entry.waiting.session_id,
        record.owner,
        request.priority,
        entry.waiting.number,
        shares.percent(record.owner),
        request.size,
        entry.placement is not None,
        reason,
    )


def entry_elsewhere(record: Record, scope: Scope) -> WaitsElsewhere:
    """Return the state of a session that waits in another resource group."""
    return WaitsElsewhere(record.name, record.id, record.owner, group_of(record), [scope.left_alone(record)])


def findings(
    facts: Mapping[str, HostFacts],
    why_missing: Mapping[str, str],
    cluster: ClusterState,
    scope: Scope = EVERYTHING,
) -> list[str]:
    """Return problems that a host cannot see alone, as sentences."""
    found = []
    for kind, removals in (("abandoned", cluster.orphaned), ("leak", cluster.leaked)):
        for host, host_removals in sorted(removals.items()):
            found += [f"{host}: {kind}: session {_shown(removal)}: {removal.why}" for removal in host_removals]
    found += [f"unknown: {why}" for _key, why in sorted(cluster.unknown.items())]
    found += map(str, cluster.renamed)
    found += [str(conflict) for _key, conflict in sorted(cluster.conflicts.items())]
    for host, reported in facts.items():
        found += _reported(host, reported)
    found += [f"{host}: no facts could be collected: {why}" for host, why in why_missing.items()]
    found += [
        f"Session {record.name} is left alone by all runs. {scope.left_alone(record)}"
        for _key, record in sorted(cluster.records.items())
        if record.status not in ENDED and group_of(record) and not (scope.is_own(record) or scope.has_group(record))
    ]
    return [*found, *_same_names(cluster)]


def _reported(host: str, facts: HostFacts) -> list[str]:
    """Return damaged files of a host, and replicas of it that keep changing names."""
    return [
        *(f"{host}: damaged: {problem}" for problem in facts.damaged),
        *(
            f"{host}: session {container.session_name}: {_changed(container.replica, container.corrections)}"
            for container in facts.containers
            if container.corrections is not None and container.corrections.count > 1
        ),
    ]


def _same_names(cluster: ClusterState) -> list[str]:
    names: dict[str, set[str]] = {}
    for record in cluster.records.values():
        names.setdefault(record.name, set()).add(record.id)
    return [
        f"Different sessions have the name {name}: {', '.join(sorted(ids))}."
        for name, ids in sorted(names.items())
        if len(ids) > 1
    ]


def _changed(replica: str, corrections: Corrections) -> str:
    """Return that programs of a replica keep changing names; the journal of its host has the details."""
    rest = "they are not put back any more" if corrections.count >= MOST_TIMES else "they were put back"
    return (
        f"Names of the session in {replica} were changed {corrections.count} times since it was started at "
        f"{corrections.since}; {rest}. Configure the image's programs to leave /etc/hosts and /etc/hostname alone."
    )


def _shown(removal: Removal) -> str:
    return removal.session_name or removal.session_id
