# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shares of owners: what counts as use, how it decays, and that the queue makes it equal."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import (
    waiting_session,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode, encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Capacity,
    Host,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.queue import (
    Waiting,
    in_order,
    schedule_queue,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.share import (
    LONGEST_GAP,
    MOST_OWNERS,
    Account,
    FairShare,
    Shares,
    after_look,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from hypothesis import given
from hypothesis import strategies as st

GIB = 1024**3
DAY = FairShare(86400)


def wanted(name: str = "demo", **values: Any) -> Request:
    given_values = {"name": name, "image": "debian:12", "memory": "1g", **values}
    return parse_request({f"session_{key}": value for key, value in given_values.items()})


def test_what_was_used_is_worth_half_after_the_half_life() -> None:
    account = Account("boot", 0.0, {"alice": {"cpus": 1000.0}})
    assert after_look(account, "boot", 3600.0, [], 3600).owners == {"alice": {"cpus": 500.0}}
    in_steps = account
    for clock in range(60, 3601, 60):
        in_steps = after_look(in_steps, "boot", float(clock), [], 3600)
    assert in_steps.owners["alice"]["cpus"] == pytest.approx(500.0, abs=0.1)


def test_what_is_held_is_counted_for_the_time_since_the_last_look() -> None:
    held = [("alice", {"cpus": 2.0, "gpu": 1.0}), ("bob", {"cpus": 0.5}), ("alice", {"cpus": 1.0})]
    account = after_look(after_look(None, "boot", 100.0, held, 86400), "boot", 130.0, held, 86400)
    assert account.owners == {"alice": {"cpus": 90.0, "gpu": 30.0}, "bob": {"cpus": 15.0}}
    # Nobody knows for how long it was held where nobody looked for long; a boot is the beginning of what is known.
    later = after_look(account, "boot", 130.0 + 10 * LONGEST_GAP, [("bob", {"cpus": 1.0})], 10**9)
    assert later.owners["bob"]["cpus"] == pytest.approx(15.0 + LONGEST_GAP, abs=0.1)
    booted = after_look(account, "another", 20.0, [("bob", {"cpus": 1.0})], 10**9)
    assert booted.owners["bob"]["cpus"] == pytest.approx(35.0, abs=0.1)
    assert decode(Account, encode(account), "The use") == account


@given(st.lists(st.tuples(st.integers(0, 2000), st.floats(0, 64)), max_size=1500))
def test_what_a_host_remembers_is_bounded(held: list[tuple[int, float]]) -> None:
    amounts = [(f"user{number}", {"cpus": cpus}) for number, cpus in held]
    account = after_look(Account("boot", 0.0), "boot", 60.0, amounts, 86400)
    assert len(account.owners) <= MOST_OWNERS
    most = {name for name, _cpus in amounts if sum(c["cpus"] for n, c in amounts if n == name) > 63}
    assert len(most) > MOST_OWNERS or most <= set(account.owners)


def test_accelerators_count_as_the_site_says() -> None:
    policy = FairShare.from_variable({"half_life": "7d", "accelerators": {"gpu": "16", "link": 0}})
    assert policy == FairShare(7 * 86400, (("gpu", 16), ("link", 0)))
    assert policy.weigh({"cpus": 2.0, "gpu": 1.0, "link": 9.0, "npu": 1.0}) == 2 + 16 + 8
    assert FairShare.from_variable("") == FairShare.from_variable({}) == FairShare()
    with pytest.raises(InvalidInput) as caught:
        FairShare.from_variable({"half_life": "5s", "halflife": 1, "accelerators": {"gpu": -1}})
    assert [problem.variable for problem in caught.value.problems] == [
        "cluster_compute_fair_share.halflife",
        "cluster_compute_fair_share.half_life",
        "cluster_compute_fair_share.accelerators.gpu",
    ]


def test_without_a_half_life_the_order_is_what_it_was() -> None:
    use = [{"alice": {"cpus": 1e9}}]
    shares = Shares.of(FairShare(None, (("gpu", 1),)), use)
    assert (shares.use, shares.cost(wanted()), shares.percent("alice"), shares.table()) == ({}, 0.0, None, [])
    queue = [
        waiting_session(f"id-{n}", wanted(), n, owner, shares) for n, owner in enumerate(["alice", "bob", "alice"])
    ]
    assert in_order(reversed(queue)) == queue


def test_priority_comes_first_then_share_then_age() -> None:
    shares = Shares.of(DAY, [{"alice": {"cpus": 3000.0}}, {"alice": {"cpus": 3000.0}, "bob": {"cpus": 2000.0}}])
    assert encode(shares.table()) == [
        {"owner": "alice", "percent": 75, "use": 6000},
        {"owner": "bob", "percent": 25, "use": 2000},
    ]

    def queued(name: str, number: int, owner: str, **values: Any) -> Waiting:
        return waiting_session(name, wanted(**values), number, owner, shares)

    queue = [
        queued("urgent", 9, "alice", priority=1),
        queued("b1", 3, "bob"),
        queued("b2", 5, "bob"),
        queued("a1", 1, "alice"),
        queued("b3", 7, "bob"),
        queued("a2", 2, "alice"),
    ]
    # Each turn counts an hour of its CPU: bob is at 2000, 5600, 9200, alice, who has had one, at 9600.
    assert [entry.session_id for entry in in_order(reversed(queue))] == ["urgent", "b1", "b2", "b3", "a1", "a2"]
    short = [queued("b1", 3, "bob"), queued("a1", 1, "alice", max_duration="10m"), queued("b2", 4, "bob")]
    assert shares.cost(short[1].request) == 600.0
    assert [entry.session_id for entry in in_order(short)] == ["b1", "b2", "a1"]


def test_who_has_been_the_head_stays_it_whoever_has_used_less() -> None:
    shares = Shares.of(DAY, [{"alice": {"cpus": 90000.0}}])
    hosts = [Host("h1", Capacity(4000, 64 * GIB), Capacity(2000, 64 * GIB))]
    big = wanted("big", cpus=4)

    def blocked(is_head: bool) -> dict[str, str | None]:
        queue = [
            waiting_session("big", big, 1, "alice", shares, is_head),
            waiting_session("small", wanted("small", cpus=2), 2, "bob", shares),
        ]
        found = schedule_queue(queue, hosts, (), ["h1"])
        return {entry.waiting.session_id: "starts" if entry.placement else entry.blocked_by for entry in found}

    assert blocked(False) == {"small": "starts", "big": None}
    assert blocked(True) == {"big": None, "small": "big"}


@pytest.mark.parametrize("larger", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_two_owners_of_200_submissions_use_the_same(seed: int, larger: int) -> None:
    """larger: how many times as large bob's sessions are."""
    chance = random.Random(seed)
    account, clock = Account("boot", 0.0), 0.0
    waiting: dict[int, tuple[str, Request, float]] = {}
    for number in range(1, 201):
        owner = "alice" if number <= 90 or number > 190 else "bob"  # alice is first in with most of hers
        cpus = chance.choice([1, 1, 2, 4]) * (larger if owner == "bob" else 1)
        waiting[number] = (owner, wanted(f"s{number}", cpus=cpus), chance.randint(20, 90) * 60.0)
    running: dict[int, tuple[str, int, float]] = {}
    total = {"alice": 0.0, "bob": 0.0}
    head: set[int] = set()
    while {owner for owner, _request, _seconds in waiting.values()} == set(total):
        shares = Shares.of(FairShare(7 * 86400), [account.owners])
        queue = [
            waiting_session(str(n), request, n, owner, shares, n in head) for n, (owner, request, _s) in waiting.items()
        ]
        free = 16 - sum(cpus for _owner, cpus, _end in running.values())
        host = Host("h1", Capacity(16000, 640 * GIB), Capacity(free * 1000, 640 * GIB))
        for entry in schedule_queue(queue, [host], (), ["h1"]):
            number = entry.waiting.number
            head |= {number} if entry.is_head else set()
            if entry.placement:
                owner, request, seconds = waiting.pop(number)
                running[number] = (owner, request.roles[0].resources.cpus // 1000, clock + seconds)
        before, clock = clock, min(end for _owner, _cpus, end in running.values())
        for owner, cpus, _end in running.values():
            total[owner] += cpus * (clock - before)
        held = [(owner, {"cpus": float(cpus)}) for owner, cpus, _end in running.values()]
        account = after_look(account, "boot", clock, held, 7 * 86400)
        running = {number: job for number, job in running.items() if job[2] > clock}
    assert total["alice"] == pytest.approx(total["bob"], rel=0.05)
