# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of reservation: nothing is promised twice, and of those that race one always ends."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    CONFIRMED,
    LEASED,
    Allocatable,
    Claim,
    ClaimAnswer,
    InvalidLedger,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode, encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules import ledger as rules
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import (
    ASK_AGAIN,
    GRANTED,
    ROLL_BACK,
    advance,
    amended,
    answer,
    beyond,
    both,
    claims_of,
    collisions,
    covers,
    lease,
    live,
    read_ledger,
    resolve_reservations,
    write_ledger,
)
from ansible_collections.cluster_compute.session.tests.support.core.rules.examples import (
    make_facts,
    make_plan,
    make_request,
)
from hypothesis import given, settings
from hypothesis import strategies as st

GIB = 1024**3
ALLOCATABLE = Allocatable(cpus=4000, memory=8 * GIB, devices=(("gpu", ("g1", "g2")),), max_replicas=6)


def claim(name: str = "a", **changes: Any) -> Claim:
    return replace(Claim(session_id=f"id-{name}", session_name=name, replicas=1, cpus=1000, memory=GIB), **changes)


def held(*claims: Claim, stage: str = COMMITTED) -> dict[str, Reservation]:
    expires = None if stage == COMMITTED else 100.0
    return {claim.session_id: Reservation(claim, stage, "boot", expires) for claim in claims}


claims = st.builds(
    Claim,
    session_id=st.sampled_from(["s1", "s2", "s3", "s4", "s5"]),
    session_name=st.sampled_from(["n1", "n2", "n3", "n4", "n5"]),
    replicas=st.integers(1, 4),
    cpus=st.integers(1, 3000),
    memory=st.integers(1, 5 * GIB),
    devices=st.sampled_from([(), (("gpu", ("g1",)),), (("gpu", ("g2",)),), (("gpu", ("g1", "g2")),)]),
    ports=st.just(()) | st.just((("0.0.0.0", 80, "tcp"),)) | st.just((("127.0.0.1", 80, "tcp"),)),
    vni=st.none() | st.integers(1, 3),
    subnets=st.lists(st.sampled_from(["10.0.0.0/28", "10.0.0.16/28", "10.0.0.32/28"]), unique=True).map(tuple),
)


@settings(max_examples=300)
@given(st.lists(claims, max_size=12))
def test_whatever_is_granted_one_after_another_fits_together(wanted: list[Claim]) -> None:
    ledger: dict[str, Reservation] = {}
    for claimed in wanted:
        if answer(claimed, ledger, [], ALLOCATABLE).granted:
            ledger[claimed.session_id] = lease(claimed, "boot", 0.0, 60.0)
    granted = [reservation.claim for reservation in ledger.values()]
    assert sum(claimed.cpus for claimed in granted) <= ALLOCATABLE.cpus
    assert sum(claimed.memory for claimed in granted) <= ALLOCATABLE.memory
    assert sum(claimed.replicas for claimed in granted) <= 6
    for several in (
        [claimed.session_name for claimed in granted],
        [name for claimed in granted for _kind, names in claimed.devices for name in names],
        [claimed.vni for claimed in granted if claimed.vni is not None],
        [subnet for claimed in granted for subnet in claimed.subnets],
        [port for claimed in granted for _address, port, _protocol in claimed.ports],
    ):
        assert len(set(several)) == len(several)


