# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs in a session of three hosts, as whoever starts one, waits for one or comes back to one sees them.

What a host does with a job is shown in tests/contract; only here does a playbook start one on several hosts, show what
it writes and judge how it ended, and is another one there when the first is gone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    HOSTS,
    ON_EACH,
    STATE,
    Replica,
    Run,
    Snapshot,
    clear,
    command,
    environment,
    in_parallel,
    launch,
    on,
    play,
    replicas,
    script,
)

SESSION: dict[str, Any] = {
    **ON_EACH,
    "session_name": "work",
    "session_cpus": "0.2",
    "session_memory": "32m",
    "session_shm_size": "1m",
}
WAITS = "echo begin; until test -e /tmp/go; do sleep 0.1; done; rm /tmp/go; echo end; exit 7"


@pytest.fixture(scope="module")
def work(untouched_lab: Snapshot) -> Iterator[dict[str, Replica]]:
    """Run a session of one replica on each host; at the end all sessions of the tests are removed."""
    launch(SESSION).ok()
    yield replicas("work")
    clear("work", "batch-0", "batch-5", "moved")
    in_parallel(lambda host: script(host, f"rm -rf {STATE}/output"), HOSTS)


def run_job(*options: str, **values: Any) -> Run:
    """Run the playbook; *values* is without the prefix."""
    variables = {"session_name": "work", **{f"job_{key}": value for key, value in values.items()}}
    return play("run_job", variables, *options)


def outcome(run: Run) -> dict[str, Any]:
    """Return what the playbook hands over."""
    return dict(run.artifacts["cluster_compute_job_outcome"])


def codes(run: Run) -> dict[str, int | None]:
    """Return the exit code of each replica."""
    return {name: replica["exit_code"] for name, replica in outcome(run)["replicas"].items()}


def lines(run: Run) -> list[str]:
    """Return what the job wrote, as it was shown, without its id."""
    return [
        line.replace(f"/{outcome(run)['job']}", "")
        for line in run.output.splitlines()
        if re.search("/[0-9a-f]{12} +[|!] ", line)
    ]


def test_exit_codes_and_output_of_all_replicas(work: dict[str, Replica]) -> None:
    words = 'echo rank $RANK of $WORLD_SIZE; echo oh >&2; printf %s "$TOKEN" | wc -c; exit $RANK'
    run = run_job("-vvv", on="all", command=words, env={"TOKEN": "hush-hush"})
    assert run.code != 0
    assert codes(run) == {"main1": 0, "sub1": 1, "sub2": 2}
    assert (outcome(run)["status"], outcome(run)["succeeded"]) == ("ENDED", False)
    assert sorted(lines(run)) == sorted(
        line
        for rank, name in enumerate(("main1", "sub1", "sub2"))
        for line in (f"{name:<5} | rank {rank} of 3", f"{name:<5} ! oh", f"{name:<5} | 9")
    )
    host = work["sub2"].host
    assert f"sub2 on {host} ended with exit code 2." in run.failures
    assert "sub2 | rank 2 of 3" in run.failures
    assert "main1 on" not in run.failures
    assert "hush-hush" not in run.output
    assert script(host, "grep -rl hush-hush /var/log || true") == ""


def test_what_cannot_run_is_refused_by_name(work: dict[str, Replica]) -> None:
    run = run_job(command="true", id="0123456789ab", timeout="soon", on="Sub 1", env="novalue")
    assert run.code != 0
    for name in ("job_id is '0123456789ab'", "job_timeout is 'soon'", "job_on is 'Sub 1'", "job_env line 1 is"):
        assert name in run.failures
    assert set(run.recap) == {"localhost"}
    checked = run_job("--check", command="touch /tmp/ran", on="main1,sub2").ok()
    assert "would run in session work, on main1, sub2: touch /tmp/ran" in checked.output
    assert work["main1"].attempt("test", "-e", "/tmp/ran").returncode == 1


