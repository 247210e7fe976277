# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The reservations of one host, and whether one more session fits: the rules of reservation, without clock or disk.

A reservation begins as a *lease*: its session has asked several hosts and does not know yet whether all of them
agreed. It is *confirmed* once all have, and *committed* once the session runs. A lease or a confirmation that is not
renewed expires by itself; a committed reservation stays until the session is torn down.

If two sessions race, they ask the same hosts at the same time, and each may get some hosts and neither all.
`resolve_reservations` decides what to do then: of two tentative sessions the one with the lower id keeps what it got
and asks again, the other rolls back everything and plans again. A session therefore waits only for sessions with a
higher id, so there can be no circular waiting, and the session with the lowest id always finishes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..model.claims import (
    COMMITTED,
    LEASED,
    SCHEMA,
    STAGES,
    Allocatable,
    Claim,
    ClaimAnswer,
    InvalidLedger,
    Ledger,
    NewerLedger,
    Reservation,
    read_devices,
)
from ..values.errors import show
from ..values.ports import EVERY_ADDRESS, ports_collide
from ..values.resources import format_cpus, format_memory, same_device

if TYPE_CHECKING:
    from ..model.plan import Plan


CHANGE = "+"
"""Suffix of a session's name in the name of the claim of a change; no session's name contains it."""

_Port = tuple[str, int, str]
"""Address, number and protocol."""

GRANTED = "granted"
ASK_AGAIN = "ask again"
ROLL_BACK = "roll back"


TURN, LONGEST_TURNS = 15, 3600
"""Seconds by which a lease lasts longer for each turn of hosts that are called before, in which a part is started and
gets ready; and the most it adds up to, because a killed launch holds up others for that long."""


def read_ledger(data: object) -> dict[str, Reservation]:
    """Return the ledger from its JSON form. Raises InvalidLedger."""
    if not isinstance(data, Mapping) or not isinstance(data.get("reservations"), list):
        raise InvalidLedger(f"The ledger is {show(data)}, where a mapping with a list of reservations is expected.")
    schema = data.get("schema")
    if isinstance(schema, int) and not isinstance(schema, bool) and schema > SCHEMA:
        raise NewerLedger(
            f"The ledger has schema {schema}, this release of the collection reads schema {SCHEMA}. Use the release "
            "that wrote it."
        )
    if schema != SCHEMA or isinstance(schema, bool) or not isinstance(schema, int):
        raise InvalidLedger(f"The ledger's schema is {show(schema)}, where {SCHEMA} is expected.")
    found = [Reservation.from_dict(entry) for entry in data["reservations"]]
    return {reservation.claim.session_id: reservation for reservation in found}


def write_ledger(ledger: Ledger) -> dict[str, Any]:
    """Return the JSON form of a ledger, in the order of the session ids."""
    return {"schema": SCHEMA, "reservations": [ledger[key].to_dict() for key in sorted(ledger)]}


def live(ledger: Ledger, boot: str, now: float) -> dict[str, Reservation]:
    """Return the ledger without expired reservations."""
    return {key: reservation for key, reservation in ledger.items() if reservation.is_live(boot, now)}


def answer(claim: Claim, ledger: Ledger, untracked: Iterable[Claim], allocatable: Allocatable | None) -> ClaimAnswer:
    """Tell whether *claim* fits beside what is held.

    ledger: live reservations; one of the same session is replaced by the claim. untracked: containers of sessions that
    are missing from the ledger; they use resources of the host all the same. allocatable: None for a claim of the
    session's name alone.
    """
    others = {key: reservation for key, reservation in ledger.items() if key != claim.session_id}
    unknown = [other for other in untracked if other.session_id not in ledger and other.session_id != claim.session_id]
    held = [reservation.claim for reservation in others.values()] + unknown
    reasons = _conflicts(claim, held, allocatable)
    if not reasons:
        return ClaimAnswer(True)
    firm = [reservation.claim for reservation in others.values() if reservation.stage != LEASED] + unknown
    if _conflicts(claim, firm, allocatable):
        return ClaimAnswer(False, tuple(reasons))
    tentative = sorted(key for key, reservation in others.items() if reservation.stage == LEASED)
    return ClaimAnswer(False, tuple(reasons), tuple(tentative))


def collisions(claim: Claim, held: Iterable[Claim]) -> list[str]:
    """Return in full sentences what the claim and others cannot both have, however much is free."""
    return [reason for other in held if other.session_id != claim.session_id for reason in _collisions(claim, other)]


def _conflicts(claim: Claim, held: Sequence[Claim], allocatable: Allocatable | None) -> list[str]:
    if allocatable is None:
        return collisions(claim, held)
    return [*_shortages(claim, held, allocatable), *collisions(claim, held)]


