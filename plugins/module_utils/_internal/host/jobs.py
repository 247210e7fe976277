# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run a command in replicas of one host in the background.

A process on the host starts the command in each replica, stores its output and exit status, and ends it at its timeout.
It does not need the controller or a connection, and ends with the command.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..adapters import engine_objects
from ..adapters.background import bears, family, run_in_background, send, start_of
from ..adapters.engine import Engine, EngineError
from ..adapters.output import JobOutput, JobWriter, OutputDirectory, size_of
from ..adapters.state import StateDirectory
from ..adapters.suspicion import SuspicionFile
from ..core.model.output import JobInfo, JobOutcome, Runner
from ..core.model.record import RUNNING
from ..core.rules.apps import HIDDEN
from ..core.rules.job import ENDED, LOST, STOPPED, TIMED_OUT
from ..core.rules.output import ERR, OUT, Line, LineCutter, batch_job, time_of
from ..core.values.deferred import dataclass
from ..core.values.errors import SessionError, message_of
from .engine_trial import host_fault

PROCESS_NAME = "cc-job"
MARK = "CLUSTER_COMPUTE_JOB_ID"
"""Variable that identifies a job's processes, wherever they move within their container."""
GRACE = 10.0
"""Seconds between the request to end and the kill, as for containers."""
LOOK = 0.25
"""Seconds between two checks of whether a job has to be ended or has ended."""
LAG = 10.0
"""Seconds within which an engine notices that a command has ended, after its output has ended."""
ALONE = b"WORLD_SIZE=1"
"""Environment of a process from a launcher that uses no other replica."""
ALONE_LOOKS = (1.0, 4.0, 20.0, 90.0)
"""Seconds after the start of a job at which to check this. Each check reads all processes of the host."""
MOST_JOBS = 50
"""Maximum number of ended jobs of a session to keep on a host, in addition to its batch command."""


class JobError(SessionError):
    """A job cannot be started. The message is a sentence."""