def test_a_job_survives_its_controller_and_is_collected_by_another(work: dict[str, Replica], tmp_path: Path) -> None:
    file = tmp_path / "variables.json"
    variables = {"session_name": "work", "job_command": WAITS, "job_on": "main1,sub1"}
    file.write_text(json.dumps(variables), encoding="utf-8")
    with subprocess.Popen(
        command("run_job", file),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as started:
        timer = threading.Timer(100, lambda: os.killpg(started.pid, signal.SIGKILL))
        timer.start()
        shown = ""
        assert started.stdout is not None
        for line in started.stdout:
            shown += line
            if "| begin" in line:
                break  # it came while the job still waits
        timer.cancel()
        os.killpg(started.pid, signal.SIGKILL)
    found = re.search(r"sub1/([0-9a-f]{12}) +\| begin|main1/([0-9a-f]{12}) +\| begin", shown)
    assert found is not None, shown
    job = found[1] or found[2]
    looked = run_job(id=job, detach=True).ok()
    assert (outcome(looked)["status"], codes(looked)) == ("RUNNING", {"main1": None, "sub1": None})
    for name in ("main1", "sub1"):
        work[name].run("touch", "/tmp/go")
    whole = run_job(id=job)
    assert whole.code != 0
    assert codes(whole) == {"main1": 7, "sub1": 7}
    assert sorted(lines(whole)) == ["main1 | begin", "main1 | end", "sub1  | begin", "sub1  | end"]
    logs = play("logs", {"session_name": "work", "logs_job": job, "logs_grep": "^e"}).ok()
    assert re.findall(r"^(\w+)/\w+ +\| (\w+)$", logs.output, re.MULTILINE) in (
        [("main1", "end"), ("sub1", "end")],
        [("sub1", "end"), ("main1", "end")],
    )


@pytest.mark.parametrize(("code", "status"), [(0, "TERMINATED"), (5, "ERROR")])
def test_a_batch_session_ends_with_its_command(work: dict[str, Replica], code: int, status: str) -> None:
    batch = f"until test -e /tmp/go; do sleep 0.1; done; echo trained $WORLD_SIZE; exit {code}"
    name = f"batch-{code}"
    request = {**SESSION, "session_name": name, "session_size": 2, "session_batch_command": batch}
    first = launch(request).ok()
    if not code:
        # The same launch again starts nothing twice, and a session whose command still runs is left alone.
        assert launch(request).ok().changed_hosts == set()
        play("gc").ok()
    found = replicas(name)
    assert set(found) == {"main1", "sub1"}, first.output
    found["main1"].run("touch", "/tmp/go")
    if code:
        # Nobody waits for it: whatever runs next ends the session. How its command ended is known afterwards as well.
        deadline = time.monotonic() + 60
        while replicas(name):
            assert time.monotonic() < deadline
            play("schedule_pending").ok()
    waited = play("run_job", {"session_name": name, "job_id": "batch"})
    assert (waited.code != 0) == bool(code)
    assert codes(waited) == {"main1": code}
    assert lines(waited) == ["main1 | trained 2"]
    assert replicas(name) == {}
    known = [script(host, f"cat {STATE}/sessions/*/record.json").splitlines() for host in HOSTS]
    ended = [outcome for some in known for outcome in map(json.loads, some) if outcome["name"] == name]
    assert [outcome["status"] for outcome in ended] == [status] * 3
    assert (f"exit code {code}" in ended[0]["report"][0]) == bool(code)
    held = [json.loads(on(host, "cat", f"{STATE}/ledger.json"))["reservations"] for host in HOSTS]
    assert {entry["claim"]["session_name"] for some in held for entry in some} == {"work"}
    if code:
        assert "trained 2" in play("logs", {"session_name": name}).ok().output


def test_a_batch_session_leaves_a_host_that_is_drained_and_begins_anew_elsewhere(work: dict[str, Replica]) -> None:
    request = {
        **SESSION,
        "session_name": "moved",
        "session_size": 1,
        "session_batch_command": "echo begun; until test -e /tmp/go; do sleep 0.1; done",
    }
    drain = {"drain_reason": "new memory", "drain_requeue": True, "drain_wait_seconds": 60}
    host = ""
    try:
        launch(request).ok()
        host = replicas("moved")["main1"].host
        # What runs there beside it stays, and outlasts the time.
        run = play("drain_hosts", {**drain, "drain_hosts": host, "drain_wait_seconds": 1})
        assert "sessions still hold a place there: work" in run.failures
        event = run.artifacts["cluster_compute_event"]
        assert (event["verb"], event["outcome"], event["hosts"]) == ("drain", "failed", {host: ["work"]})
        assert replicas("moved") == {}
        known = [script(name, f"cat {STATE}/sessions/*/record.json").splitlines() for name in HOSTS]
        waits = [found for some in known for found in map(json.loads, some) if found["name"] == "moved"]
        assert [found["status"] for found in waits] == ["PENDING"] * 3
        assert waits[0]["report"] == ["Its batch command was stopped, to start again without a drained host."]
        play("schedule_pending").ok()
        moved = replicas("moved")
        assert moved["main1"].host != host
        moved["main1"].run("touch", "/tmp/go")
        assert codes(play("run_job", {"session_name": "moved", "job_id": "batch"}).ok()) == {"main1": 0}
    finally:
        play("undrain_hosts", {"drain_hosts": host or HOSTS[0]})
    assert replicas("work").keys() == {"main1", "sub1", "sub2"}
