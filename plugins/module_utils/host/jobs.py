# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run a command in replicas of one host, without anybody who waits for it.

A process of the host starts the command in each replica, keeps what it writes and how it ends, and ends it when its
time is over. It needs neither the controller nor a connection, and ends with the command.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..adapters import engine as docker_engine
from ..adapters.background import bears, family, run_in_background, send, start_of
from ..adapters.engine import Engine, EngineError
from ..adapters.output import JobOutput, JobWriter, OutputDirectory, size_of
from ..adapters.state import StateDirectory
from ..adapters.suspicion import SuspicionFile
from ..core.model.record import RUNNING
from ..core.rules.apps import HIDDEN
from ..core.rules.job import ENDED, LOST, STOPPED, TIMED_OUT
from ..core.rules.output import ERR, OUT, Line, LineCutter, batch_job, time_of
from ..core.values.errors import SessionError, message_of
from .engine_trial import host_fault

PROCESS_NAME = "cc-job"
MARK = "CLUSTER_COMPUTE_JOB_ID"
"""Variable by which a job's processes are known, wherever they go within their container."""
GRACE = 10.0
"""Seconds between the request to end and the kill, as for containers."""
LOOK = 0.25
"""Seconds between two looks whether a job is to be ended, or has."""
LAG = 10.0
"""Seconds within which an engine notices that a command has ended whose output has."""
ALONE = b"WORLD_SIZE=1"
"""What a process has in its environment that a launcher started which knows of no other."""
ALONE_LOOKS = (1.0, 4.0, 20.0, 90.0)
"""Seconds after the start of a job at which it is looked for: each look goes through all processes of the host."""
MOST_JOBS = 50
"""Jobs of a session that a host keeps at most, the newest ones; those that run and its batch command beside."""


class JobError(SessionError):
    """A job cannot be started; the message is a sentence."""


