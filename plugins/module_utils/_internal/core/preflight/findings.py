# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The findings on many hosts in few lines: equal findings are combined, and names are shortened to ranges."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from ..values.deferred import dataclass

OK = "ok"
WARNING = "warning"
ERROR = "error"
SEVERITIES = (ERROR, WARNING, OK)

LONGEST_NAMES = 60
"""Characters of host names in one line of the table; the JSON form has all names."""
MANY = 6
"""Number of hosts above which names are left out if they are most of the group."""
SHOWN_PAIRS = 4
"""Pairs of hosts in one line of the table."""

_NUMBERED = re.compile(r"(.*?)([0-9]+)([^0-9]*)", re.ASCII | re.DOTALL)

Pair = tuple[str, str]
"""From the first host to the second one."""


@dataclass(frozen=True)
class Finding:
    """The same result of a check on some hosts, or between some pairs of them.

    found: the present state, expected: the right state, advice: what to do next; full sentences, the last two empty if
    all is well. hosts and pairs: where; one of them is empty.
    """

    check: str
    severity: str
    found: str
    expected: str = ""
    advice: str = ""
    hosts: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()


class Check:
    """Collects what one check finds, host by host or pair by pair, and combines equal findings."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._hosts: dict[tuple[str, str, str, str], list[str]] = {}
        self._pairs: dict[tuple[str, str, str, str], list[Pair]] = {}
        self._wrong: set[str] = set()

    def good(self, host: str, found: str) -> None:
        """Note that all is well on a host."""
        self._hosts.setdefault((OK, found, "", ""), []).append(host)

    def otherwise(self, host: str, found: str) -> None:
        """Note that all is well on a host, unless a problem was noted there."""
        if host not in self._wrong:
            self.good(host, found)

    def good_pair(self, pair: Pair, found: str) -> None:
        """Note that all is well from one host to another."""
        self._pairs.setdefault((OK, found, "", ""), []).append(pair)

    def bad(self, severity: str, host: str, found: str, expected: str, advice: str) -> None:
        """Note a problem on a host."""
        self._wrong.add(host)
        self._hosts.setdefault((severity, found, expected, advice), []).append(host)

    def bad_pair(self, severity: str, pair: Pair, found: str, expected: str, advice: str) -> None:
        """Note a problem from one host to another."""
        self._pairs.setdefault((severity, found, expected, advice), []).append(pair)

    def findings(self) -> list[Finding]:
        """Return the findings, the worst first, each in the order in which it was noted."""
        found = [Finding(self.name, *key, hosts=tuple(hosts)) for key, hosts in self._hosts.items()]
        found += [Finding(self.name, *key, pairs=tuple(pairs)) for key, pairs in self._pairs.items()]
        return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def name_ranges(names: Iterable[str]) -> list[str]:
    """Return names with ranges for names that differ only in their last number, such as ``gpu[01-08,11]``.

    Numbers of one range have the same number of digits. The order is that of the first name of each range.
    """
    groups: dict[tuple[str, str, int], list[int]] = {}
    for name in dict.fromkeys(names):
        match = _NUMBERED.fullmatch(name)
        before, digits, after = match.groups() if match else (name, "", "")
        numbers = groups.setdefault((before, after, len(digits)), [])
        if digits:
            numbers.append(int(digits))
    return [_written(*key, sorted(numbers)) for key, numbers in groups.items()]


def _written(before: str, after: str, width: int, numbers: Sequence[int]) -> str:
    if not numbers:
        return before
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [f"{run[0]:0{width}d}" + (f"-{run[-1]:0{width}d}" if len(run) > 1 else "") for run in runs]
    inside = ",".join(texts)
    return f"{before}{inside}{after}" if len(numbers) == 1 else f"{before}[{inside}]{after}"


def some_names(names: Sequence[str], of: int) -> str:
    """Return names of hosts for one line of a table. of: how many hosts there are in all, 0 for any."""
    if len(names) == of and of > 1:
        return f"all {of} hosts"
    if len(names) > max(MANY, of / 2) and of:
        return f"{len(names)} of {of} hosts"
    text = ", ".join(name_ranges(names))
    if len(text) <= LONGEST_NAMES:
        return text
    shown = ""
    for count, name in enumerate(names):
        longer = f"{shown}, {name}" if shown else name
        if len(longer) > LONGEST_NAMES - 20:
            return f"{shown} and {len(names) - count} more" if shown else f"{len(names)} hosts"
        shown = longer
    return shown


def some_pairs(pairs: Sequence[Pair], tried: Iterable[Pair]) -> list[str]:
    """Return pairs of hosts for lines of a table: a host with all its pairs, in either direction, is named only once.

    tried: all pairs that there are.
    """
    every = set(tried)
    left = dict.fromkeys(pairs)
    if len(left) > 1 and left.keys() >= every:
        return [f"all {len(left)} pairs"]
    if len(left) > max(SHOWN_PAIRS, len(every) / 2):
        return [f"{len(left)} of {len(every)} pairs"]
    lines = []
    rest = list(left)
    for arrow, end in (("any -> {}", 1), ("{} -> any", 0)):
        hosts = _with_all_pairs(pairs, every, end)
        named = list(dict.fromkeys(pair[end] for pair in rest if pair[end] in hosts))
        if named:
            lines.append(arrow.format(some_names(named, 0)))
            rest = [pair for pair in rest if pair[end] not in hosts]
    lines += [f"{source} -> {other}" for source, other in rest[:SHOWN_PAIRS]]
    return lines + ([f"and {len(rest) - SHOWN_PAIRS} more pairs"] if len(rest) > SHOWN_PAIRS else [])


def _with_all_pairs(pairs: Iterable[Pair], tried: Iterable[Pair], end: int) -> set[str]:
    """Return the hosts all of whose pairs with them at one *end*, at least two, are among *pairs*."""
    found, whole = Counter(pair[end] for pair in pairs), Counter(pair[end] for pair in tried)
    return {host for host, count in found.items() if count > 1 and count == whole[host]}
