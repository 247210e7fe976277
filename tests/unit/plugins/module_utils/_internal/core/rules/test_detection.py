# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Accelerators that a host detects: what its tools print, and what a site may mix."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.detection import (
    CdiDevice,
    detected_classes,
    different_devices,
    parse_nvidia,
    parse_nvidia_models,
    parse_site_devices,
    read_cdi,
)
from ansible_collections.cluster_compute.session.tests.support.recorded_nvidia import (
    CARDS_AND_INSTANCES,
    SEVEN_INSTANCES,
    TWO_CARDS,
    TWO_INSTANCES,
)

OLDER = """GPU 0: A100-SXM4-40GB (UUID: GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0)
  MIG 3g.20gb Device 0: (UUID: MIG-GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0/1/0)
  MIG 3g.20gb Device 1: (UUID: MIG-GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0/2/0)
"""
"""As drivers before 470 are documented to list instances: none of those was found recorded."""


def test_models_and_drivers() -> None:
    """In the form of `nvidia-smi --query-gpu=name,driver_version --format=csv,noheader`."""
    output = "NVIDIA A100-SXM4-80GB, 535.104.05\nNVIDIA L4, 535.104.05\n"
    assert parse_nvidia_models(output) == [
        {"model": "NVIDIA A100-SXM4-80GB", "driver": "535.104.05"},
        {"model": "NVIDIA L4", "driver": "535.104.05"},
    ]
    assert parse_nvidia_models("Failed to initialize NVML: Driver/library version mismatch\n") == []


def test_cards_and_instances_by_uuid() -> None:
    assert parse_nvidia(TWO_CARDS) == [
        "GPU-c7b57be0-94ff-d352-a59b-d0ee00aeed43",
        "GPU-d6de6afc-bdfe-75c4-5273-0544439153fc",
    ]
    assert parse_nvidia(TWO_INSTANCES) == [
        "MIG-0929581a-2be6-5dec-bf34-0954c6c529a6",
        "MIG-3adbed3a-d03d-549f-a016-ba1fd7359f23",
    ]
    seven = parse_nvidia(SEVEN_INSTANCES)
    assert len(set(seven)) == 7
    assert all(name.startswith("MIG-") for name in seven)
    assert parse_nvidia(CARDS_AND_INSTANCES) == [
        "MIG-ce861fb0-a248-58ce-a9a8-f9adbc22a66a",
        "MIG-a45882f0-9215-5733-a0c1-49286ab31cb5",
        "MIG-f00d722c-f4e1-52c9-aa31-750441ae1bfe",
        "MIG-930574a9-d43a-5d2b-95da-3e68384c8d6b",
        "GPU-d8594bd4-0fc3-8595-e355-7c98138f3b95",
        "GPU-5e375e7e-b41f-155b-dcdc-534524c356fc",
        "GPU-69ec2344-ebac-b028-f88f-452abb3d7f11",
    ]
    card = "MIG-GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0"
    assert parse_nvidia(OLDER) == [f"{card}/1/0", f"{card}/2/0"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found\n",
        "No devices found.\n",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.144\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
        "NVIDIA driver is installed and running.\n",
        "  MIG 3g.20gb Device 0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n",
    ],
)
def test_what_lists_no_card(text: str) -> None:
    assert parse_nvidia(text) == []


def _specification(**devices: list[dict[str, str]] | None) -> dict[str, Any]:
    return {
        "cdiVersion": "0.6.0",
        "kind": "vendor.com/card",
        "devices": [{"name": name, "containerEdits": {"deviceNodes": nodes}} for name, nodes in devices.items()],
        "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]},
    }


def test_devices_of_a_cdi_specification() -> None:
    first, second = {"path": "/dev/card0"}, {"path": "/dev/card1", "hostPath": "/dev/real1"}
    shared = {"path": "/dev/control"}
    found = read_cdi(
        _specification(
            **{
                "all": [shared, first, second],
                "pair": [first, second, shared],
                "0": [shared, first],
                "uuid-0": [first, shared],
                "1": [second],
                "2": None,
            }
        ),
        "vendor.com/card",
    )
    assert different_devices(found) == [
        CdiDevice("vendor.com/card=0", frozenset({"/dev/control", "/dev/card0"})),
        CdiDevice("vendor.com/card=1", frozenset({"/dev/real1"})),
        CdiDevice("vendor.com/card=2", frozenset()),
    ]
    assert read_cdi(_specification(a=[first]), "vendor.com/other") == []


def test_of_one_name_the_later_specification_counts() -> None:
    name = "vendor.com/card=0"
    assert different_devices([CdiDevice(name, frozenset("a")), CdiDevice(name, frozenset("b"))]) == [
        CdiDevice(name, frozenset("b"))
    ]


