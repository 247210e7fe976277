# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The overview: everything that is known of a resource group now, as plain data for JSON.

People and programs see it in several forms: a table, a page, an inventory, artifacts. So its keys stay the same, and
its order is that of the inventory and of the alphabet. It contains no secrets: only the names of environment variables
and of options of volume drivers are included, and the rest according to `rules.access`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..cluster.group import GroupFacts
from ..cluster.state import ClusterState, Removal
from ..model.decode import encode
from ..model.facts import Container, Corrections, HostFacts
from ..model.fields import WAIT
from ..model.record import ENDED, Record, group_of
from ..rules.access import EVERYBODY, Asker, shown, shown_lines
from ..rules.admission import render_shortfall
from ..rules.capacity import held_claims, hosts_from_facts
from ..rules.durations import describe, limits_of, together
from ..rules.names import MOST_TIMES
from ..rules.obstacles import render_obstacles
from ..rules.queue import QueueEntry
from ..rules.scope import EVERYTHING, Scope
from ..rules.share import Shares
from ..values.errors import InvalidInput
from ..values.failure import Failure
from ..values.resources import PINNED, Devices

FAILED, MISSING, UNKNOWN, PLANNED = "FAILED", "MISSING", "UNKNOWN", "PLANNED"
"""Statuses of a replica beyond the states that the engine reports in capitals (RUNNING, EXITED, PAUSED, ...): ended by
itself with an exit code other than 0 or because it ran out of memory; without a container; on an unreachable host; not
started yet."""

Containers = dict[tuple[str, str], Container]
"""The containers of a session, by host and replica."""
NO_SHARES = Shares()
_SESSION = ("id", "name", "owner", "status", "revision")


def overview(
    resource_group: str,
    group: GroupFacts,
    cluster: ClusterState,
    entries: Sequence[QueueEntry],
    shares: Shares = NO_SHARES,
    asker: Asker = EVERYBODY,
) -> dict[str, Any]:
    """Return the overview of a resource group.

    group: with whole records. cluster: the facts of all hosts combined. entries: the queue. shares: of owners. asker:
    the user to whom it is shown.
    """
    facts, scope, unreachable = group.facts, group.scope, {*group.unreachable}
    hosts = [
        _host(
            name,
            facts.get(name),
            group.inventory.get(name, {}),
            group.why_missing.get(name, ""),
            name not in unreachable,
        )
        for name in group.known
    ]
    containers: dict[str, Containers] = {}
    for name, reported in facts.items():
        for container in reported.containers:
            containers.setdefault(container.session_id, {})[name, container.replica] = container
    why_missing = {name: group.why_missing[name] for name in group.known if name in group.why_missing}
    return {
        "resource_group": resource_group,
        "hosts": hosts,
        "sessions": [
            session_of(record, facts, containers.get(record.id, {}), asker)
            for record in sorted(cluster.records.values(), key=lambda record: (record.name, record.id))
        ],
        "pending": [queue_entry(entry, cluster.records[entry.waiting.session_id], shares) for entry in entries],
        "waiting_elsewhere": [
            entry_elsewhere(record, scope) for record in cluster.pending() if not scope.is_own(record)
        ],
        "shares": shares.table(),
        "findings": [*_host_findings(hosts, facts), *findings(facts, why_missing, cluster, scope)],
    }


def _host_findings(hosts: Iterable[Mapping[str, Any]], facts: Mapping[str, HostFacts]) -> list[str]:
    """Return problems that each host reports itself, as sentences."""
    found = []
    for host in hosts:
        name = host["name"]
        if host["usable"] and host["problem"]:
            found.append(f"{name}: {host['problem']}")
        if name in facts:
            reasons = (facts[name].drained, facts[name].suspect)
            found += [f"{name}: {reason}" for reason in reasons if reason is not None]
    return found


def _host(
    name: str, facts: HostFacts | None, variables: Mapping[str, Any], why_missing: str, reachable: bool
) -> dict[str, Any]:
    problem = why_missing
    shown: dict[str, Any] = {
        "name": name,
        "reachable": reachable,
        "usable": facts is not None,
        "problem": problem,
        "drained": None,
        "suspect": None,
        "labels": {},
        "engine": None,
        "underlay": None,
        "capacity": None,
        "used": None,
        "free": None,
        "sessions": [],
    }
    if facts is None:
        return shown
    shown["drained"] = encode(facts.drained)
    # Without the time left: so a page without metrics changes only if something is new.
    shown["suspect"] = None if facts.suspect is None else {"reason": facts.suspect.reason}
    shown["engine"] = encode(facts.engine)
    shown["underlay"] = encode(facts.underlay)
    try:
        host = hosts_from_facts({name: facts}, {name: variables})[0]
    except InvalidInput as error:
        return {**shown, "problem": str(error)}
    claims = held_claims(facts, None, True)
    replicas = sum(claim.replicas for claim in claims)
    cpus, memory = sum(claim.cpus for claim in claims), sum(claim.memory for claim in claims)
    taken = {
        kind: tuple(label for label in names if label not in dict(host.free_devices).get(kind, ()))
        for kind, names in host.devices
    }
    return {
        **shown,
        "labels": dict(host.labels),
        "capacity": _amounts(host.allocatable.cpus, host.allocatable.memory, host.replica_limit, host.devices),
        "used": _amounts(cpus, memory, replicas, tuple(taken.items())),
        "free": _amounts(host.free.cpus, host.free.memory, host.max_replicas, host.free_devices),
        "sessions": sorted({claim.session_name for claim in claims if claim.session_name}),
    }


