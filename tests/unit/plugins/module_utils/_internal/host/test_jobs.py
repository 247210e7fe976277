# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be said of a job whose watcher is at work, has gone, or was never there."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.background import start_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Engine,
    EngineError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import (
    JobOutput,
    OutputDirectory,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.output import (
    JobInfo,
    Runner,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import jobs

WATCHER = Runner(os.getpid(), start_of(os.getpid()) or 0)
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ({"runner": WATCHER}, "RUNNING"),
        ({"runner": replace(WATCHER, start=1)}, "LOST"),
        ({"runner": WATCHER, "boot": "another"}, "LOST"),
        ({"runner": None}, "RUNNING"),
        ({"runner": None, "started": 0.0}, "LOST"),
    ],
)
def test_a_job_runs_as_long_as_it_is_watched(state: dict[str, Any], status: str, tmp_path: Path) -> None:
    job = JobOutput(tmp_path / "session" / "jobs" / "0123456789ab")
    job.write_info(replace(JobInfo({}, here=("main1",), boot=BOOT, started=time.time() + 3600), **state))
    (outcome,) = jobs.outcomes(job)
    assert (outcome.status, bool(outcome.problem)) == (status, status == "LOST")
    job.write_end("main1", {"exit_code": 3, "problem": ""})
    (outcome,) = jobs.outcomes(job)
    assert (outcome.status, outcome.exit_code) == ("ENDED", 3)


@pytest.mark.parametrize(
    "damage",
    [{"runner": {"pid": 5}}, {"runner": "x"}, {"started": "x"}, {"boot": 3}, {"here": None}, {"schema": 2}, {"on": []}],
)
def test_a_job_whose_description_is_damaged_is_not_known(damage: dict[str, Any], tmp_path: Path) -> None:
    session = OutputDirectory(str(tmp_path)).session("3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa")
    job, good = session.job("0123456789ab"), JobInfo({"main1": "h1"}, ("x",), ("main1",), 1.0, BOOT)
    job.write_info(good)
    assert job.read_info() == good
    job.info_file.write_text(json.dumps({**json.loads(job.info_file.read_text()), **damage}))
    assert ([known.id for known in session.jobs()], jobs.outcomes(job)) == ([job.id], [])


@pytest.mark.parametrize(
    ("states", "wanted"),
    [
        ([(True, 5, None), (False, 5, None), (False, 5, 1)], (1, True)),
        ([(False, 0, 127)], (127, False)),
        ([(False, 0, 0)], (0, True)),
        ([(False, 5, 0)], (0, True)),
    ],
)
def test_a_command_without_a_process_that_failed_has_not_begun(
    states: list[tuple[bool, int, int | None]], wanted: tuple[int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "LOOK", 0.0)
    left = iter(states)
    engine: Any = SimpleNamespace(command_state=lambda _prepared: next(left))
    assert jobs._exit_code(engine, "e1") == wanted
    monkeypatch.setattr(jobs, "LAG", 0.0)
    engine = SimpleNamespace(command_state=lambda _prepared: (False, 5, None))
    with pytest.raises(EngineError, match="does not report the exit code"):
        jobs._exit_code(engine, "e1")


@pytest.mark.parametrize("fault", [None, jobs.JobError("The host starts nothing.")])
def test_a_host_that_starts_nothing_becomes_suspect_and_the_command_starts_elsewhere(
    fault: jobs.JobError | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = SimpleNamespace(
        run_command=lambda _made: iter([(b"no", None)]), command_state=lambda _made: (False, 0, 127)
    )
    monkeypatch.setattr(Engine, "connect", lambda *_given: engine)
    monkeypatch.setattr(jobs, "host_fault", lambda _failure, only_command: fault)
    remembered: list[str] = []
    note: Any = SimpleNamespace(remember=remembered.append)
    job = JobOutput(tmp_path / "session" / "jobs" / "0123456789ab")
    job.write_info(JobInfo({}, here=("main1",), boot=BOOT))
    jobs._run(job, "main1", "e1", jobs.Command(["x"], {}, "", "", timeout=0, size=1000), note)
    end = job.read_end("main1")
    assert end is not None
    assert remembered == ([] if fault is None else ["The host starts nothing."])
    assert (end["exit_code"], end["requeue"], end["problem"]) == (127, fault is not None, "".join(remembered))


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("requeue", [True, False])
def test_a_command_that_is_late_or_was_asked_to_end_is_ended(
    running: bool, late: bool, requeue: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    code = None if running else 3
    monkeypatch.setattr(
        Engine, "connect", lambda *_given: SimpleNamespace(command_state=lambda _made: (running, 4711, code))
    )
    monkeypatch.setattr(jobs, "_end", lambda leader, _job_id: ended.append(leader))
    job = JobOutput(tmp_path / "session" / "jobs" / "0123456789ab")
    job.write_info(JobInfo({}, here=("main1",), boot=BOOT))
    job.ask_to_end(requeue=requeue)
    end = jobs._End()
    jobs._end_command(job, "e1", end, late)
    again = requeue and not late
    done = jobs._End(timed_out=late, stopped=not late, requeue=again)
    assert end == (jobs._End() if again and not running else done)
    assert ended == [4711 if running else 0], "a number that is free again may be another's"
