# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host tells a site's monitoring."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    Allocatable,
    Claim,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode, encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    QueueTicket,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.detection import (
    Card,
    parse_nvidia_cards,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.metrics import (
    BOUNDS,
    LONGEST_LABEL,
    MOST_SERIES,
    ContainerLook,
    Counted,
    Phase,
    ReplicaUse,
    after_call,
    after_look,
    card_jobs,
    counted_of,
    label,
    state_text,
    use_text,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import PINNED
from ansible_collections.cluster_compute.session.tests.support.core.show.looks import (
    ID,
    MACHINE,
    look,
    running,
    waiting,
)
from ansible_collections.cluster_compute.session.tests.support.recorded_nvidia import CARDS_AND_INSTANCES, TWO_CARDS


def held(name: str, *devices: tuple[str, tuple[str, ...]]) -> Reservation:
    """Return what a session holds."""
    return Reservation(Claim(ID, name, 2, 1500, 2**20, devices), COMMITTED, "boot", None)


def samples(text: str) -> dict[str, float]:
    """Return the samples of a text by name and labels."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_a_replica_that_is_planned_and_not_there_is_missing() -> None:
    found = samples(state_text(look(), Counted()))
    assert found['cluster_compute_replicas{state="running"}'] == 1
    assert found['cluster_compute_replicas{state="missing"}'] == 1
    assert found['cluster_compute_replica_running{session="train",replica="main1"}'] == 1
    assert found['cluster_compute_replica_running{session="train",replica="sub1"}'] == 0
    assert not [name for name in found if "sub2" in name]
    assert found['cluster_compute_sessions{status="running"}'] == 1
    info = f'cluster_compute_session_info{{session="train",session_id="{ID}",owner="alice",status="running"}}'
    assert found[info] == 1


def test_of_an_engine_that_is_silent_no_replica_is_said_to_be_missing() -> None:
    found = samples(state_text(look(containers=None), Counted()))
    assert found["cluster_compute_engine_up"] == 0
    assert not [name for name in found if "replica_running" in name or "cluster_compute_replicas" in name]


def test_stubs_count_where_their_session_is() -> None:
    elsewhere = look(records=[stub_of(running())], names={}, containers=[])
    assert samples(state_text(elsewhere, Counted()))['cluster_compute_sessions{status="running"}'] == 0


def test_failures_of_replicas_are_told_by_reason() -> None:
    containers = [
        ContainerLook(ID, "train", "main1", "exited", "out_of_memory"),
        ContainerLook(ID, "train", "sub1", "exited", "exit_code"),
    ]
    found = samples(state_text(look(containers=containers, restarts={(ID, "sub1"): 3}), Counted()))
    assert found['cluster_compute_failed_replicas{reason="out_of_memory"}'] == 1
    assert found['cluster_compute_failed_replicas{reason="disk"}'] == 0
    assert found['cluster_compute_replica_restarts_total{session="train",replica="sub1"}'] == 3
    assert not [name for name in found if "restarts" in name and "main1" in name], "a counter never falls to 0"


def test_room_is_told_in_base_units_and_pinned_cpus_are_no_accelerators() -> None:
    reservations = [held("train", ("gpu", ("/dev/nvidia0",)), (PINNED, ("2", "3")))]
    found = samples(state_text(look(held=reservations), Counted()))
    assert found["cluster_compute_capacity_cpus"] == 4
    assert found["cluster_compute_held_cpus"] == 1.5
    assert found["cluster_compute_held_memory_bytes"] == 2**20
    assert found['cluster_compute_capacity_accelerators{class="gpu"}'] == 2
    assert found['cluster_compute_held_accelerators{class="gpu"}'] == 1
    assert found["cluster_compute_held_replicas"] == 2
    assert not [name for name in found if PINNED in name]


def test_the_head_of_the_queue_is_who_would_be_next() -> None:
    ids = [f"{number}614fdf3-6a1e-4f0e-9d4c-0f9d1f3c6a52" for number in range(3)]
    queue = [waiting(1, 0, ids[0]), waiting(3, 5, ids[1]), waiting(2, 5, ids[2])]
    counted = after_look(Counted(waiting={ids[2]: 100.0, "gone": 1.0}), queue, 500.0)
    assert counted.waiting == {ids[0]: 500.0, ids[1]: 500.0, ids[2]: 100.0}
    found = samples(state_text(look(records=queue, names={}, containers=[]), counted))
    assert found["cluster_compute_queue_sessions"] == 3
    assert found['cluster_compute_queue_head_enqueued_timestamp_seconds{session="w2"}'] == 100
    marked = replace(queue[1], queue=QueueTicket(3, True))
    found = samples(state_text(look(records=[queue[2], marked], names={}, containers=[]), counted))
    assert 'cluster_compute_queue_head_enqueued_timestamp_seconds{session="w3"}' in found


def test_phases_of_launches_become_a_histogram() -> None:
    counted = after_call(Counted(), "session_host", {"state": "held"}, {"granted": True}, 0.1)
    seconds = {"network": 0.3, "start": 2.0, "ready": 999.0}
    counted = after_call(counted, "session_host", {"state": "started"}, {"changed": True, "seconds": seconds}, 4.0)
    counted = after_call(counted, "session_host", {"state": "started"}, {"changed": False, "seconds": seconds}, 4.0)
    counted = after_call(counted, "session_host", {"state": "held"}, {"granted": False}, 9.0)
    found = samples(state_text(look(), counted))
    name = "cluster_compute_launch_phase_duration_seconds"
    assert found[f'{name}_bucket{{phase="hold",le="0.1"}}'] == found[f'{name}_bucket{{phase="hold",le="+Inf"}}'] == 1
    assert found[f'{name}_bucket{{phase="network",le="0.25"}}'] == 0
    assert found[f'{name}_bucket{{phase="network",le="0.5"}}'] == 1
    assert found[f'{name}_bucket{{phase="ready",le="300.0"}}'] == 0
    assert found[f'{name}_count{{phase="ready"}}'] == 1
    assert found[f'{name}_sum{{phase="ready"}}'] == 999


@pytest.mark.parametrize(
    ("result", "kind"),
    [({"sick": True}, "host"), ({"refused": True}, "refused"), ({}, "request")],
)
def test_calls_that_fail_are_counted_by_whose_fault_it_is(result: dict[str, Any], kind: str) -> None:
    counted = Counted()
    for _time in range(2):
        counted = after_call(counted, "session_host", {"state": "started"}, {"failed": True, **result}, 1.0)
    found = samples(state_text(look(), counted))
    assert found[f'cluster_compute_call_failures_total{{call="started",kind="{kind}"}}'] == 2
    assert 'cluster_compute_launch_phase_duration_seconds_count{phase="ready"}' in found


def test_what_a_launch_says_of_the_room_is_remembered() -> None:
    arguments = {"state": "held", "allocatable": encode(MACHINE)}
    counted = after_call(Counted(), "session_host", arguments, {"granted": False}, 1.0)
    assert decode(Allocatable, counted.capacity, "It") == MACHINE


def test_what_is_remembered_reads_back_and_other_buckets_do_not() -> None:
    counted = Counted({"held host": 1}, {"hold": Phase().after(3.0)}, {ID: 1.5}, encode(MACHINE))
    assert decode(Counted, encode(counted), "It") == counted
    assert counted.is_sound
    assert not replace(counted, phases={"hold": Phase((1, 2))}).is_sound
    assert sum(Phase().after(1e9).counts) == 1
    assert Phase().after(BOUNDS[-1]).counts[-1] == 0


def test_of_what_another_release_counted_is_kept_what_can_be_told() -> None:
    counted = Counted({"held host": 1}, {"hold": Phase().after(3.0)}, {ID: 1.5}, encode(MACHINE))
    plain = {**encode(counted), "moons": 7}
    assert counted_of(plain) == counted
    for phase in ({"counts": [1], "seconds": 1.0}, {"counts": [1] * 11, "seconds": 1.0, "longest": 9}, 7):
        assert counted_of({**plain, "phases": {"hold": phase}}) == replace(counted, phases={}), phase
    assert counted_of({**plain, "failures": ["held"]}) == replace(counted, failures={})
    assert counted_of([plain]) == Counted()


def test_a_label_cannot_end_itself_and_has_a_bound() -> None:
    assert label('a"} 1\nx\\') == 'a\\"} 1\\\\nx\\\\'
    assert len(label("x" * 9999)) == LONGEST_LABEL
    hostile = look(records=[replace(running(), owner='x",session="y"} 1\nup 0')])
    text = state_text(hostile, Counted())
    assert all(re.fullmatch(r'# .*|\w+(\{(\w+="([^"\\]|\\.)*",?)+\})? [0-9.e+]+', line) for line in text.splitlines())


def test_a_replica_has_a_bounded_number_of_series_whatever_it_does() -> None:
    traffic = {f"eth{number}": (1, 2) for number in range(50)}
    devices = tuple((f"class{number}", ("a", "b")) for number in range(50))
    use = use_text([ReplicaUse("train", "main1", 1.5, 7, traffic, devices)])
    mine = [name for name in samples(use + state_text(look(), Counted())) if 'replica="main1"' in name]
    assert len(mine) <= MOST_SERIES
    kinds = Counter(name.partition("{")[0] for name in mine)
    assert kinds["cluster_compute_replica_accelerators"] == 8
    found = samples(use)
    assert found['cluster_compute_replica_accelerators{session="train",replica="main1",class="other"}'] == 86
    place = 'session="train",replica="main1"'
    assert found[f"cluster_compute_replica_cpu_seconds_total{{{place}}}"] == 1.5
    assert found[f"cluster_compute_replica_memory_bytes{{{place}}}"] == 7
    assert found[f'cluster_compute_replica_network_transmit_bytes_total{{{place},interface="eth1"}}'] == 2


def test_cards_are_told_by_nvidias_number_however_they_are_named() -> None:
    first, second = "GPU-c7b57be0-94ff-d352-a59b-d0ee00aeed43", "GPU-d6de6afc-bdfe-75c4-5273-0544439153fc"
    # The driver may number device files otherwise than its programs number cards.
    driver = [
        f"Model: \t\t X\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n" for uuid, minor in ((first, 1), (second, 0))
    ]
    cards = parse_nvidia_cards(TWO_CARDS, driver)
    assert cards == [Card(0, first, 1), Card(1, second, 0)]
    for name, index in (
        (second, "1"),
        ("nvidia.com/gpu=1", "1"),
        (f"nvidia.com/gpu={second}", "1"),
        ("/dev/nvidia0", "1"),
        ("/dev/nvidia1+/dev/nvidiactl", "0"),
    ):
        assert card_jobs([held("train", ("gpu", (name,)))], cards) == {index: "train"}, name
    assert card_jobs([held("train", ("gpu", ("/dev/nvidia3",)))], []) == {"3": "train"}


def test_what_is_no_whole_card_has_no_file() -> None:
    cards = parse_nvidia_cards(CARDS_AND_INSTANCES, [])
    assert [(card.index, card.minor) for card in cards] == [(0, None), (1, None), (2, None), (3, None)]
    names = ("MIG-ce861fb0-a248-58ce-a9a8-f9adbc22a66a", "nvidia.com/gpu=0:1", "/dev/dri/renderD128", "amd.com/gpu=0")
    assert card_jobs([held("train", ("gpu", names), (PINNED, ("/dev/nvidia0",)))], cards) == {}