def _amounts(cpus: int, memory: int, replicas: int | None, devices: Devices) -> dict[str, Any]:
    """Return amounts: thousandths of CPUs, bytes, replicas (None: no limit), names of accelerators and CPU numbers."""
    return {
        "cpus": cpus,
        "memory": memory,
        "replicas": replicas,
        "accelerators": {kind: list(names) for kind, names in devices if kind != PINNED},
        "pinned_cpus": [name for kind, names in devices for name in names if kind == PINNED],
    }


def session_of(
    record: Record, facts: Mapping[str, HostFacts], containers: Containers, asker: Asker = EVERYBODY
) -> dict[str, Any]:
    """Return everything that is known of one session.

    record: whole, a stub, or the short form of an ended session, of which little is known. Its parts of request and
    plan are shown as they are, with keys that a newer release added. facts: of the usable hosts. containers: of the
    session. asker: the user to whom it is shown.
    """
    is_readable = asker.may_read(record.owner, record.shared_with)
    plan, request = record.plan, record.request
    replicas = [
        {
            **replica_of(plan, replica, is_readable),
            **_seen(containers.get((replica["host"], replica["name"])), replica["host"] in facts),
        }
        for replica in (plan["replicas"] if plan is not None else ())
    ]
    return {
        **{key: getattr(record, key) for key in _SESSION},
        "readable": is_readable,
        "resource_group": group_of(record) or None,
        "mode": None if plan is None else plan["session"].get("mode"),
        **_requested(request),
        "hosts": list(record.hosts),
        **_planned(plan),
        "request": None if request is None else request_of(request, is_readable),
        "report": shown_lines(record.report, is_readable),
        "history": [
            {**entry, "reason": "\n".join(shown_lines([entry["reason"]], is_readable))}
            for entry in encode(record.history)
        ],
        "times": _times(record, facts),
        "replicas": replicas,
        "ports": [
            {"replica": replica["name"], "host": replica["host"], **port}
            for replica in replicas
            for port in replica["ports"]
        ],
        "failures": _failures(containers),
    }


def _requested(request: Mapping[str, Any] | None) -> dict[str, object]:
    """Return what a session was requested to be; None for each if that is not known."""
    if request is None:
        return dict.fromkeys(("requested_mode", "size", "max_size", "on_host_loss", "priority"))
    return {
        "requested_mode": request["mode"],
        "size": sum(role["replicas"] for role in request["roles"]),
        "max_size": request.get("max_size"),
        "on_host_loss": request.get("on_host_loss", WAIT),
        "priority": request["priority"],
    }


def _planned(plan: Mapping[str, Any] | None) -> dict[str, object]:
    """Return what a session has of the network; None for each if that is not known."""
    if plan is None:
        return dict.fromkeys(("network", "egress", "ssh_port"))
    network = plan["network"]
    return {
        "network": None if network is None else dict(network),
        "egress": dict(plan["egress"]),
        "ssh_port": plan["ssh_port"],
    }


def _failures(containers: Containers) -> list[dict[str, object]]:
    return [
        {
            "replica": container.replica,
            "host": host,
            **vars(container.failure),
            "message": Failure(container.replica, host, **vars(container.failure)).describe(),
        }
        for (host, _replica), container in sorted(containers.items())
        if container.failure
    ]


def _times(record: Record, facts: Mapping[str, HostFacts]) -> dict[str, Any] | None:
    """Return when a session ends by its request, and how much time has passed, in seconds; None without limits."""
    limits = limits_of(record.request)
    if not limits.exist:
        return None
    found = together(facts[host].times.get(record.id) if host in facts else None for host in record.hosts)
    return {**encode(limits), "ran": found.ran, "idle": found.idle, "message": describe(limits, found)}


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


def _seen(container: Container | None, answers: bool) -> dict[str, Any]:
    """Return a host's report of a replica. answers: whether the host is reachable."""
    nothing: dict[str, Any] = {
        "exit_code": None,
        "oom_killed": False,
        "finished": None,
        "restarts": 0,
        "stopped": "",
        "usage": None,
    }
    if container is None:
        return {"status": MISSING if answers else UNKNOWN, **nothing}
    return {
        "status": FAILED if container.failure else container.state.upper(),
        **nothing,
        "exit_code": container.exit_code,
        "usage": container.usage,
        **(vars(container.failure) if container.failure else {}),
    }


def queue_entry(entry: QueueEntry, record: Record, shares: Shares) -> dict[str, Any]:
    """Return the state of a session that waits: its place in the queue, and why it waits as lines of text."""
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
    return {
        "position": entry.position,
        "session_name": request.name,
        "session_id": entry.waiting.session_id,
        "owner": record.owner,
        "priority": request.priority,
        "number": entry.waiting.number,
        "share": shares.percent(record.owner),
        "size": request.size,
        "fits": entry.placement is not None,
        "reason": reason,
    }


def entry_elsewhere(record: Record, scope: Scope) -> dict[str, Any]:
    """Return the state of a session that waits in another resource group; only runs for that group start it."""
    return {
        "session_name": record.name,
        "session_id": record.id,
        "owner": record.owner,
        "resource_group": group_of(record),
        "reason": [scope.left_alone(record)],
    }


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
