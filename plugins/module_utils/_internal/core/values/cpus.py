# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The CPUs that a replica is given for itself: whole cores, of as few NUMA nodes as possible.

A CPU here is what the kernel numbers: one hardware thread. Threads of one core share its units, so a core is never
divided between replicas. If the cores of a host have different numbers of threads, placement counts with the smallest
number, so that what it counts is always available.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .deferred import dataclass


@dataclass(frozen=True)
class Core:
    """One core: its NUMA node, and the numbers of its CPUs, the lowest first."""

    node: int
    cpus: tuple[int, ...]


@dataclass(frozen=True)
class Pinned:
    """The CPUs of one replica, lowest first, and the nodes that its memory comes from, none for all of them."""

    cpus: tuple[str, ...] = ()
    memory_nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Topology:
    """The cores of a host that sessions may have; cores of one node are next to each other.

    memory: bytes of each node that has any, as (node, bytes).
    """

    cores: tuple[Core, ...] = ()
    memory: tuple[tuple[int, int], ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Topology:
        """Read the facts that `adapters.cpus` collected."""
        return cls(
            tuple(Core(core["node"], tuple(core["cpus"])) for core in data.get("cores") or ()),
            tuple(sorted((int(node), amount) for node, amount in (data.get("memory") or {}).items())),
        )

    def to_dict(self) -> Mapping[str, Any]:
        """Return the JSON form."""
        return {
            "cores": [{"node": core.node, "cpus": list(core.cpus)} for core in self.cores],
            "memory": {str(node): amount for node, amount in self.memory},
        }

    @property
    def threads(self) -> int:
        """The least number of CPUs that each core has; 1 if there are no cores."""
        return min((len(core.cpus) for core in self.cores), default=1)

    @property
    def names(self) -> tuple[str, ...]:
        """The numbers of all CPUs, as text, core by core."""
        return tuple(str(cpu) for core in self.cores for cpu in core.cpus)

    @property
    def count(self) -> int:
        """The largest number of CPUs that replicas can be given."""
        return len(self.cores) * self.threads

    def last(self, cpus: int) -> Topology:
        """Return the last cores that together have no more than so many CPUs.

        The first cores are kept back for the host: kernels do most of their own work on them.
        """
        first = len(self.cores)
        while first and cpus >= len(self.cores[first - 1].cpus):
            first -= 1
            cpus -= len(self.cores[first].cpus)
        return Topology(self.cores[first:], self.memory)

    def among(self, names: Collection[str]) -> Topology:
        """Return the cores all of whose CPUs are in *names*."""
        free = set(names)
        return Topology(tuple(core for core in self.cores if free.issuperset(map(str, core.cpus))), self.memory)


def whole_cores(cpus: int, threads: int) -> int:
    """Return how many cores with so many threads are needed for so many CPUs."""
    return -(-cpus // threads)


def give_out(free: Topology, wanted: Sequence[tuple[str, int, int]]) -> dict[str, Pinned]:
    """Give whole cores of *free* to each replica of *wanted*: (name, CPUs, bytes of memory) in rank order.

    The replica that wants the most chooses first, so that its cores are of one node if possible. Memory comes from the
    nodes of a replica's CPUs, except where they have less than it may use.
    Raises ValueError if there are too few cores.
    """
    left = list(free.cores)
    memory = dict(free.memory)
    result = {}
    for name, cpus, amount in sorted(wanted, key=lambda share: -share[1]):
        chosen = _choose(left, whole_cores(cpus, free.threads))
        left = [core for core in left if core not in chosen]
        nodes = tuple(sorted({core.node for core in chosen}))
        is_enough = all(node in memory for node in nodes) and sum(memory[node] for node in nodes) >= amount
        numbers = sorted(cpu for core in chosen for cpu in core.cpus)
        result[name] = Pinned(tuple(map(str, numbers)), nodes if is_enough else ())
    return result


def _choose(free: Sequence[Core], count: int) -> list[Core]:
    """Return so many of the *free* cores, of one node if one has enough, else of as few nodes as possible.

    If several nodes have enough, the one with the fewest is taken, so that others stay whole for larger replicas.
    """
    if count > len(free):
        raise ValueError(f"{count} cores are asked for where {len(free)} are free.")
    nodes: dict[int, list[Core]] = {}
    for core in free:
        nodes.setdefault(core.node, []).append(core)
    chosen: list[Core] = []
    while len(chosen) < count:
        missing = count - len(chosen)
        enough = [node for node, cores in nodes.items() if len(cores) >= missing]
        if enough:
            best = min(enough, key=lambda node: (len(nodes[node]), node))
        else:
            best = max(nodes, key=lambda node: (len(nodes[node]), -node))
        chosen += nodes.pop(best)[:missing]
    return chosen