@settings(max_examples=200)
@given(st.lists(claims, max_size=5), claims)
def test_an_empty_host_refuses_only_what_is_too_large(others: list[Claim], wanted: Claim) -> None:
    too_large = wanted.cpus > ALLOCATABLE.cpus or wanted.memory > ALLOCATABLE.memory
    assert answer(wanted, {}, [], ALLOCATABLE).granted is not too_large


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"cpus": 3001}, "3.001 CPUs asked, 3 free of 4."),
        ({"memory": 7 * GIB + 1}, "memory asked, 7GiB free of 8GiB."),
        ({"devices": (("gpu", ("g1", "g2")),)}, "The gpu g2 is taken by session other (id-other)."),
        ({"devices": (("fpga", ("f1",)),)}, "There is no fpga f1 for sessions on this host."),
        ({"replicas": 6}, "6 replicas asked, 5 more allowed on this host."),
        ({"session_name": "other"}, "The name other is taken by session other (id-other)."),
        ({"ports": (("10.0.0.1", 80, "tcp"),)}, "Port 80/tcp is taken by session other (id-other)."),
        ({"overlay_port": 81}, "Port 81/udp is taken by session other (id-other)."),
        ({"ports": (("10.0.0.1", 4789, "udp"),)}, "Port 4789/udp is taken by session other (id-other)."),
        ({"vni": 7}, "The network identifier 7 is taken by session other (id-other)."),
        ({"subnets": ("10.0.0.0/28",)}, "The subnet 10.0.0.0/28 is taken by session other (id-other)."),
        ({"subnets": ("10.0.0.0/24",)}, "The subnet 10.0.0.0/24 is taken by session other (id-other)."),
        ({"subnets": ("10.0.0.8/29",)}, "The subnet 10.0.0.8/29 is taken by session other (id-other)."),
    ],
)
def test_a_refusal_says_what_is_missing(wanted: dict[str, Any], reason: str) -> None:
    other = claim(
        "other",
        devices=(("gpu", ("g2",)),),
        ports=(("0.0.0.0", 80, "tcp"), ("127.0.0.1", 81, "udp")),
        vni=7,
        subnets=("10.0.0.0/28",),
        overlay_port=4789,
    )
    refused = answer(claim(**wanted), held(other), [], ALLOCATABLE)
    assert not refused.granted
    assert any(reason in text for text in refused.reasons)
    assert refused.tentative == (), "what is committed is decided"
    assert answer(
        claim(**wanted),
        held(other, stage=LEASED),
        [],
        replace(ALLOCATABLE, devices=(("fpga", ("f1",)), ("gpu", ("g1", "g2")))),
    ).tentative == (("id-other",) if "fpga" not in reason else ())


def test_a_session_that_asks_for_nothing_more_shrinks_on_a_host_that_was_made_smaller() -> None:
    larger = replace(claim("other"), cpus=4001, memory=9 * GIB, replicas=9)
    ledger = {"id-other": lease(larger, "boot", 0, 60)}
    nothing = replace(claim("me"), cpus=0, memory=0, replicas=0, devices=(), ports=(), vni=None, subnets=())
    assert answer(nothing, ledger, [], ALLOCATABLE).granted
    assert len(answer(replace(nothing, cpus=1, memory=1, replicas=1), ledger, [], ALLOCATABLE).reasons) == 3


def test_overlays_share_their_port() -> None:
    other = held(claim("other", overlay_port=4789, vni=1))
    assert answer(claim(overlay_port=4789, vni=2), other, [], ALLOCATABLE).granted
    assert answer(claim(ports=(("0.0.0.0", 4789, "tcp"),)), other, [], ALLOCATABLE).granted


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_port_of_an_overlay_is_claimed_on_every_host(encrypted: bool) -> None:
    plan = make_plan(make_request(size=4, cpus=2, encrypted=encrypted), make_facts(encryption=""))
    claims = claims_of(plan)
    assert len(claims) > 1
    assert {claim.overlay_port for claim in claims.values()} == {None if encrypted else 4789}
    for known in claims.values():
        assert decode(Claim, encode(known), "It") == known
        assert decode(Claim, {key: value for key, value in encode(known).items() if key != "overlay_port"}, "It").vni


def test_a_device_by_another_spelling_is_taken_all_the_same() -> None:
    allocatable = replace(ALLOCATABLE, devices=(("gpu", ("/dev/kfd+/dev/r1",)),))
    other = claim("other", devices=(("gpu", ("/dev/r1",)),))
    refused = answer(claim(devices=(("gpu", ("/dev/kfd+/dev/r1",)),)), held(other), [], allocatable)
    assert refused.reasons == ("The gpu /dev/kfd+/dev/r1 is taken by session other (id-other).",)


def test_containers_that_the_ledger_does_not_know_use_up_the_host() -> None:
    untracked = claim("untracked", cpus=3500)
    assert not answer(claim(), {}, [untracked], ALLOCATABLE).granted
    assert answer(claim(), held(claim("untracked", cpus=100)), [untracked], ALLOCATABLE).granted, (
        "the ledger knows it better"
    )


def test_a_session_is_never_in_its_own_way() -> None:
    mine = claim(cpus=4000, vni=3, ports=(("", 80, "tcp"),))
    assert answer(mine, held(mine), [mine], ALLOCATABLE).granted


CLAIMS = st.builds(
    claim,
    replicas=st.integers(0, 3),
    cpus=st.integers(0, 3),
    memory=st.integers(0, 3),
    devices=st.sampled_from([(), (("gpu", ("g1",)),), (("gpu", ("g1", "g2")),), (("cpu", ("1",)), ("gpu", ("g2",)))]),
    ports=st.sampled_from([(), (("", 80, "tcp"),), (("", 80, "tcp"), ("", 81, "tcp"))]),
    vni=st.sampled_from([None, 7]),
    subnets=st.sampled_from([("10.0.0.0/24",), ("10.0.0.0/24", "10.0.1.0/24")]),
    overlay_port=st.sampled_from([None, 4789]),
)


