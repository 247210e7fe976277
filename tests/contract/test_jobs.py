# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs in replicas of one host: what they write and how they end, and that nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import output
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import (
    JobOutput,
    OutputDirectory,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    ERROR,
    PENDING,
    QueueTicket,
    advance,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.output import batch_job
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import jobs
from ansible_collections.cluster_compute.session.tests.support.contract.job import Job
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    HERE,
    Host,
    Session,
    has_ended,
    output_of,
    until,
)

WAITS = "echo begin; until test -e /tmp/go; do sleep 0.05; done; echo end; exit 7"


def texts(outcome: Mapping[str, Any]) -> list[str]:
    """Return what a job wrote, whatever the stream."""
    return [text for _stream, text in outcome["lines"]]


@pytest.fixture(scope="module")
def work(shared_host: Host) -> Session:
    """Launch two replicas."""
    return shared_host.launch(name="work", size=2)


def kept(job: Job) -> JobOutput:
    """Return what the host keeps of a job."""
    return OutputDirectory(str(job.session.owner.state.root)).session(job.session.id).job(job.id)


def running(pattern: str) -> str:
    """Return which programs run on this host whose command matches."""
    return subprocess.run(["pgrep", "-af", pattern], capture_output=True, text=True, check=False).stdout


def test_exit_codes_and_output_of_all_replicas(work: Session) -> None:
    job = Job(work).start("echo rank $RANK of $WORLD_SIZE; echo oh >&2; exit $RANK", "main1", "sub1")
    assert job.answer["started"] == ["main1", "sub1"]
    found = job.end()
    for rank, name in enumerate(("main1", "sub1")):
        assert sorted(found[name]["lines"]) == [("err", "oh"), ("out", f"rank {rank} of 2")]
        assert (found[name]["status"], found[name]["exit_code"]) == ("ENDED", rank)
        assert (found[name]["timed_out"], found[name]["stopped"], found[name]["problem"]) == (False, False, "")
    printed = Job(work).start(["printf", "%s\\n", "a  b", "$HOME"]).end()["main1"]
    assert texts(printed) == ["a  b", "$HOME"]
    where = Job(work).start("pwd; id -u; ls -1 $(dirname $(command -v ssh))/ssh", "sub1", directory="/tmp", user="1000")
    assert texts(where.end()["sub1"])[:2] == ["/tmp", "1000"]


def test_only_replicas_of_this_host_are_started(host: Host) -> None:
    session = host.launch(name="apart", others=1, size=2, max_replicas_per_host=1)
    job = Job(session).start("echo ran", "main1", "sub1")
    assert job.answer["started"] == ["main1"]
    assert {name: outcome["exit_code"] for name, outcome in job.end().items()} == {"main1": 0}


def test_check_mode_starts_nothing(work: Session) -> None:
    job = Job(work).start("touch /tmp/ran", check_mode=True)
    assert (job.answer["changed"], job.answer["started"]) == (True, ["main1"])
    assert not kept(job).path.exists()
    assert Job(work).start("test -e /tmp/ran").end()["main1"]["exit_code"] == 1


def test_what_does_not_run_is_told_and_refused_by_name(host: Host) -> None:
    work = host.launch(name="idle", size=2)
    output_of("docker", "stop", "-t", "0", "idle-sub1")
    assert until(lambda: has_ended("idle-sub1"))
    with pytest.raises(SessionError, match=r"Not running: sub1\. Run the repair playbook\."):
        Job(work).start("true", "main1", "sub1")
    assert not (host.state.root / "output").exists()

    def known(**more: Any) -> dict[str, Any]:
        (found,) = work.call("session_output", state="known", session_name="idle", **more)["sessions"]
        return dict(found)

    assert known(states=True)["members"] == {"main1": "running", "sub1": "exited"}
    assert known()["members"] == {"main1": "missing", "sub1": "missing"}
    assert known()["hosts"] == [HERE]
    assert work.call("session_output", state="known", session_name="nobody")["sessions"] == []
    work.files.write_record(advance(work.record, ERROR, "It has failed."))
    with pytest.raises(SessionError, match=f"The session {work.id} does not run on this host any more."):
        Job(work).start("true")


def test_a_program_that_is_not_there_is_told_with_its_exit_code(work: Session) -> None:
    found = Job(work).start(["/no/such/program"]).end()["main1"]
    assert found["status"] == "ENDED"
    assert found["exit_code"] in (126, 127)


