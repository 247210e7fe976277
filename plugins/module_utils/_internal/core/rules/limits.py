# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Limits of a resource group: modes, replicas of a session, and what the sessions of one owner may have together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ..model.fields import MODES, PRIORITIES
from ..model.request import Request
from ..values.deferred import dataclass
from ..values.errors import InvalidInput, Problem
from ..values.parse import Reader, Readers, converted, is_given, parse_integer, parse_list
from ..values.resources import format_cpus, format_memory, parse_cpus, parse_memory

VARIABLE = "cluster_compute_limits"
_MOST = 1_000_000

Counts = tuple[tuple[str, int], ...]
"""(class, count), sorted by class."""


@dataclass(frozen=True)
class Amounts:
    """Sessions, replicas, millicpus, bytes of memory and accelerators as (class, count), added up."""

    sessions: int = 0
    replicas: int = 0
    cpus: int = 0
    memory: int = 0
    accelerators: Counts = ()

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum."""
        return Amounts(
            self.sessions + other.sessions,
            self.replicas + other.replicas,
            self.cpus + other.cpus,
            self.memory + other.memory,
            _sum([*self.accelerators, *other.accelerators]),
        )


def amounts_of(request: Request) -> Amounts:
    """Return the total amounts that one session requests."""
    each = [role.resources for role in request.roles for _replica in range(role.replicas)]
    accelerators = _sum([pair for amounts in each for pair in amounts.accelerators])
    return Amounts(
        1, len(each), sum(amounts.cpus for amounts in each), sum(amounts.memory for amounts in each), accelerators
    )


def _sum(counts: Iterable[tuple[str, int]]) -> Counts:
    total: Counter[str] = Counter()
    for kind, count in counts:
        total[kind] += count
    return tuple(sorted(total.items()))


@dataclass(frozen=True)
class Limits:
    """The limits of a resource group; None means no limit.

    replicas_per_session counts one session. The others count all sessions of one owner, waiting ones included.
    priority: the highest that users who are not admins of the site may request. If a site sets none, it is the default
    priority of a request, so that users cannot pass all others by requesting a higher one.
    """

    modes: tuple[str, ...] = MODES
    replicas_per_session: int | None = None
    sessions_per_owner: int | None = None
    replicas_per_owner: int | None = None
    cpus_per_owner: int | None = None
    memory_per_owner: int | None = None
    accelerators_per_owner: Counts = ()
    priority: int = 0

    @classmethod
    def from_variable(cls, value: object) -> Limits:
        """Read ``cluster_compute_limits``. Raises InvalidInput with every problem."""
        if not is_given(value):
            return cls()
        if not isinstance(value, Mapping):
            raise InvalidInput.single(VARIABLE, value, f"It must be a mapping of {', '.join(_KEYS)}.")
        reader = Reader()
        for key in sorted({*value} - {*_KEYS}, key=str):
            reader.add(f"{VARIABLE}.{key}", value[key], f"There is no such limit; known are {', '.join(_KEYS)}.")
        found = {
            key: reader.attempt(partial(read, f"{VARIABLE}.{key}", value[key]), None)
            for key, read in _KEYS.items()
            if key in value
        }
        return reader.finish(cls(**found))

    def check(self, request: Request, owner: str, used: Amounts, asks_priority: bool = False) -> None:
        """Reject a request that exceeds a limit. used: the amounts of the owner's other sessions. asks_priority:
        whether a user who is not an admin requests its priority now.

        Raises InvalidInput with every violation: used, requested, limit.
        """
        problems = []
        group = request.resource_group
        if request.mode not in self.modes:
            problems.append(
                Problem("session_mode", request.mode, f"Group {group} allows {', '.join(self.modes)} only.")
            )
        if asks_priority and request.priority > self.priority:
            message = f"Group {group} allows {self.priority} at most. An admin of the site may give a higher one."
            problems.append(Problem("session_priority", request.priority, message))
        requested = amounts_of(request)
        if self.replicas_per_session is not None and requested.replicas > self.replicas_per_session:
            problems.append(
                Problem(
                    "session_size",
                    requested.replicas,
                    f"Requested are {requested.replicas} replicas; the limit of group {group} is "
                    f"{self.replicas_per_session} a session.",
                )
            )
        compared: list[tuple[str, str, int | None, int, int, Callable[[int], str]]] = [
            ("session_owner", "sessions", self.sessions_per_owner, used.sessions, requested.sessions, str),
            ("session_size", "replicas", self.replicas_per_owner, used.replicas, requested.replicas, str),
            ("session_cpus", "CPUs", self.cpus_per_owner, used.cpus, requested.cpus, format_cpus),
            ("session_memory", "memory", self.memory_per_owner, used.memory, requested.memory, format_memory),
        ]
        have_of, want_of = dict(used.accelerators), dict(requested.accelerators)
        for kind, most in self.accelerators_per_owner:
            variable = f"session_accelerators.{kind}"
            compared.append((variable, f"Accelerators {kind}", most, have_of.get(kind, 0), want_of.get(kind, 0), str))
        for variable, what, limit, have, want, form in compared:
            if limit is not None and want and have + want > limit:
                problems.append(
                    Problem(
                        variable,
                        owner if variable == "session_owner" else form(want),
                        f"{what} of owner {owner} in group {group}: {form(have)} used, {form(want)} requested, the "
                        f"limit is {form(limit)}.",
                    )
                )
        if problems:
            raise InvalidInput(problems)


DEFAULT_LIMITS = Limits()


def _accelerators(place: str, value: object) -> Counts:
    if not isinstance(value, Mapping):
        raise InvalidInput.single(place, value, "It must be a mapping of accelerator class to a number, as {gpu: 8}.")
    return tuple(sorted((str(kind), parse_integer(f"{place}.{kind}", most, 0, _MOST)) for kind, most in value.items()))


def _modes(place: str, value: object) -> tuple[str, ...]:
    modes = parse_list(place, value)
    if not modes or any(mode not in MODES for mode in modes):
        raise InvalidInput.single(place, value, f"It must be a list of modes: {', '.join(MODES)}.")
    return tuple(mode for mode in MODES if mode in modes)


def _priority(place: str, value: object) -> int:
    return parse_integer(place, value, *PRIORITIES)


def _integer(place: str, value: object) -> int:
    return parse_integer(place, value, 0, _MOST)


_KEYS: Readers = {
    "modes": _modes,
    "replicas_per_session": _integer,
    "sessions_per_owner": _integer,
    "replicas_per_owner": _integer,
    "cpus_per_owner": converted(partial(parse_cpus, minimum=0)),
    "memory_per_owner": converted(partial(parse_memory, minimum=0)),
    "accelerators_per_owner": _accelerators,
    "priority": _priority,
}