@pytest.mark.parametrize(
    ("specification", "problem"),
    [
        ([], "it has no kind"),
        ({}, "it has no kind"),
        ({"kind": "vendor.com/card", "devices": {}}, "its devices are not a list"),
        ({"kind": "vendor.com/card", "devices": [7]}, "its devices are not a list"),
        ({"kind": "vendor.com/card", "devices": [{"containerEdits": {}}]}, "a device has no name"),
        (_specification(a=[7]), "its deviceNodes are not a list"),  # type: ignore[list-item]
        ({"kind": "vendor.com/card", "devices": [{"name": "0", "containerEdits": [7]}]}, "its containerEdits are no"),
    ],
)
def test_malformed_specifications(specification: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_cdi(specification, "vendor.com/card")


def _devices(value: object, has_cdi: bool = True, **found: Any) -> Any:
    return parse_site_devices(value, found, has_cdi, "26.1.5")


def test_kinds_that_share_devices_are_refused() -> None:
    declared = {"card": {"cdi": "vendor.com/card"}, "render": {"cdi": "vendor.com/render"}}
    card = {"names": ["vendor.com/card=0"], "paths": {"vendor.com/card=0": ["/dev/c0", "/dev/r0"]}}
    render = {"names": ["vendor.com/render=0"], "paths": {"vendor.com/render=0": ["/dev/r0"]}}
    for own, other in ((card, render), (render, card)):
        with pytest.raises(ValueError, match="share their files"):
            _devices(declared, card=own, render=other)
    render["paths"] = {"vendor.com/render=0": ["/dev/r1", "/dev/c0"]}
    assert len(_devices(declared, card=card, render=render)) == 2
    render["paths"] = {"vendor.com/render=0": []}
    assert len(_devices(declared, card=card, render=render)) == 2


def test_classes_are_declared_or_detected() -> None:
    declared = {"gpu": "nvidia", "fpga": {"cdi": " vendor.com/fpga "}, "card": ["/dev/a"], "wrong": "amd", "odd": 7}
    assert detected_classes(declared) == {"gpu": "nvidia", "fpga": "vendor.com/fpga"}
    assert detected_classes("nvidia") == detected_classes(None) == {}
    del declared["wrong"], declared["odd"]
    found: dict[str, Any] = {"gpu": {"names": ["GPU-1", "GPU-2"], "paths": {}}, "fpga": {"names": [], "paths": {}}}
    assert _devices(declared, **found) == (("card", ("/dev/a",)), ("gpu", ("GPU-1", "GPU-2")))
    assert _devices(declared) == (("card", ("/dev/a",)),), "a host that was not asked"
    assert _devices({"x": ["vendor.com/x=a-1", "vendor.com/x=b"]}) == (("x", ("vendor.com/x=a-1", "vendor.com/x=b")),)


@pytest.mark.parametrize(
    "value",
    [
        "nvidia",
        {"gpu": "amd"},
        {"gpu": True},
        {"gpu": {"cdi": "vendor"}},
        {"gpu": {"cdi": 7}},
        {"gpu": {"cdi": "vendor.com/x=1"}},
        {"gpu": {"cdi": "vendor.com/x", "more": 1}},
        {"gpu": ["vendor.com/x"]},
        {"gpu": ["vendor.com/x="]},
        {"gpu": ["vendor.com/x=1", "vendor.com/x=1"]},
    ],
)
def test_what_is_neither(value: object) -> None:
    with pytest.raises(ValueError, match=r"Or have the host detect a class: nvidia, or {cdi: vendor\.com/class}"):
        _devices(value)


@pytest.mark.parametrize("value", [{"x": {"cdi": "vendor.com/x"}}, {"x": ["/dev/a", "vendor.com/x=1"]}])
def test_cdi_needs_an_engine_that_hands_it_over(value: object) -> None:
    _devices(value)
    with pytest.raises(
        ValueError, match=re.escape("Docker Engine, 26.1.5, does not support CDI devices. That needs 25.0")
    ):
        _devices(value, has_cdi=False)
    assert _devices({"gpu": "nvidia", "x": ["/dev/a"]}, has_cdi=False) == (("x", ("/dev/a",)),)


def test_no_card_by_two_names() -> None:
    found = {"names": ["vendor.com/x=1"], "paths": {"vendor.com/x=1": ["/dev/control", "/dev/x1"]}}
    names = {"x": {"cdi": "vendor.com/x"}, "y": ["/dev/control+/dev/x2"]}
    _devices(names, x=found)
    for declared in ("/dev/x1", "/dev/x1+/dev/control", "/dev/control+/dev/x1+/dev/z"):
        with pytest.raises(ValueError, match=r"is what the CDI device vendor.com/x=1 consists of. Name it one way."):
            _devices({**names, "y": [declared]}, x=found)
    link = {"names": [], "links": {"/dev/by-id/x": "/dev/x1"}}
    with pytest.raises(ValueError, match=r"/dev/by-id/x is what the CDI device vendor.com/x=1 consists of"):
        _devices({**names, "y": ["/dev/by-id/x"]}, x=found, y=link)
    twice = {"a": ["/dev/x1"], "b": ["/dev/by-id/x+/dev/x2"]}
    _devices(twice)
    with pytest.raises(ValueError, match=r"/dev/x1 and /dev/by-id/x\+/dev/x2 are the same device"):
        _devices(twice, b=link)
    _devices({"a": ["/dev/x2+/dev/by-id/x", "/dev/x3+/dev/by-id/x"]}, a=link)
    with pytest.raises(ValueError, match="known by UUID and by CDI name"):
        _devices({"gpu": "nvidia", "other": ["nvidia.com/gpu=0"]}, gpu={"names": ["GPU-1"]})
