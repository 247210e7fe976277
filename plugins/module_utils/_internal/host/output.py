# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read the output of the replicas of one host, and keep it when they are removed."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from ..adapters import engine_objects
from ..adapters.engine import Engine
from ..adapters.engine_objects import Container, read_inspected
from ..adapters.matcher import Matcher
from ..adapters.output import OutputDirectory, SessionOutput
from ..adapters.state import StateDirectory
from ..core.model.decode import Malformed, decode, encode
from ..core.model.host_parts import KnownSession
from ..core.model.output import JobCopy, JobOutcome, ReplicaEnd, SessionCopy, Since, Source
from ..core.model.record import RUNNING, Record, group_of
from ..core.rules.output import NO_JOB, Line, LineReader, Selection, nanoseconds_of, time_of
from ..core.values.deferred import dataclass
from ..core.values.errors import SessionError
from .jobs import outcomes

FEW = 1000
"""Messages to request first to continue a log, because an engine finds only the last ones fast."""
CONTAINER_ID = 12
"""Number of digits of a container's id that identify it on a host, as in Docker's own output."""
POLL = 0.25
"""Seconds between two checks while nothing new is written."""


@dataclass
class LogArchive:
    """Keeps the output of containers that are about to be removed.

    size: maximum number of bytes of a replica, 0 keeps nothing. seconds: for how long. most: of how many sessions on
    this host. ends: by session, how each replica ended. problems: why output could not be kept, which does not prevent
    a removal.
    """

    engine: Engine
    state: StateDirectory
    size: int
    seconds: float
    most: int
    ends: dict[str, dict[str, ReplicaEnd]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, entry: Container) -> None:
        """Keep the newest lines of a listed container that was stopped, and how it ended."""
        session_id, replica = entry.labels.session_id, entry.replica
        if not self.size or not replica:
            return
        try:
            chosen = Selection(size=self.size)
            for line in read_log(self.engine, entry.id, LineReader()):
                chosen.add(line)
            output = OutputDirectory(str(self.state.root)).session(session_id)
            output.write_container(replica, entry.id[:CONTAINER_ID], chosen.lines)
            self.ends.setdefault(session_id, {})[replica] = self._end(entry.id)
        except (SessionError, OSError) as error:
            self.problems.append(f"The output of {replica} could not be kept: {error}")

    def _end(self, container: str) -> ReplicaEnd:
        found = self.engine.inspect(container) or read_inspected({})
        return ReplicaEnd(found.exit_code, found.out_of_memory, found.finished)

    def note(self, record: Record) -> None:
        """Record how replicas of a continuing session have ended."""
        if record.id not in self.ends:
            return
        output = OutputDirectory(str(self.state.root)).session(record.id)
        owner = {"owner": record.owner, "shared_with": list(record.shared_with)}
        try:
            ends = {**output.read_info()["replicas"], **encode(self.ends[record.id])}
            output.write_info(record.name, owner, None, ends)
        except (SessionError, OSError) as error:
            self.problems.append(f"How replicas have ended could not be written down: {error}")

    def finish(self, sessions: Iterable[KnownSession]) -> None:
        """Record that these sessions have ended here, and remove output whose retention time is over."""
        directory = OutputDirectory(str(self.state.root))
        try:
            for session in sessions:
                output = directory.session(session.id)
                if not self.size:
                    directory.remove(session.id)
                elif session.id in self.ends or output.path.exists():
                    ends = {**output.read_info()["replicas"], **encode(self.ends.get(session.id, {}))}
                    owner = {"owner": session.owner, "shared_with": list(session.shared_with)}
                    output.write_info(session.name, owner, time.time(), ends)
            prune(self.state, self.seconds, self.most)
        except (SessionError, OSError) as error:
            self.problems.append(f"What is kept of output could not be put in order: {error}")


def own_archive(engine: Engine, state: StateDirectory) -> LogArchive:
    """Return the archive for the output of containers that this host removes by itself, as configured."""
    kept = state.read_settings()
    return LogArchive(engine, state, kept.output_size, kept.output_days * 86400, kept.output_sessions)