@dataclass(frozen=True)
class Command:
    """What is to run.

    timeout: seconds, 0 for none. size: maximum number of bytes to keep of its output in a replica. warn_alone: whether
    to look for processes that work alone, although the session has several replicas. secret: removed from the stored
    output, such as a token with which it was started.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    user: str
    directory: str
    timeout: float
    size: int
    warn_alone: bool = False
    secret: str = ""


@dataclass
class _End:
    """How a command ended in a replica; as of `JobOutcome`."""

    exit_code: int | None = None
    timed_out: bool = False
    stopped: bool = False
    requeue: bool = False
    alone: bool = False
    problem: str = ""


def start(
    state: StateDirectory, session_id: str, job_id: str, on: Mapping[str, str], host: str, command: Command
) -> None:
    """Start a job in replicas of this host.

    on: all replicas where it runs, with their hosts. host: name of this host. Raises JobError and EngineError if it
    cannot run in one of them.
    """
    record = state.session(session_id).read_record()
    if record is None or record.status != RUNNING:
        raise JobError(f"The session {session_id} does not run on this host any more.")
    if len(record.replicas) < 2:
        command = replace(command, warn_alone=False)
    engine = Engine.connect()
    replicas = [name for name, place in on.items() if place == host]
    found = {entry.replica: entry for entry in engine.session_containers({engine_objects.LABEL_SESSION_ID: session_id})}
    not_running = [name for name in replicas if name not in found or not found[name].runs]
    if not_running:
        raise JobError(f"Not running: {', '.join(not_running)}. Run the repair playbook.")
    kept = OutputDirectory(str(state.root))
    output = kept.session(session_id)
    if earlier := [job for job in output.jobs() if job.id != batch_job(session_id)]:
        _forget(earlier, kept.share() - size_of(kept.root))
    job = output.job(job_id)
    env = {**command.env, MARK: job_id}
    prepared = {
        name: engine.prepare_command(found[name].id, list(command.argv), command.user, command.directory, env)
        for name in replicas
    }
    known = output.read_info()
    owner = {"owner": record.owner, "shared_with": list(record.shared_with)}
    output.write_info(record.name, owner, known["ended"], known["replicas"])
    info = JobInfo(dict(on), tuple(command.argv), tuple(replicas), time.time(), _boot(), timeout=command.timeout)
    job.write_info(info)
    note = SuspicionFile(str(state.root))
    runner = run_in_background(PROCESS_NAME, lambda: _run_all(job, prepared, command, note))
    job.write_info(replace(info, runner=Runner(**runner)))


def _forget(jobs: Sequence[JobOutput], spare: int) -> None:
    """Remove the oldest ended jobs if there are too many or they use too much of the disk.

    spare: bytes that output may use in addition. Negative if it uses too much.
    """
    for number, job in enumerate(jobs):
        if spare >= 0 and len(jobs) - number < MOST_JOBS:
            return
        if not is_running(job):
            spare += size_of(job.path)
            shutil.rmtree(job.path, ignore_errors=True)


def _run_all(job: JobOutput, prepared: Mapping[str, str], command: Command, note: SuspicionFile) -> None:
    """Run the command in all replicas in parallel, which is the work of the background process."""
    runs = [threading.Thread(target=_run, args=(job, *run, command, note)) for run in prepared.items()]
    for run in runs:
        run.start()
    for run in runs:
        run.join()


def _run(job: JobOutput, replica: str, prepared: str, command: Command, note: SuspicionFile) -> None:
    """Run the command in one replica until it has ended, and record how it ended.

    A command that its host cannot start has not failed. The host becomes suspect, and a batch command starts again
    elsewhere.
    """
    end = _End()
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
        end.exit_code, has_begun = _exit_code(engine, prepared)
        failure = JobError(f"The command did not start in {replica}.")
        fault = None if has_begun else host_fault(failure, only_command=True)
        if fault is not None:
            note.remember(message_of(fault))
            if not (end.timed_out or end.stopped):
                end.problem, end.requeue = message_of(fault), True
    except (SessionError, OSError) as error:
        end.problem = f"The job could not be followed to its end: {error}"
    finally:
        done.set()
        if watch.is_alive():
            watch.join()
    if end.timed_out or end.stopped:
        end.exit_code = TIMED_OUT if end.timed_out else STOPPED
    job.write_end(replica, {**vars(end), "finished": time.time()})


def _without(secret: str, lines: list[Line]) -> list[Line]:
    """Return lines with the secret removed. An empty secret changes nothing."""
    if not secret:
        return lines
    return [(moment, stream, text.replace(secret, HIDDEN)) for moment, stream, text in lines]


def _exit_code(engine: Engine, prepared: str) -> tuple[int, bool]:
    """Return the exit code of a command whose output has ended, and whether it has begun, so that it had a process.

    Raises EngineError if its container is gone.
    """
    deadline = time.monotonic() + LAG
    while True:
        running, pid, code = engine.command_state(prepared)
        if not running and code is not None:
            return int(code), pid != 0 or code == 0
        if time.monotonic() > deadline:
            raise EngineError("Docker Engine does not report the exit code.")
        time.sleep(LOOK)


def _watch(job: JobOutput, prepared: str, command: Command, end: _End, done: threading.Event) -> None:
    """End the command at its timeout or on request, even before it has begun. Check for processes that work alone."""
    begun = time.monotonic()
    looks = list(ALONE_LOOKS if command.warn_alone else ())
    while not done.wait(LOOK):
        if looks and time.monotonic() >= begun + looks[0]:
            end.alone = _is_alone(prepared, job.id)
            looks = [] if end.alone else looks[1:]
        late = bool(command.timeout) and time.monotonic() >= begun + command.timeout
        if late or job.stop_file.exists():
            try:
                _end_command(job, prepared, end, late)
            except SessionError as error:
                end.problem = f"The job could not be ended: {error}"
                return


def _end_command(job: JobOutput, prepared: str, end: _End, late: bool) -> None:
    """End the processes of a command that is *late*, or whose end was requested. end: gets why. Raises EngineError."""
    running, pid, code = Engine.connect().command_state(prepared)
    requeue = not late and job.is_requeued()
    # A command that has ended by itself must not run again.
    has_ended = requeue and not running and code is not None
    if not (end.timed_out or end.stopped or has_ended):
        end.timed_out, end.stopped, end.requeue = late, not late, requeue
    _end(pid if running else 0, job.id)


def _is_alone(prepared: str, job_id: str) -> bool:
    """Return whether a process of the job was started as the only one of its kind."""
    try:
        running, pid, _code = Engine.connect().command_state(prepared)
    except SessionError:
        return False
    return running and any(bears(process, ALONE) for process in family(pid or -1, f"{MARK}={job_id}"))


def _end(leader: int, job_id: str) -> None:
    """End all processes of a job: send them a signal to end, and kill what is left after the grace time.

    leader: the command's own process, 0 if it is gone.
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
    """End a job on this host, even if its watching process is gone.

    requeue: the job starts again elsewhere. Returns when it has ended, or should have ended long ago.
    """
    if not is_running(job):
        _end(0, job.id)
        return
    job.ask_to_end(requeue=requeue)
    deadline = time.monotonic() + 2 * GRACE
    while requeue and is_running(job) and time.monotonic() < deadline:
        time.sleep(LOOK)


def is_running(job: JobOutput) -> bool:
    """Return whether a job runs in any replica of this host."""
    return any(outcome.status == RUNNING for outcome in outcomes(job))


def outcomes(job: JobOutput) -> list[JobOutcome]:
    """Return the state of a job in each replica of this host."""
    info = job.read_info()
    if info is None:
        return []
    runner = info.runner
    # A process that starts a job immediately records what watches it, unless it is killed.
    is_alive = start_of(runner.pid) == runner.start if runner else time.time() - info.started < LAG
    watched = info.boot == _boot() and is_alive
    found = []
    for replica in info.here:
        end = job.read_end(replica)
        if end is None and not watched:
            end = job.read_end(replica)  # it may have ended between the two checks
        status = ENDED if end is not None else RUNNING if watched else LOST
        problem = (
            "The process that watched the job is gone, such as after a reboot. How the job ended is not known."
            if status == LOST
            else ""
        )
        plain = {"job": job.id, "replica": replica, "status": status, "problem": problem, **(end or {})}
        found.append(JobOutcome.from_dict(plain))
    return found


def _boot() -> str:
    """Return the identifier of this boot of the host (random(4))."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
