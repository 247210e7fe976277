# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which session's output is meant where hosts know several of a name."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.action.session_logs import chosen
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils.core.output import batch_job

OLD, NEW, NOW = (f"00000000-0000-4000-8000-00000000000{number}" for number in range(3))


def known(*sessions: tuple[str, str, float | None]) -> dict[str, Any]:
    """Return what a host says: id, status of its record, end of what it keeps."""
    return {
        "sessions": [
            {"id": a, "status": b, "ended": c, "replicas": {}, "members": {}, "jobs": {}} for a, b, c in sessions
        ]
    }


def choose(results: dict[str, Any], session_id: str = "") -> dict[str, Any]:
    """Return what is chosen."""
    request = {"session_id": session_id, "replicas": [], "job": ""}
    return chosen({"results": results, "session_name": "train", "resource_group": "all", "request": request})


def test_one_that_is_recorded_comes_before_those_that_ended() -> None:
    found = choose({"h1": known((OLD, "", 9.0)), "h2": known((NOW, "RUNNING", None), (NEW, "", 20.0))})
    assert (found["session_id"], found["hosts"]) == (NOW, ["h2"])


def test_else_the_one_that_ended_last() -> None:
    found = choose({"h1": known((OLD, "", 9.0), (NEW, "", 19.0)), "h2": known((NEW, "", 20.0)), "h3": known()})
    assert (found["session_id"], found["hosts"]) == (NEW, ["h1", "h2"])
    assert found["notes"][0] == f"Session train ({NEW}) ended at 1970-01-01T00:00:20Z."


def test_one_that_waits_or_has_ended_says_so() -> None:
    assert choose({"h1": known((NOW, "PENDING", None))})["notes"] == [
        f"Session train ({NOW}) waits in the queue, so nothing of it runs."
    ]
    for status in ("ERROR", "TERMINATED"):
        found = choose({"h1": known((NOW, status, 20.0)), "h2": known((NOW, status, None))})
        assert found["notes"] == [f"Session train ({NOW}) ended at 1970-01-01T00:00:20Z."]
    assert choose({"h1": known((NOW, "RUNNING", None)), "h2": known((NOW, "", 20.0))})["notes"] == []


def test_a_batch_command_is_that_of_the_session_that_is_meant() -> None:
    job = batch_job(OLD)
    old = {**known((OLD, "", 9.0))["sessions"][0], "jobs": {job: {"on": {"main1": "h1"}, "command": ["train"]}}}
    request = {"session_id": "", "replicas": [], "job": "batch"}
    asked = {"session_name": "train", "resource_group": "all", "request": request}
    assert chosen({**asked, "results": {"h1": {"sessions": [old]}}}, "job_id")["session_id"] == OLD
    for status, why in (("PENDING", "is not started yet"), ("RUNNING", "No host that answered has started a batch")):
        here = {"sessions": [old, *known((NOW, status, None))["sessions"]]}
        with pytest.raises(InvalidInput, match=rf"job_id is 'batch': .*{why}.*h2: .* It could not be reached\."):
            chosen({**asked, "results": {"h1": here, "h2": {"unreachable": True}}}, "job_id")


def test_a_host_that_is_away_is_named() -> None:
    found = choose({"h1": known((NOW, "RUNNING", None)), "h2": {"unreachable": True}})
    assert found["notes"] == ["h2: What its replicas wrote is missing. It could not be reached."]


def test_a_session_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"session_name is 'train'.*resource group all has no such session"):
        choose({"h1": known()})
    with pytest.raises(InvalidInput, match=r"logs_session_id is .*h1: .* No engine\."):
        choose({"h1": {"msg": "No engine."}}, OLD)


def test_a_job_that_no_session_has_is_refused_by_name() -> None:
    request = {"session_id": "", "replicas": [], "job": "0123456789ab"}
    asked = {"session_name": "train", "resource_group": "all", "request": request}
    with pytest.raises(InvalidInput, match=r"logs_job is '0123456789ab': Session train has no such job. It has none."):
        chosen({**asked, "results": {"h1": known((NOW, "RUNNING", None))}})
