# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Batch sessions end with their command, and with nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.core.job import batch_job
from ansible_collections.cluster_compute.session.plugins.module_utils.core.record import advance, new_record
from ansible_collections.cluster_compute.session.plugins.module_utils.core.request import parse_request
from ansible_collections.cluster_compute.session.plugins.plugin_utils.group_facts import GroupFacts

ID = "3614fdf3-6a1e-4f0e-9d4c-0f9d1f3c6a52"


def facts(status: str | None, code: int | None = None, problem: str = "") -> GroupFacts:
    """Return what two hosts say of a session that runs on one of them; status: of its batch command."""
    asked = {"session_name": "train", "session_image": "busybox", "session_batch_command": "train"}
    record = new_record(ID, "alice", parse_request(asked).to_dict())
    plan = {"session": {"id": ID, "name": "train"}, "hosts": {"h1": {}}, "replicas": [], "network": None}
    record = advance(record, "RUNNING", "Its replicas were started.", hosts=["h1"], plan=plan)
    one = {"job": batch_job(ID), "replica": "main1", "status": status, "exit_code": code}
    outcome = {**one, "timed_out": False, "stopped": False, "problem": problem}
    nothing: dict[str, Any] = {"records": [], "objects": {}, "reservations": [], "tombstones": [], "containers": []}
    here = {**nothing, "records": [record], "batches": {ID: outcome} if status else {}}
    return GroupFacts({"h1": here, "h2": {**nothing, "batches": {}}}, {}, ["h1", "h2"], [], {})


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (("ENDED", 0), "TERMINATED", "Its batch command has ended."),
        (("ENDED", 3), "ERROR", "Its batch command has ended. main1 on h1 ended with exit code 3."),
        (("LOST", None, "Gone."), "ERROR", "Its batch command has ended. main1 on h1: Gone."),
    ],
)
def test_a_session_ends_with_its_batch_command(outcome: tuple[Any, ...], status: str, reason: str) -> None:
    view = facts(*outcome).survey()
    assert (view.records[ID]["status"], view.records[ID]["report"]) == (status, [reason])
    assert view.changed == {ID: view.records[ID]}
    (removal,) = view.abandoned["h1"]
    assert (removal.keep_record, removal.revision) == (True, view.records[ID]["revision"])
    assert "h2" not in view.abandoned


@pytest.mark.parametrize("outcome", [("RUNNING",), (None,)])
def test_one_whose_command_still_runs_is_left_alone(outcome: tuple[Any, ...]) -> None:
    view = facts(*outcome).survey()
    assert view.records[ID]["status"] == "RUNNING"
    assert (view.changed, view.abandoned) == ({}, {})
