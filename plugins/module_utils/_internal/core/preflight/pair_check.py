# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Find the slow or broken host among many by testing pairs of them together, in few rounds.

In each round every host works with one other at the same time, so all pairs have the same conditions, and a pair is
slow in comparison with the others of its round. Which host of a slow pair is at fault is not known; so in the next
round each of the two works with a host that was good. A host is named if it was slow with several others, each of which
was good without it. So if the machine or the network was busy for a moment, no host is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Optional

from ..values.deferred import dataclass

MOST_ROUNDS = 4
PROOFS = 3
"""Number of others with which a host has to be slow before it is named; all others if there are fewer."""
FACTOR = 2.0
"""A pair is slow if it takes this many times as long as the others: healthy hosts of one kind differ by less."""
LEAST_SECONDS = 0.3
"""A faster pair is never slow: so short a time is a matter of chance."""
FEW = 3
"""From this many pairs on, a round is compared within itself; a smaller round with the fastest pairs of all rounds."""

Pair = tuple[str, str]
Times = Mapping[Pair, Optional[float]]
"""The seconds that each pair of a round took; None for a pair that did not finish."""


@dataclass(frozen=True)
class Judgement:
    """The knowledge about the hosts so far.

    good: hosts that worked well with another. named: hosts that are slow or broken, and the pairs that show it.
    unclear: pairs that were slow, where it is not known which of the two hosts is at fault.
    """

    good: tuple[str, ...]
    named: dict[str, tuple[Pair, ...]]
    unclear: tuple[Pair, ...]


def next_round(hosts: Sequence[str], rounds: Sequence[Times]) -> list[Pair]:
    """Return which hosts work together next, at most one pair a host; nothing if further rounds would show no more.

    hosts: all of them, in any fixed order. A host that has not been good with any other yet works with one that has;
    the other hosts keep the round as busy as the first.
    """
    if len(rounds) >= MOST_ROUNDS:
        return []
    met = {frozenset(pair) for times in rounds for pair in times}
    known = judge(hosts, rounds)
    in_question = _in_question(hosts, known) if rounds else []
    free = list(hosts)
    found: list[Pair] = []
    for host in in_question:
        _join(host, [other for other in (*known.good, *in_question) if {host, other} not in met], free, found)
    if rounds and not found:
        return []
    while len(free) > 1:
        _join(free[0], [*(other for other in free if {free[0], other} not in met), *free], free, found)
    return found


def _in_question(hosts: Sequence[str], known: Judgement) -> list[str]:
    """Return the hosts that have to work with another one."""
    if len(hosts) < FEW + 1:
        return list(hosts)  # one pair a round shows nothing by itself: all have to meet
    return [host for host in hosts if host not in known.good and host not in known.named]


def _join(host: str, others: Iterable[str], free: list[str], found: list[Pair]) -> None:
    """Add a pair of a host and the first free one of *others* to *found*, and remove both from *free*, if possible."""
    partner = next((other for other in others if other in free and other != host), None)
    if host in free and partner is not None:
        found.append((host, partner))
        free[:] = [other for other in free if other not in found[-1]]


def judge(hosts: Sequence[str], rounds: Sequence[Times]) -> Judgement:
    """Return what the rounds so far show."""
    slow: dict[str, list[Pair]] = {}
    good: set[str] = set()
    for pair, is_slow in _judged(rounds):
        if is_slow:
            for host in pair:
                slow.setdefault(host, []).append(pair)
        else:
            good.update(pair)
    enough = min(PROOFS, len(hosts) - 1)
    in_doubt = [host for host in hosts if host not in good]
    named = {host: shown for host in in_doubt if (shown := _proof(host, slow.get(host, ()), good, enough))}
    explained = {pair for pairs in named.values() for pair in pairs}
    unclear = [
        pair
        for pair in dict.fromkeys(pair for pairs in slow.values() for pair in pairs)
        if pair not in explained and not set(pair) & named.keys() and not set(pair) <= good
    ]
    return Judgement(tuple(host for host in hosts if host in good), named, tuple(unclear))


def _proof(host: str, slow: Iterable[Pair], good: Collection[str], enough: int) -> tuple[Pair, ...]:
    """Return the slow pairs of a host with good ones if they are with *enough* others, otherwise none."""
    shown = tuple(pair for pair in slow if _other(pair, host) in good)
    return shown if len({_other(pair, host) for pair in shown}) >= enough else ()


def _judged(rounds: Sequence[Times]) -> Iterable[tuple[Pair, bool]]:
    """Yield each pair that worked, and whether it was slow."""
    every = sorted(seconds for times in rounds for seconds in times.values() if seconds is not None)
    for times in rounds:
        finished = sorted(seconds for seconds in times.values() if seconds is not None)
        # A quarter is good for certain, even if many of the pairs are slow because of a few hosts.
        common = (finished[(len(finished) - 1) // 4 :] if len(times) >= FEW else every)[:1]
        limit = max([LEAST_SECONDS, *(FACTOR * seconds for seconds in common)])
        for pair, seconds in times.items():
            yield pair, seconds is None or seconds > limit


def _other(pair: Pair, host: str) -> str:
    return pair[1] if pair[0] == host else pair[0]
