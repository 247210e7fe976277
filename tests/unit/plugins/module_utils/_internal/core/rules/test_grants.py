# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans that a host did not keep itself: nothing is made by one that gives more than the site grants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import (
    PlanInputs,
    build_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.grants import check_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Placement,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidPlan
from ansible_collections.cluster_compute.session.tests.support.core.rules.examples import (
    SESSION,
    make_facts,
    make_request,
    path_facts,
)
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed

GRANTED: dict[str, Any] = {"roots": {"/a": "", "/srv": ""}, "drivers": ["local"], "devices": (("gpu", ("/dev/g0",)),)}
INVENTORY = {"cluster_compute_mount_roots": ["/a", "/srv"], "cluster_compute_accelerators": {"gpu": ["/dev/g0"]}}


def plain_plan() -> dict[str, Any]:
    """Return the plan of a session with a folder, a volume, an accelerator and a capability, on one host."""
    wanted = make_request(
        cpus=2, accelerators="gpu=1", mounts=["/srv/data:/data", "scratch:/scratch"], capabilities="IPC_LOCK"
    )
    facts = make_facts(1, paths={"/srv/data": path_facts("/srv/data")})
    hosts = hosts_from_facts(typed(facts), {"h1": INVENTORY}, wanted.name)
    placement = place(wanted, hosts)
    assert isinstance(placement, Placement), placement
    free = {host.name: host.free_devices for host in hosts}
    plan = build_plan(wanted, placement, SESSION, PlanInputs(typed(facts), Settings(), free, {"h1": INVENTORY}))
    return dict(encode(plan))


def test_what_the_site_grants_may_be_made() -> None:
    check_plan(plain_plan(), "h1", **GRANTED)


@pytest.mark.parametrize(
    ("less", "why"),
    [
        ({"roots": {}}, r"below '/srv' on h1, which its cluster_compute_mount_roots do not have"),
        # A root of the plan may be a link that a user has made below one of the site's.
        ({"roots": {"/": "", "/srv/data": ""}}, r"below '/srv' on h1"),
        ({"roots": {"/srv": "/srv/state (the state)"}}, r"would show '/srv/state \(the state\)'"),
        ({"drivers": []}, r"a volume of 'local' on h1, which its cluster_compute_volume_drivers do not have"),
        ({"devices": (("gpu", ("/dev/g1",)),)}, r"gives main1 the 'gpu' '/dev/g0' of h1"),
        ({"devices": (("tpu", ("/dev/g0",)),)}, r"gives main1 the 'gpu' '/dev/g0' of h1"),
        ({"devices": ()}, r"cluster_compute_accelerators do not have"),
    ],
)
def test_what_the_site_does_not_grant_any_more_is_refused_by_name(less: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidPlan, match=why) as error:
        check_plan(plain_plan(), "h1", **{**GRANTED, **less})
    assert str(error.value).endswith("tear the session down and launch it again.")


def _mount(plan: dict[str, Any], **changes: Any) -> None:
    """Change the first mount of a plan, and all in it that follows from that."""
    (role,) = plan["replicas"]
    mounts = [{**plan["request"]["mounts"][0], **changes}, *plan["request"]["mounts"][1:]]
    plan["request"]["mounts"], role["mounts"] = mounts, mounts
    host = plan["hosts"]["h1"]
    host["data"] = {mount["source"]: {"filesystem": "ext4", "proof": None} for mount in mounts if mount["source"]}


def _root(plan: dict[str, Any]) -> None:
    _mount(plan, source="/")
    plan["hosts"]["h1"]["mount_roots"] = ["/"]


def _escape(plan: dict[str, Any]) -> None:
    _mount(plan, source="/srv/../etc")


def _own_files(plan: dict[str, Any]) -> None:
    _mount(plan, target="/etc/cluster-compute")


def _disk(plan: dict[str, Any]) -> None:
    options = {"type": "none", "o": "bind", "device": "/"}
    _mount(plan, source=None, volume="other", driver="local", driver_options=options)
    plan["hosts"]["h1"]["mount_roots"] = []


def _server(plan: dict[str, Any]) -> None:
    options = {"type": "nfs", "o": "addr=192.0.2.9", "device": ":/"}
    _mount(plan, source=None, volume="other", driver="local", driver_options=options)
    plan["hosts"]["h1"]["mount_roots"] = []


def _capability(plan: dict[str, Any]) -> None:
    plan["request"]["roles"][0]["capabilities"] = plan["replicas"][0]["capabilities"] = ["SYS_ADMIN"]


def _only_the_replica(plan: dict[str, Any]) -> None:
    plan["replicas"][0]["capabilities"] = ["SYS_ADMIN"]


def _device(plan: dict[str, Any]) -> None:
    plan["replicas"][0]["devices"] = {"gpu": ["/dev/sda"]}


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (_root, r"below '/' on h1, which its cluster_compute_mount_roots do not have"),
        (_escape, "It must not hold '..'"),
        (_own_files, "It would hide /etc/cluster-compute"),
        (_disk, "others reach folders or disks of the host itself"),
        (_server, r"a volume of 'local:nfs' on h1"),
        (_capability, "A session can be given IPC_LOCK, NET_RAW, SYS_NICE, SYS_PTRACE, no others"),
        (_only_the_replica, r"replica main1.capabilities is"),
        (_device, r"gives main1 the 'gpu' '/dev/sda' of h1"),
    ],
)
def test_a_forged_plan_is_refused(forge: Callable[[dict[str, Any]], None], why: str) -> None:
    plan = plain_plan()
    forge(plan)
    with pytest.raises(InvalidPlan, match=why):
        check_plan(plan, "h1", **GRANTED)
