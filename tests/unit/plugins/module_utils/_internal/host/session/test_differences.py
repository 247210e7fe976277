# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container that differs from its plan is named with the options that differ, and nothing secret is shown."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session.differences import (
    differences,
)

PLANNED: dict[str, Any] = {
    "Image": "train:1",
    "Env": ["RANK=0", "TOKEN=secret"],
    "Cmd": ["python", "train.py", "--key=secret"],
    "HostConfig": {
        "CpuPeriod": 100000,
        "CpuQuota": 200000,
        "Memory": 1024**3,
        "ShmSize": 64 * 1024**2,
        "Mounts": [{"Type": "bind", "Source": "/srv/a", "Target": "/data", "ReadOnly": True}],
        "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]},
        "CapAdd": ["CHOWN", "IPC_LOCK"],
        "Devices": [{"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/fuse", "CgroupPermissions": "rwm"}],
        "DeviceRequests": [{"DeviceIDs": ["GPU-1"]}],
    },
}


def made(**options: Any) -> dict[str, Any]:
    """Return what the engine says of a container that was made as planned, with other *options* of its HostConfig."""
    host = {**copy.deepcopy(PLANNED["HostConfig"]), "CapAdd": ["CAP_IPC_LOCK", "CAP_CHOWN"], **options}
    config = {"Image": "train:1", "Env": ["PATH=/bin", *PLANNED["Env"]], "Cmd": PLANNED["Cmd"], "Entrypoint": None}
    return {"Image": "sha256:1", "Config": config, "HostConfig": host}


def test_what_is_as_planned_differs_in_nothing() -> None:
    assert differences(made(), PLANNED) == []
    assert differences(made(), {**PLANNED, "Image": "sha256:1"}) == []


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"Memory": 512 * 1024**2}, "memory: 512MiB, planned 1GiB"),
        ({"Memory": 0}, "memory: none, planned 1GiB"),
        ({"CpuQuota": 50000}, "CPUs: 0.5, planned 2"),
        ({"CpusetCpus": "0-1"}, "pinned CPUs: '0-1', planned none"),
        ({"ShmSize": 1024**2}, "shared memory: 1MiB, planned 64MiB"),
        ({"PortBindings": None}, "ports: none, planned *:8080->80/tcp"),
        ({"Mounts": None}, "mounts: none, planned /srv/a:/data:ro"),
        ({"CapAdd": ["CAP_CHOWN"]}, "capabilities: CHOWN, planned CHOWN IPC_LOCK"),
        ({"DeviceRequests": None}, "devices: /dev/fuse, planned /dev/fuse GPU-1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_each_option_is_named_with_both_values(options: dict[str, Any], wanted: str) -> None:
    assert differences(made(**options), PLANNED) == [wanted]


def test_commands_and_values_of_variables_are_not_shown() -> None:
    container = made()
    container["Config"].update(Image="other:1", Env=["RANK=0", "TOKEN=mine"], Cmd=["sh", "-c", "secret"])
    assert differences(container, {**PLANNED, "Entrypoint": ["/run"]}) == [
        "image: 'other:1', planned 'train:1'",
        "command",
        "entrypoint",
        "variables: TOKEN",
    ]


def test_what_the_engine_reports_is_printable() -> None:
    hostile = [{"Type": "bind", "Source": "/srv/\x1b[2J", "Target": "/data"}]
    assert "\x1b" not in differences(made(Mounts=hostile), PLANNED)[0]


def test_a_container_that_is_gone_differs_in_all() -> None:
    assert len(differences({}, PLANNED)) > 5