@dataclass(frozen=True)
class Command:
    """What is to run.

    timeout: seconds, 0 for none. size: most bytes that are kept of what it writes in a replica. warn_alone: whether to
    look for processes that work alone, although the session has several replicas. secret: what is kept of its output
    does not hold, as a token that it was started with.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    user: str
    directory: str
    timeout: float
    size: int
    warn_alone: bool = False
    secret: str = ""


def start(
    state: StateDirectory, session_id: str, job_id: str, on: Mapping[str, str], host: str, command: Command
) -> None:
    """Start a job in replicas of this host.

    on: where it runs in all, replica to host. host: name of this one.
    Raises JobError and EngineError where it cannot run in one of them.
    """
    record = state.session(session_id).read_record()
    if record is None or record.status != RUNNING:
        raise JobError(f"The session {session_id} does not run on this host any more.")
    if len(record.replicas) < 2:
        command = replace(command, warn_alone=False)
    engine = Engine.connect()
    replicas = [name for name, place in on.items() if place == host]
    found = {
        entry["Labels"].get(docker_engine.LABEL_REPLICA): entry
        for entry in engine.session_containers({docker_engine.LABEL_SESSION_ID: session_id})
    }
    not_running = [name for name in replicas if name not in found or found[name]["State"] != "running"]
    if not_running:
        raise JobError(f"Not running: {', '.join(not_running)}. Run the repair playbook.")
    kept = OutputDirectory(str(state.root))
    output = kept.session(session_id)
    if earlier := [job for job in output.jobs() if job.id != batch_job(session_id)]:
        _forget(earlier, kept.share() - size_of(kept.root))
    job = output.job(job_id)
    env = {**command.env, MARK: job_id}
    prepared = {
        name: engine.prepare_command(found[name]["Id"], list(command.argv), command.user, command.directory, env)
        for name in replicas
    }
    known = output.read_info()
    owner = {"owner": record.owner, "shared_with": list(record.shared_with)}
    output.write_info(record.name, owner, known["ended"], known["replicas"])
    description = {
        "command": list(command.argv),
        "on": dict(on),
        "here": replicas,
        "started": time.time(),
        "timeout": command.timeout,
        "boot": _boot(),
        "runner": None,
    }
    job.write_info(description)
    note = SuspicionFile(str(state.root))
    runner = run_in_background(PROCESS_NAME, lambda: _run_all(job, prepared, command, note))
    job.write_info({**description, "runner": runner})


def _forget(jobs: Sequence[JobOutput], spare: int) -> None:
    """Remove the oldest jobs that have ended where there are too many, or where they take too much of the disk.

    spare: bytes that output may take beyond what it does; negative where it takes too much.
    """
    for number, job in enumerate(jobs):
        if spare >= 0 and len(jobs) - number < MOST_JOBS:
            return
        if not is_running(job):
            spare += size_of(job.path)
            shutil.rmtree(job.path, ignore_errors=True)


def _run_all(job: JobOutput, prepared: Mapping[str, str], command: Command, note: SuspicionFile) -> None:
    """Run in all replicas side by side; the work of the process in the background."""
    runs = [threading.Thread(target=_run, args=(job, *run, command, note)) for run in prepared.items()]
    for run in runs:
        run.start()
    for run in runs:
        run.join()


def _run(job: JobOutput, replica: str, prepared: str, command: Command, note: SuspicionFile) -> None:
    """Run in one replica until the command has ended, and write down how.

    One that its host cannot start has not failed: the host is suspect, and a batch command begins anew elsewhere.
    """
    end: dict[str, Any] = {
        "exit_code": None,
        "timed_out": False,
        "stopped": False,
        "requeue": False,
        "alone": False,
        "problem": "",
    }
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(job, prepared, command, end, done))
    try:
        engine = Engine.connect()
        writer = JobWriter(job, replica, max(1, command.size // 2))
        cutters = (LineCutter(OUT), LineCutter(ERR))
        watch.start()
        for chunks in engine.run_command(prepared):
            now = time_of(time.time_ns())
            lines = [line for cut, chunk in zip(cutters, chunks) if chunk for line in cut.feed(chunk, now)]
            writer.write(_without(command.secret, lines))
        writer.write(_without(command.secret, [line for cut in cutters for line in cut.end()]))
        end["exit_code"], has_begun = _exit_code(engine, prepared)
        failure = JobError(f"The command did not start in {replica}.")
        fault = None if has_begun else host_fault(failure, only_command=True)
        if fault is not None:
            note.remember(message_of(fault))
            if not (end["timed_out"] or end["stopped"]):
                end.update(problem=message_of(fault), requeue=True)
    except (SessionError, OSError) as error:
        end["problem"] = f"The job could not be followed to its end: {error}"
    finally:
        done.set()
        if watch.is_alive():
            watch.join()
    if end["timed_out"] or end["stopped"]:
        end["exit_code"] = TIMED_OUT if end["timed_out"] else STOPPED
    job.write_end(replica, {**end, "finished": time.time()})


def _without(secret: str, lines: list[Line]) -> list[Line]:
    """Return lines that do not hold a secret; empty for none."""
    if not secret:
        return lines
    return [(moment, stream, text.replace(secret, HIDDEN)) for moment, stream, text in lines]


def _exit_code(engine: Engine, prepared: str) -> tuple[int, bool]:
    """Return the exit code of a command that writes no more, and whether it has begun, so that it had a process.

    Raises EngineError where its container is gone.
    """
    deadline = time.monotonic() + LAG
    while True:
        running, pid, code = engine.command_state(prepared)
        if not running and code is not None:
            return int(code), pid != 0 or code == 0
        if time.monotonic() > deadline:
            raise EngineError("Docker Engine does not tell the exit code.")
        time.sleep(LOOK)


def _watch(job: JobOutput, prepared: str, command: Command, end: dict[str, Any], done: threading.Event) -> None:
    """End the command when its time is over or somebody asks for it, also before it has begun; see who works alone."""
    begun = time.monotonic()
    looks = list(ALONE_LOOKS if command.warn_alone else ())
    while not done.wait(LOOK):
        if looks and time.monotonic() >= begun + looks[0]:
            end["alone"] = _is_alone(prepared, job.id)
            looks = [] if end["alone"] else looks[1:]
        late = bool(command.timeout) and time.monotonic() >= begun + command.timeout
        if late or job.stop_file.exists():
            try:
                engine = Engine.connect()
                running, pid, code = engine.command_state(prepared)
                requeue = not late and job.is_requeued()
                # What has ended by itself is not to run again.
                has_ended = requeue and not running and code is not None
                if not (end["timed_out"] or end["stopped"] or has_ended):
                    end.update(timed_out=late, stopped=not late, requeue=requeue)
                _end(pid if running else 0, job.id)
            except SessionError as error:
                end["problem"] = f"The job could not be ended: {error}"
                return


def _is_alone(prepared: str, job_id: str) -> bool:
    """Tell whether a process of the job was started as the only one of its kind."""
    try:
        running, pid, _code = Engine.connect().command_state(prepared)
    except SessionError:
        return False
    return running and any(bears(process, ALONE) for process in family(pid or -1, f"{MARK}={job_id}"))


def _end(leader: int, job_id: str) -> None:
    """End all processes of a job: ask them, and kill what is left after the grace.

    leader: the command's own process; 0 where it is gone.
    """
    deadline = time.monotonic() + GRACE
    known: dict[int, int | None] = {}
    while True:
        alive = {pid for pid, begun in known.items() if begun is not None and start_of(pid) == begun}
        alive |= family(leader or -1, f"{MARK}={job_id}")
        if not alive:
            return
        if time.monotonic() > deadline:
            send(alive, signal.SIGKILL)
        else:
            send(alive - known.keys(), signal.SIGTERM)
        known.update((pid, start_of(pid)) for pid in alive - known.keys())
        time.sleep(LOOK)


def stop(job: JobOutput, *, requeue: bool = False) -> None:
    """End a job on this host, also where nobody watches it any more.

    requeue: to begin anew elsewhere; returns when it has ended, or should have long ago.
    """
    if not is_running(job):
        _end(0, job.id)
        return
    job.ask_to_end(requeue=requeue)
    deadline = time.monotonic() + 2 * GRACE
    while requeue and is_running(job) and time.monotonic() < deadline:
        time.sleep(LOOK)


def is_running(job: JobOutput) -> bool:
    """Tell whether a job runs in any replica of this host."""
    return any(outcome["status"] == RUNNING for outcome in outcomes(job))


def outcomes(job: JobOutput) -> list[dict[str, Any]]:
    """Return what can be said of a job in each replica of this host."""
    description = job.read_info()
    if description is None:
        return []
    runner = description["runner"]
    # Who starts a job writes down at once what watches it, unless it is killed.
    is_alive = start_of(runner["pid"]) == runner["start"] if runner else time.time() - description["started"] < LAG
    watched = description["boot"] == _boot() and is_alive
    found = []
    for replica in description["here"]:
        end = job.read_end(replica)
        if end is None and not watched:
            end = job.read_end(replica)  # it may have ended between the two looks
        status = ENDED if end is not None else RUNNING if watched else LOST
        nothing = {
            "exit_code": None,
            "timed_out": False,
            "stopped": False,
            "alone": False,
            "problem": "",
            "finished": None,
        }
        if status == LOST:
            nothing["problem"] = "What watched the job is gone, as after a reboot; how it ended is not known."
        found.append({"job": job.id, "replica": replica, "status": status, **nothing, **(end or {})})
    return found


def _boot() -> str:
    """Return what tells this boot of the host from others (random(4))."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
