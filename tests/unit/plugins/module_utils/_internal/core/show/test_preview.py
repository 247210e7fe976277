# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preview of a launch: read off the launch's own plan, complete, and silent on what may be secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.filter.plan_preview import plan_preview
from ansible_collections.cluster_compute.session.plugins.filter.plan_table import SHOWN, plan_table
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    QueueTicket,
    advance,
    new_record,
    prepared,
    started,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import (
    PlanInputs,
    build_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Capacity,
    Host,
    Placement,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.preview import common
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed

SESSION = "aaaaaaaa-0e04-4a3c-9d2a-53a1f7b2c8aa"
GIB = 1024**3
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID0D3s8E9JWn04xEIs9iqqoeVlWJbCLHvqIY+zMlCfIT"


def answer_of(size: int = 3, hosts: int = 2, waited: bool = False, runs: bool = False) -> dict[str, Any]:
    """Return the last state of a launch for a session of *size* replicas of 1 CPU on hosts of 2 CPUs."""
    fields = {
        "name": "train",
        "image": "debian:12",
        "size": size,
        "memory": "1g",
        "env": "TOKEN=s3cret",
        "ports": "80:80",
        "mounts": [{"volume": "share", "target": "/data", "driver_options": {"type": "cifs", "o": "password=t0p"}}],
        "authorized_keys": KEY,
        "ssh_port": 40022,
        "max_duration": "2h",
    }
    request = parse_request({f"session_{key}": value for key, value in fields.items()})
    members = [Host(f"h{number}", Capacity(2000, 8 * GIB), Capacity(2000, 8 * GIB)) for number in range(1, hosts + 1)]
    placement = place(request, members)
    assert isinstance(placement, Placement)
    underlay = {"address": "192.0.2.1", "interface": "eth0", "mtu": 1500}
    plan = build_plan(
        request,
        placement,
        SESSION,
        PlanInputs(typed({host.name: {"underlay": underlay} for host in members}), Settings()),
    )
    record = new_record(SESSION, "alice", request.to_dict())
    if waited:
        record = advance(record, PENDING, "There was no room for it.", queue=QueueTicket(1))
    record = prepared(record, encode(plan))
    return {
        "session_name": "train",
        "status": "SCHEDULED",
        "fresh": not runs,
        "replaces": False,
        "reachable": [host.name for host in members],
        "hosts": list(plan.hosts),
        "fetches": ["h2"] if hosts > 1 else [],
        "record": encode(started(record) if runs else record),
        "outcome": {"report": ["Session train."]},
        "done": {},
    }


def previewed(answer: dict[str, Any], **done: list[str]) -> dict[str, Any]:
    """Return the preview of a launch that would do something on hosts; h1 and h2 were called."""
    return dict(plan_preview({**answer, "done": {**{name: [] for name in answer["reachable"]}, **done}}))


def test_every_replica_has_its_place_its_address_and_the_variables_it_would_have() -> None:
    found = previewed(answer_of(), h1=["make the keys"])
    assert json.loads(json.dumps(found)) == found
    assert [
        (replica["name"], replica["host"], replica["rank"], replica["local_rank"]) for replica in found["replicas"]
    ] == [
        ("main1", "h1", 0, 0),
        ("sub1", "h1", 1, 1),
        ("sub2", "h2", 2, 0),
    ]
    for replica in found["replicas"]:
        assert replica["address"].startswith("10.213.")
        assert replica["environment"]["BACKENDAI_CLUSTER_HOST"] == replica["name"]
        assert replica["environment"]["RANK"] == replica["environment"]["WORLD_RANK"] == str(replica["rank"])
        assert replica["own_variables"] == ["TOKEN"]
    assert found["network"]["driver"] == "vxlan"
    assert found["session_id"] == SESSION
    assert found["hosts"] == [
        {"name": "h1", "replicas": ["main1", "sub1"], "changes": ["make the keys"]},
        {"name": "h2", "replicas": ["sub2"], "changes": ["fetch the images that it lacks"]},
    ]


def test_no_value_of_the_user_s_own_variables_is_told() -> None:
    found = previewed(answer_of())
    assert not any(secret in json.dumps(found) for secret in ("s3cret", "t0p"))
    assert found["ssh_port"] == 40022
    lines = plan_table(found)
    assert not any(secret in "\n".join(lines) for secret in ("s3cret", "t0p"))
    assert f"Login of the owner: port 40022 of {found['replicas'][0]['host']}." in lines
    assert "Image debian:12: yet to be fetched on h1, h2." in lines
    assert "Variables of the request, whose values are not shown: TOKEN." in lines


def test_the_lines_tell_what_the_data_holds() -> None:
    found = previewed(answer_of(), h1=["make the keys"])
    lines = plan_table(found)
    assert lines[0] == "Session train."
    for replica in found["replicas"]:
        row = next(line.split() for line in lines if line.startswith(f"{replica['name']} "))
        assert row[1:4] == [replica["host"], replica["address"], replica["mac"]]
    assert "  make the keys" in lines
    assert "  WORLD_SIZE=3" in lines
    own = lines[lines.index("Variables of sub2:") :]
    assert "  RANK=2" in own
    assert any(line.startswith("Network: overlay 10.213.") for line in lines)
    assert any("0.0.0.0:80->80/tcp" in line for line in lines)
    assert "End: 2h after its start." in lines


@pytest.mark.parametrize(
    ("waited", "runs", "is_new"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_only_a_session_that_nobody_knows_yet_will_have_another_id(waited: bool, runs: bool, is_new: bool) -> None:
    found = previewed(answer_of(waited=waited, runs=runs))
    assert found["is_new"] is is_new
    assert any("draws a new id" in line for line in plan_table(found)) is is_new


def test_a_host_on_which_nothing_changes_is_said_to_be_so() -> None:
    lines = plan_table(previewed(answer_of(size=2, hosts=1, runs=True)))
    assert "Nothing changes on h1." in lines


def test_an_encrypted_network_is_said_to_be_so() -> None:
    found = previewed(answer_of())
    assert not any("encrypted" in line for line in plan_table(found))
    found["network"]["tunnel"] = {"port": 61000}
    assert any(line.startswith("Network: encrypted overlay 10.213.") for line in plan_table(found))


def test_one_that_waits_has_only_the_reason() -> None:
    pending = {**answer_of(), "status": "PENDING", "hosts": [], "fetches": [], "record": None}
    found = previewed({**pending, "outcome": {"report": ["It is PENDING.", "Largest size that fits now: 2."]}})
    assert found["replicas"] == found["hosts"] == []
    assert found["session_id"] is None
    assert plan_table(found) == ["It is PENDING.", "Largest size that fits now: 2."]


def test_the_variables_of_very_many_replicas_are_in_the_data_alone() -> None:
    size = SHOWN + 2
    lines = plan_table(previewed(answer_of(size=size, hosts=size)))
    assert sum(1 for line in lines if line.startswith("Variables of ")) == SHOWN + 2  # of all, of the request
    assert "Those of the other 2 replicas are in the data." in lines


def test_common_is_what_all_have_with_the_same_value() -> None:
    assert common([{"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}]) == {"a": "1"}
    assert common([]) == {}
