# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The capacity of hosts for sessions, and how much of it is free, from their facts and from the inventory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Callable

from ..model.claims import LEASED, Allocatable, Claim
from ..model.facts import HostFacts
from ..values.errors import InvalidInput, Problem
from ..values.parse import is_given, is_plain, parse_integer
from ..values.resources import PINNED, Devices, count_devices, parse_cpus, parse_memory, same_device
from .detection import parse_site_devices
from .endpoints import why_no_endpoint
from .placement import Capacity, Host


def hosts_from_facts(
    facts_by_host: Mapping[str, HostFacts],
    inventory_vars_by_host: Mapping[str, Mapping[str, Any]],
    ignore_session: str | None = None,
    with_tentative: bool = True,
) -> list[Host]:
    """Return the usable hosts, in the order of *facts_by_host*, which is the inventory's.

    Allocatable is what ``cluster_compute_cpus`` and ``cluster_compute_memory`` set; if they are not set, what was
    detected minus ``cluster_compute_reserved_*``. Free is the allocatable amount minus what the host's ledger holds and
    minus what labelled containers hold that are missing from the ledger, running or not. A draining host takes no more
    replicas. A suspect host is marked as such, and so is one that cannot be an end of an overlay.
    ignore_session: name of the session being placed, whose own share does not count against it. with_tentative:
    whether leases count, of sessions for which it is not decided yet whether they start.
    Raises InvalidInput naming host, variable and value.
    """
    hosts = []
    problems: list[Problem] = []
    no_endpoint = why_no_endpoint(facts_by_host)
    for name, facts in facts_by_host.items():
        if not facts.usable:
            continue
        try:
            host = _host(name, facts, inventory_vars_by_host.get(name, {}), ignore_session, with_tentative)
            hosts.append(replace(host, is_endpoint=False) if name in no_endpoint else host)
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return hosts


def _host(
    name: str,
    facts: HostFacts,
    variables: Mapping[str, Any],
    ignore_session: str | None,
    with_tentative: bool,
) -> Host:
    problems: list[Problem] = []
    read = partial(_read, problems, name, variables)
    cpus = read("cpus", parse_cpus, None)
    memory = read("memory", parse_memory, None)
    reserved_cpus = read("reserved_cpus", lambda value: parse_cpus(value, minimum=0), 0)
    reserved_memory = read("reserved_memory", lambda value: parse_memory(value, minimum=0), 0)
    if cpus is None:
        cpus = max(0, facts.capacity.cpus - reserved_cpus)
    if memory is None:
        memory = max(0, facts.capacity.memory - reserved_memory)
    pinnable = facts.topology.last(cpus // 1000)
    parse = partial(
        parse_site_devices,
        found=facts.accelerators,
        has_cdi=facts.engine.cdi,
        engine=facts.engine.version,
    )
    devices = read("accelerators", parse, ()) + (((PINNED, pinnable.names),) if pinnable.cores else ())
    labels = read("labels", _labels, ())
    limit = read("max_replicas", _limit, None)
    if problems:
        raise InvalidInput(problems)
    held = held_claims(facts, ignore_session, with_tentative)
    free_devices = _devices_left(devices, held)
    free_cores = pinnable.among(dict(free_devices).get(PINNED, ()))
    free_devices = tuple((kind, free_cores.names if kind == PINNED else names) for kind, names in free_devices)
    slots = None if limit is None else max(0, limit - sum(claim.replicas for claim in held))
    return Host(
        name=name,
        allocatable=Capacity(cpus, memory, _counts(devices, len(pinnable.cores) * pinnable.threads)),
        free=Capacity(
            max(0, cpus - sum(claim.cpus for claim in held)),
            max(0, memory - sum(claim.memory for claim in held)),
            _counts(free_devices, len(free_cores.cores) * pinnable.threads),
        ),
        labels=labels,
        max_replicas=slots if facts.drained is None else 0,
        replica_limit=limit,
        devices=devices,
        free_devices=free_devices,
        threads=pinnable.threads,
        is_suspect=facts.suspect is not None,
    )


def _read(
    problems: list[Problem],
    host: str,
    variables: Mapping[str, Any],
    key: str,
    make: Callable[[Any], Any],
    default: Any,
) -> Any:
    """Return what the inventory sets for a host, or the default; record the problem of a value that *make* rejects."""
    variable = "cluster_compute_" + key
    value = variables.get(variable)
    if not is_given(value):
        return default
    try:
        return make(value)
    except ValueError as error:
        problems.append(Problem(f"{variable} of host {host}", value, str(error)))
        return default


def _devices_left(devices: Devices, held: Iterable[Claim]) -> Devices:
    """Return the devices that no claim has."""
    taken = [device for claim in held for _kind, names in claim.devices for device in names]
    return tuple(
        (kind, tuple(name for name in names if not any(same_device(name, other) for other in taken)))
        for kind, names in devices
    )


def _labels(value: Any) -> tuple[tuple[str, str], ...]:
    allowed = "It must be a mapping of labels to text, such as {rack: r1, zone: z1}."
    if not isinstance(value, Mapping):
        raise ValueError(allowed)
    labels = []
    for key, text in value.items():
        if isinstance(text, int) and not isinstance(text, bool):
            text = str(text)
        if not isinstance(key, str) or not isinstance(text, str) or not is_plain(key) or not is_plain(text):
            raise ValueError(allowed)
        labels.append((key, text))
    return tuple(sorted(labels))


def _limit(value: Any) -> int:
    try:
        return parse_integer("", value, 0, 1_000_000)
    except InvalidInput as error:
        raise ValueError(error.problems[0].message) from None


def _counts(devices: Devices, pinnable: int) -> tuple[tuple[str, int], ...]:
    """Return how many there are of each class; for CPUs, how many replicas can be given."""
    return tuple((kind, pinnable if kind == PINNED else count) for kind, count in count_devices(devices))


def held_claims(facts: HostFacts, ignore_session: str | None, with_tentative: bool) -> list[Claim]:
    """Return the claims that sessions hold on a host: those of its ledger, and containers missing from the ledger."""
    known = {held.claim.session_id for held in facts.reservations}
    claims = [held.claim for held in facts.reservations if with_tentative or held.stage != LEASED]
    claims += [
        Claim(
            container.session_id,
            container.session_name,
            replicas=1,
            cpus=container.cpus,
            memory=container.memory,
            devices=tuple(sorted(container.devices.items())),
        )
        for container in facts.containers
        if container.session_id not in known
    ]
    return [claim for claim in claims if ignore_session is None or claim.session_name != ignore_session]


def allocatable_of(host: Host) -> Allocatable:
    """Return what sessions may use of a host in all, in the form that its ledger stores."""
    return Allocatable(host.allocatable.cpus, host.allocatable.memory, host.devices, host.replica_limit)
