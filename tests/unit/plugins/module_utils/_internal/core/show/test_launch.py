# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a launch hands on to what follows, and its table for people."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.launch import (
    artifact,
    table_of,
)
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan

REPLICA: dict[str, Any] = {
    "name": "main1",
    "role": "main",
    "rank": 0,
    "host": "n1",
    "address": None,
    "container": "train-main1",
    "image": "debian:12",
    "mounts": [],
    "ports": [{"host_ip": "0.0.0.0", "host_port": 8080, "container_port": 80, "protocol": "tcp"}],
}
RECORD: dict[str, Any] = {
    "id": "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa",
    "owner": "alice",
    "request": {"roles": [{"replicas": 1, "env": {"TOKEN": "s3cret"}}]},
    "plan": encode(
        typed_plan(
            {
                "session": {"name": "train", "mode": "single-node", "resource_group": "cluster_compute_hosts"},
                "ssh_port": 40022,
                "images": {"debian:12": {"digest": None, "ids": {"n1": "sha256:12"}}},
                "replicas": [REPLICA],
            }
        )
    ),
}
STATE = {"session_name": "train", "record": RECORD, "pending": {**RECORD, "plan": None}, "hosts": ["n1"]}


def test_a_session_that_runs_or_is_planned() -> None:
    found = encode(artifact(STATE, "RUNNING", ["Session train: 1 replica."]))
    assert (found["name"], found["id"], found["owner"]) == ("train", RECORD["id"], "alice")
    assert (found["status"], found["mode"], found["size"], found["hosts"]) == ("RUNNING", "single-node", 1, ["n1"])
    shown = {key: value for key, value in REPLICA.items() if key not in ("mounts", "ports")}
    assert found["replicas"] == [{**shown, "image_id": "sha256:12", "status": "RUNNING"}]
    assert found["ports"] == [{"replica": "main1", "host": "n1", **REPLICA["ports"][0]}]
    assert (found["ssh_port"], found["report"]) == (40022, ["Session train: 1 replica."])
    assert "s3cret" not in json.dumps(found)
    planned = encode(artifact(STATE, "PLANNED", []))
    assert (planned["status"], [replica["status"] for replica in planned["replicas"]]) == ("PLANNED", ["PLANNED"])


def test_a_session_that_waits_has_no_place_and_one_that_is_not_replaced_no_record() -> None:
    found = encode(artifact(STATE, "PENDING", ["No room."]))
    assert (found["status"], found["id"], found["size"], found["mode"]) == ("PENDING", RECORD["id"], 1, None)
    assert (found["hosts"], found["replicas"], found["ports"], found["report"]) == ([], [], [], ["No room."])
    assert found["ssh_port"] is None
    found = encode(artifact({**STATE, "record": None, "pending": None}, "PENDING", []))
    assert (found["status"], found["id"], found["owner"], found["size"]) == ("PENDING", None, None, None)


def record(**plan: Any) -> dict[str, Any]:
    """Return a record of two replicas without a login of the owner's."""
    other = {"name": "sub1", "host": "node-b", "address": "10.213.0.3", "rank": 1, "container": "train-sub1"}
    return {"plan": encode(typed_plan({**RECORD["plan"], "ssh_port": None, "replicas": [REPLICA, other], **plan}))}


def test_rows_are_aligned_and_in_rank_order() -> None:
    assert table_of(record(), [{"name": "sub1", "status": "RUNNING"}]) == [
        "REPLICA  HOST    ADDRESS     RANK  STATUS",
        "main1    n1      -           0     PLANNED",
        "sub1     node-b  10.213.0.3  1     RUNNING",
        "Log in on n1: docker exec -it train-main1 /bin/sh",
    ]
    assert table_of({"plan": None}, []) == table_of(None, []) == []


def test_the_owner_is_told_of_the_login() -> None:
    last = table_of(record(ssh_port=22017), [])[-1]
    command = "ansible-playbook cluster_compute.session.login -e session_name=train"
    assert last == f"Log in with your key, port 22017 of n1: {command}"
    elsewhere = {**RECORD["plan"]["session"], "resource_group": "pool"}
    assert table_of(record(ssh_port=22017, session=elsewhere), [])[-1] == f"{last} -e session_resource_group=pool"
