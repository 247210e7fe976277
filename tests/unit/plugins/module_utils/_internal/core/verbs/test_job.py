# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A job, driven by answers: who is called in which step, and what is made of what hosts say."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.access import ADMIN, Asker
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.job import parse_job_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import batch_job
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import job
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import (
    Answers,
    Outside,
    State,
    calls_of,
    hosts_of,
)

SESSION = "00000000-0000-4000-8000-000000000001"
JOB = "0123456789ab"
DRAWN = "01234567-89ab-4000-8000-000000000002"
HOSTS = ("h1", "h2", "h3")
ON = {"main1": "h1", "sub1": "h2"}
AWAY = {"unreachable": True, "msg": "Timed out."}


def known(jobs: dict[str, Any] | None = None, status: str = "RUNNING") -> dict[str, dict[str, Any]]:
    """Return what hosts know of a session on two of them."""
    session = {
        "id": SESSION,
        "status": status,
        "revision": 2,
        "owner": "alice",
        "shared_with": ["bob"],
        "ended": None,
        "replicas": {},
        "hosts": ["h1", "h2"],
        "jobs": jobs or {},
    }
    return {
        "h1": {"sessions": [{**session, "members": {"main1": "running"}}]},
        "h2": {"sessions": [{**session, "members": {"sub1": "running"}}]},
        "h3": {"sessions": []},
    }


def there(name: str = JOB) -> dict[str, dict[str, Any]]:
    """Return what hosts know of a session with a job."""
    return known({name: {"on": ON, "command": ["sleep", "9"]}})


def begun(
    answers: Answers,
    check_mode: bool = False,
    asker: Asker = ADMIN,
    site: dict[str, Any] | None = None,
    **variables: Any,
) -> tuple[State, Outside]:
    """Return the state after the look at the hosts; variables: of the job, without their prefix."""
    request = encode(parse_job_request({f"job_{key}": value for key, value in variables.items()}))
    assert "hush-hush" in str(request.get("env")) or "env" not in variables
    outside = Outside(now=0.0, draw=lambda: DRAWN, check_mode=check_mode, asker=asker, site=site or {})
    given = {"session_name": "train", "resource_group": "all", "request": request}
    state = job.begin(given, HOSTS, outside)
    assert (state["step"], hosts_of(state)) == ("look", list(HOSTS))
    return job.advance(state, answers, outside), outside


def reply(replica: str, status: str, code: int | None, problem: str = "") -> dict[str, Any]:
    """Return what a host says of a job in a replica."""
    entry = {"job": JOB, "replica": replica, "status": status, "exit_code": code, "timed_out": False, "stopped": False}
    return {"jobs": [{**entry, "alone": False, "problem": problem}], "sources": []}


def ended(h1: dict[str, Any], h2: dict[str, Any]) -> State:
    """Return the end of a job of which two hosts say this."""
    state, outside = begun(there(), id=JOB)
    assert (state["step"], hosts_of(state)) == ("read", ["h1", "h2"])
    return job.advance(state, {"h1": h1, "h2": h2}, outside)


def test_a_command_is_started_where_it_is_to_run_and_waited_for() -> None:
    state, outside = begun(known(), command="train", on="all", timeout="1m", env={"KEY": "hush-hush"})
    assert (state["step"], hosts_of(state), state["is_batch"]) == ("run", ["h1", "h2"], False)
    assert state["announcement"] == f"Job {JOB} runs in session train, on main1, sub1: train"
    ((module, arguments, of_role),) = calls_of(state, "h2")
    assert (module, arguments["host"], arguments["on"], arguments["timeout"]) == ("session_job", "h2", ON, 60)
    assert (arguments["command"], "env" in of_role) == (["/bin/sh", "-c", "train"], True)
    state = job.advance(state, {"h1": {"started": ["main1"]}, "h2": {"started": ["sub1"]}}, outside)
    ((module, arguments, _variables),) = calls_of(state, "h1")
    assert (state["step"], module, arguments["job"], arguments["width"]) == ("read", "session_output", JOB, 18)
    assert arguments["follow_seconds"] > 24 * 3600
    state = job.advance(state, {"h1": reply("main1", "ENDED", 0), "h2": reply("sub1", "ENDED", 0)}, outside)
    assert (state["step"], state["outcome"]["succeeded"]) == ("", True)
    assert "hush-hush" not in str(state)


