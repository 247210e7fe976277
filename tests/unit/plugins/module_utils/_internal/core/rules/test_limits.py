# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of a resource group: how they are read, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.limits import (
    DEFAULT_LIMITS,
    Amounts,
    Limits,
    amounts_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from hypothesis import given
from hypothesis import strategies as st

GIB = 1024**3
COUNTS = st.dictionaries(st.sampled_from(["gpu", "fpga"]), st.integers(1, 9)).map(
    lambda amounts: tuple(sorted(amounts.items()))
)
AMOUNTS = st.builds(Amounts, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), COUNTS)


def make_request(**given_values: Any) -> Request:
    values = {"name": "demo", "image": "debian:12", **given_values}
    return parse_request({f"session_{key}": value for key, value in values.items()})


def refused(limits: Limits, request: Request, used: Amounts) -> list[tuple[str, object, str]]:
    with pytest.raises(InvalidInput) as error:
        limits.check(request, "alice", used)
    return [(problem.variable, problem.value, problem.message) for problem in error.value.problems]


def test_what_a_session_asks_for_counts_every_replica_of_every_role() -> None:
    assert amounts_of(make_request(size=3, cpus=2, memory="1g")) == Amounts(1, 3, 6000, 3 * GIB)
    roles = [{"name": "main", "cpus": 4, "memory": "2g"}, {"name": "worker", "replicas": 3, "cpus": "500m"}]
    assert amounts_of(make_request(roles=roles)) == Amounts(1, 4, 5500, 5 * GIB)
    accelerated = make_request(size=3, accelerators="gpu=2", pin_cpus=True)
    assert amounts_of(accelerated).accelerators == (("gpu", 6),), "pinned CPUs count as CPUs"


@given(AMOUNTS, AMOUNTS)
def test_amounts_add_up(first: Amounts, other: Amounts) -> None:
    both = first.plus(other)
    assert (both.sessions, both.replicas) == (first.sessions + other.sessions, first.replicas + other.replicas)
    assert (both.cpus, both.memory) == (first.cpus + other.cpus, first.memory + other.memory)
    for kind in ("gpu", "fpga"):
        mine, theirs = dict(first.accelerators).get(kind, 0), dict(other.accelerators).get(kind, 0)
        assert dict(both.accelerators).get(kind, 0) == mine + theirs


def test_all_violations_are_told_together_with_used_requested_and_limit() -> None:
    limits = Limits.from_variable(
        {
            "modes": ["single-node"],
            "replicas_per_session": 2,
            "sessions_per_owner": 1,
            "replicas_per_owner": 4,
            "cpus_per_owner": "6",
            "memory_per_owner": "4GiB",
        }
    )
    request = make_request(size=3, cpus="1500m", memory="1g", mode="multi-node")
    assert refused(limits, request, Amounts(1, 2, 2000, 2 * GIB)) == [
        ("session_mode", "multi-node", "Group cluster_compute_hosts allows single-node only."),
        (
            "session_size",
            3,
            "Requested are 3 replicas; the limit of group cluster_compute_hosts is 2 a session.",
        ),
        (
            "session_owner",
            "alice",
            "sessions of owner alice in group cluster_compute_hosts: 1 used, 1 requested, the limit is 1.",
        ),
        (
            "session_size",
            "3",
            "replicas of owner alice in group cluster_compute_hosts: 2 used, 3 requested, the limit is 4.",
        ),
        (
            "session_cpus",
            "4.5",
            "CPUs of owner alice in group cluster_compute_hosts: 2 used, 4.5 requested, the limit is 6.",
        ),
        (
            "session_memory",
            "3GiB",
            "memory of owner alice in group cluster_compute_hosts: 2GiB used, 3GiB requested, the limit is 4GiB.",
        ),
    ]


@pytest.mark.parametrize(
    ("key", "limit", "used", "variable"),
    [
        ("sessions_per_owner", 3, Amounts(sessions=2), "session_owner"),
        ("replicas_per_owner", 5, Amounts(replicas=3), "session_size"),
        ("cpus_per_owner", 5, Amounts(cpus=3000), "session_cpus"),
        ("memory_per_owner", 5 * GIB, Amounts(memory=3 * GIB), "session_memory"),
        ("replicas_per_session", 2, Amounts(9, 9, 9, 9), "session_size"),
    ],
)
def test_a_limit_may_be_reached_and_not_passed(key: str, limit: int, used: Amounts, variable: str) -> None:
    request = make_request(size=2, cpus=1, memory="1g")
    Limits.from_variable({key: limit}).check(request, "alice", used)
    (problem,) = refused(Limits.from_variable({key: limit - 1}), request, used)
    assert problem[0] == variable


