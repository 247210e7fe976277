# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts offer, read from facts and inventory."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    COMMITTED,
    CONFIRMED,
    LEASED,
    Claim,
    Reservation,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Capacity,
    Host,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import PINNED
from ansible_collections.cluster_compute.session.tests.support.core.rules.examples import (
    GIB,
    make_facts,
    topology,
)
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed


def test_hosts_from_facts():
    facts = make_facts(4)
    facts["h1"]["containers"] = [
        {"name": "x-main1", "session_name": "x", "cpus": 1500, "memory": GIB, "state": "running"},
        {"name": "x-sub1", "session_name": "x", "cpus": 500, "memory": GIB, "state": "exited"},
        {"name": "demo-main1", "session_name": "demo", "cpus": 1000, "memory": GIB, "state": "running"},
    ]
    facts["h2"]["containers"] = [{"name": "y", "session_name": "y", "cpus": 99000, "memory": 99 * GIB}]
    facts["h3"]["usable"] = False
    inventory: dict[str, Any] = {
        "h1": {
            "cluster_compute_reserved_cpus": "500m",
            "cluster_compute_reserved_memory": "2g",
            "cluster_compute_labels": {"rack": "r1", "zone": 1},
            "cluster_compute_max_replicas": "5",
            "cluster_compute_accelerators": {"gpu": ["/dev/a", "/dev/b"]},
        },
        "h2": {"cluster_compute_cpus": "2", "cluster_compute_memory": "4g", "cluster_compute_reserved_cpus": 1},
        "h4": {"cluster_compute_reserved_cpus": 64, "cluster_compute_cpus": ""},
    }
    h1, h2, h4 = hosts_from_facts(typed(facts), inventory, "demo")
    assert h1 == Host(
        "h1",
        Capacity(3500, 14 * GIB, (("gpu", 2),)),
        Capacity(1500, 12 * GIB, (("gpu", 2),)),
        (("rack", "r1"), ("zone", "1")),
        3,
        5,
        (("gpu", ("/dev/a", "/dev/b")),),
        (("gpu", ("/dev/a", "/dev/b")),),
    )
    assert h2 == Host("h2", Capacity(2000, 4 * GIB), Capacity(0, 0)), "what is set is what sessions may use"
    assert h4 == Host("h4", Capacity(0, 16 * GIB), Capacity(0, 16 * GIB))
    assert hosts_from_facts(typed(facts), inventory)[0].free.cpus == 500, "without a name everything counts"


@pytest.mark.parametrize(
    ("stage", "free"), [(LEASED, 4000), (CONFIRMED, 2500), (COMMITTED, 2500)], ids=["leased", "confirmed", "committed"]
)
def test_only_what_may_be_given_back_in_a_moment_is_tentative(stage: str, free: int) -> None:
    """Who has confirmed its lease starts its replicas: nobody who waits for tentative ones gets their place."""
    facts = make_facts(1)
    expires = None if stage == COMMITTED else 100.0
    claim = Claim("id", "train", 1, 1500, GIB)
    facts["h1"]["reservations"] = [Reservation(claim, stage, "boot", expires).to_dict()]
    inventory = {"h1": {"cluster_compute_cpus": 4}}
    found = [hosts_from_facts(typed(facts), inventory, None, tentative)[0].free.cpus for tentative in (True, False)]
    assert found == [2500, free]


def test_a_host_that_is_drained_takes_no_replica_more():
    facts = make_facts(2)
    facts["h2"]["drained"] = {"reason": "new memory", "by": "alice", "since": "2026-01-01T00:00:00Z"}
    free, drained = hosts_from_facts(typed(facts), {"h2": {"cluster_compute_max_replicas": 5}})
    assert (free.max_replicas, drained.max_replicas, drained.replica_limit) == (None, 0, 5)
    assert drained.free == free.free, "what runs there keeps its place"


def test_a_host_that_is_suspect_is_marked_and_keeps_what_it_has():
    facts = make_facts(2)
    facts["h2"]["suspect"] = {"reason": "The engine has gone.", "left": 900}
    free, suspect = hosts_from_facts(typed(facts), {})
    assert (free.is_suspect, suspect.is_suspect) == (False, True)
    assert (suspect.free, suspect.max_replicas) == (free.free, free.max_replicas)


def test_accelerators_in_use_are_not_free():
    facts = make_facts(1)
    held = {"gpu": ["/dev/b"], PINNED: ["3"]}
    facts["h1"]["containers"] = [{"name": "x", "session_name": "x", "cpus": 1, "memory": 1, "devices": held}]
    facts["h1"]["topology"] = topology([0], [2], [1], [3])
    inventory = {"cluster_compute_accelerators": {"gpu": ["/dev/a", "/dev/b", "/dev/c"]}, "cluster_compute_cpus": 3}
    (host,) = hosts_from_facts(typed(facts), {"h1": inventory})
    assert host.free_devices == (("gpu", ("/dev/a", "/dev/c")), (PINNED, ("2", "1")))
    assert host.free.devices == (("gpu", 2), (PINNED, 2))
    assert host.allocatable.devices == (("gpu", 3), (PINNED, 3)), "the first CPU is kept back for the host"


def test_of_a_core_that_is_held_in_part_nothing_is_free():
    facts = make_facts(1)
    held = {PINNED: ["6"]}
    facts["h1"]["containers"] = [{"name": "x", "session_name": "x", "cpus": 1, "memory": 1, "devices": held}]
    facts["h1"]["topology"] = topology([0, 4], [1, 5], [2, 6], [3, 7])
    (host,) = hosts_from_facts(typed(facts), {"h1": {"cluster_compute_cpus": 7}})
    assert host.threads == 2
    assert host.devices == ((PINNED, ("1", "5", "2", "6", "3", "7")),), "half a core is not given away"
    assert host.free_devices == ((PINNED, ("1", "5", "3", "7")),)
    assert (host.allocatable.devices, host.free.devices) == (((PINNED, 6),), ((PINNED, 4),))
    facts["h1"]["topology"] = topology([0, 4], [1, 5], [2], [3])
    (host,) = hosts_from_facts(typed(facts), {"h1": {"cluster_compute_cpus": 6}})
    assert (host.threads, host.allocatable.devices) == (1, ((PINNED, 4),)), "every core counts as the least of them"


def test_a_device_that_is_held_by_another_spelling_is_not_free():
    facts = make_facts(1)
    facts["h1"]["containers"] = [{"name": "x", "session_name": "x", "cpus": 1, "devices": {"gpu": ["/dev/r1"]}}]
    names = ["/dev/kfd+/dev/r1", "/dev/kfd+/dev/r2"]
    (host,) = hosts_from_facts(typed(facts), {"h1": {"cluster_compute_accelerators": {"gpu": names}}})
    assert host.free_devices == (("gpu", ("/dev/kfd+/dev/r2",)),)


def test_bad_inventory_is_named_with_its_host():
    bad = {
        "cluster_compute_cpus": "many",
        "cluster_compute_memory": 0,
        "cluster_compute_reserved_cpus": -1,
        "cluster_compute_reserved_memory": "x",
        "cluster_compute_labels": ["rack"],
        "cluster_compute_max_replicas": -1,
        "cluster_compute_accelerators": "gpu",
    }
    with pytest.raises(InvalidInput) as error:
        hosts_from_facts(typed(make_facts(2)), {"h1": bad, "h2": {"cluster_compute_labels": {"rack": True}}})
    assert {problem.variable for problem in error.value.problems} == {
        *(f"{name} of host h1" for name in bad),
        "cluster_compute_labels of host h2",
    }
