# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run a job: start a command in replicas of a running session, or follow an earlier job, and report how it ended.

| step | what hosts do | what follows |
|---|---|---|
| look | every host reports what it knows of the session and its jobs | run; for an existing job end, or read |
| run | the job's hosts start the command | read, abort, or over if the user does not wait for it |
| abort | the job's hosts end it, because some could not start it, or did not report that they did | over, failed |
| end | the job's hosts end it | read |
| read | the job's hosts show what it writes, until it has ended if the user waits for that | over |

No step has the same name as a step of a launch: the progress on the terminal depends on the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model.answers import Answer, JobAnswer, OutputAnswer, read_answers
from ..model.calls import FindOutput, ReadOutput, StartJob, StopJob
from ..model.given import JobGiven, read_given
from ..model.output import JobOutcome
from ..model.record import RUNNING
from ..model.verb_state import JobState, StepCall, read_state
from ..rules.job import ENDED, LONGEST, LOST, UNKNOWN, describe, failure_of, plan_job
from ..rules.output import batch_job, rank_order, shown
from ..rules.site import Settings
from ..rules.users import check_choice
from .logs import choose
from .verb import PLACE, Answers, Outside, State, call

REFUSED = "The job cannot be run; nothing was started."
TO_START = (*PLACE, "env", "output_size")
"""The environment is read from the variable itself: its values may be secret, and a state is shown."""
SHOWN = ("status", "exit_code", "timed_out", "stopped", "alone", "problem")
"""Variables that programs get for a job in a replica."""
LAST_LINES = 10
"""Number of lines in a failure for each replica in which the job failed."""
SHORTEST = 0.1
"""Seconds for which the output of a job is followed if the user does not wait for its end: enough to read what
exists."""


def begin(given: Mapping[str, Any], hosts: Sequence[str], _outside: Outside) -> State:
    """Return the first state. given: of `JobGiven`. Raises CoreError."""
    wanted = read_given(JobGiven, given, "run_job")
    state = JobState(
        session_name=wanted.session_name, resource_group=wanted.resource_group, request=replace(wanted.request, env={})
    )
    look = call(dict.fromkeys(hosts, FindOutput(state.session_name)))
    title = "Find the session and its jobs on every host"
    return state.follow("look", title, "Decide where the job runs", [look])


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return the state that follows from the answers to the state's step. Raises InvalidInput if the job cannot run."""
    after = {"look": _planned, "run": _after_run, "abort": _after_abort, "end": _after_end, "read": _after_read}
    return after[state["step"]](read_state(JobState, state), answers, outside)


def _after_run(state: JobState, answers: Answers, outside: Outside) -> State:
    started = read_answers(JobAnswer, answers)
    failed = [host for host in state.hosts if started[host].started is None]
    if failed:
        state.problems = [f"{host}: {started[host].why_not}" for host in failed]
        # All of them: a host that did not answer may have started it, or have failed after starting it.
        stop = [_stop(state, state.hosts)]
        return state.follow("abort", "End it where it was started", "Report why it did not start", stop)
    return _judged(state, {}) if state.request.detach or outside.check_mode else _read(state)


def _after_abort(state: JobState, answers: Answers, _outside: Outside) -> State:
    found = read_answers(Answer, answers)
    return _failed(state, [host for host, answer in found.items() if answer.failed or answer.unreachable])


def _after_end(state: JobState, answers: Answers, _outside: Outside) -> State:
    # For unreachable hosts the next step reports it.
    state.problems = [
        f"{host}: The job could not be stopped. {answer.why_not}"
        for host, answer in read_answers(Answer, answers).items()
        if answer.failed and not answer.unreachable
    ]
    return _read(state)


def _after_read(state: JobState, answers: Answers, _outside: Outside) -> State:
    return _judged(state, read_answers(OutputAnswer, answers))


def _planned(state: JobState, answers: Answers, outside: Outside) -> State:
    """Return the state with the job in it: its id, and on, the host of each of its replicas."""
    request, name = state.request, state.session_name
    check_choice("job_user", request.user, outside.asker, Settings.from_variables(outside.site).root_users)
    found = read_answers(OutputAnswer, answers)
    chosen = choose(found, outside.asker, name, state.resource_group, "", request.id, "job_id")
    if chosen.job:
        job, on, command = chosen.job, chosen.jobs[chosen.job].on, chosen.jobs[chosen.job].command
    else:
        job, command = outside.draw().replace("-", "")[:12], request.command
        on = plan_job(request.on, name, chosen.copies)
    runs = "would run" if outside.check_mode else "runs"
    state.session_id, state.job, state.is_batch = chosen.session_id, job, job == batch_job(chosen.session_id)
    state.on, state.hosts, state.command = dict(on), sorted(set(on.values())), describe(command)
    state.announcement = f"Job {job} {runs} in session {name}, on {', '.join(on)}: {describe(command)}"
    if not request.id:
        start_job = StartJob(
            chosen.session_id,
            job,
            on,
            host="",
            command=request.command,
            directory=request.directory,
            user=request.user,
            timeout=request.timeout,
            warn_alone=request.warn_alone,
        )
        start = call({host: replace(start_job, host=host) for host in state.hosts}, TO_START)
        return state.follow("run", "Start the command on this host", "Check if the job runs", [start])
    if request.stop:
        return state.follow("end", "Stop the job", "See what was stopped", [_stop(state, state.hosts)])
    return _read(state)


