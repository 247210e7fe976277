# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What was measured between pairs of hosts, as a table, and which of them are slow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.findings import Pair
from ansible_collections.cluster_compute.session.plugins.module_utils.core.show.table import table

LEAST_DELAY = 0.0002
"""Seconds of a round trip below which no pair is called slow, whatever the others take."""
LARGEST_TABLE = 12
"""Hosts of a matrix that is shown as one; of more hosts the slowest pairs are listed."""
SHOWN = 10


@dataclass(frozen=True)
class Measured:
    """What was measured from one host to another. delay: seconds of a round trip, the median; rate: bits a second."""

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
    """A pair that is slow. delays, rates: how many times the median it takes, and the median is more than it has."""

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

    A difference of less than `LEAST_DELAY` is none.
    """
    delays = [one.delay for one in measured if one.delay is not None]
    if not measured:
        return []
    median_delay, median_rate = median(delays) if delays else 0.0, median(one.rate for one in measured)
    found = []
    for one in measured:
        less = median_rate / one.rate if one.rate else float("inf")
        more = one.delay / median_delay if one.delay is not None and median_delay else 0.0
        late = one.delay is not None and more >= ratio and one.delay - median_delay >= LEAST_DELAY
        if less >= ratio or late:
            found.append(Slow(one, more if late else None, less if less >= ratio else None))
    return sorted(found, key=lambda slow: (-max(slow.rates or 0, slow.delays or 0), slow.measured.pair))


def matrix_lines(measured: Sequence[Measured], hosts: Sequence[str]) -> list[str]:
    """Return the matrix as lines: from the row's host to the column's; of many hosts the slowest pairs instead."""
    if not measured:
        return []
    rates = {one.pair: one for one in measured}
    delays = [one.delay for one in measured if one.delay is not None]
    lines = [
        f"{len(measured)} directed pairs: median {format_rate(median(one.rate for one in measured))}"
        + (f", round trip {format_delay(median(delays))}." if delays else ".")
    ]
    if len(hosts) > LARGEST_TABLE:
        worst = sorted(measured, key=lambda one: (one.rate, one.pair))[:SHOWN]
        rows = [["FROM", "TO", "RATE", "ROUND-TRIP"]]
        rows += [[*one.pair, format_rate(one.rate, ""), format_delay(one.delay, "")] for one in worst]
        return [*lines, f"The {len(worst)} with the least rate:", *table(rows)]
    rows = [["FROM/TO", *hosts]]
    for host in hosts:
        cells = [rates.get((host, other)) for other in hosts]
        rows.append(
            [
                host,
                *(
                    "-" if one is None else f"{format_rate(one.rate, '')}/{format_delay(one.delay, '')}"
                    for one in cells
                ),
            ]
        )
    return [*lines, *table(rows)]


def format_rate(rate: float, space: str = " ") -> str:
    """Return bits a second as people read them."""
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6)):
        if rate >= size:
            return f"{rate / size:.3g}{space}{unit}" if rate < 1000 * size else f"{rate / size:.0f}{space}{unit}"
    return f"{rate / 1e3:.3g}{space}kbit/s"


def format_delay(seconds: float | None, space: str = " ") -> str:
    """Return a time as people read it."""
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.3g}{space}ms"


def read_measured(answers: Iterable[Mapping[str, Any]]) -> list[Measured]:
    """Return what hosts measured: from, to, delay, and the rates there and back."""
    found = []
    for one in answers:
        found.append(Measured((one["from"], one["to"]), one["delay"], one["there"]))
        found.append(Measured((one["to"], one["from"]), one["delay"], one["back"]))
    return sorted(found, key=lambda measured: measured.pair)
