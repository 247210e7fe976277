# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs: what is asked for, and in which replicas it runs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.output import (
    JobRequest,
    SessionCopy,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.job import (
    describe,
    parse_job_request,
    plan_job,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput

JOB = "0123456789ab"


def ask(**fields: Any) -> JobRequest:
    """Return what these variables ask for; their names are without the prefix."""
    return parse_job_request({f"job_{key}": value for key, value in fields.items()})


def refused(**fields: Any) -> list[str]:
    """Return the variables that are wrong."""
    with pytest.raises(InvalidInput) as error:
        ask(**fields)
    return sorted(problem.variable for problem in error.value.problems)


def test_text_is_for_the_shell_and_a_list_is_not() -> None:
    assert ask(command="a | b").command == ("/bin/sh", "-c", "a | b")
    assert ask(command="cd a\r\nb\r\n").command == ("/bin/sh", "-c", "cd a\nb\n"), "as browsers write lines"
    assert ask(command=["seq", 3]).command == ("seq", "3")
    assert describe(ask(command="a | b").command) == "a | b"
    assert describe(["echo", "a b"]) == "echo 'a b'"


def test_everything_is_read_from_text_as_a_survey_has_it() -> None:
    found = ask(
        command="x", on="main1, sub", timeout="1h30m", detach="yes", env="A=1\nB=2", user="1000:100", directory="/a"
    )
    assert (found.on, found.timeout, found.detach) == (("main1", "sub"), 5400, True)
    assert (found.env, found.user, found.directory) == ({"A": "1", "B": "2"}, "1000:100", "/a")
    assert ask(command="x", on="", timeout=" ", env=None) == ask(command="x")


def test_what_is_wrong_is_said_at_once_and_no_value_of_the_environment() -> None:
    assert refused() == ["job_command"]
    assert refused(command=[]) == ["job_command"]
    assert refused(command="x", id=JOB) == ["job_id"]
    assert refused(id=JOB, timeout="1m", on="all") == ["job_on", "job_timeout"]
    assert refused(command="x", stop=True) == ["job_stop"]
    assert refused(id="../../x") == ["job_id"]
    assert refused(command="x", timeout="2026-01-01", on="A", user="a b", directory="here", comand="y") == sorted(
        ["job_timeout", "job_on", "job_user", "job_directory", "job_comand"]
    )
    with pytest.raises(InvalidInput) as error:
        ask(command="x", env={"MASTER_PORT": "hush", "B": 1.5, "C": "\0hush"})
    assert "hush" not in str(error.value)
    assert len(error.value.problems) == 3


def known(*, status: str = "RUNNING", **members: dict[str, str]) -> dict[str, SessionCopy]:
    """Return what hosts say of a session, given the replicas of each."""
    hosts = tuple(sorted(members))
    return {host: SessionCopy("", status, hosts=hosts, members=some) for host, some in members.items()}


READY = known(h1={"main1": "running"}, h2={"sub1": "running", "sub2": "running", "sub10": "running"})


def test_words_mean_replicas_or_roles() -> None:
    assert plan_job(["main1"], "train", READY) == {"main1": "h1"}
    assert plan_job(["sub"], "train", READY) == {"sub1": "h2", "sub2": "h2", "sub10": "h2"}
    assert list(plan_job(["sub2", "main"], "train", READY)) == ["main1", "sub2"]
    assert list(plan_job(["all"], "train", READY)) == ["main1", "sub1", "sub2", "sub10"]
    with pytest.raises(InvalidInput, match="job_on is 'su': The session has no such"):
        plan_job(["su"], "train", READY)


def test_a_session_that_is_not_ready_is_refused() -> None:
    waiting = known(status="PENDING", h1={}, h2={})
    with pytest.raises(InvalidInput, match="session_name is 'train': It is PENDING"):
        plan_job(["all"], "train", waiting)
    with pytest.raises(InvalidInput, match="It has ended"):
        plan_job(["all"], "train", known(status="", h1={}))
    half = {"h1": READY["h1"]}
    with pytest.raises(InvalidInput, match="h2 cannot be asked"):
        plan_job(["main1"], "train", half)
    with pytest.raises(InvalidInput, match="Not all of its replicas are ready: main1 is starting, sub1 is exited"):
        plan_job(["all"], "train", known(h1={"main1": "starting"}, h2={"sub1": "exited"}))