def _stop(state: JobState, hosts: Iterable[str]) -> StepCall:
    return call(dict.fromkeys(hosts, StopJob(state.session_id, state.job)))


def _read(state: JobState) -> State:
    request = ReadOutput(
        state.session_id,
        job=state.job,
        follow_seconds=SHORTEST if state.request.detach else LONGEST,
        width=max(len(f"{replica}/{state.job}") for replica in state.on),
    )
    title = "Wait until the job ends if requested, and show its output"
    read = call(dict.fromkeys(state.hosts, request))
    return state.follow("read", title, "Find out how it ended", [read])


def _failed(state: JobState, left: Sequence[str]) -> State:
    """Return the last state of a job that could not be started. left: the hosts that could not end it."""
    ended = "The job could not be started; it was ended where it had begun."
    if left:
        ended += (
            f" Not on {', '.join(left)}: if it has begun there, stop it by run_job with job_id={state.job} and "
            "job_stop=true."
        )
    return state.over("\n".join([ended, *state.problems]))


def _judged(state: JobState, answers: Mapping[str, OutputAnswer]) -> State:
    """Return the last state with how the job ended in each replica. answers: none if the hosts were not asked yet.

    outcome: for programs; report: for people; failures: why it did not succeed, replica by replica.
    """
    outcomes = _outcomes(state, answers)
    failures = [*state.problems, *_failures(state, outcomes, answers)]
    found = [outcome.status for outcome in outcomes.values()]
    status = next((candidate for candidate in (RUNNING, UNKNOWN, LOST) if candidate in found), ENDED)
    replicas = {
        name: {"host": state.on[name], **{key: getattr(outcome, key) for key in SHOWN}}
        for name, outcome in outcomes.items()
    }
    whole = {"job": state.job, "session_id": state.session_id, "status": status}
    state.outcome = {**whole, "succeeded": status == ENDED and not failures, "replicas": replicas}
    state.report, state.failures = _report(state, outcomes, status), failures
    return state.over()


def _outcomes(state: JobState, answers: Mapping[str, OutputAnswer]) -> dict[str, JobOutcome]:
    """Return how the job ended in each replica, in rank order."""
    answered = {job.replica: job for answer in answers.values() for job in answer.jobs or ()}
    return {
        name: answered.get(name) or (_unknown(name, answers[state.on[name]]) if answers else JobOutcome(name, RUNNING))
        for name in sorted(state.on, key=rank_order)
    }


def _failures(
    state: JobState, outcomes: Mapping[str, JobOutcome], answers: Mapping[str, OutputAnswer]
) -> Iterator[str]:
    """Yield why the job did not succeed, each with the last lines of that replica."""
    lines = {source.replica: source.lines for answer in answers.values() for source in answer.sources or ()}
    for name, outcome in outcomes.items():
        if failure := failure_of(outcome, state.on[name]):
            last = [shown(name, 0, stream, text) for _time, stream, text in lines.get(name, [])[-LAST_LINES:]]
            yield "\n".join([failure, *last])


def _report(state: JobState, outcomes: Mapping[str, JobOutcome], status: str) -> list[str]:
    """Return the lines for people."""
    report = [f"Job {state.job} of session {state.session_name}: {state.command}"]
    report += [f"{name} on {state.on[name]}: {_in_words(outcome)}" for name, outcome in outcomes.items()]
    if alone := [name for name, outcome in outcomes.items() if outcome.alone]:
        report.append(
            f"A process in {', '.join(alone)} had WORLD_SIZE=1: it worked alone, although the session has several "
            "replicas. If that is intended, set job_warn_alone=false to hide this warning."
        )
    if status in (RUNNING, UNKNOWN):
        report.append(f"Come back to it with run_job, job_id={state.job}.")
    return report


def _unknown(replica: str, answer: OutputAnswer) -> JobOutcome:
    """Return the outcome in a replica whose host reports nothing about it."""
    why = "The host cannot be reached." if answer.unreachable else answer.msg or "The host has nothing of it."
    return JobOutcome(replica, UNKNOWN, problem=f"How the job ended is not known. {why}")


def _in_words(outcome: JobOutcome) -> str:
    """Return the outcome of a job in a replica in a few words."""
    if outcome.status != ENDED or outcome.exit_code is None:
        return outcome.status
    cause = " (timeout)" if outcome.timed_out else " (stopped)" if outcome.stopped else ""
    return f"exit code {outcome.exit_code}{cause}"