def prune(state: StateDirectory, seconds: float, most: int, check_mode: bool = False) -> list[str]:
    """Remove output whose retention time is over or that uses too much of the disk. Return the sessions."""
    directory = OutputDirectory(str(state.root))
    running = {key for key in directory.session_ids() if state.session(key).host_file.exists()}
    surplus = directory.surplus(time.time(), seconds, most, running, directory.share())
    if not check_mode:
        for session_id in surplus:
            directory.remove(session_id)
    return surplus


def known_sessions(
    state: StateDirectory, session_name: str, session_id: str = "", states: bool = False
) -> list[SessionCopy]:
    """Return the sessions with this name or id for which this host has a record or output.

    states: whether ``members`` contains the states of its replicas on this host.
    """
    found = {
        record.id: _of_record(record, state.session(record.id).read_host(), states)
        for record in state.records()[0]
        if (session_id or record.id) == record.id and record.name == session_name
    }
    directory = OutputDirectory(str(state.root))
    for key in directory.session_ids():
        output = directory.session(key)
        about = output.read_info()
        if about["name"] == session_name and (session_id or key) == key:
            session = found.get(key, SessionCopy(key, owner=about["owner"], shared_with=tuple(about["shared_with"])))
            ends = {replica: _read_end(end) for replica, end in about["replicas"].items()}
            found[key] = replace(session, ended=output.ended(), replicas=ends, jobs=_jobs(output))
    return [found[key] for key in sorted(found)]


def _of_record(record: Record, host: str | None, states: bool) -> SessionCopy:
    """Return what a record shows of a session. host: this host's name in it. states: as of `known_sessions`."""
    members = _members(record, host)
    return SessionCopy(
        record.id,
        record.status,
        record.revision,
        record.owner,
        record.shared_with,
        group_of(record),
        host=host,
        hosts=record.hosts,
        members={**members, **_states(record.id)} if states and members else members,
    )


def _read_end(end: object) -> ReplicaEnd:
    """Return how a replica ended, as another release may have written it."""
    try:
        return decode(ReplicaEnd, end, "The end of a replica", forgiving=True)
    except Malformed:
        return ReplicaEnd()


def _jobs(output: SessionOutput) -> dict[str, JobCopy]:
    """Return where the jobs of a session run and what they are, by id, as far as their descriptions can be read."""
    jobs = {job.id: job.read_info() for job in output.jobs()}
    return {key: JobCopy(info.on, info.command, info.here) for key, info in jobs.items() if info is not None}


def _members(record: Record, host: str | None) -> dict[str, str]:
    """Return the planned replicas of a session on this host."""
    replicas = record.replicas if record.status == RUNNING else ()
    return {replica.name: "missing" for replica in replicas if replica.host == host}


def _states(session_id: str) -> dict[str, str]:
    """Return the states of a session's containers: ``running``, or why they cannot be used."""
    found = {}
    for entry in Engine.connect().session_containers({engine_objects.LABEL_SESSION_ID: session_id}):
        health = [word for word in ("starting", "unhealthy") if f"{word})" in entry.status]
        found[entry.replica] = health[0] if health else entry.state
    return found


def read_log(engine: Engine, container: str, reader: LineReader) -> Iterator[Line]:
    """Yield the output of a container since the last read of *reader*."""
    since = ""
    if reader.since:
        seconds, rest = divmod(nanoseconds_of(reader.since), 10**9)
        since = f"{seconds}.{rest:09d}"
        few = _messages(engine, container, since)
        if few is not None:
            yield from reader.feed(few)
            return
    for chunk in engine.log_stream(container, since):
        yield from reader.feed(chunk)


def _messages(engine: Engine, container: str, since: str) -> bytes | None:
    """Return the messages since a time if they are few. None if there may be more than were requested."""
    found = b"".join(engine.log_stream(container, since, FEW))
    counter, place = 0, 0
    while place < len(found):
        place += 8 + int.from_bytes(found[place + 4 : place + 8], "big")
        counter += 1
    return found if counter < FEW else None


@dataclass(frozen=True)
class Question:
    """The requested part of a session's output on this host; see `core.model.output.LogsRequest`."""

    session_id: str
    replicas: Collection[str]
    since: Since
    tail: int | None
    grep: str
    size: int
    job: str = ""

    def selection(self) -> Selection:
        """Return the filter for the lines of one replica."""
        seconds, since = self.since.seconds, self.since.time
        if seconds is not None:
            since = time_of(max(0, time.time_ns() - seconds * 10**9))
        return Selection(since, self.tail, self.size)