@given(CLAIMS, CLAIMS)
def test_what_a_change_needs_beyond_what_is_held(wanted: Claim, had: Claim) -> None:
    more, meanwhile = beyond(wanted, had), both(wanted, had)
    assert covers(meanwhile, wanted)
    assert covers(meanwhile, had)
    assert (meanwhile.cpus, meanwhile.replicas) == (had.cpus + more.cpus, had.replicas + more.replicas)
    assert covers(had, wanted) == (more == Claim("id-a", "a"))
    assert covers(wanted, wanted)
    change = replace(more, session_id="change", session_name="a+", amends="id-a")
    assert decode(Claim, encode(change), "It") == change
    ledger = {**held(had), "change": lease(change, "boot", 0.0, 60.0, "run")}
    assert amended(wanted, ledger, [], None, "change", "run") == (meanwhile, [])
    found, reasons = amended(wanted, held(had), [], None, "change", "run")
    assert (found, bool(reasons)) == ((meanwhile, False) if covers(had, wanted) else (None, True))


def test_a_host_that_holds_more_than_it_has_is_asked_only_for_what_a_change_needs_beyond() -> None:
    had = claim(cpus=5000)
    for more in ({"memory": 2 * GIB}, {"devices": (("gpu", ("g1",)),)}, {"ports": (("", 80, "tcp"),)}):
        wanted = replace(had, cpus=3000, **more)
        assert amended(wanted, held(had), [had], ALLOCATABLE, None, None) == (both(wanted, had), [])
    beyond: list[tuple[dict[str, Any], str]] = [
        ({"cpus": 5001}, "0.001 CPUs asked, 0 free of 4."),
        ({"memory": 9 * GIB}, "8GiB memory asked, 7GiB free of 8GiB."),
        ({"replicas": 7}, "6 replicas asked, 5 more allowed on this host."),
    ]
    for more, why in beyond:
        assert amended(replace(had, **more), held(had), [had], ALLOCATABLE, None, None) == (None, [why])


def test_a_change_does_not_compete_with_its_own_lease() -> None:
    """As where a host that got more replicas than at first is told of its part by another plan of the same change."""
    had, wanted = claim(), claim(cpus=4000)
    change = claim("change", amends="id-a")
    ledger = {**held(had), "id-change": lease(change, "boot", 0.0, 60.0, "run")}
    assert amended(wanted, ledger, [], ALLOCATABLE, "id-change", "run") == (wanted, [])
    # Of another's lease it is free what that leaves.
    other = {**held(had), "id-b": lease(claim("b"), "boot", 0.0, 60.0, "other")}
    found, reasons = amended(wanted, other, [], ALLOCATABLE, "id-change", "run")
    assert (found, reasons) == (None, ["3 CPUs asked, 2 free of 4."])


def test_a_lease_runs_out_by_the_clock_of_one_boot_and_not_in_another() -> None:
    ledger = {"id-a": lease(claim("a"), "boot-1", 1000.0, 60.0)}
    assert live(ledger, "boot-1", 1059.9) == ledger
    assert live(ledger, "boot-1", 1060.0) == {}
    assert live(ledger, "boot-2", 3.0) == {}, "after a reboot nobody carries it on"
    committed = {"id-a": advance(ledger["id-a"], COMMITTED, 1001.0, 60.0)}
    assert live(committed, "boot-2", 10.0**9) == committed