def _shortages(claim: Claim, held: Sequence[Claim], allocatable: Allocatable) -> list[str]:
    """Return in full sentences what is not free of what sessions may use, or not there at all."""
    reasons = []
    cpus, memory = sum(other.cpus for other in held), sum(other.memory for other in held)
    # A host that was made smaller can hold more than it has: a session that asks for nothing more is not rejected.
    for what, wanted, limit, used, form in (
        ("CPUs", claim.cpus, allocatable.cpus, cpus, format_cpus),
        ("memory", claim.memory, allocatable.memory, memory, format_memory),
    ):
        free = max(0, limit - used)
        if wanted > free:
            reasons.append(f"{form(wanted)} {what} asked, {form(free)} free of {form(limit)}.")
    there = [name for _kind, names in allocatable.devices for name in names]
    reasons += [
        f"There is no {kind} {name} for sessions on this host."
        for kind, names in claim.devices
        for name in names
        if not any(same_device(name, other) for other in there)
    ]
    if allocatable.max_replicas is not None:
        free = max(0, allocatable.max_replicas - sum(other.replicas for other in held))
        if claim.replicas > free:
            reasons.append(f"{claim.replicas} replicas asked, {free} more allowed on this host.")
    return reasons


def _collisions(claim: Claim, other: Claim) -> list[str]:
    """Return what two claims cannot both have, whatever the amounts."""
    reasons = []
    taken = _shared(claim, other)
    if claim.session_name == other.session_name:
        if claim.session_name.endswith(CHANGE):
            reasons.append(f"Session {claim.session_name.removesuffix(CHANGE)} is being changed by another run.")
        else:
            taken.insert(0, f"The name {claim.session_name}")
    return reasons + [f"{what} is taken by session {other.session_name} ({other.session_id})." for what in taken]


def _shared(claim: Claim, other: Claim) -> list[str]:
    """Return the devices, ports, networks and the network identifier that are in both claims."""
    their_devices = [name for _kind, names in other.devices for name in names]
    shared = [
        f"The {kind} {name}"
        for kind, names in claim.devices
        for name in names
        if any(same_device(name, theirs) for theirs in their_devices)
    ]
    shared += [
        f"Port {port}/{protocol}"
        for ours, theirs in ((claim.ports, other.ports + _overlay(other)), (_overlay(claim), other.ports))
        for address, port, protocol in ours
        if any(ports_collide(address, port, protocol, *their_port) for their_port in theirs)
    ]
    if claim.vni is not None and claim.vni == other.vni:
        shared.append(f"The network identifier {claim.vni}")
    for subnet in claim.subnets:
        if any(_overlap(_span(subnet), _span(theirs)) for theirs in other.subnets):
            shared.append(f"The subnet {subnet}")
    return shared


def _overlay(claim: Claim) -> tuple[_Port, ...]:
    return () if claim.overlay_port is None else ((EVERY_ADDRESS, claim.overlay_port, "udp"),)


def _overlap(span: tuple[int, int], other: tuple[int, int]) -> bool:
    return span[0] <= other[1] and other[0] <= span[1]


@lru_cache(maxsize=65536)
def _span(subnet: str) -> tuple[int, int]:
    """Return the first and the last address of an IPv4 network as numbers."""
    network = ipaddress.IPv4Network(subnet, strict=False)
    return int(network.network_address), int(network.broadcast_address)


def lease(claim: Claim, boot: str, now: float, seconds: float, lease_owner: str = "") -> Reservation:
    """Return a fresh lease of *seconds*."""
    return Reservation(claim, LEASED, boot, now + seconds, lease_owner, now)