def test_accelerators_are_limited_by_class() -> None:
    request = make_request(size=2, accelerators={"gpu": 2, "fpga": 1})
    used = Amounts(accelerators=(("gpu", 3),))
    Limits.from_variable({"accelerators_per_owner": {"gpu": 7, "fpga": 2, "tpu": 0}}).check(request, "alice", used)
    problems = refused(Limits.from_variable({"accelerators_per_owner": {"gpu": 6, "fpga": 1}}), request, used)
    assert problems == [
        (
            "session_accelerators.fpga",
            "2",
            "Accelerators fpga of owner alice in group cluster_compute_hosts: 0 used, 2 requested, the limit is 1.",
        ),
        (
            "session_accelerators.gpu",
            "4",
            "Accelerators gpu of owner alice in group cluster_compute_hosts: 3 used, 4 requested, the limit is 6.",
        ),
    ]
    few = Limits.from_variable({"accelerators_per_owner": {"gpu": 1}})
    few.check(make_request(), "alice", used)  # who has too many may still have what is not limited
    for bad in (3, ["gpu"], {"gpu": "many"}, {"gpu": -1}):
        with pytest.raises(InvalidInput, match=r"cluster_compute_limits\.accelerators_per_owner"):
            Limits.from_variable({"accelerators_per_owner": bad})


def test_a_limit_of_nothing_allows_nothing_and_no_limit_everything() -> None:
    assert len(refused(Limits.from_variable({"sessions_per_owner": 0}), make_request(), Amounts())) == 1
    DEFAULT_LIMITS.check(make_request(size=1000, cpus=100), "alice", Amounts(10**6, 10**6, 10**9, 10**18))


@pytest.mark.parametrize("value", [None, "", "  ", {}])
def test_no_value_is_no_limit(value: object) -> None:
    assert Limits.from_variable(value) == DEFAULT_LIMITS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"modes": "multi-node, single-node"}, Limits(modes=("single-node", "multi-node"))),
        ({"modes": ["multi-node"]}, Limits(modes=("multi-node",))),
        ({"replicas_per_session": "3"}, Limits(replicas_per_session=3)),
        ({"cpus_per_owner": "500m", "memory_per_owner": "1g"}, Limits(cpus_per_owner=500, memory_per_owner=GIB)),
        ({"cpus_per_owner": 0, "memory_per_owner": 0}, Limits(cpus_per_owner=0, memory_per_owner=0)),
    ],
)
def test_good_values(value: dict[str, object], expected: Limits) -> None:
    assert Limits.from_variable(value) == expected


def each(*values: object) -> tuple[object, ...]:
    """Return values whose types have nothing in common."""
    return values


@pytest.mark.parametrize(
    ("value", "place"),
    [(value, "") for value in each(5, "modes", ["modes"], True)]
    + [({"modes": value}, ".modes") for value in each("", [], "both", ["single-node", "x"], 5, None, [["single-node"]])]
    + [
        ({key: value}, f".{key}")
        for key in ("replicas_per_session", "sessions_per_owner", "replicas_per_owner")
        for value in each(-1, "many", 1.5, True, None, [], 10**7)
    ]
    + [({"cpus_per_owner": value}, ".cpus_per_owner") for value in each(-1, "many", True, None, [], float("nan"))]
    + [({"memory_per_owner": value}, ".memory_per_owner") for value in each(-1, "much", True, None, [], 1.5)]
    + [({"size_per_owner": 1}, ".size_per_owner"), ({5: 1}, ".5"), ({None: 1}, ".None")],
)
def test_a_bad_value_is_named_with_its_place(value: object, place: str) -> None:
    with pytest.raises(InvalidInput) as error:
        Limits.from_variable(value)
    (problem,) = error.value.problems
    assert problem.variable == f"cluster_compute_limits{place}"
    assert problem.message.endswith((".", ")."))


def test_every_bad_value_is_told_also_with_those_of_other_variables() -> None:
    bad = {"modes": "both", "surplus": 1, "replicas_per_owner": -1, "cpus_per_owner": "x", "sessions_per_owner": 1}
    with pytest.raises(InvalidInput) as error:
        Settings.from_variables({"cluster_compute_limits": bad, "cluster_compute_vxlan_port": 0})
    assert {problem.variable for problem in error.value.problems} == {
        "cluster_compute_limits.modes",
        "cluster_compute_limits.surplus",
        "cluster_compute_limits.replicas_per_owner",
        "cluster_compute_limits.cpus_per_owner",
        "cluster_compute_vxlan_port",
    }


def test_the_settings_of_a_group_hold_its_limits() -> None:
    assert Settings.from_variables({}).limits == DEFAULT_LIMITS
    assert Settings.from_variables({"cluster_compute_limits": {"sessions_per_owner": 2}}).limits == Limits(
        sessions_per_owner=2
    )


@pytest.mark.parametrize(("limit", "asked", "why"), [(5, 6, "5"), (0, 1, "0"), (-3, 0, "-3"), (None, 1, "0")])
def test_a_priority_is_asked_for_up_to_the_limit(limit: int | None, asked: int, why: str) -> None:
    limits = Limits.from_variable({"modes": "single-node"} if limit is None else {"priority": limit})
    limits.check(make_request(priority=limit or 0), "alice", Amounts(), asks_priority=True)
    limits.check(make_request(priority=asked), "alice", Amounts())
    with pytest.raises(InvalidInput) as error:
        limits.check(make_request(priority=asked), "alice", Amounts(), asks_priority=True)
    assert str(error.value) == (
        f"session_priority is {asked}: Group cluster_compute_hosts allows {why} at most. An admin of the site may give "
        "a higher one."
    )


@pytest.mark.parametrize("value", [None, "high", 1.5, True, 1_000_001, [], {"alice": 1}])
def test_a_limit_of_priorities_is_a_whole_number(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"limits\.priority is .*whole number from -1000000 to 1000000"):
        Limits.from_variable({"priority": value})
