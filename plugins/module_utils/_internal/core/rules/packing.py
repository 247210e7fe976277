# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packing replicas into hosts, as numbers: vectors of what a replica requests and of the capacity of hosts.

A *shape* is the request of one replica, one number for each resource; the last resource is the replica itself, so
that a limit on replicas is capacity like any other. `Task` answers three questions: which one host takes everything,
what is the least number of hosts, and which hosts it should be. A task is *linear* if there is one shape, or if main1
has a shape of its own beside one other: then all answers come from closed forms on the number of *slots* (how many
replicas of the last shape a host takes). Otherwise `_Search` looks for them, within a budget of work that is counted,
not timed, so that the same input gives the same answer on any machine.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, combinations, islice, permutations
from math import comb
from operator import mul

from ..values.deferred import dataclass
from .prices import Prices, Vector

SEARCH_WORK = 3_000_000
"""Work that the search for several shapes may do before it gives up proving: about a microsecond a unit."""
COVER_WORK = 75_000
"""The same for each question whether some set of groups is enough."""
CHOOSE_WORK = 400_000
"""The same for each set of groups that the policy tries."""
MAXIMUM_OPTIONS = 3_000
"""Ways to fill one host with several shapes; if a host has more, only some are searched, and nothing is proven."""
COMBINATION_WORK = 200_000
"""Hosts examined while trying all combinations of groups, for each number of groups."""
TABLE_WORK = 2_000_000
"""Steps of finding the fewest groups by dynamic programming; above it the best groups by a bound are taken."""
THIN_WORK = 1_500_000
"""Hosts examined while leaving out needless groups; with several shapes one host counts many times."""
CANDIDATE_WORK = 60_000
"""Hosts examined while the policy chooses among equally close sets of groups."""
SUBSET_WORK = 1_000_000
"""Machine words touched to find the hosts that leave exactly the least behind; above it a greedy set is taken."""
MAINS_TRIED = 16
"""Hosts tried for a main1 with a shape of its own, to leave the least behind."""

PRICE_ROUNDS = 100
"""How often the prices of shapes change at most."""
PRICED_HOSTS = 500
"""So many hosts get prices in any case; more only if a quarter of them is needed."""

Counts = dict[int, list[int]]
"""Replicas of each shape on each used host."""


@dataclass(frozen=True)
class Least:
    """The least number of hosts, None if nothing fits.

    proven: it is certain. bound: as many are needed in any case. found: counts, if a search made them.
    """

    hosts: int | None
    proven: bool
    bound: int = 0
    found: Counts | None = None


@dataclass(frozen=True)
class Chosen:
    """Counts on the least number of hosts in the fewest groups. closest_proven: certainly the fewest groups."""

    counts: Counts
    closest_proven: bool


