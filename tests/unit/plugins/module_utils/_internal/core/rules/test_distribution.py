# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds in which hosts give images to each other."""

from __future__ import annotations

import math

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import ImageTransfer
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.distribution import (
    next_round,
    rounds_left,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.images import (
    CONTROLLER,
    MOST_TRIES,
    Need,
)
from hypothesis import given
from hypothesis import strategies as st

IMAGE = "sha256:" + "1" * 64
WIDE = 1000


def need(have: int, lack: int, name: str = "a:1", archived: bool = False, source: str = "x") -> Need:
    """Return a need of *lack* hosts, with *have* hosts outside the session that can give the image."""
    lacking = [f"h{number}" for number in range(lack)]
    having = [f"{source}{number}" for number in range(have)]
    return Need(
        reference=name,
        policy="never",
        hosts=lacking,
        platforms=dict.fromkeys(lacking + having, "docker/amd64"),
        ids={"docker/amd64": IMAGE},
        has=dict.fromkeys(having, IMAGE),
        archived=IMAGE if archived else "",
    )


def run(needs: list[Need], limit: int, fails: set[tuple[str, str]] | None = None) -> list[list[ImageTransfer]]:
    """Play all rounds; return their transfers."""
    rounds = []
    while transfers := next_round(needs, limit):
        rounds.append(transfers)
        for transfer in transfers:
            bad = (transfer.sender, transfer.receiver) in (fails or set())
            wanted = next(other for other in needs if other.reference == transfer.reference)
            wanted.arrived(transfer.receiver, transfer.sender, "broken" if bad else "")
    return rounds


@given(st.integers(1, 40), st.integers(0, 200), st.integers(1, 64))
def test_every_host_is_served_once_in_as_few_rounds_as_can_be(have: int, lack: int, limit: int) -> None:
    wanted = need(have, lack)
    assert rounds_left([wanted], limit) == len(run([need(have, lack)], limit))
    had = set(wanted.has)
    rounds = []
    while transfers := next_round([wanted], limit):
        rounds.append(transfers)
        senders, receivers = [transfer.sender for transfer in transfers], [transfer.receiver for transfer in transfers]
        assert len(set(senders)) == len(senders) <= limit
        assert set(senders) <= had
        assert not set(receivers) & had
        for transfer in transfers:
            wanted.arrived(transfer.receiver, transfer.sender, "")
        had |= set(receivers)
    served = [transfer.receiver for transfers in rounds for transfer in transfers]
    assert sorted(served) == sorted(wanted.hosts)
    if limit >= lack:
        assert len(rounds) == math.ceil(math.log2((have + lack) / have))


@given(st.integers(1, 6), st.integers(1, 12), st.data())
def test_whoever_fails_is_replaced_and_nothing_goes_on_for_ever(have: int, lack: int, data: st.DataObject) -> None:
    wanted = need(have, lack)
    names = [*wanted.has, *wanted.hosts]
    pairs = [(sender, receiver) for sender in names for receiver in wanted.hosts]
    fails = data.draw(st.sets(st.sampled_from(pairs), max_size=20))
    rounds = run([wanted], WIDE, fails)
    tried = [(transfer.sender, transfer.receiver) for transfers in rounds for transfer in transfers]
    assert len(set(tried)) == len(tried)
    for host in wanted.lacking:
        attempts = [pair for pair in tried if pair[1] == host]
        assert set(attempts) <= fails
        assert len(attempts) <= MOST_TRIES
        assert len(attempts) == MOST_TRIES or {sender for sender, _host in attempts} == set(wanted.has)


def test_a_host_to_which_nobody_can_send_is_given_up() -> None:
    wanted = need(6, 1)
    rounds = run([wanted], WIDE, {(sender, "h0") for sender in wanted.has})
    assert [transfer.sender for transfers in rounds for transfer in transfers] == ["x0", "x1", "x2"]
    assert wanted.lacking == ["h0"]


def test_two_images_travel_side_by_side() -> None:
    first, second = need(1, 3, "a:1"), need(1, 3, "b:1", source="y")
    rounds = run([first, second], WIDE)
    assert [len(transfers) for transfers in rounds][:1] == [2]
    for transfers in rounds:
        for side in ("sender", "receiver"):
            names = [getattr(transfer, side) for transfer in transfers]
            assert len(set(names)) == len(names)
    assert first.lacking == second.lacking == []


def test_the_controller_gives_an_archive_to_one_host_only() -> None:
    rounds = run([need(0, 7, archived=True)], WIDE)
    assert [len(transfers) for transfers in rounds] == [1, 1, 2, 3]
    assert [transfer.sender for transfers in rounds for transfer in transfers].count(CONTROLLER) == 1
    assert run([need(0, 7)], WIDE) == []
    # An archive that one host could not load is not copied to all others.
    assert len(run([need(0, 7, archived=True)], WIDE, {(CONTROLLER, "h0")})) == 1


def test_hosts_of_another_platform_are_not_served() -> None:
    wanted = need(1, 2)
    wanted.platforms["h1"] = "containerd/amd64"
    assert [transfer.receiver for transfers in run([wanted], WIDE) for transfer in transfers] == ["h0"]
    assert wanted.lacking == ["h1"]