def test_a_job_whose_time_is_over_leaves_no_process(work: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "GRACE", 1.0)
    # One that asks nobody, one that left for a session of its own, and one that left its environment as well.
    stubborn = "trap '' TERM; setsid sleep 7771 & setsid env -i sleep 7772 & sleep 7773; sleep 7774"
    found = Job(work).start(stubborn, "sub1", timeout=1).end()["sub1"]
    assert (found["exit_code"], found["timed_out"], found["stopped"]) == (124, True, False)
    assert running("sleep 777") == ""
    assert work.run_in("sub1", "cat", "/proc/1/stat")


def test_a_program_that_works_alone_is_told(work: Session, host: Host) -> None:
    one = host.launch(size=1)  # its only replica does not work alone
    cases: list[tuple[Session, str, dict[str, Any], bool]] = [
        (work, "WORLD_SIZE=1 sleep 2", {}, True),
        (work, "WORLD_SIZE=1 sleep 2", {"warn_alone": False}, False),
        (work, "WORLD_SIZE=12 sleep 2", {}, False),
        (work, "sleep 2", {}, False),
        (one, "WORLD_SIZE=1 sleep 2", {}, False),
    ]
    jobs_of = [Job(session).start(f"{command} & wait", **more) for session, command, more, _alone in cases]
    for job, case in zip(jobs_of, cases):
        assert job.end()["main1"]["alone"] is case[-1], case


def test_a_job_that_is_stopped_leaves_others_alone(work: Session) -> None:
    job = Job(work).start("exec sleep 6661", "sub1")
    other = Job(work).start("exec sleep 6662", "sub1")
    assert job.stop() is True
    found = job.end()["sub1"]
    assert (found["exit_code"], found["timed_out"], found["stopped"]) == (143, False, True)
    assert until(lambda: running("^sleep 666").split()[1:] == ["sleep", "6662"])
    assert job.stop() is False
    other.stop()
    assert other.end()["sub1"]["exit_code"] == 143


