# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a launch hands on to what follows."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.cluster_compute.session.plugins.filter.session_artifact import FilterModule, session_artifact

REPLICA = {
    "name": "main1",
    "role": "main",
    "rank": 0,
    "host": "n1",
    "address": None,
    "container": "train-main1",
    "image": "debian:12",
    "image_id": "sha256:12",
    "mounts": [],
    "ports": [{"host_ip": "0.0.0.0", "host_port": 8080, "container_port": 80, "protocol": "tcp"}],
}
RECORD: dict[str, Any] = {
    "id": "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa",
    "owner": "alice",
    "request": {"roles": [{"replicas": 1, "env": {"TOKEN": "s3cret"}}]},
    "plan": {
        "session": {"mode": "single-node"},
        "ssh_port": 40022,
        "images": {"debian:12": {"digest": None, "ids": {"n1": "sha256:12"}}},
        "replicas": [{key: value for key, value in REPLICA.items() if key != "image_id"}],
    },
}
PLAN = {"session_name": "train", "record": RECORD, "pending": {**RECORD, "plan": None}, "hosts": ["n1"]}
GRANTED = {"verdict": "granted", "report": ["Session train: 1 replica."]}


def test_a_session_that_runs() -> None:
    found = session_artifact(PLAN, GRANTED, [{"name": "main1", "status": "RUNNING"}])
    assert (found["name"], found["id"], found["owner"]) == ("train", RECORD["id"], "alice")
    assert (found["status"], found["mode"], found["size"], found["hosts"]) == ("RUNNING", "single-node", 1, ["n1"])
    assert found["replicas"] == [
        {**{key: value for key, value in REPLICA.items() if key not in ("mounts", "ports")}, "status": "RUNNING"}
    ]
    assert found["ports"] == [{"replica": "main1", "host": "n1", **REPLICA["ports"][0]}]  # type: ignore[index, dict-item]
    assert (found["ssh_port"], found["report"]) == (40022, GRANTED["report"])
    assert "s3cret" not in json.dumps(found)


def test_a_session_that_is_only_planned() -> None:
    found = session_artifact(PLAN, GRANTED, [])
    assert (found["status"], [one["status"] for one in found["replicas"]]) == ("PLANNED", ["PLANNED"])


def test_a_session_that_waits_has_no_place() -> None:
    found = session_artifact(PLAN, {"verdict": "give back", "report": ["No room."]}, [])
    assert (found["status"], found["id"], found["size"], found["mode"]) == ("PENDING", RECORD["id"], 1, None)
    assert (found["hosts"], found["replicas"], found["ports"], found["report"]) == ([], [], [], ["No room."])
    assert found["ssh_port"] is None


def test_one_that_is_not_replaced_after_all_has_no_record() -> None:
    found = session_artifact({**PLAN, "record": None, "pending": None}, {"verdict": "pending", "report": []}, [])
    assert (found["status"], found["id"], found["owner"], found["size"]) == ("PENDING", None, None, None)


def test_ansible_finds_the_filter() -> None:
    assert FilterModule().filters() == {"session_artifact": session_artifact}