@pytest.mark.parametrize(("hosts", "forks"), [(1, 5), (5, 5), (6, 5), (48, 5), (400, 5), (400, 50)])
def test_the_number_of_hosts_does_not_let_a_lease_run_out(hosts: int, forks: int) -> None:
    """Hosts are called one after the other by so many forks: 1 s for holding, 10 s for starting and for being ready."""
    held = [turn // forks + 1.0 for turn in range(hosts)]
    confirmed = [held[-1] + turn // forks * 10.0 for turn in range(hosts)]
    waited = max(then - before for before, then in zip(held, confirmed))
    assert waited <= 120 + rules.turns_seconds(hosts, forks) <= 120 + 3600
    assert hosts > forks or rules.turns_seconds(hosts, forks) == 0


def test_a_reservation_never_goes_a_stage_back() -> None:
    confirmed = advance(lease(claim(), "boot", 0.0, 60.0), CONFIRMED, 10.0, 100.0)
    assert (confirmed.stage, confirmed.expires) == (CONFIRMED, 110.0)
    committed = advance(confirmed, COMMITTED, 20.0, 100.0)
    assert committed.expires is None
    assert advance(committed, CONFIRMED, 30.0, 100.0) == committed


@settings(max_examples=100)
@given(st.lists(claims, max_size=4), st.sampled_from([LEASED, CONFIRMED, COMMITTED]))
def test_a_ledger_is_read_back_as_it_was_written(recorded: list[Claim], stage: str) -> None:
    ledger = held(*recorded, stage=stage)
    assert read_ledger(write_ledger(ledger)) == ledger


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"schema": 1},
        {"schema": 2, "reservations": []},
        {"schema": 1, "reservations": [{}]},
        {"schema": 1, "reservations": [{**held(claim())["id-a"].to_dict(), "stage": "done"}]},
        {"schema": 1, "reservations": [{**held(claim())["id-a"].to_dict(), "expires": 5.0}]},
        {
            "schema": 1,
            "reservations": [{**held(claim())["id-a"].to_dict(), "claim": {**encode(claim()), "cpus": -1}}],
        },
        {
            "schema": 1,
            "reservations": [{**held(claim())["id-a"].to_dict(), "claim": {**encode(claim()), "cpus": "1"}}],
        },
    ],
)
def test_a_malformed_or_newer_ledger_is_refused(data: object) -> None:
    with pytest.raises(InvalidLedger):
        read_ledger(data)


def test_who_keeps_and_who_gives_back() -> None:
    yes = ClaimAnswer(True)
    assert resolve_reservations("b", {"h1": yes, "h2": yes}) == GRANTED
    assert resolve_reservations("b", {"h1": yes, "h2": ClaimAnswer(False, ("full",), ("c",))}) == ASK_AGAIN
    assert resolve_reservations("b", {"h1": yes, "h2": ClaimAnswer(False, ("full",), ("a", "c"))}) == ROLL_BACK
    assert resolve_reservations("b", {"h1": yes, "h2": ClaimAnswer(False, ("full",))}) == ROLL_BACK


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(2, 8), st.integers(1, 4), st.integers(1, 3))
def test_sessions_that_race_all_end_and_exactly_as_many_start_as_fit(
    seed: int, racers: int, hosts: int, slots: int
) -> None:
    """Every racer wants one place on every host; their questions arrive in any order, answers are acted on later."""
    chance = random.Random(seed)
    ledgers: list[dict[str, Reservation]] = [{} for _host in range(hosts)]
    allocatable = Allocatable(cpus=slots * 1000, memory=64 * GIB)
    requested = {
        f"s{number}": claim(cpus=1000, session_id=f"s{number}", session_name=f"n{number}") for number in range(racers)
    }
    states: dict[str, str] = {}
    for _turn in range(10_000):
        if len(states) == racers:
            break
        session = chance.choice(sorted(set(requested) - set(states)))
        answers = {}
        for host in chance.sample(range(hosts), hosts):
            mine = ledgers[host].get(session)
            answers[str(host)] = (
                ClaimAnswer(True) if mine else answer(requested[session], ledgers[host], [], allocatable)
            )
            if answers[str(host)].granted and not mine:
                ledgers[host][session] = lease(requested[session], "boot", 0.0, 60.0)
            if chance.random() < 0.5:  # somebody else asks in between
                other = chance.choice(sorted(set(requested) - set(states)))
                if other not in ledgers[host] and answer(requested[other], ledgers[host], [], allocatable).granted:
                    ledgers[host][other] = lease(requested[other], "boot", 0.0, 60.0)
        outcome = resolve_reservations(session, answers)
        if outcome == GRANTED:
            states[session] = "RUNNING"
            for ledger in ledgers:
                ledger[session] = advance(ledger[session], CONFIRMED, 0.0, 60.0)
        elif outcome == ROLL_BACK:
            for ledger in ledgers:
                ledger.pop(session, None)
            firm = [
                rules.answer(
                    requested[session],
                    {key: reservation for key, reservation in ledger.items() if reservation.stage != LEASED},
                    [],
                    allocatable,
                )
                for ledger in ledgers
            ]
            if not all(reply.granted for reply in firm):
                states[session] = "PENDING"
    assert sorted(states) == sorted(requested), "somebody waits for ever"
    assert sum(state == "RUNNING" for state in states.values()) == min(racers, slots)


def test_of_two_changes_of_a_session_one_is_told_of_the_other() -> None:
    mine, other = Claim("0" * 8, "demo+"), Claim("1" * 8, "demo+")
    assert collisions(mine, [other]) == ["Session demo is being changed by another run."]
