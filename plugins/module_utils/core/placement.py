# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which replica goes to which host: exact where the seeds and the user can tell the difference, bounded in time.

The rules, in order:

1. If one host can take every replica, they all go there, whatever mode was asked; the effective mode is single-node.
2. Mode single-node and no such host: a `Shortfall`.
3. Mode multi-node: the fewest hosts; among those the fewest groups of the coarsest topology key (zones), then of the
   next (racks); then the policy: ``pack`` leaves least behind on the hosts it uses, ``spread`` takes the roomiest
   hosts and evens out, ``inventory`` takes hosts in inventory order. Ties go by inventory order.
4. All or nothing.

What is exact. Replicas that ask for the same form one *shape*, whatever their roles. For one shape, and for main1 with
a shape of its own beside one other shape, feasibility and the number of hosts come from a closed form and are exact
at any size. For more shapes a branch-and-bound search is exact too, within a budget of steps that does not depend on
the machine; `Placement.proven` and `Shortfall.proven` say whether it ran to its end (packing many shapes is NP-hard,
so some bound there must be). The number of topology groups is exact where the combinations of groups are few, and
where the bound from below is met; `Placement.closest_proven` tells.

main1 goes, of the used hosts that have a replica of its shape, to the one with most replicas (policy ``inventory``: to
the first); the other replicas are handed out in rank order, main1's host first, then in inventory order, so that
neighbouring ranks share a host.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, islice, permutations
from math import comb

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import InvalidInput, Problem
from ansible_collections.cluster_compute.session.plugins.module_utils.core.request import (
    MULTI_NODE,
    SINGLE_NODE,
    Request,
    closest,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.resources import (
    Resources,
    format_cpus,
    format_memory,
)

CPUS = "cpus"
MEMORY = "memory"
REPLICAS = "replicas"
"""Names of resources in a shortfall; an accelerator goes by its class."""

SEARCH_STEPS = 60_000
"""Steps of the search for several shapes before it gives up proving."""
MAXIMUM_OPTIONS = 3_000
"""Ways to fill one host with several shapes; a host with more of them is searched in part and nothing is proven."""
MAXIMUM_COMBINATIONS = 4_000
"""Combinations of topology groups that are tried one by one; above that the best by a bound are tried."""
MAXIMUM_CANDIDATES = 64
"""Equally close sets of groups among which the policy chooses."""


@dataclass(frozen=True)
class Capacity:
    """Room on a host: millicpus, bytes, and (class, count) of each accelerator."""

    cpus: int
    memory: int
    accelerators: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Host:
    """A host that sessions may use.

    allocatable: what sessions may use in all. free: what no other session holds now. labels: (key, value).
    max_replicas: how many replicas more it may take, None for no limit.
    """

    name: str
    allocatable: Capacity
    free: Capacity
    labels: tuple[tuple[str, str], ...] = ()
    max_replicas: int | None = None


@dataclass(frozen=True)
class Placement:
    """Where every replica goes.

    mode: the effective mode. assignments: (replica, host) in rank order. hosts: the used hosts in inventory order.
    node_order: the used hosts with main1's first, the others in inventory order. groups: (topology key, number of
    its groups used). proven: the number of hosts is known to be the least. closest_proven: so are the groups'.
    """

    mode: str
    assignments: tuple[tuple[str, str], ...]
    hosts: tuple[str, ...]
    node_order: tuple[str, ...]
    groups: tuple[tuple[str, int], ...]
    proven: bool
    closest_proven: bool


@dataclass(frozen=True)
class Missing:
    """One resource: what was asked, what is free, what is missing (millicpus, bytes or a count)."""

    resource: str
    asked: int
    free: int
    missing: int


@dataclass(frozen=True)
class HostShortfall:
    """One host's part of a shortfall. fits: how many replicas of one role it could take now."""

    host: str
    fits: int
    resources: tuple[Missing, ...]


@dataclass(frozen=True)
class Shortfall:
    """Why a request cannot be placed now.

    mode: the mode asked. size: replicas asked. largest_size: the longest run of replicas in rank order (main1, sub1,
    ...) that would fit now in that mode. hosts: in inventory order; for single-node what is asked there is the whole
    session, for multi-node one replica (the most that any asks of each resource). total: the whole session against
    all hosts together. when_idle: whether it would fit if no other session held anything. proven: False only where
    the search for several shapes ran out of steps, so that a placement may exist that was not found.
    """

    mode: str
    size: int
    largest_size: int
    hosts: tuple[HostShortfall, ...]
    total: tuple[Missing, ...]
    when_idle: bool
    proven: bool


def format_amount(resource: str, amount: int) -> str:
    """Return an amount of *resource* for people: CPUs, memory with its unit, or a count."""
    if resource == CPUS:
        return format_cpus(amount)
    return format_memory(amount) if resource == MEMORY else str(amount)


def place(
    request: Request,
    hosts: Sequence[Host],
    topology_keys: Sequence[str] = (),
    known_hosts: Iterable[str] | None = None,
) -> Placement | Shortfall:
    """Place *request* on *hosts*, which are in inventory order.

    topology_keys: host labels, coarse to fine. known_hosts: every name of the resource group, unusable hosts
    included, so that naming a host that is down is no error; default are the names of *hosts*.
    Raises InvalidInput for designated or excluded hosts that are unknown, for no hosts at all, and for a replica
    that is larger than what any host can ever give.
    """
    candidates = _candidates(request, hosts, known_hosts)
    _check_allocatable(request, candidates)
    task = _Task(request, candidates, [host.free for host in candidates])
    alone = task.one_host()
    if alone is not None:
        solution = _Solution({alone: list(task.counts)}, True)
        mode, keys_proven = SINGLE_NODE, True
    elif request.mode == SINGLE_NODE:
        return _shortfall(request, candidates, task, True)
    else:
        mode = MULTI_NODE
        ids = list(range(len(candidates)))
        least = task.fewest(ids)
        if least.hosts is None:
            return _shortfall(request, candidates, task, least.proven)
        solution, keys_proven = _closest_solution(task, ids, least, _paths(candidates, topology_keys))
    return _placement(request, candidates, task, mode, solution, topology_keys, keys_proven)


def _candidates(request: Request, hosts: Sequence[Host], known_hosts: Iterable[str] | None) -> list[Host]:
    names = [host.name for host in hosts]
    known = set(names) if known_hosts is None else set(known_hosts).union(names)
    problems = []
    for variable, chosen in (("session_hosts", request.hosts), ("session_excluded_hosts", request.excluded_hosts)):
        for name in chosen:
            if name not in known:
                hint = closest(name, known)
                more = f" Did you mean {hint}?" if hint else ""
                problems.append(
                    Problem(variable, name, f"There is no such host in group {request.resource_group}.{more}")
                )
    if problems:
        raise InvalidInput(problems)
    candidates = [
        host
        for host in hosts
        if (not request.hosts or host.name in request.hosts) and host.name not in request.excluded_hosts
    ]
    if not candidates:
        if not names:
            variable, value, message = "session_resource_group", request.resource_group, "It has no usable host."
        elif request.hosts:
            variable, value = "session_hosts", ", ".join(request.hosts)
            message = "None of these hosts can be used now. Name others, or none to use the whole group."
        else:
            variable, value = "session_excluded_hosts", ", ".join(request.excluded_hosts)
            message = "This leaves no usable host."
        raise InvalidInput.single(variable, value, message)
    return candidates


def _check_allocatable(request: Request, hosts: Sequence[Host]) -> None:
    """Refuse what can never run: a replica larger than what every host may give to sessions in all."""
    problems = []
    common = len({role.resources for role in request.roles}) == 1
    seen: set[Resources] = set()
    for position, role in enumerate(request.roles):
        if role.resources in seen:
            continue
        seen.add(role.resources)
        asked = {CPUS: role.resources.cpus, MEMORY: role.resources.memory, **dict(role.resources.accelerators)}
        room = [_amounts(host.allocatable) for host in hosts]
        if any(all(r.get(resource, 0) >= amount for resource, amount in asked.items()) for r in room):
            continue
        place_ = "session_" if common else f"session_roles[{position}] ({role.name})."
        too_much = False
        for resource, amount in asked.items():
            most = max(r.get(resource, 0) for r in room)
            if amount > most:
                too_much = True
                field = resource if resource in (CPUS, MEMORY) else f"accelerators.{resource}"
                problems.append(
                    Problem(
                        place_ + field,
                        format_amount(resource, amount),
                        f"No host can give that to one replica; the most any has for sessions is "
                        f"{format_amount(resource, most)}.",
                    )
                )
        if not too_much:
            shown = ", ".join(f"{resource} {format_amount(resource, amount)}" for resource, amount in asked.items())
            problems.append(
                Problem(place_ + CPUS, shown, "No single host has all of that for one replica, though each for itself.")
            )
    if problems:
        raise InvalidInput(problems)


def _amounts(capacity: Capacity) -> dict[str, int]:
    return {CPUS: capacity.cpus, MEMORY: capacity.memory, **dict(capacity.accelerators)}


def _paths(hosts: Sequence[Host], keys: Sequence[str]) -> list[list[tuple[str, ...]]]:
    """Return, for each topology key that any host has, the group of every host.

    A rack is a rack of its zone: the group is the path from the coarsest key. Hosts without a label share one group.
    """
    labels = [dict(host.labels) for host in hosts]
    used = [key for key in keys if any(key in label for label in labels)]
    return [[tuple(label.get(key, "") for key in used[: level + 1]) for label in labels] for level in range(len(used))]


Vector = tuple[int, ...]


@dataclass
class _Solution:
    """Replicas of each shape on each used host."""

    counts: dict[int, list[int]]
    proven: bool


@dataclass(frozen=True)
class _Least:
    """The least number of hosts, None where nothing fits; with the counts if a search found them already."""

    hosts: int | None
    proven: bool
    found: dict[int, list[int]] | None = None


class _Task:
    """One placement task in numbers: shapes and hosts as vectors over the resources that are asked for."""

    def __init__(self, request: Request, hosts: Sequence[Host], rooms: Sequence[Capacity]) -> None:
        self.policy = request.policy
        self.request = request
        resources: list[Resources] = []
        self.role_shape: list[int] = []
        counts: list[int] = []
        classes = sorted({name for role in request.roles for name, count in role.resources.accelerators})
        vectors: list[Vector] = []
        for role in request.roles:
            asked = dict(role.resources.accelerators)
            vector = (
                role.resources.cpus,
                role.resources.memory,
                *(asked.get(name, 0) for name in classes),
                1,
            )
            if vector not in vectors:
                vectors.append(vector)
                resources.append(role.resources)
                counts.append(0)
            shape = vectors.index(vector)
            self.role_shape.append(shape)
            counts[shape] += role.replicas
        self.names = (CPUS, MEMORY, *classes, REPLICAS)
        self.shapes: list[Vector] = vectors
        self.counts: Vector = tuple(counts)
        self.size = sum(counts)
        self.rooms: list[Vector] = []
        order = []
        wanted = set(classes)
        limit = request.max_replicas_per_host or self.size
        for index, (host, room) in enumerate(zip(hosts, rooms)):
            have = dict(room.accelerators)
            most = limit if host.max_replicas is None else min(limit, host.max_replicas)
            self.rooms.append(
                (
                    max(0, room.cpus),
                    max(0, room.memory),
                    *(max(0, have.get(name, 0)) for name in classes),
                    max(0, min(most, self.size)),
                )
            )
            idle = sum(count for name, count in room.accelerators if name not in wanted)
            order.append((idle, room.cpus, room.memory, index))
        # What a host would leave behind beyond whole replicas: accelerators nobody asked for, then CPUs, then memory.
        self.leftover = order
        self.linear = len(vectors) == 1 or (len(vectors) == 2 and request.roles[0].replicas == counts[0] == 1)
        self.slots = [self.slots_of(room, len(vectors) - 1) for room in self.rooms] if self.linear else []
        self.need = counts[-1]
        self.beside_main: list[int] = []
        if len(vectors) == 2 and self.linear:
            main = vectors[0]
            for have_all in self.rooms:
                rest = tuple(have - ask for have, ask in zip(have_all, main))
                self.beside_main.append(self.slots_of(rest, 1) if min(rest) >= 0 else -1)
        self.steps = SEARCH_STEPS

    def slots_of(self, room: Vector, shape: int) -> int:
        """How many replicas of one shape fit into *room*, at most as many as there are."""
        most = self.counts[shape]
        for have, ask in zip(room, self.shapes[shape]):
            if ask:
                most = min(most, have // ask)
        return most

    def fits(self, room: Vector, counts: Sequence[int]) -> bool:
        return all(
            sum(count * shape[d] for count, shape in zip(counts, self.shapes)) <= have for d, have in enumerate(room)
        )

    def one_host(self) -> int | None:
        """The host that takes everything, by policy, None where there is none."""
        total = [sum(n * shape[d] for n, shape in zip(self.counts, self.shapes)) for d in range(len(self.names))]
        fitting = [i for i, room in enumerate(self.rooms) if all(have >= ask for have, ask in zip(room, total))]
        if not fitting or self.policy == "inventory":
            return fitting[0] if fitting else None
        if self.policy == "spread":
            return max(fitting, key=lambda i: (self.leftover[i][1:3], -i))
        return min(fitting, key=lambda i: self.leftover[i])

    # One shape, or main1 and one other shape: closed forms.

    def fewest(self, ids: Sequence[int]) -> _Least:
        """The least number of the hosts *ids* that take everything."""
        if not self.linear:
            return _Search(self, ids).fewest()
        order = sorted(ids, key=lambda i: -self.slots[i])
        sums = [0, *accumulate(self.slots[i] for i in order)]
        if not self.beside_main:
            least = bisect_left(sums, self.need)
            return _Least(least if least < len(sums) else None, True)
        low, high = 1, len(order)
        if not high or not self._with_main(order, sums, high):
            return _Least(None, True)
        while low < high:
            middle = (low + high) // 2
            if self._with_main(order, sums, middle):
                high = middle
            else:
                low = middle + 1
        return _Least(low, True)

    def _with_main(self, order: Sequence[int], sums: Sequence[int], k: int) -> bool:
        """Whether main1 and its best k-1 companions take everything. order: by slots, most first; sums: of slots."""
        for position, i in enumerate(order):
            beside = self.beside_main[i]
            if beside >= 0:
                others = sums[k] - self.slots[i] if position < k else sums[k - 1]
                if beside + others >= self.need:
                    return True
        return False

    def covers(self, ids: Sequence[int], k: int) -> bool:
        """Whether k of the hosts *ids* take everything."""
        if not self.linear:
            return _Search(self, ids, steps=2_000).cover(k) is not None
        order = heapq.nsmallest(k, ids, key=lambda i: -self.slots[i])
        sums = [0, *accumulate(self.slots[i] for i in order)]
        if not self.beside_main:
            return sums[-1] >= self.need
        if sums[-1] < self.need:
            return False
        chosen = set(order)
        rest = [i for i in ids if i not in chosen and self.beside_main[i] >= 0]
        return self._with_main(order + rest, sums + [sums[-1]] * len(rest), min(k, len(order)))

    def preference(self, i: int) -> tuple[int, ...]:
        """The policy's order of hosts for replicas of the last shape."""
        if self.policy == "inventory":
            return (i,)
        slots = self.slots[i] if self.slots else 0
        if self.policy == "spread":
            return (-slots, -self.leftover[i][1], -self.leftover[i][2], i)
        return (slots, *self.leftover[i])

    def choose(self, ids: Sequence[int], k: int) -> tuple[tuple[int, ...], dict[int, list[int]]] | None:
        """Choose k of the hosts *ids* by policy and fill them. Returns a score (less is better) and the counts."""
        if not self.linear:
            found = _Search(self, ids).cover(k)
            if found is None:
                return None
            if self.policy == "spread":
                self._even_out(found)
            return (max(sum(c) for c in found.values()),), found
        order = sorted(ids, key=self.preference)
        main: int | None = None
        need = self.need
        picks = k
        if self.beside_main:
            main = self._choose_main(order, k)
            if main is None:
                return None
            need -= self.beside_main[main]
            picks -= 1
            order = [i for i in order if i != main]
        chosen = self._first_set(order, picks, need)
        if chosen is None:
            return None
        room = {i: self.slots[i] for i in chosen}
        if main is not None:
            room[main] = self.beside_main[main]
        spare = sum(room.values()) - self.need
        counts = self._fill(room, main)
        if self.policy == "spread":
            return (max(counts.values()),), self._by_shape(counts, main)
        return (spare,), self._by_shape(counts, main)

    def _choose_main(self, order: Sequence[int], k: int) -> int | None:
        """The host of a main1 with a shape of its own: the first by policy that still allows k hosts."""
        able = [i for i in order if self.beside_main[i] >= 0]
        if self.policy == "pack":
            able.sort(key=lambda i: self.slots[i] - self.beside_main[i])
        elif self.policy == "spread":
            able.sort(key=lambda i: -self.beside_main[i])
        top = heapq.nsmallest(k, order, key=lambda i: -self.slots[i])
        all_top = sum(self.slots[i] for i in top)
        less = all_top - (self.slots[top[-1]] if len(top) == k else 0)
        inside = set(top)
        for i in able:
            others = all_top - self.slots[i] if i in inside else less
            if self.beside_main[i] + others >= self.need:
                return i
        return None

    def _first_set(self, order: Sequence[int], k: int, need: int) -> list[int] | None:
        """The k hosts with slots enough that come first in *order* (the lexicographically first such set)."""
        best = heapq.nsmallest(k, range(len(order)), key=lambda p: (-self.slots[order[p]], p))
        spare = sum(self.slots[order[p]] for p in best) - need
        if spare < 0 or len(best) < k:
            return None
        waiting = set(best)
        chosen: list[int] = []
        for position, i in enumerate(order):
            if len(chosen) == k:
                break
            if position in waiting:
                waiting.discard(position)
                chosen.append(i)
                continue
            # Take it in place of the smallest that is still to come, where the spare slots allow it.
            while best[-1] not in waiting:
                best.pop()
            loss = self.slots[order[best[-1]]] - self.slots[i]
            if loss <= spare:
                spare -= loss
                waiting.discard(best.pop())
                chosen.append(i)
        return chosen

    def _fill(self, room: Mapping[int, int], main: int | None) -> dict[int, int]:
        """Hand out the replicas of the last shape to hosts with *room* slots; returns replicas, main1 included."""
        left = self.need
        if self.policy == "spread":
            taken = {i: 1 if i == main else 0 for i in room}
            used = dict.fromkeys(room, 0)
            queue = [(taken[i], i) for i in room if room[i]]
            heapq.heapify(queue)
            while left:
                load, i = heapq.heappop(queue)
                used[i] += 1
                left -= 1
                if used[i] < room[i]:
                    heapq.heappush(queue, (load + 1, i))
            return {i: used[i] + taken[i] for i in room}
        counts = {}
        first = main if main is not None else -1
        by_room = self.policy == "pack"
        for i in sorted(room, key=lambda i: (i != first, -room[i] if by_room else 0, i)):
            used_here = min(left, room[i])
            left -= used_here
            counts[i] = used_here + (1 if i == main else 0)
        return counts

    def _by_shape(self, counts: Mapping[int, int], main: int | None) -> dict[int, list[int]]:
        if main is None:
            return {i: [count] for i, count in counts.items()}
        return {i: [1, count - 1] if i == main else [0, count] for i, count in counts.items()}

    def _even_out(self, counts: dict[int, list[int]]) -> None:
        """Move replicas from the fullest to the emptiest hosts while that evens the numbers out."""
        for _step in range(4 * self.size):
            by_load = sorted(counts, key=lambda i: (sum(counts[i]), i))
            moved = False
            for source in reversed(by_load):
                for target in by_load:
                    if sum(counts[source]) - sum(counts[target]) < 2:
                        break
                    for shape in range(len(self.shapes)):
                        if counts[source][shape]:
                            counts[target][shape] += 1
                            if self.fits(self.rooms[target], counts[target]):
                                counts[source][shape] -= 1
                                moved = True
                                break
                            counts[target][shape] -= 1
                    if moved:
                        break
                if moved:
                    break
            if not moved:
                return


class _Search:
    """Exact search for several shapes: fewest hosts by branch and bound, within a budget of steps.

    Hosts of equal room form a class and are interchangeable. A host takes one of its *options*: the ways to fill it
    to which no further replica can be added. Upper bounds on what r hosts can take, one for each resource and for
    each shape, cut the search; states found hopeless are remembered.
    """

    def __init__(self, task: _Task, ids: Sequence[int], steps: int | None = None) -> None:
        self.task = task
        self.steps = SEARCH_STEPS if steps is None else steps
        classes: dict[Vector, list[int]] = {}
        for i in sorted(ids, key=task.preference):
            room = task.rooms[i]
            if any(task.slots_of(room, shape) for shape in range(len(task.shapes))):
                classes.setdefault(room, []).append(i)
        weights = [
            max(
                (ask / max(1, max((room[d] for room in classes), default=1)) for d, ask in enumerate(shape)),
                default=0.0,
            )
            for shape in task.shapes
        ]
        self.weights = weights
        totals = [sum(n * shape[d] for n, shape in zip(task.counts, task.shapes)) for d in range(len(task.names))]
        self.classes = sorted(
            classes.items(),
            key=lambda item: -min(have / total for have, total in zip(item[0], totals) if total),
        )
        self.rooms = [room for room, members in self.classes]
        self.members = [members for room, members in self.classes]
        self.total_hosts = sum(len(members) for members in self.members)
        self._options: dict[int, list[Vector]] = {}
        self._suffix: dict[tuple[int, int], list[int]] = {}
        self.complete = True

    def options(self, c: int) -> list[Vector]:
        """The ways to fill a host of class c to which no replica can be added, those that take much first."""
        if c not in self._options:
            task = self.task
            found: list[Vector] = []
            visited = 0
            stack: list[tuple[Vector, Vector]] = [((), self.rooms[c])]
            while stack:
                taken, room = stack.pop()
                visited += 1
                if visited > 4 * MAXIMUM_OPTIONS or len(found) > MAXIMUM_OPTIONS:
                    self.complete = False
                    break
                shape = len(taken)
                most = task.slots_of(room, shape)
                if shape == len(task.shapes) - 1:
                    option = (*taken, most)
                    rest = tuple(have - most * ask for have, ask in zip(room, task.shapes[shape]))
                    if not any(
                        option[s] < task.counts[s] and task.slots_of(rest, s) for s in range(len(task.shapes) - 1)
                    ):
                        found.append(option)
                    continue
                for count in range(most + 1):
                    rest = tuple(have - count * ask for have, ask in zip(room, task.shapes[shape]))
                    stack.append(((*taken, count), rest))
            found.sort(key=lambda option: (-sum(w * n for w, n in zip(self.weights, option)), option))
            self._options[c] = found
        return self._options[c]

    def _bounds(self) -> int:
        return len(self.task.names) + len(self.task.shapes)

    def _worth(self, c: int, bound: int) -> int:
        """What a host of class c can give in terms of one bound."""
        dims = len(self.task.names)
        if bound < dims:
            return self.rooms[c][bound]
        return self.task.slots_of(self.rooms[c], bound - dims)

    def _demand(self, need: Sequence[int], bound: int) -> int:
        dims = len(self.task.names)
        if bound < dims:
            return sum(n * shape[bound] for n, shape in zip(need, self.task.shapes))
        return need[bound - dims]

    def _most(self, c: int, bound: int, hosts: int) -> int:
        """The most that *hosts* hosts of the classes from c on can give in terms of one bound."""
        key = (c, bound)
        if key not in self._suffix:
            worths = sorted(
                (self._worth(d, bound) for d in range(c, len(self.rooms)) for _member in self.members[d]), reverse=True
            )
            self._suffix[key] = [0, *accumulate(worths)]
        sums = self._suffix[key]
        return sums[min(hosts, len(sums) - 1)]

    def _hopeless(self, c: int, hosts: int, need: Sequence[int]) -> bool:
        return any(self._most(c, bound, hosts) < self._demand(need, bound) for bound in range(self._bounds()))

    def lower_bound(self) -> int | None:
        """A number of hosts that is surely not too many, None where even all of them are too few."""
        if not self.classes or self._hopeless(0, self.total_hosts, self.task.counts):
            return None
        least = 1
        for bound in range(self._bounds()):
            self._most(0, bound, 0)
            least = max(least, bisect_left(self._suffix[(0, bound)], self._demand(self.task.counts, bound)))
        return least

    def fewest(self) -> _Least:
        least = self.lower_bound()
        if least is None:
            return _Least(None, True)
        best = self._greedy(self.total_hosts)
        proven = True
        k = least
        last = self.total_hosts if best is None else len(best) - 1
        while k <= last:
            found = self._descend(k)
            proven = proven and self.complete and self.steps > 0
            if found is not None:
                return _Least(len(found), proven or len(found) == least, found)
            if self.steps <= 0:
                # Past the budget only the question whether anything fits at all is worth another look.
                break
            # Where nothing is known to fit, ask for all hosts first, then count down from there.
            if best is None:
                self_all = self._descend(self.total_hosts)
                proven = proven and self.complete and self.steps > 0
                if self_all is None:
                    return _Least(None, proven)
                best = self_all
                last = len(best) - 1
            k += 1
        if best is None:
            return _Least(None, False)
        return _Least(len(best), proven or len(best) == least, best)

    def cover(self, k: int) -> dict[int, list[int]] | None:
        """Counts on at most k hosts, None where there are none or the budget ran out."""
        if not self.classes or self._hopeless(0, k, self.task.counts):
            return None
        greedy = self._greedy(k)
        return greedy if greedy is not None else self._descend(k)

    def _greedy(self, k: int) -> dict[int, list[int]] | None:
        """Try several orders of hosts and of shapes, filling host after host. Returns the best on at most k hosts."""
        task = self.task
        shapes = sorted(range(len(task.shapes)), key=lambda s: -self.weights[s])
        fills = list(islice(permutations(shapes), 6))
        spread_out = [(c, i) for c, members in enumerate(self.members) for i in members]
        orders = [spread_out, sorted(spread_out, key=lambda item: task.preference(item[1])), spread_out[::-1]]
        best: dict[int, list[int]] | None = None
        for order in orders:
            for fill in fills:
                limit = k if best is None else len(best) - 1
                found = self._fill_in_order(order, fill, limit)
                if found is not None:
                    best = found
        if best is None or len(best) > 1:
            limit = k if best is None else len(best) - 1
            found = self._fill_by_options(limit)
            if found is not None:
                best = found
        return best

    def _fill_in_order(
        self, order: Sequence[tuple[int, int]], fill: Sequence[int], limit: int
    ) -> dict[int, list[int]] | None:
        task = self.task
        need = list(task.counts)
        counts: dict[int, list[int]] = {}
        for c, i in order:
            room = self.rooms[c]
            taken = [0] * len(need)
            for shape in fill:
                number = min(need[shape], task.slots_of(room, shape))
                if number:
                    taken[shape] = number
                    room = tuple(have - number * ask for have, ask in zip(room, task.shapes[shape]))
            if any(taken):
                if len(counts) == limit:
                    return None
                counts[i] = taken
                need = [n - t for n, t in zip(need, taken)]
                if not any(need):
                    return counts
        return None

    def _fill_by_options(self, limit: int) -> dict[int, list[int]] | None:
        """Take, host after host, the option that covers most of what is still needed, scarce shapes weighing more."""
        task = self.task
        need = task.counts
        counts: dict[int, list[int]] = {}
        work = 0
        for c, members in enumerate(self.members):
            for i in members:
                options = self.options(c)
                work += len(options)
                if work > 20_000 or len(counts) == limit:
                    return None
                best = max(
                    ([min(o, n) for o, n in zip(option, need)] for option in options),
                    key=lambda taken: sum(w * t for w, t in zip(self.weights, taken)),
                )
                if any(best):
                    counts[i] = best
                    need = tuple(n - t for n, t in zip(need, best))
                    if not any(need):
                        return counts
        return None

    def _moves(self, c: int, first: int, used: int, need: Vector) -> Iterator[tuple[int, int, int, Vector, Vector]]:
        """What can be done in a state: fill one more host of class c, or go on to the next class."""
        if used < len(self.members[c]):
            seen = set()
            for number in range(first, len(self.options(c))):
                taken = tuple(min(o, n) for o, n in zip(self.options(c)[number], need))
                if any(taken) and taken not in seen:
                    seen.add(taken)
                    yield c, number, used + 1, tuple(n - t for n, t in zip(need, taken)), taken
        if c + 1 < len(self.rooms):
            yield c + 1, 0, 0, need, ()

    def _descend(self, k: int) -> dict[int, list[int]] | None:
        """Depth-first search for counts on at most k hosts. Takes from the budget of steps."""
        failed: set[tuple[int, int, int, int, Vector]] = set()
        start = (0, 0, 0, self.task.counts)
        if self._hopeless(0, k, self.task.counts):
            return None
        path: list[tuple[tuple[int, int, int, Vector], int, Vector]] = [(start, k, ())]
        stack = [self._moves(*start)]
        while stack:
            if self.steps <= 0:
                return None
            self.steps -= 1
            state, hosts, _taken = path[-1]
            move = next(stack[-1], None)
            if move is None:
                failed.add((state[0], state[1], state[2], hosts, state[3]))
                stack.pop()
                path.pop()
                continue
            c, first, used, need, taken = move
            left = hosts - (1 if taken else 0)
            if not any(need):
                return self._counts([*path, ((c, first, used, need), left, taken)])
            if left == 0 or (c, first, used, left, need) in failed or self._hopeless(c, left, need):
                continue
            path.append(((c, first, used, need), left, taken))
            stack.append(self._moves(c, first, used, need))
        return None

    def _counts(self, path: Sequence[tuple[tuple[int, int, int, Vector], int, Vector]]) -> dict[int, list[int]]:
        counts = {}
        for (c, _first, used, _need), _hosts, taken in path:
            if taken:
                counts[self.members[c][used - 1]] = list(taken)
        return counts


def _closest_solution(
    task: _Task, ids: Sequence[int], least: _Least, levels: Sequence[Sequence[tuple[str, ...]]]
) -> tuple[_Solution, bool]:
    """Of all sets of as few hosts, one in the fewest groups, chosen by policy."""
    k = least.hosts or 0
    sets, proven = _closest(task, list(ids), k, levels) if levels else ([list(ids)], True)
    best: tuple[tuple[tuple[int, ...], list[int]], dict[int, list[int]]] | None = None
    for members in sets[:MAXIMUM_CANDIDATES]:
        chosen = task.choose(members, k)
        if chosen is not None:
            key = (chosen[0], sorted(chosen[1]))
            if best is None or key < best[0]:
                best = (key, chosen[1])
    if best is None:
        # Only the budgeted search can fail to find again what it found before.
        return _Solution(least.found or {}, least.proven), False
    return _Solution(best[1], least.proven), proven


def _closest(
    task: _Task, ids: list[int], k: int, levels: Sequence[Sequence[tuple[str, ...]]]
) -> tuple[list[list[int]], bool]:
    """Return the sets of hosts, each a union of groups, that hold k hosts enough in the fewest groups, level by level.

    Second: whether they are known to be the fewest.
    """
    if not levels:
        return [ids], True
    groups: dict[tuple[str, ...], list[int]] = {}
    for i in ids:
        groups.setdefault(levels[0][i], []).append(i)
    members = list(groups.values())
    if task.linear:
        # Of each group only its k largest hosts can matter, and those best for main1.
        members = [_trim(task, group, k) for group in members]
    proven = True
    found: list[list[int]] = []
    lower, rankings = _group_bound(task, members, k)
    for t in range(lower, len(members) + 1):
        per_test = max(1, t * sum(len(group) for group in members) // len(members))
        allowed = min(MAXIMUM_COMBINATIONS, 400_000 // per_test) if task.linear else 40
        number = comb(len(members), t)
        tries: Iterable[Sequence[int]]
        if number <= allowed:
            tries = combinations(range(len(members)), t)
        else:
            tries = sorted({tuple(sorted(ranking[:t])) for ranking in rankings})
        for combination in tries:
            union = sorted(i for g in combination for i in members[g])
            if task.covers(union, k):
                found.append(union)
                if number > allowed and len(found) >= 4:
                    break
        if found:
            break
        if number > allowed:
            proven = False
    if not found:
        return [ids], False
    if len(levels) == 1:
        return found, proven
    best: list[list[int]] = []
    best_count: tuple[int, ...] | None = None
    if len(found) > MAXIMUM_CANDIDATES:
        proven = False
    for union in found[:MAXIMUM_CANDIDATES]:
        finer, finer_proven = _closest(task, union, k, levels[1:])
        proven = proven and finer_proven
        count = tuple(len({level[i] for i in finer[0]}) for level in levels[1:])
        if best_count is None or count < best_count:
            best, best_count = [], count
        if count == best_count:
            best.extend(finer)
    return best, proven


def _trim(task: _Task, group: list[int], k: int) -> list[int]:
    """All of a group's hosts that can be of use among k. The policy may want smaller ones, so those stay, too."""
    return [i for i in group if task.slots[i] or (task.beside_main and task.beside_main[i] >= 0)]


def _group_bound(task: _Task, groups: Sequence[Sequence[int]], k: int) -> tuple[int, list[list[int]]]:
    """Return a number of groups that is surely not too many, and orders in which to try groups.

    For any threshold T, k hosts of a union of groups have at most k*T + the sum over its groups of what their hosts
    have above T (Lagrange's bound). So groups are ranked by what they have above T, for several T.
    """
    if not task.linear:
        worth = [
            sum(min(1.0, min(have / max(1, ask) for have, ask in zip(task.rooms[i], task.shapes[-1]))) for i in group)
            for group in groups
        ]
        return 1, [sorted(range(len(groups)), key=lambda g: (-worth[g], g))]
    values = sorted({task.slots[i] for group in groups for i in group} | {0})
    step = max(1, len(values) // 16)
    lower = 1
    rankings: list[list[int]] = []
    with_main = [any(task.beside_main[i] >= 0 for i in group) for group in groups] if task.beside_main else []
    for threshold in values[::step]:
        above = [sum(task.slots[i] - threshold for i in group if task.slots[i] > threshold) for group in groups]
        ranking = sorted(range(len(groups)), key=lambda g: (-above[g], g))
        sums = [0, *accumulate(above[g] for g in ranking)]
        lower = max(lower, min(len(groups), bisect_left(sums, task.need - k * threshold)))
        rankings.append(ranking)
        if with_main:
            first = next((g for g in ranking if with_main[g]), None)
            if first is not None:
                rankings.append([first, *(g for g in ranking if g != first)])
    return lower, rankings


def _placement(
    request: Request,
    hosts: Sequence[Host],
    task: _Task,
    mode: str,
    solution: _Solution,
    topology_keys: Sequence[str],
    closest_proven: bool,
) -> Placement:
    counts = {i: list(solution.counts[i]) for i in sorted(solution.counts) if any(solution.counts[i])}
    main_shape = task.role_shape[0]
    able = [i for i in counts if counts[i][main_shape]]
    main = able[0] if request.policy == "inventory" else max(able, key=lambda i: (sum(counts[i]), -i))
    node_order = [main, *(i for i in counts if i != main)]
    assignments = []
    for role, shape in zip(request.roles, task.role_shape):
        queue = (i for i in node_order for _replica in range(counts[i][shape]))
        for index, i in zip(range(1, role.replicas + 1), list(islice(queue, role.replicas))):
            assignments.append((f"{role.name}{index}", hosts[i].name))
            counts[i][shape] -= 1
    labels = [dict(host.labels) for host in hosts]
    paths = _paths(hosts, topology_keys)
    used_keys = [key for key in topology_keys if any(key in label for label in labels)]
    groups = tuple((key, len({level[i] for i in counts})) for key, level in zip(used_keys, paths))
    return Placement(
        mode,
        tuple(assignments),
        tuple(hosts[i].name for i in counts),
        tuple(hosts[i].name for i in node_order),
        groups,
        solution.proven,
        closest_proven,
    )


def _shortfall(request: Request, hosts: Sequence[Host], task: _Task, proven: bool) -> Shortfall:
    single = request.mode == SINGLE_NODE
    total = [sum(n * shape[d] for n, shape in zip(task.counts, task.shapes)) for d in range(len(task.names))]
    largest = [max(shape[d] for shape in task.shapes) for d in range(len(task.names))]
    asked = total if single else largest
    rows = []
    for host, room in zip(hosts, task.rooms):
        missing = tuple(
            Missing(name, ask, have, max(0, ask - have)) for name, ask, have in zip(task.names, asked, room) if ask
        )
        fits = max(task.slots_of(room, shape) for shape in range(len(task.shapes)))
        rows.append(HostShortfall(host.name, fits, missing))
    sums = [sum(room[d] for room in task.rooms) for d in range(len(task.names))]
    totals = tuple(
        Missing(name, ask, have, max(0, ask - have)) for name, ask, have in zip(task.names, total, sums) if ask
    )
    largest_size, size_proven = _largest_size(request, hosts)
    idle_task = _Task(request, hosts, [host.allocatable for host in hosts])
    idle = idle_task.one_host() is not None or (not single and idle_task.fewest(range(len(hosts))).hosts is not None)
    return Shortfall(request.mode, request.size, largest_size, tuple(rows), totals, idle, proven and size_proven)


def _largest_size(request: Request, hosts: Sequence[Host]) -> tuple[int, bool]:
    """The longest run of replicas in rank order that fits now, by bisection: a shorter run fits where a longer does."""
    low, high, proven = 0, request.size - 1, True
    rooms = [host.free for host in hosts]
    while low < high:
        middle = (low + high + 1) // 2
        task = _Task(_shortened(request, middle), hosts, rooms)
        fits = task.one_host() is not None
        if not fits and request.mode == MULTI_NODE:
            least = task.fewest(range(len(hosts)))
            fits = least.hosts is not None
            proven = proven and (fits or least.proven)
        if fits:
            low = middle
        else:
            high = middle - 1
    return low, proven


def _shortened(request: Request, size: int) -> Request:
    """The same request with only its first *size* replicas."""
    roles = []
    for role in request.roles:
        number = min(role.replicas, size)
        size -= number
        if number:
            roles.append(role.__class__(role.name, number, role.image, role.resources, role.env, role.command))
    return Request(**{**request.__dict__, "roles": tuple(roles)})
