# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What came of a job, from what all hosts say of it."""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.plugins.action.session_jobs import judged

JOB = "0123456789ab"
PLAN = {"job": JOB, "session_id": "i", "session_name": "train", "command": "x", "on": {"main1": "h1", "sub1": "h2"}}


def answer(replica: str, status: str, code: int | None, problem: str = "") -> dict[str, Any]:
    """Return what a host says of a job in a replica."""
    one = {"job": JOB, "replica": replica, "status": status, "exit_code": code, "timed_out": False, "stopped": False}
    return {"jobs": [{**one, "problem": problem}], "sources": []}


def test_a_job_succeeds_where_all_replicas_do() -> None:
    found = judged(PLAN, {"h1": answer("main1", "ENDED", 0), "h2": answer("sub1", "ENDED", 0)})
    assert (found["outcome"]["status"], found["outcome"]["succeeded"], found["failures"]) == ("ENDED", True, [])
    found = judged(PLAN, {"h1": answer("main1", "ENDED", 0), "h2": answer("sub1", "RUNNING", None)})
    assert (found["outcome"]["status"], found["outcome"]["succeeded"], found["failures"]) == ("RUNNING", False, [])
    assert f"job_id={JOB}" in found["report"][-1]


def test_a_failure_is_named_with_its_last_lines() -> None:
    bad = answer("sub1", "ENDED", 3)
    bad["sources"] = [{"replica": "sub1", "job": JOB, "lines": [["t", "out", str(number)] for number in range(20)]}]
    found = judged(PLAN, {"h1": answer("main1", "ENDED", 0), "h2": bad})
    (failure,) = found["failures"]
    assert failure.splitlines()[0] == "sub1 on h2 ended with exit code 3."
    assert failure.splitlines()[1:] == [f"sub1 | {number}" for number in range(10, 20)]


def test_a_host_that_is_away_leaves_the_end_unknown() -> None:
    found = judged(PLAN, {"h1": answer("main1", "ENDED", 0), "h2": {"unreachable": True}})
    assert found["outcome"]["status"] == "UNKNOWN"
    assert found["failures"] == ["sub1 on h2: How the job ended is not known. The host cannot be reached."]
    lost = answer("sub1", "LOST", None, "Gone.")
    assert judged(PLAN, {"h1": answer("main1", "ENDED", 0), "h2": lost})["failures"] == ["sub1 on h2: Gone."]
