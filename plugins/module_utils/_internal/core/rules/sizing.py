# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Amounts of CPU and memory that follow from the hosts: all that a host has, or its share by accelerators.

All replicas of a role are alike, so an amount is the least over the hosts on which one could be. It counts what
sessions may use there in all, not what is free now: the same request asks for the same on a busy group. A session that
exists keeps its amounts, whatever hosts come and go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..model.fields import ALL, SHARE
from ..model.request import Request, Role, may_change_to
from ..values.places import FABRIC
from ..values.resources import MINIMUM_CPUS, MINIMUM_MEMORY, format_cpus, format_memory
from .placement import Host

_UNITS = {"cpus": (1000, 1), "memory": (1024**3, 1024**2)}
"""Amounts are rounded down to the first unit; less than one of it, to the second."""
_LEAST = {"cpus": MINIMUM_CPUS, "memory": MINIMUM_MEMORY}


def sized(request: Request, hosts: Iterable[Host], before: Request | None, recreate: bool = False) -> Request:
    """Return the request with the amounts that follow from *hosts*.

    before: the request of the session of this name, if there is one. recreate: whether it is replaced if it differs.
    An amount is left as it is if no host could have a replica of that role, which the search for a place will say.
    """
    if before is not None:
        known = {role.name: role for role in before.roles}
        same = _with_roles(request, [_as_before(role, known.get(role.name)) for role in request.roles])
        if not recreate or same == before or may_change_to(before, same):
            return same
    usable = [host for host in hosts if request.may_use(host.name)]
    return _with_roles(request, [_sized_role(role, usable) for role in request.roles])


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


def _as_before(role: Role, known: Role | None) -> Role:
    """Return a role with the amounts that the existing session found by the same rules."""
    if known is None or known.resources.accelerators != role.resources.accelerators:
        return role
    rules = dict(known.of_host)
    kept: dict[str, Any] = {
        amount: getattr(known.resources, amount) for amount, rule in role.of_host if rules.get(amount) == rule
    }
    return replace(role, resources=replace(role.resources, **kept))


def _sized_role(role: Role, hosts: Iterable[Host]) -> Role:
    parts = [(host, part) for host in hosts if (part := _part(role, host)) is not None]
    amounts: dict[str, Any] = {
        amount: min(
            _rounded(role, amount, getattr(host.allocatable, amount) * (1 if rule == ALL else part))
            for host, part in parts
        )
        for amount, rule in role.of_host
        if parts
    }
    return replace(role, resources=replace(role.resources, **amounts))


def _part(role: Role, host: Host) -> Fraction | None:
    """Return which part of a host's accelerators a replica has, of the class of which it is most; None if too few.

    A port of a fabric, as `rules.environment` knows it, says nothing of that beside others: a host may have only one.
    """
    there, names = dict(host.allocatable.devices), dict(host.devices)
    wanted = role.resources.accelerators
    if any(there.get(kind, 0) < count for kind, count in wanted):
        return None
    parts = {kind: Fraction(count, there[kind]) for kind, count in wanted}
    others = [part for kind, part in parts.items() if not _is_port("+".join(names.get(kind, ())))]
    return max(others or parts.values(), default=Fraction(1))


def _is_port(paths: str) -> bool:
    return all(path.startswith(FABRIC) for path in paths.split("+"))


def _rounded(role: Role, amount: str, exact: int | Fraction) -> int:
    """Return an amount in whole units, rounded down so that the shares of a host fit on it; CPUs are pinned whole."""
    unit, small = _UNITS[amount]
    if amount == "cpus" and role.resources.pin_cpus:
        return max(1, int(exact // unit)) * unit
    step = unit if exact >= unit else small
    return max(_LEAST[amount], int(exact // step) * step)