def test_a_job_that_is_stopped_before_it_has_begun_does_not_run_on(
    work: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Engine.run_command

    def late(engine: Engine, prepared: str) -> Iterator[Any]:
        time.sleep(1)
        return begin(engine, prepared)

    monkeypatch.setattr(Engine, "run_command", late)
    job = Job(work).start("exec sleep 6663", "sub1")
    assert job.stop() is True
    found = job.end()["sub1"]
    assert (found["exit_code"], found["timed_out"], found["stopped"]) == (143, False, True)
    assert running("^sleep 6663") == ""


def test_a_job_that_nobody_watches_any_more_is_lost_and_can_be_stopped(work: Session) -> None:
    job = Job(work).start("exec sleep 5551")
    while not running("^sleep 5551"):
        time.sleep(0.05)
    description = kept(job).read_info()
    assert description is not None
    assert description.runner is not None
    os.kill(description.runner.pid, signal.SIGKILL)
    os.waitpid(description.runner.pid, 0)
    (found,) = job.read()["jobs"]
    assert (found["status"], found["exit_code"]) == ("LOST", None)
    assert "How the job ended is not known" in found["problem"]
    assert running("^sleep 5551")
    job.stop()
    assert running("^sleep 5551") == ""


def test_a_job_is_read_while_it_runs_and_after_it_has_ended(work: Session) -> None:
    job = Job(work).start(WAITS, "main1", "sub1")
    first = job.read(wait=10)
    while sum(len(source["lines"]) for source in first["sources"]) < 2:
        first = job.read()
    assert {job["status"] for job in first["jobs"]} == {"RUNNING"}
    assert first["running"] == 2
    for name in ("main1", "sub1"):
        work.run_in(name, "touch", "/tmp/go")
    rest = job.end(positions=first["positions"])
    assert {name: (texts(outcome), outcome["exit_code"]) for name, outcome in rest.items()} == {
        "main1": (["end"], 7),
        "sub1": (["end"], 7),
    }
    assert {name: texts(outcome) for name, outcome in job.end().items()} == {name: ["begin", "end"] for name in rest}
    assert [texts(outcome) for outcome in job.end(grep="^e", replicas=["sub1"]).values()] == [["end"]]


def test_secrets_of_a_job_are_not_written_down(work: Session) -> None:
    job = Job(work).start('printf %s "$TOKEN" | wc -c; sleep 1', env={"TOKEN": "hush-hush"})
    assert texts(job.end()["main1"]) == ["9"]
    assert "hush-hush" not in str(job.answer)
    for path in (path for path in work.owner.state.root.rglob("*") if path.is_file()):
        assert b"hush-hush" not in path.read_bytes()


def test_output_of_a_job_is_bounded_and_nothing_of_it_is_lost_at_its_end(work: Session) -> None:
    much = "head -c 5000000 /dev/zero | tr '\\0' x | fold -w 999; printf '\\nodd \\377\\n'; printf last"
    job = Job(work).start(much, output_size="1m")
    assert texts(job.end()["main1"])[-2:] == ["odd \\xff", "last"]
    size = sum(path.stat().st_size for path in kept(job).path.glob("main1.log*"))
    assert 500_000 < size < 1_100_000


def test_a_batch_command_is_started_once(work: Session) -> None:
    job = Job(work, batch_job(work.id)).start("echo trained; exit 5", once=True)
    assert job.answer["changed"] is True
    found = job.end()["main1"]
    assert (texts(found), found["exit_code"]) == (["trained"], 5)
    again = Job(work, job.id).start("echo trained; exit 5", once=True)
    assert again.answer["changed"] is False
    assert again.end()["main1"]["finished"] == found["finished"]


def test_a_batch_command_that_is_to_begin_anew_is_stopped_and_what_it_wrote_set_aside(host: Host) -> None:
    session = host.launch(size=1)
    stopped = {"state": "stopped", "session_id": session.id, "requeue": True}
    job = Job(session, batch_job(session.id)).start("trap 'exit 0' TERM; echo half; sleep 8888 & wait", once=True)
    assert until(lambda: [line[2] for source in job.read()["sources"] for line in source["lines"]] == ["half"])
    session.call("session_job", check_mode=True, job=job.id, **stopped)
    assert running("sleep 8888")
    session.call("session_job", job=job.id, **stopped)
    (outcome,) = jobs.outcomes(kept(job))
    assert (outcome.status, outcome.requeue, outcome.exit_code) == ("ENDED", True, 143)
    waits = advance(session.record, PENDING, "It is to move.", queue=QueueTicket(1), plan=None, hosts=())
    host.call("session_record", records=[encode(waits)], recorded=[session.id])
    assert "set aside output" in " ".join(session.remove(keep_record=True)["actions"])
    (aside,) = OutputDirectory(str(host.state.root)).session(session.id).jobs()
    assert aside.id != job.id
    assert [line[2] for line in aside.read("main1", None)[0]] == ["half"]
    assert "set aside" not in " ".join(session.remove(keep_record=True, undo=True)["actions"])
    assert aside.path.exists(), "undoing its next start leaves what an earlier one wrote"
    session.remove()


@pytest.mark.parametrize("stopped_first", [False, True])
def test_what_has_ended_by_itself_does_not_begin_anew_nor_what_was_stopped_for_good(
    stopped_first: bool, work: Session
) -> None:
    job = Job(work).start("exec sleep 8887" if stopped_first else "sleep 8887 & echo begun; exit 5")
    if stopped_first:
        kept(job).ask_to_end(requeue=False)
    else:  # its command has ended, and what it left behind holds its output open
        assert until(lambda: any(source["lines"] for source in job.read()["sources"]))
        assert until(lambda: not running("sleep 8887 & echo begun; exit 5"))
    work.call("session_job", state="stopped", session_id=work.id, job=job.id, requeue=True)
    (outcome,) = jobs.outcomes(kept(job))
    assert (outcome.status, outcome.requeue) == ("ENDED", False)
    assert outcome.exit_code == (143 if stopped_first else 5)


def test_the_oldest_jobs_are_forgotten_but_no_batch_command_and_none_that_runs(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = host.launch(name="busy", size=1)
    monkeypatch.setattr(jobs, "MOST_JOBS", 3)
    batch = Job(work, batch_job(work.id)).start("true", once=True)
    batch.end()
    runs = Job(work).start("exec sleep 4441")
    ended = [Job(work).start("true") for _number in range(3)]
    for job in ended:
        job.end()
    newest = Job(work).start("true")
    newest.end()
    (known,) = work.call("session_output", state="known", session_name="busy")["sessions"]
    assert {batch.id, runs.id, newest.id} <= set(known["jobs"])
    assert ended[0].id not in known["jobs"]
    assert known["jobs"][newest.id] == {"on": {"main1": HERE}, "here": ["main1"], "command": ["/bin/sh", "-c", "true"]}
    monkeypatch.setattr(output, "PARTS", 10**18)  # as if what is kept took more than its share of the disk
    last = Job(work).start("true")
    last.end()
    (known,) = work.call("session_output", state="known", session_name="busy")["sessions"]
    assert set(known["jobs"]) == {batch.id, runs.id, last.id}
    runs.stop()
    runs.end()
