# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an engine is told of the accelerators, CPUs and limits of a replica."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import Replica, Share
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import PINNED
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session.containers import (
    _devices,
    _ulimits,
)

NO_DEVICES = {"Devices": [], "DeviceRequests": [], "CpusetCpus": "", "CpusetMems": ""}
UUID = "GPU-c7b57be0-94ff-d352-a59b-d0ee00aeed43"


REPLICA = Replica(
    *("main1", "main", 1, 0, "h1", 0, 0, "id", None, None, "demo-main1", "busybox", Share(1000, 1, 1, {}, False)),
    *({}, (), None, (), None, (), ()),
)


def replica(nodes: tuple[int, ...] = (), **devices: tuple[str, ...]) -> Replica:
    """Return the plan's entry of a replica."""
    return replace(REPLICA, devices=devices, memory_nodes=nodes)


def test_device_files_are_handed_over_by_name_and_each_once() -> None:
    settings = _devices(replica(card=("/dev/kfd+/dev/dri/renderD128", "/dev/kfd+/dev/dri/renderD129")))
    assert [device["PathOnHost"] for device in settings["Devices"]] == [
        "/dev/kfd",
        "/dev/dri/renderD128",
        "/dev/dri/renderD129",
    ]
    assert all(device["PathOnHost"] == device["PathInContainer"] for device in settings["Devices"])
    assert {device["CgroupPermissions"] for device in settings["Devices"]} == {"rwm"}
    assert settings["DeviceRequests"] == []


def test_detected_cards_are_asked_for_by_their_own_names() -> None:
    settings = _devices(replica(gpu=(UUID,), card=("example.com/card=zero",)))
    assert settings == {
        **NO_DEVICES,
        "DeviceRequests": [
            {"Driver": "nvidia", "DeviceIDs": [UUID], "Capabilities": [["gpu"]]},
            {"Driver": "cdi", "DeviceIDs": ["example.com/card=zero"]},
        ],
    }


def test_pinned_cpus_bring_the_memory_of_their_nodes() -> None:
    settings = _devices(replica((0, 1), **{PINNED: ("0", "4")}))
    assert (settings["CpusetCpus"], settings["CpusetMems"]) == ("0,4", "0,1")
    assert _devices(replica()) == NO_DEVICES


def test_a_limit_of_locked_memory_is_soft_and_hard() -> None:
    assert _ulimits(replica()) == []
    assert _ulimits(replace(replica(), memlock=65536)) == [{"Name": "memlock", "Soft": 65536, "Hard": 65536}]