@pytest.mark.parametrize(("check_mode", "detach"), [(True, False), (False, True)])
def test_nobody_waits_for_what_is_only_started_or_not_even_that(check_mode: bool, detach: bool) -> None:
    state, outside = begun(known(), check_mode, command="true", detach=detach)
    assert state["announcement"].startswith(f"Job {JOB} {'would run' if check_mode else 'runs'} in")
    state = job.advance(state, {"h1": {"started": ["main1"]}}, outside)
    assert (state["step"], state["outcome"]["status"], state["failures"]) == ("", "RUNNING", [])
    assert state["report"][-1] == f"Come back to it with run_job, job_id={JOB}."


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "Timed out"}, AWAY])
def test_a_job_that_cannot_be_started_everywhere_is_ended_wherever_it_may_have_begun(answer: dict[str, Any]) -> None:
    state, outside = begun(known(), command="true", on="all")
    aborts = job.advance(state, {"h1": {"started": ["main1"]}, "h2": answer}, outside)
    assert (aborts["step"], hosts_of(aborts), calls_of(aborts, "h2")[0][1]["state"]) == (
        "abort",
        ["h1", "h2"],
        "stopped",
    )
    ended = "The job could not be started; it was ended where it had begun."
    state = job.advance(aborts, {"h1": {"changed": True}, "h2": {"changed": False}}, outside)
    assert (state["step"], state["failure"].splitlines()) == ("", [ended, "h2: Timed out."])
    state = job.advance(aborts, {"h1": {"changed": True}, "h2": AWAY}, outside)
    hint = f"Not on h2: if it has begun there, stop it by run_job with job_id={JOB} and job_stop=true."
    assert state["failure"].splitlines() == [f"{ended} {hint}", "h2: Timed out."]


def test_a_job_that_is_there_is_read_to_its_end_or_looked_at_once() -> None:
    for detach, seconds in ((False, 31536000), (True, 0.1)):
        state, _outside = begun(there(), id=JOB, detach=detach)
        assert (state["step"], state["command"]) == ("read", "sleep 9")
        assert calls_of(state, "h2")[0][1]["follow_seconds"] == seconds
    state, _outside = begun(there(batch_job(SESSION)), id="batch")
    assert (state["job"], state["is_batch"]) == (batch_job(SESSION), True)


def test_a_job_is_stopped_and_read_then_also_where_a_host_could_not_stop_it() -> None:
    state, outside = begun(there(), id=JOB, stop=True)
    assert (state["step"], hosts_of(state), calls_of(state, "h1")[0][1]["state"]) == ("end", ["h1", "h2"], "stopped")
    state = job.advance(state, {"h1": {"failed": True, "msg": "Broken"}, "h2": AWAY}, outside)
    assert (state["step"], hosts_of(state)) == ("read", ["h1", "h2"])
    state = job.advance(state, {"h1": reply("main1", "RUNNING", None), "h2": AWAY}, outside)
    assert state["failures"][0] == "h1: The job could not be stopped. Broken."
    assert (state["outcome"]["succeeded"], len(state["failures"])) == (False, 2)


def test_a_job_succeeds_where_all_replicas_do() -> None:
    found = ended(reply("main1", "ENDED", 0), reply("sub1", "ENDED", 0))
    assert (found["outcome"]["status"], found["outcome"]["succeeded"], found["failures"]) == ("ENDED", True, [])
    found = ended(reply("main1", "ENDED", 0), reply("sub1", "RUNNING", None))
    assert (found["outcome"]["status"], found["outcome"]["succeeded"], found["failures"]) == ("RUNNING", False, [])
    assert f"job_id={JOB}" in found["report"][-1]


