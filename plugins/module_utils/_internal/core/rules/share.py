# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Fair share: the recent use of each owner's sessions, which decays, and how the queue weighs it.

Each host counts what sessions hold there, by owner: CPUs and accelerators by class, each multiplied by the seconds for
which they were held. A count halves after the half-life that the site sets, in time during which the host is up.
Annotations are types here, not text, as the decoder reads them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Optional

from ..values.deferred import dataclass
from ..values.errors import InvalidInput, Problem
from ..values.parse import is_given, parse_integer, parse_span

VARIABLE = "cluster_compute_fair_share"
CPUS = "cpus"
"""Kind of CPU seconds; the other kinds are classes of accelerators."""
ACCELERATOR_CPUS = 8
"""Number of CPUs that an accelerator counts as, except where the site sets another for its class."""
EXPECTED_SECONDS = 3600
"""Seconds that a session that starts is expected to run if it sets no maximum: if several start at once, an owner's
second session counts the first."""
LONGEST_GAP = 3600.0
"""Most seconds between two checks that count: what is held now was not held forever."""
MOST_OWNERS = 500
"""Most owners whose use a host remembers, those with the highest use."""
LEAST = 1.0
"""CPU seconds, or seconds of an accelerator, below which use is forgotten."""
_LEAST_HALF_LIFE, _LONGEST_HALF_LIFE = 60, 365 * 24 * 3600

Use = dict[str, dict[str, float]]
"""Seconds by owner and kind."""


@dataclass(frozen=True)
class FairShare:
    """The settings of a site. half_life: seconds, None without shares. accelerators: CPUs by class, sorted."""

    half_life: Optional[int] = None
    accelerators: tuple[tuple[str, int], ...] = ()

    @classmethod
    def from_variable(cls, value: object) -> "FairShare":
        """Read ``cluster_compute_fair_share``. Raises InvalidInput with every problem."""
        if not is_given(value):
            return cls()
        if not isinstance(value, Mapping):
            raise InvalidInput.single(VARIABLE, value, "It must be a mapping of half_life, accelerators.")
        problems = []
        for key in sorted(set(value) - {"half_life", "accelerators"}, key=str):
            problems.append(Problem(f"{VARIABLE}.{key}", value[key], "Known are half_life, accelerators."))
        half_life, weights = None, value.get("accelerators")
        try:
            if is_given(value.get("half_life")):
                half_life = parse_half_life(f"{VARIABLE}.half_life", value["half_life"])
        except InvalidInput as error:
            problems += error.problems
        found = []
        if is_given(weights) and not isinstance(weights, Mapping):
            message = "It must be a mapping of accelerator class to CPUs, as {gpu: 8}."
            problems.append(Problem(f"{VARIABLE}.accelerators", weights, message))
        for kind, weight in weights.items() if isinstance(weights, Mapping) else ():
            try:
                found.append((str(kind), parse_integer(f"{VARIABLE}.accelerators.{kind}", weight, 0, 10000)))
            except InvalidInput as error:
                problems += error.problems
        if problems:
            raise InvalidInput(problems)
        return cls(half_life, tuple(sorted(found)))

    def weigh(self, amounts: Mapping[str, float]) -> float:
        """Return amounts by kind as CPUs, or seconds of them as CPU seconds."""
        weights = {CPUS: 1, **dict(self.accelerators)}
        return sum(amount * weights.get(kind, ACCELERATOR_CPUS) for kind, amount in amounts.items())


NO_SHARES = FairShare()


def parse_half_life(place: str, value: object) -> int:
    """Return a half-life in seconds. Raises InvalidInput."""
    return parse_span(place, value, _LEAST_HALF_LIFE, _LONGEST_HALF_LIFE)


@dataclass(frozen=True)
class Account:
    """The use that a host remembers. boot, clock: of its last check. owners: what their sessions had used by then."""

    boot: str
    clock: float
    owners: dict[str, dict[str, float]] = field(default_factory=dict)


def decayed(amount: float, seconds: float, half_life: float) -> float:
    """Return what is left of an amount after so many seconds."""
    return float(amount * 0.5 ** (seconds / half_life))


def after_look(
    before: Optional[Account], boot: str, clock: float, held: Iterable[tuple[str, Mapping[str, float]]], half_life: int
) -> Account:
    """Return the use that a host remembers after a check.

    boot, clock: which boot of the host, and seconds since that. held: what sessions hold here, CPUs and accelerators by
    class, with the owner of each. It counts as held since the last check.
    """
    if before is None:
        return Account(boot, clock)
    elapsed = max(0.0, clock - before.clock) if before.boot == boot else min(clock, LONGEST_GAP)
    found: Use = {
        owner: {kind: decayed(amount, elapsed, half_life) for kind, amount in amounts.items()}
        for owner, amounts in before.owners.items()
    }
    for owner, amounts in held:
        used = found.setdefault(owner, {})
        for kind, amount in amounts.items():
            used[kind] = used.get(kind, 0.0) + amount * min(elapsed, LONGEST_GAP)
    kept = {
        owner: {kind: round(amount, 3) for kind, amount in amounts.items() if amount >= LEAST}
        for owner, amounts in found.items()
    }
    most = sorted(filter(kept.get, kept), key=lambda owner: (-sum(kept[owner].values()), owner))[:MOST_OWNERS]
    return Account(boot, clock, {owner: kept[owner] for owner in sorted(most)})


@dataclass(frozen=True)
class Share:
    """An owner's part of all use, in percent, and the use, in CPU seconds."""

    owner: str
    percent: Optional[int]
    use: int


@dataclass(frozen=True)
class Shares:
    """The shares of a resource group's owners. use: recent CPU seconds, by owner; empty if there are no shares."""

    policy: FairShare = NO_SHARES
    use: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, policy: FairShare, use_of_hosts: Iterable[Mapping[str, Mapping[str, float]]]) -> "Shares":
        """Return the shares from the reports of the hosts."""
        use: dict[str, float] = {}
        for owners in use_of_hosts if policy.half_life is not None else ():
            for owner, amounts in owners.items():
                use[owner] = use.get(owner, 0.0) + policy.weigh(amounts)
        return cls(policy, use)

    def cost(self, request: Any) -> float:
        """Return what a session is expected to use, in CPU seconds; 0 if there are no shares."""
        if self.policy.half_life is None:
            return 0.0
        weight = sum(
            role.replicas * self.policy.weigh({CPUS: role.resources.cpus / 1000, **dict(role.resources.accelerators)})
            for role in request.roles
        )
        return float(weight * min(EXPECTED_SECONDS, request.max_duration or EXPECTED_SECONDS))

    def percent(self, owner: str) -> Optional[int]:
        """Return an owner's part of all use, in percent; None if there are no shares."""
        if self.policy.half_life is None:
            return None
        total = sum(self.use.values())
        return round(100 * self.use.get(owner, 0.0) / total) if total else 0

    def table(self) -> list[Share]:
        """Return the owners, those with most use first."""
        owners = sorted(self.use, key=lambda owner: (-self.use[owner], owner))
        return [Share(owner, self.percent(owner), round(self.use[owner])) for owner in owners]