class OutputReader:
    """Reads the output of one session on this host repeatedly, and each line once."""

    def __init__(self, state: StateDirectory, question: Question, positions: Mapping[str, Any] | None = None) -> None:
        """Continue at *positions*, which `positions` of an earlier reader returned."""
        self._engine = Engine.connect()
        self._output: SessionOutput = OutputDirectory(str(state.root)).session(question.session_id)
        self._question = question
        self._matcher = Matcher(question.grep) if question.grep else None
        self._reads_on = positions is not None
        self.positions = dict(positions or {})
        self.running = 0
        self.jobs: list[JobOutcome] = []

    def close(self) -> None:
        """End the search for lines."""
        if self._matcher is not None:
            self._matcher.close()

    def read(self) -> list[Source]:
        """Return the new lines of each replica and job. ``left_out`` is the number of older lines over the limit."""
        only_job = self._question.job not in ("", NO_JOB)
        sources: dict[tuple[str, str], Selection] = {}
        self.jobs = []
        # The states are read before the output, so that the output of a program that has ended is complete.
        if self._question.job != NO_JOB:
            self._add_jobs(sources)
        self.running = sum(job.status == RUNNING for job in self.jobs)
        if not only_job:
            self._add_containers(sources)
        self._reads_on = True
        return [
            Source(replica, job, tuple(selection.lines), selection.left_out)
            for (replica, job), selection in sources.items()
        ]

    def _add_jobs(self, sources: dict[tuple[str, str], Selection]) -> None:
        for job in self._output.jobs():
            if self._question.job in ("", job.id):
                for outcome in outcomes(job):
                    if self._is_wanted(outcome.replica):
                        self.jobs.append(outcome)
                        key = f"{job.id}/{outcome.replica}"
                        lines, self.positions[key] = job.read(outcome.replica, self.positions.get(key))
                        chosen = sources.setdefault((outcome.replica, job.id), self._selection())
                        self._add(chosen, lines)

    def _add_containers(self, sources: dict[tuple[str, str], Selection]) -> None:
        labels = {engine_objects.LABEL_SESSION_ID: self._question.session_id}
        live = {entry.id[:CONTAINER_ID]: entry for entry in self._engine.session_containers(labels)}
        self.running += sum(entry.runs for entry in live.values())
        for replica, container in self._output.containers():
            if container not in live and self._is_wanted(replica):
                self._add_kept(sources, replica, container)
        for container, entry in live.items():
            if self._is_wanted(entry.replica):
                reader = LineReader(self.positions.get(container))
                chosen = sources.setdefault((entry.replica, ""), self._selection())
                self._add(chosen, read_log(self._engine, entry.id, reader))
                self.positions[container] = reader.position()

    def read_when_written(self, seconds: float) -> list[Source]:
        """Return new lines as soon as there are any, or nothing after this many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.read()
            if any(source.lines for source in found) or not self.running or time.monotonic() > deadline:
                return found
            time.sleep(POLL)

    def _selection(self) -> Selection:
        question = self._question
        return Selection(size=question.size) if self._reads_on else question.selection()

    def _add(self, chosen: Selection, lines: Iterable[Line]) -> None:
        """Choose from the lines that match."""
        if self._matcher is not None:
            lines = self._matcher.matching(line for line in lines if line[0] >= chosen.since)
        for line in lines:
            chosen.add(line)

    def _is_wanted(self, replica: str) -> bool:
        return not self._question.replicas or replica in self._question.replicas

    def _add_kept(self, sources: dict[tuple[str, str], Selection], replica: str, container: str) -> None:
        """Add the kept output of a removed container. If it was followed until then, add only what is new."""
        known = str(self.positions.get(container, {}).get("time", ""))

        def new_lines() -> Iterator[Line]:
            for line in self._output.read_container(replica, container):
                if line[0] > known:
                    self.positions[container] = {"time": line[0], "count": 0, "open": {}}
                    yield line

        self._add(sources.setdefault((replica, ""), self._selection()), new_lines())