class Task:
    """One packing task.

    shapes: main1's first. counts: replicas of each shape. capacities: one vector a host, in inventory order. leftover:
    per host what else would be left over on it, less is better, ending in its number (the pack policy's tie-break).
    main_alone: main1 is the only replica of the first shape.
    """

    def __init__(
        self,
        shapes: Sequence[Vector],
        counts: Sequence[int],
        capacities: Sequence[Vector],
        leftover: Sequence[Vector],
        policy: str,
        main_alone: bool,
    ) -> None:
        self.shapes = list(shapes)
        self.counts = tuple(counts)
        self.size = sum(counts)
        self.capacities = capacities
        self.leftover = leftover
        self.policy = policy
        self.dimensions = len(shapes[0])
        self.linear = len(shapes) == 1 or (len(shapes) == 2 and main_alone)
        self.need = self.counts[-1]
        self.prices: Sequence[float] = ()
        """Prices of shapes that an earlier search has found, with which the next one begins."""
        self.slots: list[int] = []
        self.beside_main: list[int] = []
        self.cut = False
        """A search for a set of groups ran out of work."""
        self.options: dict[Vector, tuple[list[Vector], bool]] = {}
        """For hosts of equal capacity, the ways to fill one; and whether these are all."""
        if self.linear:
            self.slots = [self.slots_of(capacity, len(shapes) - 1) for capacity in capacities]
            if len(shapes) == 2:
                for capacity in capacities:
                    rest = _less(capacity, self.shapes[0], 1)
                    self.beside_main.append(self.slots_of(rest, 1) if min(rest) >= 0 else -1)

    def slots_of(self, capacity: Vector, shape: int) -> int:
        """How many replicas of one shape fit into *capacity*, at most as many as there are."""
        most = self.counts[shape]
        for have, ask in zip(capacity, self.shapes[shape]):
            if ask and have < ask * most:
                most = have // ask
        return most

    def total(self, counts: Sequence[int]) -> list[int]:
        """The total that so many replicas of each shape request."""
        return [sum(n * shape[d] for n, shape in zip(counts, self.shapes)) for d in range(self.dimensions)]

    def one_host(self) -> int | None:
        """The host that takes everything, by policy, None if there is none."""
        total = self.total(self.counts)
        fitting = [
            i for i, capacity in enumerate(self.capacities) if all(have >= ask for have, ask in zip(capacity, total))
        ]
        if not fitting or self.policy == "inventory":
            return fitting[0] if fitting else None
        if self.policy == "spread":
            return max(fitting, key=lambda i: (self.leftover[i][1:-1], -i))
        return min(fitting, key=lambda i: self.leftover[i])

    def fewest(self, ids: Sequence[int], work: int = SEARCH_WORK) -> Least:
        """The least number of hosts among *ids* that together take everything."""
        if not self.linear:
            return _Search(self, ids, work).fewest()
        order = sorted(ids, key=lambda i: -self.slots[i])
        sums = [0, *accumulate(self.slots[i] for i in order)]
        if not self.beside_main:
            least = bisect_left(sums, self.need)
            return Least(least if least < len(sums) else None, True, least)
        low, high = 1, len(order)
        if not high or not self._with_main(order, sums, high):
            return Least(None, True)
        while low < high:
            middle = (low + high) // 2
            if self._with_main(order, sums, middle):
                high = middle
            else:
                low = middle + 1
        return Least(low, True, low)

    def _with_main(self, order: Sequence[int], sums: Sequence[int], k: int) -> bool:
        """Whether main1's host and its best k-1 companions take everything. order: most slots first; sums: of slots."""
        for position, i in enumerate(order):
            beside = self.beside_main[i]
            if beside >= 0:
                others = sums[k] - self.slots[i] if position < k else sums[k - 1]
                if beside + others >= self.need:
                    return True
        return False

    def largest(self, single: bool) -> int:
        """For a linear task: how many replicas fit, main1 first, on one host or on all."""
        if not self.beside_main:
            return max(self.slots, default=0) if single else sum(self.slots)
        able = [i for i, beside in enumerate(self.beside_main) if beside >= 0]
        if not able:
            return 0
        if single:
            return 1 + max(self.beside_main[i] for i in able)
        return 1 + sum(self.slots) - min(self.slots[i] - self.beside_main[i] for i in able)

    def covers(self, ids: Sequence[int], k: int) -> bool:
        """Whether k of the hosts *ids* take everything."""
        if not self.linear:
            search = _Search(self, ids, COVER_WORK)
            found = search.cover(k)
            self.cut = self.cut or (found is None and not search.exhaustive)
            return found is not None
        order = heapq.nsmallest(k, ids, key=lambda i: -self.slots[i])
        sums = [0, *accumulate(self.slots[i] for i in order)]
        if not self.beside_main or sums[-1] < self.need:
            return sums[-1] >= self.need
        chosen = set(order)
        rest = [i for i in ids if i not in chosen and self.beside_main[i] >= 0]
        return self._with_main(order + rest, sums + [sums[-1]] * len(rest), min(k, len(order)))

    # The choice of hosts, once their number is known.

    def solve(self, ids: Sequence[int], least: Least, levels: Sequence[Sequence[object]]) -> Chosen:
        """Choose as few of the hosts *ids* as *least* gives, in the fewest groups, level by level, by policy.

        levels: the group of every host, coarse to fine.
        """
        k = least.hosts or 0
        sets, proven = _closest(self, list(ids), k, levels)
        counts = self._best_of(sets, k)
        if counts is None:
            # Only the search with a budget can fail to find again what it found before.
            return Chosen(least.found or {}, not levels)
        # One group at every level cannot be improved on, however the search for it ended.
        is_compact = all(len({level[i] for i in counts}) == 1 for level in levels)
        return Chosen(counts, is_compact or (proven and not self.cut))

    def _best_of(self, sets: Iterable[Sequence[int]], k: int) -> Counts | None:
        """Fill k hosts of each of *sets*; return the counts that the policy prefers, None if no set has enough."""
        best: tuple[tuple[Vector, list[int]], Counts] | None = None
        work = CANDIDATE_WORK
        for members in sets:
            chosen = self._choose(members, k)
            if chosen is not None:
                key = (chosen[0], sorted(chosen[1]))
                if best is None or key < best[0]:
                    best = (key, chosen[1])
            work -= len(members) if self.linear else CANDIDATE_WORK // 4
            if work <= 0 and best is not None:
                break
        return None if best is None else best[1]

    def preference(self, i: int) -> Vector:
        """The policy's order of hosts."""
        slots = self.slots[i] if self.linear else 0
        if self.policy == "inventory":
            return (i,)
        if self.policy == "spread":
            return (-slots, *(-amount for amount in self.leftover[i][1:-1]), i)
        return (slots, *self.leftover[i])

    def _choose(self, ids: Sequence[int], k: int) -> tuple[Vector, Counts] | None:
        """Choose k of the hosts *ids* by policy and fill them. Returns a score, less is better, and the counts."""
        if not self.linear:
            return self._choose_by_search(ids, k)
        best = self._least_spare(sorted(ids, key=self.preference), k)
        if best is None:
            return None
        spare, main, open_slots = best
        counts = self._fill(open_slots, main)
        score = {"spread": (max(counts.values()),), "pack": (spare,)}.get(self.policy, ())
        if main is None:
            return score, {i: [count] for i, count in counts.items()}
        return score, {i: [1, count - 1] if i == main else [0, count] for i, count in counts.items()}

    def _choose_by_search(self, ids: Sequence[int], k: int) -> tuple[Vector, Counts] | None:
        """Do the same as `_choose` for several shapes."""
        found = _Search(self, ids, CHOOSE_WORK).cover(k)
        if found is None:
            return None
        if self.policy == "spread":
            self._even_out(found)
        return (max(sum(c) for c in found.values()),), found

    def _least_spare(self, order: Sequence[int], k: int) -> tuple[int, int | None, dict[int, int]] | None:
        """Return k hosts with their open slots, how many slots more than needed these are, and main1's host.

        That is None if main1 has the same shape as the others. With policy pack, the slots to spare are the fewest that
        any host tried for main1 leaves.
        """
        best: tuple[int, int | None, dict[int, int]] | None = None
        for main in self._mains(order, k) if self.beside_main else [None]:
            open_slots = self._open_slots(order, k, main)
            if open_slots is None:
                continue
            spare = sum(open_slots.values()) - self.need
            if best is None or spare < best[0]:
                best = (spare, main, open_slots)
            if self.policy != "pack" or spare == 0:
                break
        return best

    def _open_slots(self, order: Sequence[int], k: int, main: int | None) -> dict[int, int] | None:
        """Return the open slots of k hosts in *order* that have enough, main1's among them; None if there are none."""
        if main is None:
            chosen = self._first_set(order, k, self.need)
            return None if chosen is None else {i: self.slots[i] for i in chosen}
        beside = self.beside_main[main]
        chosen = self._first_set([i for i in order if i != main], k - 1, self.need - beside)
        return None if chosen is None else {**{i: self.slots[i] for i in chosen}, main: beside}

    def _mains(self, order: Sequence[int], k: int) -> list[int]:
        """Hosts that can take main1 and still allow k hosts, the policy's favourite first."""
        able = [i for i in order if self.beside_main[i] >= 0]
        if self.policy == "pack":
            able.sort(key=lambda i: self.slots[i] - self.beside_main[i])
        elif self.policy == "spread":
            able.sort(key=lambda i: -self.beside_main[i])
        top = heapq.nsmallest(k, order, key=lambda i: -self.slots[i])
        inside = set(top)
        sum_all = sum(self.slots[i] for i in top)
        sum_less = sum_all - (self.slots[top[-1]] if len(top) == k else 0)
        good = (
            i for i in able if self.beside_main[i] + (sum_all - self.slots[i] if i in inside else sum_less) >= self.need
        )
        return list(islice(good, MAINS_TRIED))

    def _first_set(self, order: Sequence[int], k: int, need: int) -> list[int] | None:
        """The first k hosts in *order* that have enough slots: of all such sets the lexicographically first.

        For policy pack, if slots would be left over and the work is bearable, a set that leaves the fewest.
        """
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
            # Take it in place of the smallest host still to come, if the spare slots allow that.
            while best[-1] not in waiting:
                best.pop()
            loss = self.slots[order[best[-1]]] - self.slots[i]
            if loss <= spare:
                spare -= loss
                waiting.discard(best.pop())
                chosen.append(i)
        if self.policy == "pack" and spare and len(order) * k * (need // 64 + 1) <= SUBSET_WORK:
            return self._tightest_set(order, k, need)
        return chosen

    def _tightest_set(self, order: Sequence[int], k: int, need: int) -> list[int]:
        """The k hosts whose slots exceed *need* by the least; sets of sums are bits of whole numbers."""
        # reach[p][j]: the sums that j of the hosts from position p on can have.
        reach = [[1] + [0] * k]
        for i in reversed(order):
            after = reach[-1]
            reach.append([1, *(after[j] | (after[j - 1] << self.slots[i]) for j in range(1, k + 1))])
        reach.reverse()
        enough = reach[0][k] >> need
        target = need + (enough & -enough).bit_length() - 1
        chosen: list[int] = []
        for position, i in enumerate(order):
            left = k - len(chosen)
            if not left:
                break
            if target >= self.slots[i] and reach[position + 1][left - 1] >> (target - self.slots[i]) & 1:
                chosen.append(i)
                target -= self.slots[i]
        return chosen

    def _fill(self, open_slots: Mapping[int, int], main: int | None) -> dict[int, int]:
        """Hand out the replicas of the last shape to hosts with *open_slots*. Returns replicas, main1 included."""
        left = self.need
        counts = {i: 1 if i == main else 0 for i in open_slots}
        if self.policy == "spread":
            free = dict(open_slots)
            queue = [(counts[i], i) for i in open_slots if open_slots[i]]
            heapq.heapify(queue)
            while left:
                load, i = heapq.heappop(queue)
                counts[i] += 1
                free[i] -= 1
                left -= 1
                if free[i]:
                    heapq.heappush(queue, (load + 1, i))
            return counts
        by_slots = self.policy == "pack"
        for i in sorted(open_slots, key=lambda i: (i != main, -open_slots[i] if by_slots else 0, i)):
            number = min(left, open_slots[i])
            left -= number
            counts[i] += number
        return counts

    def _even_out(self, counts: Counts) -> None:
        """Move replicas from the fullest to the emptiest hosts while that evens the numbers out."""
        while self._move_replica(counts):
            pass

    def _move_replica(self, counts: Counts) -> bool:
        """Move one replica to a host that has at least two fewer; every move lowers the sum of squares."""
        by_load = sorted(counts, key=lambda i: (sum(counts[i]), i))
        for source in reversed(by_load):
            for target in by_load:
                if sum(counts[source]) - sum(counts[target]) < 2:
                    break
                shape = self._movable(counts, source, target)
                if shape is not None:
                    counts[source][shape] -= 1
                    counts[target][shape] += 1
                    return True
        return False

    def _movable(self, counts: Counts, source: int, target: int) -> int | None:
        """Return the first shape of which a host has a replica that another one can take, None if there is none."""
        for shape, number in enumerate(counts[source]):
            more = [n + (s == shape) for s, n in enumerate(counts[target])]
            if number and all(ask <= have for ask, have in zip(self.total(more), self.capacities[target])):
                return shape
        return None


def _less(capacity: Vector, shape: Vector, number: int) -> Vector:
    return tuple(have - number * ask for have, ask in zip(capacity, shape))


# Groups: zones and racks.


def _closest(task: Task, ids: list[int], k: int, levels: Sequence[Sequence[object]]) -> tuple[list[list[int]], bool]:
    """Return sets of hosts, each a union of groups, that hold k sufficient hosts in the fewest groups, level by level.

    Second: whether these are certainly the fewest. For each number of groups that the bound allows, all combinations
    are tried if they are few. Otherwise groups are ranked by the bound, and dynamic programming finds the exact number
    if its table is not too large.
    """
    if not levels:
        return [ids], True
    found, proven, all_found = _fewest_groups(task, _groups(task, ids, levels[0]), k)
    finer = levels[1:]
    if not finer:
        return found, proven
    best, finer_proven, all_tried = _closest_within(task, found, k, finer)
    proven = proven and finer_proven
    if best and not (all_found and all_tried):
        # Other zones might have fewer racks, except if these are as few as possible anywhere.
        coarse = len({levels[0][i] for i in best[0]})
        least = (max(coarse, _group_bound(task, _groups(task, ids, level), k)[0]) for level in finer)
        proven = proven and _numbers_of_groups(best[0], finer) == tuple(least)
    return best, proven


def _closest_within(
    task: Task, sets: Iterable[list[int]], k: int, levels: Sequence[Sequence[object]]
) -> tuple[list[list[int]], bool, bool]:
    """Return those sets of `_closest` within *sets* that have the fewest groups; last: whether all were tried."""
    best: list[list[int]] = []
    best_numbers: Vector | None = None
    all_proven = True
    work = CANDIDATE_WORK
    for members in sets:
        if work <= 0:
            return best, all_proven, False
        work -= len(members)
        found, proven = _closest(task, members, k, levels)
        all_proven = all_proven and proven
        numbers = _numbers_of_groups(found[0], levels)
        if best_numbers is None or numbers < best_numbers:
            best, best_numbers = [], numbers
        if numbers == best_numbers:
            best.extend(found)
    return best, all_proven, True


def _numbers_of_groups(members: Iterable[int], levels: Iterable[Sequence[object]]) -> Vector:
    return tuple(len({level[i] for i in members}) for level in levels)


def _groups(task: Task, ids: Sequence[int], level: Sequence[object]) -> list[list[int]]:
    """The useful hosts of each group, groups in inventory order."""
    groups: dict[object, list[int]] = {}
    for i in ids:
        if not task.linear or task.slots[i] or (task.beside_main and task.beside_main[i] >= 0):
            groups.setdefault(level[i], []).append(i)
    return list(groups.values())


def _fewest_groups(task: Task, groups: Sequence[Sequence[int]], k: int) -> tuple[list[list[int]], bool, bool]:
    """Return sets of hosts as `_closest` does for one level; last: whether these are all sets with so few groups."""
    lower, rankings = _group_bound(task, groups, k)
    for t in range(lower, len(groups) + 1):
        tried = _try_all(task, groups, k, t)
        if tried is None:
            return (*_fewest_ranked(task, groups, k, rankings, t), False)
        if tried:
            return tried, True, True
    # Cannot happen if k hosts of all groups are enough; a search that ran out of work may report it all the same.
    return [_union(groups, range(len(groups)))], False, False


def _fewest_ranked(
    task: Task, groups: Sequence[Sequence[int]], k: int, rankings: Iterable[Sequence[int]], least: int
) -> tuple[list[list[int]], bool]:
    """Return sets of hosts with the first groups of a ranking, at least *least*; and whether fewer are never enough."""
    prefixes = _sufficient_prefixes(task, groups, k, rankings, least)
    if len(prefixes[0]) > least:
        prefixes = _thinned(task, groups, k, prefixes)
    best = min(map(len, prefixes))
    sets = {tuple(sorted(prefix)) for prefix in prefixes if len(prefix) == best}
    proven = best == least
    if not proven and task.linear and (best - 1) * k * sum(min(len(group), k) for group in groups) <= TABLE_WORK:
        proven = True
        smaller = _group_table(task, groups, k, best - 1)
        if smaller is not None:
            sets = {smaller}
    elif not proven:
        for fewer in range(least + 1, best):
            tried = _try_all(task, groups, k, fewer)
            if tried:
                return tried, False
    return [_union(groups, chosen) for chosen in sorted(sets)], proven


def _union(groups: Sequence[Sequence[int]], chosen: Iterable[int]) -> list[int]:
    return sorted(i for g in chosen for i in groups[g])


def _try_all(task: Task, groups: Sequence[Sequence[int]], k: int, t: int) -> list[list[int]] | None:
    """Return all sufficient sets of t groups, None if there are too many to try."""
    average = max(1, sum(len(group) for group in groups) // len(groups))
    if comb(len(groups), t) * t * average > (COMBINATION_WORK if task.linear else 40 * t * average):
        return None
    unions = (_union(groups, chosen) for chosen in combinations(range(len(groups)), t))
    return [members for members in unions if task.covers(members, k)]


def _sufficient_prefixes(
    task: Task, groups: Sequence[Sequence[int]], k: int, rankings: Iterable[Sequence[int]], least: int
) -> list[list[int]]:
    """Return the shortest beginnings of *rankings* that are enough, the shortest first; at least *least* groups.

    Along a ranking, more groups are never worse, so that bisection finds the number. A ranking that needs more than an
    earlier one is left out.
    """
    prefixes: list[list[int]] = []
    best = len(groups)
    for ranking in rankings:
        low, high = least, best
        if high < len(groups) and not task.covers(_union(groups, ranking[:high]), k):
            continue
        while low < high:
            middle = (low + high) // 2
            if task.covers(_union(groups, ranking[:middle]), k):
                high = middle
            else:
                low = middle + 1
        best = low
        prefixes.append(list(ranking[:low]))
    return sorted(prefixes, key=len)


def _thinned(task: Task, groups: Sequence[Sequence[int]], k: int, prefixes: Sequence[list[int]]) -> list[list[int]]:
    """Return sets of groups without those that turn out to be needless, as far as the work is bearable."""
    found = list(prefixes)
    work = THIN_WORK
    for number, prefix in enumerate(prefixes):
        work -= len(prefix) * len(_union(groups, prefix)) * (1 if task.linear else 30)
        if work < 0:
            break
        found[number] = _without_needless(prefix, lambda chosen: task.covers(_union(groups, chosen), k))
    return found


def _without_needless(chosen: Sequence[int], enough: Callable[[Sequence[int]], bool]) -> list[int]:
    """Leave out, the last ones first, every group without which the others are still enough."""
    kept = list(chosen)
    for g in reversed(chosen):
        fewer = [other for other in kept if other != g]
        if fewer and enough(fewer):
            kept = fewer
    return kept


def _group_bound(task: Task, groups: Sequence[Sequence[int]], k: int) -> tuple[int, list[list[int]]]:
    """Return a number of groups that is certainly not too large, and orders in which to try groups.

    For any threshold T, k hosts of a union of groups have at most k*T slots plus the sum over its groups of what
    their hosts have above T (Lagrange's bound). So groups are ranked by what they have above T, for several T.
    """
    if not task.linear:
        return 1, [_ranking_by_share(task, groups)]
    values = sorted({task.slots[i] for group in groups for i in group} | {0})
    lower = 1
    rankings: list[list[int]] = []
    for threshold in values[:: max(1, len(values) // 12)]:
        above = [sum(task.slots[i] - threshold for i in group if task.slots[i] > threshold) for group in groups]
        ranking = _ranking(above)
        sums = [0, *accumulate(above[g] for g in ranking)]
        lower = max(lower, min(len(groups), bisect_left(sums, task.need - k * threshold)))
        ranking = _main_first(task, groups, ranking)
        if ranking not in rankings:
            rankings.append(ranking)
    return lower, rankings


def _ranking(worth: Sequence[float]) -> list[int]:
    """Return the numbers of groups, the worthiest first."""
    return sorted(range(len(worth)), key=lambda g: (-worth[g], g))


def _ranking_by_share(task: Task, groups: Sequence[Sequence[int]]) -> list[int]:
    """Rank groups by the part of everything that their hosts can take at most."""
    totals = task.total(task.counts)
    return _ranking(
        [sum(min(h / ask for h, ask in zip(task.capacities[i], totals) if ask) for i in group) for group in groups]
    )


def _main_first(task: Task, groups: Sequence[Sequence[int]], ranking: list[int]) -> list[int]:
    """Put the first group that has a host for main1 in front, if main1 has a shape of its own."""
    if not task.beside_main:
        return ranking
    first = next(g for g in ranking if any(task.beside_main[i] >= 0 for i in groups[g]))
    return [first, *(g for g in ranking if g != first)]


_NOTHING = -1
"""In the table: no choice of hosts leads there."""


def _group_table(task: Task, groups: Sequence[Sequence[int]], k: int, most: int) -> tuple[int, ...] | None:
    """Return the fewest groups, at most *most*, that hold k sufficient hosts, None if there are none.

    Dynamic programming: for every number of groups and of hosts, without and with main1's host, the most slots.
    """
    # value[m][t][j], and the groups that reach it as bits of a whole number.
    value, chosen = _table(_NOTHING, most, k), _table(0, most, k)
    value[0][0][0] = 0
    for g, group in enumerate(groups):
        gains = _gains(task, group, k)
        for t in range(most, 0, -1):
            for start, end, gain in reversed(gains):
                before, after = (value[start][t - 1], chosen[start][t - 1]), (value[end][t], chosen[end][t])
                _improve(before, after, gain, 1 << g)
    end = 1 if task.beside_main else 0
    enough = (chosen[end][t][j] for t in range(1, most + 1) for j in range(1, k + 1) if value[end][t][j] >= task.need)
    bits = next(enough, None)
    return None if bits is None else tuple(g for g in range(len(groups)) if bits >> g & 1)


def _table(filler: int, most: int, k: int) -> list[list[list[int]]]:
    return [[[filler] * (k + 1) for _t in range(most + 1)] for _m in range(2)]


def _gains(task: Task, group: Sequence[int], k: int) -> list[tuple[int, int, list[int]]]:
    """Return the slots that the best 0, 1, 2, ... hosts of a group add, without and with main1's host.

    Each entry begins with whether main1 has a host before it, and whether after it.
    """
    order = sorted(group, key=lambda i: -task.slots[i])[:k]
    plain = [0, *accumulate(task.slots[i] for i in order)]
    gains = [(0, 0, plain), (1, 1, plain)]
    if task.beside_main:
        able = [i for i in group if task.beside_main[i] >= 0]
        gains.append((0, 1, _gains_with_main(task, able, order, plain)))
    return gains


def _gains_with_main(task: Task, able: Sequence[int], order: Sequence[int], plain: Sequence[int]) -> list[int]:
    """Return the slots that one of the *able* hosts adds beside main1, together with the best companions of *order*."""
    gains = [_NOTHING] * (len(order) + 1)
    for j in range(1, len(order) + 1):
        first = set(order[:j])
        for i in able:
            others = plain[j] - task.slots[i] if i in first else plain[j - 1]
            gains[j] = max(gains[j], task.beside_main[i] + others)
    return gains


def _improve(
    before: tuple[Sequence[int], Sequence[int]], after: tuple[list[int], list[int]], gain: Sequence[int], bit: int
) -> None:
    """Note what one more group adds. before, after: by number of hosts, most slots and the groups that give them."""
    slots, groups = before
    most_slots, their_groups = after
    k = len(slots) - 1
    for have in range(k):
        if slots[have] == _NOTHING:
            continue
        for j in range(1, min(len(gain) - 1, k - have) + 1):
            total = slots[have] + gain[j]
            if gain[j] != _NOTHING and total > most_slots[have + j]:
                most_slots[have + j] = total
                their_groups[have + j] = groups[have] | bit


# Several shapes.


def _classes(task: Task, ids: Iterable[int]) -> dict[Vector, list[int]]:
    """Return the hosts that can take any replica, by capacity."""
    classes: dict[Vector, list[int]] = {}
    for i in ids:
        capacity = task.capacities[i]
        if any(task.slots_of(capacity, shape) for shape in range(len(task.shapes))):
            classes.setdefault(capacity, []).append(i)
    return classes


def _used(counts: Counts | None, otherwise: int) -> int:
    """Return the number of hosts of counts."""
    return otherwise if counts is None else len(counts)


def _are_few(counts: Counts | None, least: int) -> bool:
    """Tell whether counts are on no more hosts than are needed in any case."""
    return counts is not None and len(counts) <= least


class _Search:
    """Exact search for several shapes: fewest hosts by branch and bound, within a budget of work.

    Hosts of equal capacity form a class and are interchangeable. A host takes one of its *options*: the ways to fill it
    to which no further replica can be added. Upper bounds on what r hosts can take cut the search; states found
    hopeless are remembered. A bound weighs the shapes, and knows what a host of each class is worth at most by these
    weights: by one resource, by one shape, or by the last `Prices`.
    """

    def __init__(self, task: Task, ids: Sequence[int], work: int) -> None:
        self.task = task
        self.work = work
        self.exhaustive = True
        """No way to fill a host was left out, and the budget was never used up."""
        self.order = sorted(ids, key=task.preference)
        classes = _classes(task, self.order)
        totals = task.total(task.counts)
        largest = [max((capacity[d] for capacity in classes), default=0) for d in range(task.dimensions)]
        self.weights = [max(ask / max(1, most) for ask, most in zip(shape, largest)) for shape in task.shapes]
        ranked = sorted(
            classes.items(), key=lambda item: -min(have / total for have, total in zip(item[0], totals) if total)
        )
        self.capacities = [capacity for capacity, members in ranked]
        self.members = [members for capacity, members in ranked]
        self.class_of = {i: c for c, members in enumerate(self.members) for i in members}
        self.total_hosts = len(self.class_of)
        self.bounds = [
            *((tuple(shape[d] for shape in task.shapes), self._amounts(d)) for d in range(task.dimensions)),
            *((self._only(s), self._slots(s)) for s in range(len(task.shapes))),
        ]
        """The weights of the shapes and the worths of the classes, for each bound."""
        self._sums: dict[tuple[int, int], list[int]] = {}
        self._by_worth: list[list[Vector]] = []
        """The options of each class, best first by the last prices; empty without prices."""

    def _spend(self, work: int) -> bool:
        """Take from the budget; False if it is used up."""
        self.work -= work
        if self.work <= 0:
            self.exhaustive = False
        return self.work > 0

    def fewest(self) -> Least:
        """Return the least number of hosts; it is not proven if the budget of work runs out first."""
        least = self.lower_bound()
        if least is None:
            return Least(None, True)
        best = self._greedy(self.total_hosts)
        if not _are_few(best, least):
            least, best = self._by_prices(least, best, self.total_hosts)
        if least > self.total_hosts:
            return Least(None, True)
        if best is None:
            best = self._descend(self.total_hosts, self.work // 2)
            if best is None:
                return Least(None, self.exhaustive)
        for k in range(least, len(best)):
            found = self._descend(k, self.work)
            if found is not None:
                best = found
                break
            if self.work <= 0:
                break
        proven = self.exhaustive or len(best) == least
        return Least(len(best), proven, len(best) if proven else least, best)

    def cover(self, k: int) -> Counts | None:
        """Counts on at most k hosts; None if there are none, or if the work ran out (see `exhaustive`)."""
        if not self.capacities or self._hopeless(0, k, self.task.counts):
            return None
        found = self._greedy(k)
        if found is None:
            least, found = self._by_prices(k, None, k)
            if least > k:
                return None
        return found if found is not None else self._descend(k, self.work)

    def lower_bound(self) -> int | None:
        """A number of hosts that is certainly not too large, None if even all of them are not enough."""
        if not self.capacities or self._hopeless(0, self.total_hosts, self.task.counts):
            return None
        return max(
            bisect_left(self._best_sums(0, bound), self._demand(self.task.counts, bound))
            for bound in range(len(self.bounds))
        )

    # Bounds.

    def _amounts(self, d: int) -> list[int]:
        """Return what a host of each class has of one resource."""
        return [capacity[d] for capacity in self.capacities]

    def _slots(self, s: int) -> list[int]:
        """Return how many replicas of one shape a host of each class takes."""
        return [self.task.slots_of(capacity, s) for capacity in self.capacities]

    def _only(self, s: int) -> Vector:
        """Return weights by which one shape counts alone."""
        return tuple(int(other == s) for other in range(len(self.task.shapes)))

    def _demand(self, need: Sequence[int], bound: int) -> int:
        return sum(map(mul, self.bounds[bound][0], need))

    def _best_sums(self, c: int, bound: int) -> list[int]:
        """The most that 0, 1, 2, ... hosts of the classes from c on can give in terms of one bound."""
        key = (c, bound)
        if key not in self._sums:
            worths: list[int] = []
            for worth, members in zip(self.bounds[bound][1][c:], self.members[c:]):
                worths.extend([worth] * len(members))
            worths.sort(reverse=True)
            self._spend(len(worths))
            self._sums[key] = [0, *accumulate(worths)]
        return self._sums[key]

    def _hopeless(self, c: int, hosts: int, need: Sequence[int]) -> bool:
        for bound in range(len(self.bounds)):
            sums = self._best_sums(c, bound)
            if sums[min(hosts, len(sums) - 1)] < self._demand(need, bound):
                return True
        return False

    def options(self, c: int) -> list[Vector]:
        """The ways to fill a host of class c to which no replica can be added, those that take most first."""
        if self.capacities[c] not in self.task.options:
            self.task.options[self.capacities[c]] = self._find_options(self.capacities[c])
        found, complete = self.task.options[self.capacities[c]]
        self.exhaustive = self.exhaustive and complete
        return self._by_worth[c] if self._by_worth else found

    def _find_options(self, capacity: Vector) -> tuple[list[Vector], bool]:
        task = self.task
        last = len(task.shapes) - 1
        found: list[Vector] = []
        stack: list[tuple[Vector, Vector]] = [((), capacity)]
        visited = 0
        complete = True
        while stack:
            taken, capacity = stack.pop()
            visited += 1
            if visited > 4 * MAXIMUM_OPTIONS or len(found) >= MAXIMUM_OPTIONS:
                complete = False
                break
            shape = len(taken)
            most = task.slots_of(capacity, shape)
            if shape < last:
                stack.extend(
                    ((*taken, number), _less(capacity, task.shapes[shape], number)) for number in range(most + 1)
                )
            elif not self._takes_more(taken, _less(capacity, task.shapes[last], most)):
                found.append((*taken, most))
        self._spend(4 * visited)
        found.sort(key=lambda option: (-sum(w * n for w, n in zip(self.weights, option)), option))
        return found, complete

    def _takes_more(self, taken: Vector, rest: Vector) -> bool:
        """Whether one more replica of the shapes in *taken* fits into the *rest* of a host."""
        return any(number < self.task.counts[s] and self.task.slots_of(rest, s) for s, number in enumerate(taken))

    # Greedy attempts: they find the least number nearly always; the search has to prove it.

    def _greedy(self, k: int) -> Counts | None:
        """Fill host after host, in several orders of hosts and of shapes. Returns the best on at most k hosts."""
        task = self.task
        shapes = sorted(range(len(task.shapes)), key=lambda s: -self.weights[s])
        by_policy = [i for i in self.order if i in self.class_of]
        by_size = [i for members in self.members for i in members]
        best: Counts | None = None
        fills = list(islice(permutations(shapes), 6 if self.total_hosts <= 1000 else 1))
        for order in (by_policy, by_size, by_size[::-1]):
            for fill in fills:
                best = self._fill_in_order(order, fill, k if best is None else len(best) - 1) or best
        return best

    def _fill_in_order(self, order: Sequence[int], fill: Sequence[int], limit: int) -> Counts | None:
        """Give each host as many as it takes of one shape after the other."""
        need = list(self.task.counts)
        counts: Counts = {}
        for i in order:
            taken = self._fill_host(self.task.capacities[i], fill, need)
            if any(taken):
                if len(counts) == limit:
                    return None
                counts[i] = taken
                if not any(need):
                    return counts
        return None

    def _fill_host(self, capacity: Vector, fill: Sequence[int], need: list[int]) -> list[int]:
        """Return how many replicas a host takes, of one shape after the other, and take them out of *need*."""
        taken = [0] * len(need)
        for shape in fill:
            number = min(need[shape], self.task.slots_of(capacity, shape)) if need[shape] else 0
            if number:
                taken[shape] = number
                need[shape] -= number
                capacity = _less(capacity, self.task.shapes[shape], number)
        return taken

    # Prices of shapes.

    def _by_prices(self, least: int, best: Counts | None, limit: int) -> tuple[int, Counts | None]:
        """Look for counts on fewer hosts by prices of shapes, with half of the budget.

        least: as few hosts will do. best: the counts so far, on at most *limit* hosts. Returns both as they are known
        then; the first is above *limit* if so many hosts are not enough. What follows searches by the last prices.
        """
        stop = self.work // 2
        before = self.exhaustive
        prices = self._first_prices(_used(best, limit))
        is_certain = self.exhaustive and len(prices.options) == len(self.capacities)
        while prices.rounds < PRICE_ROUNDS:
            self._spend(prices.work)
            if is_certain:
                needed = prices.least()
                least = max(least, limit + 1 if needed is None else needed)
            if least > limit or _are_few(best, least):
                break
            best = self._filled(prices, _used(best, limit + 1) - 1) or best
            if self.work <= stop:
                break
            prices.change(least)
        if is_certain:
            self.bounds.append((tuple(prices.values), prices.worths()))
            self._by_worth = prices.sorted_options()
        self.exhaustive = before and self.work > 0
        return least, best

    def _first_prices(self, used: int) -> Prices:
        """Return prices to begin with, for as many of the largest hosts as are sensible if *used* hosts are enough."""
        stop = self.work * 3 // 4
        options: list[Sequence[Vector]] = []
        hosts: list[int] = []
        for c, members in enumerate(self.members):
            if options and (self.work <= stop or sum(hosts) >= max(PRICED_HOSTS, 4 * used)):
                break
            options.append(self.options(c))
            hosts.append(len(members))
        return Prices(options, hosts, self.task.counts, self.task.prices or self.weights)

    def _filled(self, prices: Prices, limit: int) -> Counts | None:
        """Return counts on at most *limit* hosts by prices, the first hosts of each class; None if these take less."""
        members = [iter(hosts) for hosts in self.members]
        filled = prices.fill(limit)
        if filled is None:
            return None
        self.task.prices = prices.values
        return {next(members[c]): list(taken) for c, taken in filled}

    # The search itself.

    def _moves(self, c: int, first: int, used: int, need: Vector) -> Iterator[tuple[int, int, int, Vector, Vector]]:
        """The possible moves in a state: fill one more host of class c, or go on to the next class."""
        if used < len(self.members[c]):
            seen = set()
            options = self.options(c)
            for number in range(first, len(options)):
                taken = tuple(min(o, n) for o, n in zip(options[number], need))
                if any(taken) and taken not in seen:
                    seen.add(taken)
                    yield c, number, used + 1, tuple(n - t for n, t in zip(need, taken)), taken
        if c + 1 < len(self.capacities):
            yield c + 1, 0, 0, need, ()

    def _descend(self, k: int, work: int) -> Counts | None:
        """Depth-first search for counts on at most k hosts, with part of the budget."""
        stop = self.work - work
        if self._hopeless(0, k, self.task.counts):
            return None
        failed: set[tuple[int, int, int, int, Vector]] = set()
        start = (0, 0, 0, self.task.counts)
        # One entry a decision: the state after it, hosts left, what the host filled takes; and what to try from there.
        path: list[tuple[tuple[int, int, int, Vector], int, Vector]] = [(start, k, ())]
        stack = [self._moves(*start)]
        while stack:
            if not self._spend(20) or self.work <= stop:
                self.exhaustive = False
                return None
            (c, first, used, need), hosts, _taken = path[-1]
            move = next(stack[-1], None)
            if move is None:
                failed.add((c, first, used, hosts, need))
                stack.pop()
                path.pop()
                continue
            c, first, used, need, taken = move
            left = hosts - 1 if taken else hosts
            after = ((c, first, used, need), left, taken)
            if not any(need):
                return self._counts_on([*path, after])
            if left and (c, first, used, left, need) not in failed and not self._hopeless(c, left, need):
                path.append(after)
                stack.append(self._moves(c, first, used, need))
        return None

    def _counts_on(self, path: Iterable[tuple[tuple[int, int, int, Vector], int, Vector]]) -> Counts:
        """Return what the hosts take that were filled on a path of `_descend`."""
        return {self.members[c][used - 1]: list(taken) for (c, _first, used, _need), _hosts, taken in path if taken}