def turns_seconds(hosts: int, forks: int) -> int:
    """Return how much longer a lease has to last if *hosts* are called in turns, *forks* at a time.

    The last host is called to confirm its lease when all before it have started their parts.
    """
    return min((-(-hosts // forks) - 1) * TURN, LONGEST_TURNS)


def advance(reservation: Reservation, stage: str, now: float, seconds: float) -> Reservation:
    """Return the reservation one stage further, or unchanged if it is that far already; it never goes back a stage."""
    if STAGES.index(stage) < STAGES.index(reservation.stage):
        return reservation
    return replace(reservation, stage=stage, expires=None if stage == COMMITTED else now + seconds, since=now)


def resolve_reservations(session_id: str, answers: Mapping[str, ClaimAnswer]) -> str:
    """Tell what a session does with the answers of all its hosts: GRANTED, ASK_AGAIN or ROLL_BACK.

    It asks again, keeping what it got, only if nothing but tentative sessions with higher ids are in the way.
    """
    refused = [given for given in answers.values() if not given.granted]
    if not refused:
        return GRANTED
    if all(given.tentative and min(given.tentative) > session_id for given in refused):
        return ASK_AGAIN
    return ROLL_BACK


def claims_of(plan: Plan) -> dict[str, Claim]:
    """Return the claim of a plan on each of its hosts."""
    return {host: claim_of(plan, host) for host in plan.hosts}


def claim_of(plan: Plan, host: str) -> Claim:
    """Return the claim of a plan on one of its hosts."""
    network, replicas = plan.network, plan.on(host)
    subnets = [plan.egress.subnet] + ([network.subnet] if network is not None else [])
    # The tunnel of an encrypted session listens on a port of its own; unencrypted overlays share one.
    own_ports: tuple[_Port, ...] = ()
    overlay_port = None
    if network is not None and network.tunnel is not None and network.port is not None:
        own_ports = ((EVERY_ADDRESS, network.port, "udp"),)
    elif network is not None:
        overlay_port = network.port
    devices: dict[str, list[str]] = {}
    for replica in replicas:
        for kind, names in replica.devices.items():
            devices.setdefault(kind, []).extend(names)
    ports = tuple((port.host_ip, port.host_port, port.protocol) for replica in replicas for port in replica.ports)
    return Claim(
        session_id=plan.session.id,
        session_name=plan.session.name,
        replicas=len(replicas),
        cpus=sum(replica.resources.cpus for replica in replicas),
        memory=sum(replica.resources.memory for replica in replicas),
        devices=read_devices(devices),
        ports=ports + own_ports,
        vni=None if network is None else network.vni,
        subnets=tuple(sorted(subnets)),
        overlay_port=overlay_port,
    )


def beyond(claim: Claim, held: Claim) -> Claim:
    """Return the part of a claim that the held claim does not cover."""
    had = {name for _kind, names in held.devices for name in names}
    devices = ((kind, tuple(name for name in names if name not in had)) for kind, names in claim.devices)
    return replace(
        claim,
        replicas=max(0, claim.replicas - held.replicas),
        cpus=max(0, claim.cpus - held.cpus),
        memory=max(0, claim.memory - held.memory),
        devices=tuple((kind, names) for kind, names in devices if names),
        ports=tuple(port for port in claim.ports if port not in held.ports),
        vni=None if claim.vni == held.vni else claim.vni,
        subnets=tuple(subnet for subnet in claim.subnets if subnet not in held.subnets),
        overlay_port=None if claim.overlay_port == held.overlay_port else claim.overlay_port,
    )


def covers(held: Claim, claim: Claim) -> bool:
    """Tell whether *held* includes all of *claim*."""
    return beyond(claim, held) == Claim(claim.session_id, claim.session_name, amends=claim.amends)


def both(claim: Claim, held: Claim) -> Claim:
    """Return what a session takes while it changes from one claim to another: the larger of the two."""
    devices: dict[str, list[str]] = {kind: list(names) for kind, names in claim.devices}
    for kind, names in held.devices:
        mine = devices.setdefault(kind, [])
        mine += [name for name in names if name not in mine]
    return replace(
        claim,
        replicas=max(claim.replicas, held.replicas),
        cpus=max(claim.cpus, held.cpus),
        memory=max(claim.memory, held.memory),
        devices=read_devices(devices),
        ports=claim.ports + tuple(port for port in held.ports if port not in claim.ports),
        vni=held.vni if claim.vni is None else claim.vni,
        subnets=tuple(sorted({*claim.subnets, *held.subnets})),
        overlay_port=held.overlay_port if claim.overlay_port is None else claim.overlay_port,
    )


def amended(
    claim: Claim,
    ledger: Ledger,
    untracked: Iterable[Claim],
    allocatable: Allocatable | None,
    change_id: str | None,
    lease_owner: str | None,
) -> tuple[Claim | None, list[str]]:
    """Return what a running session takes from now on, to get from what it holds to *claim*; or None, and why not.

    It keeps what it holds. What it needs beyond that has to be leased under *change_id* by *lease_owner*, or be free
    among what sessions may use, *allocatable*. If neither is known, it gets no more.
    """
    mine = ledger.get(claim.session_id)
    if mine is not None and mine.stage != COMMITTED:
        return None, [f"Session {claim.session_name} is being launched by another run."]
    held = Claim(claim.session_id, claim.session_name) if mine is None else mine.claim
    wanted = both(claim, held)
    if covers(held, claim):
        return wanted, []
    more = beyond(claim, held)
    leased = None if change_id is None else ledger.get(change_id)
    if leased is not None and (leased.lease_owner != lease_owner or leased.claim.amends != claim.session_id):
        return None, [f"Another run changes session {claim.session_name}."]
    if leased is not None and covers(leased.claim, more):
        return wanted, []
    if allocatable is None:
        return None, ["Its additional resources are not reserved, or the reservation has expired."]
    others = {key: reservation for key, reservation in ledger.items() if key != change_id}
    # A host may hold more than it has: only what is requested beyond that has to be free.
    used = Claim("", "", replicas=held.replicas, cpus=held.cpus, memory=held.memory)
    found = answer(more, others, [*untracked, used], allocatable)
    return (wanted, []) if found.granted else (None, list(found.reasons))
