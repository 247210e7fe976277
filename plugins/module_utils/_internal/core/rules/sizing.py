# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Amounts of CPU and memory that follow from the hosts: all that a host has, or its share by accelerators.

All replicas of a role are alike, so an amount is the least over the hosts on which one could be. It counts what
sessions may use there in all, not what is free now: the same request asks for the same on a busy group. A session that
exists keeps its amounts, whatever hosts come and go, except one that waits and fits on no host with them any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..model.fields import ALL, SHARE
from ..model.request import STANDARD, Request, Role, may_change_to
from ..values.places import FABRIC
from ..values.resources import MINIMUM_CPUS, MINIMUM_MEMORY, PINNED, format_cpus, format_memory
from .placement import Host

_UNITS = {"cpus": (1000, 1), "memory": (1024**3, 1024**2)}
"""Amounts are rounded down to the first unit; less than one of it, to the second."""
_LEAST = {"cpus": MINIMUM_CPUS, "memory": MINIMUM_MEMORY}


def sized(
    request: Request, hosts: Sequence[Host], before: Sequence[Request] = (), recreate: bool = False, waits: bool = False
) -> Request:
    """Return the request with the amounts that follow from *hosts*.

    before: the requests of the session of this name if there is one, first the one it has. recreate: whether it is
    replaced if it differs. waits: whether it has no place yet.
    An amount is left as it is if no host could have a replica of that role, which the search for a place will say.
    """
    usable = [host for host in hosts if request.may_use(host.name)]
    fresh = _with_roles(request, [_sized_role(role, usable) for role in request.roles])
    if not before:
        return fresh
    known = {role.name: role for old in reversed(before) for role in old.roles}
    kept = _with_roles(request, [_as_before(role, known) for role in fresh.roles])
    is_recreated = recreate and (kept.roles != before[0].roles or not may_change_to(before[0], kept))
    fits = all(any(_has_room(host, role) for host in usable) for role in kept.roles)
    return fresh if is_recreated or (waits and not fits) else kept


def describe(request: Request) -> list[str]:
    """Return a line for each role whose amounts follow from the hosts: what its replicas get."""
    of = {ALL: "all of a host", SHARE: "the share of a host"}
    lines = []
    for role in request.roles:
        shown = {
            "cpus": f"{format_cpus(role.resources.cpus)} CPU{'' if role.resources.cpus == 1000 else 's'}",
            "memory": f"{format_memory(role.resources.memory)} of memory",
        }
        if role.of_host:
            found = ", ".join(f"{shown[amount]} ({of[rule]})" for amount, rule in role.of_host)
            lines.append(f"Each replica of {role.name}: {found}.")
    return lines


def _with_roles(request: Request, roles: list[Role]) -> Request:
    return replace(request, roles=tuple(roles))


def _as_before(role: Role, known: Mapping[str, Role]) -> Role:
    """Return a role with the amounts that the existing session has for it, or else for a role like it.

    A session that an earlier release recorded has the defaults instead.
    """
    alike = [known[role.name]] if role.name in known else known.values()
    for old in alike:
        if old.resources.accelerators == role.resources.accelerators and (found := _as_in(role, old)) != role:
            return found
    return role


def _as_in(role: Role, old: Role) -> Role:
    """Return a role with the amounts of another that were found by the same rule, or without one."""
    rules = dict(old.of_host)
    same = {amount for amount, rule in role.of_host if rules.get(amount) == rule}
    earlier = {
        amount
        for amount, rule in role.of_host
        if rule == SHARE and amount not in rules and getattr(old.resources, amount) == STANDARD[amount]
    }
    kept: Any = {amount: getattr(old.resources, amount) for amount in same | earlier}
    left = tuple((amount, rule) for amount, rule in role.of_host if amount not in earlier)
    return replace(role, resources=replace(role.resources, **kept), of_host=left)


def _sized_role(role: Role, hosts: Iterable[Host]) -> Role:
    parts = [(host, part) for host in hosts if (part := _part(role, host)) is not None]
    found: Any = {
        amount: min(_amount(role, amount, host, Fraction(1) if rule == ALL else part) for host, part in parts)
        for amount, rule in role.of_host
        if parts
    }
    return replace(role, resources=replace(role.resources, **found))


def _has_room(host: Host, role: Role) -> bool:
    """Tell whether an idle host could have a replica of a role."""
    there = host.allocatable
    fits = role.resources.cpus <= there.cpus and role.resources.memory <= there.memory
    return fits and _part(role, host) is not None


def _part(role: Role, host: Host) -> Fraction | None:
    """Return which part of a host's accelerators, of all classes, a replica has; None if the host has too few.

    So the shares of replicas with different classes fit on a host together. A port of a fabric, as `rules.environment`
    knows it, does not count beside others: replicas may need one each, and a host have only one.
    """
    there, names = {kind: count for kind, count in host.allocatable.devices if kind != PINNED}, dict(host.devices)
    wanted = dict(role.resources.accelerators)
    if any(there.get(kind, 0) < count for kind, count in wanted.items()):
        return None
    counted = {kind for kind in there if not _is_port("+".join(names.get(kind, ())))}
    if not counted & wanted.keys():
        counted = {*there}
    total = sum(there[kind] for kind in counted)
    return Fraction(sum(wanted.get(kind, 0) for kind in counted), total) if wanted else Fraction(1)


def _is_port(paths: str) -> bool:
    return all(path.startswith(FABRIC) for path in paths.split("+"))


def _amount(role: Role, amount: str, host: Host, part: Fraction) -> int:
    """Return a part of what a host has in whole units, rounded down so that all parts fit; cores are pinned whole."""
    whole: int = getattr(host.allocatable, amount)
    unit, small = _UNITS[amount]
    if amount == "cpus" and role.resources.pin_cpus:
        pinnable = dict(host.allocatable.devices).get(PINNED, whole // unit)
        return max(1, int(pinnable * part) // host.threads * host.threads) * unit
    exact = whole * part
    step = unit if exact >= unit else small
    return max(_LEAST[amount], int(exact // step) * step)
