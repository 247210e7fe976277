# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Logs: find the requested session, read what its replicas wrote, and report what is missing.

| step | what hosts do | what follows |
|---|---|---|
| look | every host reports which sessions of the name it knows | read |
| read | hosts that have anything of the requested session read it, and follow it on request | the end |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model.answers import SILENCE, OutputAnswer, read_answers
from ..model.calls import FindOutput, ReadOutput
from ..model.given import LogsGiven, read_given
from ..model.output import JobCopy, ReplicaEnd, SessionCopy
from ..model.record import ENDED, PENDING
from ..model.verb_state import LogsState, read_state
from ..rules.access import Asker
from ..rules.output import BATCH, NO_JOB, batch_job, rank_order, speaker, time_of
from ..values.deferred import dataclass
from ..values.errors import InvalidInput
from .verb import Answers, Outside, State, call

REFUSED = "There are no logs to show."


@dataclass(frozen=True)
class Chosen:
    """The requested session.

    job: id of the requested job; empty if there is none. copies: by host that knows the session its report of it.
    notes: lines for people about the session, and about hosts that report nothing.
    """

    session_id: str
    job: str
    copies: Mapping[str, SessionCopy]
    notes: list[str]

    @property
    def members(self) -> dict[str, str]:
        """The host of each existing replica."""
        return {replica: host for host, copy in self.copies.items() for replica in copy.members}

    @property
    def jobs(self) -> dict[str, JobCopy]:
        """The jobs that are known: the command of each, and on, the host of each of its replicas.

        The host that stores the end of a replica reports where it ran, since its name may have changed.
        """
        found = {key: job for copy in self.copies.values() for key, job in copy.jobs.items()}
        here = [
            (key, replica, host)
            for host, copy in self.copies.items()
            for key, job in copy.jobs.items()
            for replica in job.here
        ]
        return {
            key: replace(job, on={**job.on, **{replica: host for of, replica, host in here if of == key}})
            for key, job in found.items()
        }


def choose(
    answers: Mapping[str, OutputAnswer],
    asker: Asker,
    name: str,
    resource_group: str,
    session_id: str,
    job: str,
    job_variable: str = "logs_job",
) -> Chosen:
    """Return the requested session: one that is recorded before those that have ended, else the newest.

    If several are recorded it is the one of the resource group: groups that share hosts may both use a name.

    A job identifies its session, but a batch command does not: it belongs to the session that is chosen without it.
    asker: the user who requests it. job_variable: the variable that names the job. Raises InvalidInput if there is no
    such session or job, and if it belongs to another user.
    """
    notes = [_missing(host, answer) for host, answer in answers.items() if answer.sessions is None]
    known = _by_id(answers)
    copies = {key: list(own.values()) for key, own in known.items()}
    wanted = "" if job in (NO_JOB, BATCH) else job
    meant = _with_job(copies, wanted)
    if not meant and copies:
        raise InvalidInput.single(job_variable, job, _no_such_job(asker, name, copies.values()))
    if not meant:
        nothing = f"The resource group {resource_group} has no such session, and keeps nothing of one that has ended."
        place = ("logs_session_id", session_id) if session_id else ("session_name", name)
        raise InvalidInput.single(*place, " ".join([nothing, *notes]))
    found = max(meant, key=lambda key: (_age(meant[key], resource_group), key))
    _check(asker, name, copies[found])
    notes = [*_state_of(f"Session {name} ({found})", copies[found]), *notes]
    wanted = batch_job(found) if job == BATCH else wanted
    if job == BATCH and not _knows(copies[found], wanted):
        statuses = {copy.status for copy in copies[found]}
        raise InvalidInput.single(job_variable, BATCH, " ".join([_no_batch(name, found, statuses), *notes]))
    return Chosen(found, wanted, _in_own_names(known[found]), notes)


def _in_own_names(copies: Mapping[str, SessionCopy]) -> dict[str, SessionCopy]:
    """Return copies with the names that their hosts have in the inventory."""
    names = {copy.host: host for host, copy in copies.items() if copy.host}
    return {
        host: replace(copy, hosts=tuple(names.get(name, name) for name in copy.hosts)) for host, copy in copies.items()
    }


def _by_id(answers: Mapping[str, OutputAnswer]) -> dict[str, dict[str, SessionCopy]]:
    """Return the copies of each session, by host."""
    copies: dict[str, dict[str, SessionCopy]] = {}
    for host, answer in answers.items():
        for copy in answer.sessions or ():
            copies.setdefault(copy.id, {})[host] = copy
    return copies


def _with_job(copies: Mapping[str, Sequence[SessionCopy]], job: str) -> dict[str, Sequence[SessionCopy]]:
    """Return the sessions that have a job; all if none is meant."""
    return {key: own for key, own in copies.items() if not job or _knows(own, job)}


def _knows(copies: Iterable[SessionCopy], job: str) -> bool:
    """Tell whether a job is one of a session."""
    return any(job in copy.jobs for copy in copies)


def _no_such_job(asker: Asker, name: str, copies: Collection[Sequence[SessionCopy]]) -> str:
    """Return that sessions of this name do not have a job. Raises InvalidInput if all belong to other users."""
    theirs = [own for own in copies if _refusal(asker, name, own) is None]
    for own in [] if theirs else copies:
        _check(asker, name, own)
    jobs = {key for own in theirs for copy in own for key in copy.jobs}
    return f"Session {name} has no such job. It has {', '.join(sorted(jobs)) or 'none'}."


