# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prices of shapes: how few hosts can be enough, and which hosts to fill with what.

If a replica of each shape has a price, a host is worth what the best way to fill it is worth. Whatever the prices, k
hosts can be enough only if the k hosts worth most are together worth as much as everything that is requested (the
Lagrangian relaxation; M. L. Fisher, "The Lagrangian Relaxation Method for Solving Integer Programming Problems", 1981).
With good prices, few hosts are used by always filling next the host that is worth most of what is still needed. So
prices change round by round: a shape becomes dearer if the hosts worth most take too few of it, cheaper if they take
too many. All numbers are whole, so that every machine finds the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from operator import gt, itemgetter, mul

Vector = tuple[int, ...]

PRECISION = 1_000_000
"""The highest price; the least is 1."""
DAMPING = 7
"""After so many rounds prices change half as much in one round."""


class Prices:
    """Prices of shapes for one task.

    options: for each class of equal hosts the ways to fill one, at least one. hosts: how many each class has. counts:
    the replicas of each shape that are needed. first: what a replica of each shape is worth to begin with.
    """

    def __init__(
        self, options: Sequence[Sequence[Vector]], hosts: Sequence[int], counts: Vector, first: Sequence[float]
    ) -> None:
        self.options = options
        self.hosts = hosts
        self.counts = counts
        highest = max(first)
        self.values = [1 + int(value / highest * (PRECISION - 1)) for value in first]
        self.work = 2 * sum(map(len, options))
        """The cost of a round, in about microseconds."""
        self.rounds = 0
        self.ranked = self._ranked()

    def _ranked(self) -> list[tuple[int, int, Vector]]:
        """Return each class after its worth, with its best option, the class worth most first. Worths are negative."""
        best = (max(options, key=self._worth) for options in self.options)
        return sorted((-self._worth(option), c, option) for c, option in enumerate(best))

    def _worth(self, option: Vector) -> int:
        return sum(map(mul, self.values, option))

    def worths(self) -> list[int]:
        """Return what a host of each class is worth."""
        return [-worth for worth, _c, _option in sorted(self.ranked, key=itemgetter(1))]

    def sorted_options(self) -> list[list[Vector]]:
        """Return the options of each class, those worth most first."""
        return [sorted(options, key=self._worth, reverse=True) for options in self.options]

    def least(self) -> int | None:
        """Return the number of hosts below which none are enough at these prices; None if all together are not.

        That is certain only if no option was left out.
        """
        missing = self._worth(self.counts)
        number = 0
        for worth, c, _option in self.ranked:
            needed = -(missing // worth)
            if needed <= self.hosts[c]:
                return number + needed
            number += self.hosts[c]
            missing += worth * self.hosts[c]
        return None

    def fill(self, limit: int) -> list[tuple[int, Vector]] | None:
        """Fill always next the host that is worth most of what is still needed, at most *limit* hosts.

        Returns the class of each host with what it takes, None if something is left.
        """
        need = self.counts
        filled: list[tuple[int, Vector]] = []
        offers = [(worth, c, option, self.hosts[c]) for worth, c, option in self.ranked]
        while offers and len(filled) < limit:
            worth, c, taken, left = offers[0]
            if any(map(gt, taken, need)):
                # Less is needed than when this was looked at: the host is worth less now, and others perhaps more.
                taken = max(_cut(self.options[c], need), key=self._worth)
                if any(taken):
                    heapq.heapreplace(offers, (-self._worth(taken), c, taken, left))
                else:
                    heapq.heappop(offers)
                continue
            filled.append((c, taken))
            need = tuple(n - t for n, t in zip(need, taken))
            if not any(need):
                return filled
            if left > 1:
                heapq.heapreplace(offers, (worth, c, taken, left - 1))
            else:
                heapq.heappop(offers)
        return None

    def change(self, k: int) -> None:
        """Begin another round: change each price by how much too few or too many the k hosts worth most take."""
        taken = [0] * len(self.counts)
        for _worth, c, option in self.ranked:
            number = min(k, self.hosts[c])
            k -= number
            taken = [t + number * o for t, o in zip(taken, option)]
        self.rounds += 1
        step = PRECISION * DAMPING // (DAMPING + self.rounds)
        values = [_changed(value, step, need, have) for value, need, have in zip(self.values, self.counts, taken)]
        highest = max(values)
        self.values = [max(1, value * PRECISION // highest) for value in values]
        self.ranked = self._ranked()


def _cut(options: Iterable[Vector], need: Vector) -> Iterable[Vector]:
    """Return the options, less what is not needed any more."""
    return (tuple(map(min, option, need)) for option in options)


def _changed(value: int, step: int, need: int, have: int) -> int:
    """Return a price after a round. step: the most by which it changes, in parts of `PRECISION`."""
    change = step * max(-need, need - have) // need
    return value * (PRECISION + change) // PRECISION if change >= 0 else value * PRECISION // (PRECISION - change)
