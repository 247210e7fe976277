# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The findings of preflight, as data for programs and as a table for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..model.decode import encode
from ..values.errors import printable
from ..values.table import table
from .checks import MATRIX, Results
from .findings import ERROR, OK, SEVERITIES, WARNING, Finding, Pair, some_names, some_pairs
from .matrix import matrix_lines

SCHEMA = 1
"""Version of the form of the answer."""


def answer_of(
    findings: Sequence[Finding], results: Results, clocks: Mapping[str, tuple[float, float]]
) -> dict[str, Any]:
    """Return the findings for programs: all names, and SI units."""
    counted = Counter(finding.severity for finding in findings)
    return {
        "schema": SCHEMA,
        "counts": {severity: counted[severity] for severity in SEVERITIES},
        "findings": encode(findings),
        "hosts": {
            host: {
                "reached": host in results.observed,
                "engine": host_facts.get("engine"),
                "kernel": (host_facts.get("kernel") or {}).get("release"),
                "underlay": host_facts.get("underlay"),
                "disks": host_facts.get("disks"),
                "clock_ahead_seconds": list(clocks[host]) if host in clocks else None,
            }
            for host, host_facts in ((name, results.observed.get(name) or {}) for name in results.known)
        },
        "pairs_tried": 0 if results.plan is None else len(results.tried()),
        "pairs": 0 if results.plan is None else len(results.plan.hosts) * (len(results.plan.hosts) - 1),
        "matrix": [measurement.to_dict() for measurement in results.measured],
    }


def report(findings: Sequence[Finding], results: Results) -> list[str]:
    """Return the table: a line for each finding, below problems what to do about them; then the matrix."""
    of, tried = len(results.known), _tried(results)
    rows = [("RESULT", "CHECK", "WHERE", "FOUND")]
    details: dict[int, list[str]] = {}
    for finding in findings:
        locations = _where(finding, of, tried)
        rows += [(finding.severity, finding.check, locations[0], printable(finding.found))]
        rows += [("", "", location, "") for location in locations[1:]]
        if finding.severity != OK:
            details[len(rows) - 1] = [f"right: {printable(finding.expected)}", f"next:  {printable(finding.advice)}"]
    # Only text in columns is aligned; the last column is as long as it is.
    lines = []
    for number, line in enumerate(table(rows)):
        lines += [line, *(f"         {detail}" for detail in details.get(number, ()))]
    counted = Counter(finding.severity for finding in findings)
    lines.append(f"{of} hosts: {_many(counted[ERROR], 'error')}, {_many(counted[WARNING], 'warning')}.")
    plan = results.plan
    if plan is not None and len(plan.offsets) < len(plan.hosts) - 1:
        lines.append(
            f"Each host tried {len(plan.offsets)} others of {len(plan.hosts) - 1}, spread evenly (preflight_peers)."
        )
    return lines + matrix_lines(results.measured, list(plan.hosts) if plan is not None else [])


def problems_of(findings: Sequence[Finding], results: Results, strict: bool) -> list[str]:
    """Return the problems for which preflight fails, a line for each finding. strict: warnings are problems as well."""
    tried = _tried(results)
    lines = []
    for finding in findings:
        if finding.severity == ERROR or (strict and finding.severity == WARNING):
            where = ", ".join(_where(finding, len(results.known), tried))
            lines.append(
                f"{finding.severity}: {finding.check}: {where}: {printable(finding.found)} {printable(finding.advice)}"
            )
    return lines


def _tried(results: Results) -> dict[bool, list[Pair]]:
    """Return the pairs that were tested, and those that were to be measured, by whether they are of the matrix."""
    measured = [measurement.pair for measurement in results.measured] + list(results.unmeasured)
    return {False: results.tried(), True: measured}


def _where(finding: Finding, of: int, tried: Mapping[bool, Sequence[Pair]]) -> list[str]:
    if finding.pairs:
        return some_pairs(finding.pairs, tried[finding.check == MATRIX])
    return [some_names(finding.hosts, of)]


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