def _age(copies: Sequence[SessionCopy], resource_group: str) -> tuple[bool, bool, float]:
    """Return what orders sessions of one name: whether recorded, whether of this group, and when it ended."""
    return (
        any(copy.status for copy in copies),
        any(copy.resource_group == resource_group for copy in copies),
        _ended(copies),
    )


def _ended(copies: Sequence[SessionCopy]) -> float:
    return max(float(copy.ended or 0) for copy in copies)


def _state_of(session: str, copies: Sequence[SessionCopy]) -> list[str]:
    """Return what people should know of a session that does not run."""
    statuses, ended = {copy.status for copy in copies}, _ended(copies)
    if statuses <= {"", *ENDED} and ended:
        return [f"{session} ended at {time_of(int(ended) * 10**9)[:19]}Z."]
    return [f"{session} waits in the queue, so nothing of it runs."] if PENDING in statuses else []


def _refusal(asker: Asker, name: str, copies: Sequence[SessionCopy]) -> str | None:
    """Return why a session is another user's, according to the newest of its copies; None if it is not."""
    newest = max(copies, key=lambda copy: (copy.revision, bool(copy.owner)))
    return asker.refusal(name, newest.owner, newest.shared_with)


def _check(asker: Asker, name: str, copies: Sequence[SessionCopy]) -> None:
    """Reject a session of another user. Raises InvalidInput."""
    why = _refusal(asker, name, copies)
    if why is not None:
        raise InvalidInput.single("session_name", name, why)


def _no_batch(name: str, session_id: str, statuses: set[str]) -> str:
    if PENDING in statuses:
        return f"The batch command of session {name} ({session_id}) is not started yet."
    return (
        f"No host that answered has started a batch command of session {name} ({session_id}). If it was asked for with "
        "session_batch_command, launch the session again."
    )


def _missing(host: str, answer: OutputAnswer) -> str:
    why = "It could not be reached." if answer.unreachable else answer.msg or SILENCE
    return f"{host}: What its replicas wrote is missing. {why}"


def begin(given: Mapping[str, Any], hosts: Sequence[str], _outside: Outside) -> State:
    """Return the first state. given: of `LogsGiven`. Raises CoreError."""
    wanted = read_given(LogsGiven, given, "logs")
    state = LogsState(session_name=wanted.session_name, resource_group=wanted.resource_group, request=wanted.request)
    title = "Find the sessions with this name on every host"
    look = call(dict.fromkeys(hosts, FindOutput(wanted.session_name)))
    return state.follow("look", title, "Choose the session", [look])


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return the state that follows from the answers to the state's step. Raises InvalidInput if there is nothing."""
    after = {"look": _chosen, "read": _read}
    return after[state["step"]](read_state(LogsState, state), read_answers(OutputAnswer, answers), outside)


def _read(state: LogsState, answers: Mapping[str, OutputAnswer], _outside: Outside) -> State:
    state.notes += _left_out(state, answers)
    return state.over()


def _chosen(state: LogsState, answers: Mapping[str, OutputAnswer], outside: Outside) -> State:
    request = state.request
    chosen = choose(answers, outside.asker, state.session_name, state.resource_group, request.session_id, request.job)
    ends = {replica: end for copy in chosen.copies.values() for replica, end in copy.replicas.items()}
    jobs = [chosen.job] if chosen.job else [] if request.job else list(chosen.jobs)
    of_jobs = [f"{replica}/{job}" for job in jobs for replica in chosen.jobs[job].on]
    wanted = ReadOutput(
        chosen.session_id,
        request.replicas,
        request.since,
        request.tail,
        request.job,
        request.grep,
        request.size,
        follow_seconds=0 if outside.check_mode else request.follow_seconds,
        width=max(map(len, [*ends, *chosen.members, *request.replicas, "main1", *of_jobs])),
        timestamps=request.timestamps,
    )
    state.hosts, state.members = list(chosen.copies), chosen.members
    state.notes = [*chosen.notes, *(_end(replica, ends[replica]) for replica in sorted(ends, key=rank_order))]
    read = call(dict.fromkeys(chosen.copies, wanted))
    return state.follow("read", "Read the output on this host", "Find out what is missing", [read])


def _end(replica: str, end: ReplicaEnd) -> str:
    cause = ", killed because it ran out of memory" if end.oom_killed else ""
    return f"Replica {replica} was removed; it had ended with exit code {end.exit_code}{cause}."


def _left_out(state: LogsState, answers: Mapping[str, OutputAnswer]) -> Iterable[str]:
    """Yield what is missing of the requested output."""
    request, members = state.request, state.members
    for host, answer in answers.items():
        if answer.sources is None:
            yield _missing(host, answer)
    sources = [source for answer in answers.values() for source in answer.sources or ()]
    for source in sorted(sources, key=lambda source: (rank_order(source.replica), source.job)):
        if source.left_out:
            yield (
                f"{speaker(source)}: {source.left_out} older lines are left out; logs_size allows {request.size} "
                "bytes of a replica."
            )
    if request.job not in ("", NO_JOB):
        return
    wrote = {source.replica for source in sources if not source.job}
    for replica in sorted({*(request.replicas or members)} - wrote, key=rank_order):
        if replica not in members:
            yield f"Nothing is known of a replica {replica} of this session."
        elif answers[members[replica]].sources is not None:
            where = f"Replica {replica} on {members[replica]}"
            yield f"{where} has no container. Whatever it wrote went with the container."