def test_a_failure_is_named_with_its_last_lines() -> None:
    bad = reply("sub1", "ENDED", 3)
    bad["sources"] = [{"replica": "sub1", "job": JOB, "lines": [["t", "out", str(number)] for number in range(20)]}]
    (failure,) = ended(reply("main1", "ENDED", 0), bad)["failures"]
    assert failure.splitlines()[0] == "sub1 on h2 ended with exit code 3."
    assert failure.splitlines()[1:] == [f"sub1 | {number}" for number in range(10, 20)]


def test_a_host_that_is_away_leaves_the_end_unknown() -> None:
    found = ended(reply("main1", "ENDED", 0), AWAY)
    assert found["outcome"]["status"] == "UNKNOWN"
    assert found["failures"] == ["sub1 on h2: How the job ended is not known. The host cannot be reached."]
    found = ended(reply("main1", "ENDED", 0), {})
    assert found["failures"] == ["sub1 on h2: How the job ended is not known. The host has nothing of it."]
    assert ended(reply("main1", "ENDED", 0), reply("sub1", "LOST", None, "Gone."))["failures"] == ["sub1 on h2: Gone."]


@pytest.mark.parametrize(
    ("answers", "variables", "words"),
    [
        (known(status="PENDING"), {"command": "true"}, "session_name is 'train': It is PENDING"),
        ({**known(), "h2": AWAY}, {"command": "true"}, "h2 cannot be asked for its replicas"),
        (known(), {"command": "true", "on": "rank"}, "job_on is 'rank'"),
        (known(), {"id": JOB}, f"job_id is '{JOB}': Session train has no such job. It has none."),
        ({host: {"sessions": []} for host in HOSTS}, {"command": "true"}, "The resource group all has no such session"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(answers: Answers, variables: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as error:
        begun(answers, **variables)
    assert words in str(error.value)


@pytest.mark.parametrize("given", [{"command": "true"}, {"id": JOB}, {"id": JOB, "stop": True}])
def test_nobody_runs_reads_or_stops_jobs_of_others(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"It belongs to alice, who shares it with bob. You are eve."):
        begun(there(), asker=Asker("eve", is_admin=False), **given)
    assert begun(there(), asker=Asker("bob", is_admin=False), **given)[0]["hosts"]


def test_a_site_says_who_chooses_the_user_of_a_job() -> None:
    given: dict[str, Any] = {"site": {"cluster_compute_root_users": []}, "asker": Asker("alice", is_admin=False)}
    with pytest.raises(InvalidInput, match="job_user is '0:0': Nobody but its administrators may choose the user"):
        begun(there(), command="id", user="0:0", **given)
    assert begun(there(), command="id", **given)[0]["hosts"]
    assert begun(there(), command="id", user="0:0", **{**given, "site": {}})[0]["hosts"]


def test_hosts_that_have_other_names_since_are_called_by_those() -> None:
    """The session and the job know h1, which is node1 by now."""
    answers = known({JOB: {"on": ON, "command": ["sleep", "9"], "here": []}})
    for name, replica in (("h1", "main1"), ("h2", "sub1")):
        (session,) = answers[name]["sessions"]
        session.update(host=name, jobs={JOB: {**session["jobs"][JOB], "here": [replica]}})
    answers = {name.replace("h1", "node1"): answer for name, answer in answers.items()}
    back, _outside = begun(answers, id=JOB)
    new, _outside = begun(answers, command="true", on="all")
    for state in (back, new):
        assert (hosts_of(state), state["on"]) == (["h2", "node1"], {"main1": "node1", "sub1": "h2"})
    ((_module, arguments, _variables),) = calls_of(new, "node1")
    assert (arguments["host"], arguments["on"]["main1"]) == ("node1", "node1")


def test_who_works_alone_in_a_larger_session_is_told() -> None:
    alone = reply("main1", "ENDED", 0)
    alone["jobs"][0]["alone"] = True
    state = ended(alone, reply("sub1", "ENDED", 0))
    assert state["outcome"]["succeeded"]
    assert state["report"][-1].startswith("A process in main1 had WORLD_SIZE=1: it worked alone")
    assert state["outcome"]["replicas"]["main1"]["alone"] is True
    assert len(ended(reply("main1", "ENDED", 0), reply("sub1", "ENDED", 0))["report"]) == len(state["report"]) - 1
