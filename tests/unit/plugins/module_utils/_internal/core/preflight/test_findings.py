# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Equal findings are one, and names are shortened without losing any."""

from __future__ import annotations

import re

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.preflight.findings import (
    ERROR,
    LONGEST_NAMES,
    OK,
    WARNING,
    Check,
    name_ranges,
    some_names,
    some_pairs,
)
from hypothesis import given
from hypothesis import strategies as st


def expand(text: str) -> list[str]:
    """Return the names that a range stands for."""
    match = re.fullmatch(r"(.*)\[([0-9,-]+)\](.*)", text)
    if match is None:
        return [text]
    before, inside, after = match.groups()
    found = []
    for part in inside.split(","):
        first, _dash, last = part.partition("-")
        found += [f"{before}{number:0{len(first)}d}{after}" for number in range(int(first), int(last or first) + 1)]
    return found


@given(st.lists(st.from_regex(r"[a-c]{1,2}[0-9]{0,3}(-[a-b])?", fullmatch=True), unique=True))
def test_ranges_stand_for_exactly_the_names(names: list[str]) -> None:
    found = [name for text in name_ranges(names) for name in expand(text)]
    assert sorted(found) == sorted(names)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["gpu08", "gpu09", "gpu10", "gpu12"], ["gpu[08-10,12]"]),
        (["n9", "n10", "n11"], ["n9", "n[10-11]"]),
        (["a", "b1", "b2.example", "b3.example"], ["a", "b1", "b[2-3].example"]),
        ([], []),
    ],
)
def test_ranges_are_short(names: list[str], shown: list[str]) -> None:
    assert name_ranges(names) == shown


def test_of_many_hosts_few_are_named() -> None:
    names = [f"node{number:03d}" for number in range(400)]
    assert some_names(names, 400) == "all 400 hosts"
    assert some_names(names[1:], 400) == "399 of 400 hosts"
    assert some_names(names[1:50], 400) == "node[001-049]"
    strange = [f"{'x' * (number % 7 + 1)}-{number * 7}" for number in range(90)]
    shown = some_names(strange, 400)
    assert len(shown) <= LONGEST_NAMES
    assert shown.startswith("x-0, xx-7, ")
    named = shown.partition(" and ")[0].split(", ")
    assert shown.endswith(f" and {90 - len(named)} more")
    assert some_names(["only"], 1) == "only"


def test_a_host_that_nobody_reaches_is_told_once() -> None:
    names = [f"n{number}" for number in range(400)]
    tried = [(name, other) for name in names for other in names if name != other]
    assert some_pairs([pair for pair in tried if pair[1] == "n7"], tried) == ["any -> n7"]
    assert some_pairs([pair for pair in tried if pair[0] == "n7"], tried) == ["n7 -> any"]
    assert some_pairs([pair for pair in tried if "n7" in pair], tried) == ["any -> n7", "n7 -> any"]
    both = [pair for pair in tried if pair[1] in ("n7", "n8")]
    assert some_pairs(both, tried) == ["any -> n[7-8]"]
    assert some_pairs(tried[400:], tried) == [f"{len(tried) - 400} of {len(tried)} pairs"]
    assert some_pairs(tried, tried) == [f"all {len(tried)} pairs"]
    some = [("n1", "n2"), ("n5", "n6"), *[pair for pair in tried if pair[1] == "n9"]]
    assert some_pairs(some, tried) == ["any -> n9", "n1 -> n2", "n5 -> n6"]
    assert some_pairs(tried[:7], tried)[-1] == "and 3 more pairs"


def test_what_is_alike_is_one_finding_and_the_worst_comes_first() -> None:
    check = Check("disk")
    for number in range(398):
        check.good(f"n{number}", "Enough.")
    check.bad(WARNING, "m1", "Little.", "More.", "Buy.")
    check.bad(ERROR, "m2", "None.", "More.", "Buy.")
    check.bad(ERROR, "m3", "None.", "More.", "Buy.")
    check.bad_pair(ERROR, ("m2", "m3"), "Cut.", "Whole.", "Mend.")
    found = check.findings()
    assert [(finding.severity, len(finding.hosts), len(finding.pairs)) for finding in found] == [
        (ERROR, 2, 0),
        (ERROR, 0, 1),
        (WARNING, 1, 0),
        (OK, 398, 0),
    ]
    assert encode(found[0]) == {
        "check": "disk",
        "severity": "error",
        "hosts": ["m2", "m3"],
        "pairs": [],
        "found": "None.",
        "expected": "More.",
        "advice": "Buy.",
    }


def test_a_host_of_which_something_is_wrong_is_not_well_otherwise() -> None:
    check = Check("disk")
    check.bad(WARNING, "n1", "Full.", "Space.", "Remove files.")
    for host in ("n1", "n2"):
        check.otherwise(host, "There is space.")
    assert [(finding.severity, finding.hosts) for finding in check.findings()] == [(WARNING, ("n1",)), (OK, ("n2",))]
