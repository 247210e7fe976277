# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from itertools import product

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import (
    HOST_LOSS,
    REPLACE,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.membership import (
    GIVEN_AWAY,
    MEMBER,
    QUESTION,
    UNKNOWN,
    WAITING,
    holds_back,
    judge,
    question,
    read_answer,
)
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

OTHERS = ("h1", "h2", "h3", "h4")


@pytest.mark.parametrize(
    ("says", "membership"),
    [
        ("yyyy", MEMBER),
        ("yyy-", MEMBER),
        ("yy--", UNKNOWN),
        ("y---", UNKNOWN),
        ("----", UNKNOWN),
        ("n---", GIVEN_AWAY),
        ("nnnn", GIVEN_AWAY),
        ("nny-", GIVEN_AWAY),
        ("ny--", UNKNOWN),
        ("nyyy", UNKNOWN),
    ],
)
def test_most_have_to_say_yes_and_none_no(says: str, membership: str) -> None:
    answers = {host: letter == "y" for host, letter in zip(OTHERS, says) if letter != "-"}
    assert judge(OTHERS, answers) == membership


def test_the_only_other_host_decides_alone() -> None:
    assert judge(["h2"], {"h2": True}) == MEMBER
    assert judge(["h2"], {"h2": False}) == GIVEN_AWAY
    assert judge(["h2"], {}) == UNKNOWN


@pytest.mark.parametrize("size", range(1, 6))
def test_a_host_that_was_given_away_by_most_of_the_others_is_never_a_member(size: int) -> None:
    others = [f"h{number}" for number in range(size)]
    for knowing in product((True, False), repeat=size):
        if 2 * sum(knowing) <= size:
            continue
        # Who was told says no or nothing, who was not says yes or nothing.
        for heard in product((True, False), repeat=size):
            answers = {host: not knows for host, knows, hears in zip(others, knowing, heard) if hears}
            assert judge(others, answers) != MEMBER


def test_what_other_hosts_say_does_not_count() -> None:
    assert judge(["h2"], {"h3": True}) == UNKNOWN
    assert judge(["h2"], {"h3": False}) == UNKNOWN


@pytest.mark.parametrize("kind", [QUESTION, WAITING])
def test_a_question_is_nothing_that_a_tunnel_takes(kind: int) -> None:
    data = question(kind, 0x123456, b"n" * 16)
    flags, vni = int.from_bytes(data[:4], "big"), int.from_bytes(data[4:8], "big")
    assert flags & ~0x08000000  # a bit that VXLAN does not know
    assert data[0] not in (1, 2, 3, 4)  # types of WireGuard's messages
    assert vni == 0x12345600


@pytest.mark.parametrize("version", [4, 6])
def test_what_kernels_and_firewalls_say_is_no_answer(version: int) -> None:
    unreachable = {4: 3, 6: 1}[version]
    codes = {4: [0, 1, 3, 4, 10, 13], 6: [0, 1, 3, 4]}[version]
    assert [read_answer(version, unreachable, code) for code in codes] == [None] * len(codes)
    assert [read_answer(version, unreachable + 1, code) for code in range(16)] == [None] * 16


@pytest.mark.parametrize("policy", [None, *HOST_LOSS])
def test_only_where_lost_hosts_are_replaced_nothing_is_started_on_a_guess(policy: str | None) -> None:
    plan = typed_plan({"request": {} if policy is None else {"on_host_loss": policy}})
    assert holds_back(plan) is (policy == REPLACE)
