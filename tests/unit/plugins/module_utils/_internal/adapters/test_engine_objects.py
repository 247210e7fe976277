# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the engine's answers mean; what labels tell, whoever wrote them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import engine_objects
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    Endpoint,
    Health,
    Labels,
    Runtime,
)
from ansible_collections.cluster_compute.session.tests.support.adapters.engine_server import (
    FILES,
    ID,
    OF_REPLICA,
)


@pytest.mark.parametrize(
    ("labels", "mounts", "expected"),
    [
        (OF_REPLICA, [FILES], True),
        (OF_REPLICA, [], False),
        (OF_REPLICA, [{**FILES, "Destination": "/data"}], False),
        # All that an image can bring: labels, and a volume.
        (OF_REPLICA, [{**FILES, "Type": "volume", "Source": "/var/lib/docker/volumes/x/_data"}], False),
        (OF_REPLICA, [{**FILES, "Type": "volume"}], False),
        ({**OF_REPLICA, engine_objects.LABEL_REPLICA: "main1"}, [FILES], False),
        ({**OF_REPLICA, engine_objects.LABEL_SESSION_ID: ID.replace("5", "6")}, [FILES], False),
        ({engine_objects.LABEL_SESSION_ID: ID}, [FILES], False),
        ({**OF_REPLICA, engine_objects.LABEL_SESSION_ID: "x"}, [FILES], False),
        ({**OF_REPLICA, engine_objects.LABEL_SESSION_ID: ""}, [{**FILES, "Source": "/sessions//replicas/sub1"}], False),
        ({}, [FILES], False),
    ],
)
def test_a_replica_bears_an_id_and_has_the_files_of_a_session(
    labels: dict[str, str], mounts: list[dict[str, str]], expected: bool
) -> None:
    assert engine_objects.read_container({"Labels": labels, "Mounts": mounts}).is_replica is expected
    assert not engine_objects.read_container({"Labels": labels, "Mounts": None}).is_replica


def test_every_label_of_ours_is_set_on_a_container() -> None:
    """The engine adds the labels of an image that a container does not set."""
    ours = {getattr(engine_objects, name) for name in vars(engine_objects) if name.startswith("LABEL_")}
    assert dict.fromkeys(ours, "") == engine_objects.NO_LABELS
    assert len(ours) == 11


@pytest.mark.parametrize(
    ("text", "number"), [("1500", 1500), ("", 0), ("lots", 0), ("-1", 0), ("1.5", 0), ("9" * 30, 0)]
)
def test_a_label_that_holds_no_number_counts_nothing(text: str, number: int) -> None:
    assert Labels({"name": text}).number("name") == number
    assert Labels({}).number("name") == 0


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"gpu": 3}', '{"gpu": null}', "[" * 100_000])
def test_a_label_that_holds_no_devices_tells_none(text: str) -> None:
    assert Labels({engine_objects.LABEL_DEVICES: text}).devices == ()


def test_devices_of_a_label() -> None:
    held = {engine_objects.LABEL_DEVICES: '{"tpu":["/dev/t"],"gpu":["GPU-1","GPU-2"]}'}
    assert Labels(held).devices == (("gpu", ("GPU-1", "GPU-2")), ("tpu", ("/dev/t",)))
    assert Labels({}).devices == ()


def test_what_is_used_of_a_listed_container() -> None:
    """As Docker Engine 26.1.5 lists one that runs, and one that is being removed."""
    listed = {
        "Id": "c1",
        "Names": ["/demo-main1"],
        "ImageID": "sha256:1",
        "Created": 7,
        "State": "running",
        "Status": "Up 2 seconds (health: starting)",
        "Labels": OF_REPLICA,
        "Ports": [{"IP": "::", "PublicPort": 8080, "PrivatePort": 80, "Type": "tcp"}, {"PrivatePort": 22}],
        "NetworkSettings": {
            "Networks": {"n": {"NetworkID": "n1", "IPAddress": "10.0.0.2", "MacAddress": "m", "Gateway": "10.0.0.1"}}
        },
    }
    found = engine_objects.read_container(listed)
    assert (found.id, found.name, found.image, found.created) == ("c1", "demo-main1", "sha256:1", 7)
    assert (found.runs, found.state, found.replica, found.labels.session_id) == (True, "running", "sub1", ID)
    assert "starting" in found.status
    assert found.ports == (("::", 8080, "tcp"),)
    assert found.endpoints == {"n": Endpoint("n1", "10.0.0.2", "m", "10.0.0.1")}
    gone = engine_objects.read_container({"Id": "c2", "Names": None, "Labels": None, "State": "removing"})
    assert (gone.name, gone.runs, gone.ports, gone.endpoints, gone.labels.session_id) == ("", False, (), {}, "")


def test_what_is_used_of_a_described_container() -> None:
    described: dict[str, Any] = {
        "State": {
            "Status": "paused",
            "Running": True,
            "Pid": 9,
            "Health": {"Status": "unhealthy", "FailingStreak": 3, "Log": [{"Output": "a"}, {"Output": None}]},
        },
        "Config": {"Hostname": "main1", "Env": ["A=1"], "Healthcheck": {"Interval": 5}, "Cmd": None},
        "HostConfig": {"Mounts": [{"Target": "/data"}], "Init": None, "Runtime": "runc"},
        "GraphDriver": {"Data": {"UpperDir": "/up"}},
        "NetworkSettings": {
            "Networks": {"n": {"DriverOpts": {engine_objects.OPTION_IFNAME: "eth1"}}, "m": {"DriverOpts": None}}
        },
        "Mounts": [
            {"Type": "volume", "Destination": "/data", "Source": "/v/1"},
            {"Type": "volume", "Destination": "/of-image", "Source": "/v/2"},
            {"Type": "bind", "Destination": "/etc/x", "Source": "/x"},
        ],
    }
    found = engine_objects.read_inspected(described)
    assert (found.status, found.runs, found.pid, found.exit_code) == ("paused", True, 9, None)
    assert (found.health, found.interval) == (Health("unhealthy", 3, ("a", "")), 5)
    assert (found.hostname, found.environment, found.command) == ("main1", ("A=1",), ())
    assert (found.init, found.runtime, found.layer, found.merged) == (False, "runc", "/up", "")
    assert found.image_volumes == (("/of-image", "/v/2"),)
    assert {name: endpoint.interface for name, endpoint in found.endpoints.items()} == {"n": "eth1", "m": ""}
    assert engine_objects.read_inspected({}).health is None
    assert engine_objects.read_inspected({"State": {"Health": {}}}).health is None


@pytest.mark.parametrize(
    ("status", "store"),
    [
        ([["Backing Filesystem", "xfs"], ["Supports d_type", "true"]], "docker"),
        ([["driver-type", "io.containerd.snapshotter.v1"]], "containerd"),
        (None, "docker"),
    ],
)
def test_what_is_used_of_an_engine(status: list[list[str]] | None, store: str) -> None:
    runtimes = {"runc": {"path": "runc"}, "own": {"path": "/r", "runtimeArgs": ["-x"]}, "shim": {"runtimeType": "io.x"}}
    told = {"ServerVersion": "26.1.5", "NCPU": 2, "MemTotal": 1, "Runtimes": runtimes, "DriverStatus": status}
    found = engine_objects.read_info(told, "1.45")
    assert (found.version, found.api_version, found.cpus) == ("26.1.5", "1.45", 2000)
    assert found.runtimes == {"runc": Runtime("runc"), "own": Runtime("/r", ("-x",)), "shim": Runtime("")}
    assert (found.image_store, found.backing) == (store, "xfs" if store == "docker" and status else "")
