# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The measurements between pairs of hosts, as a table, and which of them are slow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from ..values.deferred import dataclass
from ..values.table import table
from .findings import Pair

LEAST_DELAY = 0.0002
"""Seconds of a round trip below which no pair counts as slow, whatever the others take."""
LARGEST_TABLE = 12
"""Most hosts for which the whole matrix is shown; for more hosts the slowest pairs are listed."""
SHOWN = 10


@dataclass(frozen=True)
class Measured:
    """A measurement from one host to another. delay: seconds of a round trip, the median; rate: bits a second."""

    pair: Pair
    delay: float | None
    rate: float

    def to_dict(self) -> dict[str, Any]:
        """Return the form that JSON can carry, in SI units."""
        return {
            "from": self.pair[0],
            "to": self.pair[1],
            "round_trip_seconds": self.delay,
            "bits_per_second": round(self.rate),
        }


@dataclass(frozen=True)
class Slow:
    """A slow pair. delays: its delay, in medians of all; rates: how many times the median rate is larger than its."""

    measured: Measured
    delays: float | None
    rates: float | None

    def describe(self) -> str:
        """Return what is slow about it."""
        words = []
        if self.rates is not None:
            words.append(f"{format_rate(self.measured.rate)}, 1/{self.rates:.1f} of the median")
        if self.delays is not None and self.measured.delay is not None:
            words.append(f"round trip {format_delay(self.measured.delay)}, {self.delays:.1f} times the median")
        return "; ".join(words)


def slow_pairs(measured: Sequence[Measured], ratio: float) -> list[Slow]:
    """Return the pairs that have less than the median's rate, or take more than its time, by *ratio*; the worst first.

    A difference of less than `LEAST_DELAY` does not count.
    """
    delays = [measurement.delay for measurement in measured if measurement.delay is not None]
    if not measured:
        return []
    median_delay, median_rate = median(delays) if delays else 0.0, median(measurement.rate for measurement in measured)
    compared = [_compared(measurement, median_delay, median_rate, ratio) for measurement in measured]
    found = [slow for slow in compared if slow.delays is not None or slow.rates is not None]
    return sorted(found, key=lambda slow: (-max(slow.rates or 0, slow.delays or 0), slow.measured.pair))


def _compared(measured: Measured, median_delay: float, median_rate: float, ratio: float) -> Slow:
    """Return by how much a pair is slower than the medians, with None where it is not slow."""
    less = median_rate / measured.rate if measured.rate else float("inf")
    rates = less if less >= ratio else None
    if measured.delay is None or not median_delay or measured.delay - median_delay < LEAST_DELAY:
        return Slow(measured, None, rates)
    more = measured.delay / median_delay
    return Slow(measured, more if more >= ratio else None, rates)


def matrix_lines(measured: Sequence[Measured], hosts: Sequence[str]) -> list[str]:
    """Return the matrix as lines, from the row's host to the column's; for many hosts the slowest pairs instead."""
    if not measured:
        return []
    rates = {measurement.pair: measurement for measurement in measured}
    delays = [measurement.delay for measurement in measured if measurement.delay is not None]
    lines = [
        f"{len(measured)} directed pairs: median {format_rate(median(measurement.rate for measurement in measured))}"
        + (f", round trip {format_delay(median(delays))}." if delays else ".")
    ]
    if len(hosts) > LARGEST_TABLE:
        worst = sorted(measured, key=lambda measurement: (measurement.rate, measurement.pair))[:SHOWN]
        rows = [["FROM", "TO", "RATE", "ROUND-TRIP"]]
        rows += [
            [*measurement.pair, format_rate(measurement.rate, ""), format_delay(measurement.delay, "")]
            for measurement in worst
        ]
        return [*lines, f"The {len(worst)} with the least rate:", *table(rows)]
    rows = [["FROM/TO", *hosts]]
    rows += [[host, *(_cell(rates.get((host, other))) for other in hosts)] for host in hosts]
    return [*lines, *table(rows)]


def _cell(measured: Measured | None) -> str:
    return "-" if measured is None else f"{format_rate(measured.rate, '')}/{format_delay(measured.delay, '')}"


def format_rate(rate: float, space: str = " ") -> str:
    """Return bits a second in a form for people."""
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6)):
        if rate >= size:
            return f"{rate / size:.3g}{space}{unit}" if rate < 1000 * size else f"{rate / size:.0f}{space}{unit}"
    return f"{rate / 1e3:.3g}{space}kbit/s"


def format_delay(seconds: float | None, space: str = " ") -> str:
    """Return a time in a form for people."""
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.3g}{space}ms"


def read_measured(answers: Iterable[Mapping[str, Any]]) -> list[Measured]:
    """Return the measurements of hosts: from, to, delay, and the rates there and back."""
    found = []
    for answer in answers:
        found.append(Measured((answer["from"], answer["to"]), answer["delay"], answer["there"]))
        found.append(Measured((answer["to"], answer["from"]), answer["delay"], answer["back"]))
    return sorted(found, key=lambda measured: measured.pair)
