# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read what the replicas of one host write, and keep it when they are removed."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..adapters import engine as docker_engine
from ..adapters.engine import Engine
from ..adapters.matcher import Matcher
from ..adapters.output import OutputDirectory, SessionOutput, whose
from ..adapters.state import StateDirectory
from ..core.model.record import RUNNING, Record, group_of
from ..core.rules.output import NO_JOB, Line, LineReader, Selection, nanoseconds_of, time_of
from ..core.values.errors import SessionError
from .jobs import outcomes

FEW = 1000
"""Messages that are asked for first when a log is read on: an engine finds the last ones fast, all others slowly."""
CONTAINER_ID = 12
"""Digits of a container's id that tell it from the others of a host, as Docker shows them."""
POLL = 0.25
"""Seconds between two looks while nothing new is written."""


@dataclass
class LogArchive:
    """Keeps the output of containers that are about to be removed.

    size: most bytes of a replica; 0 keeps nothing. seconds: for how long. most: of how many sessions on this host.
    ends: by session, how each replica ended. problems: why output could not be kept, which keeps nothing from being
    removed.
    """

    engine: Engine
    state: StateDirectory
    size: int
    seconds: float
    most: int
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, entry: Mapping[str, Any]) -> None:
        """Keep the newest lines of a listed container that was stopped, and how it ended."""
        session_id = docker_engine.session_id_of(entry["Labels"])
        replica = entry["Labels"].get(docker_engine.LABEL_REPLICA, "")
        if not self.size or not replica:
            return
        try:
            chosen = Selection(size=self.size)
            for line in read_log(self.engine, entry["Id"], LineReader()):
                chosen.add(line)
            output = OutputDirectory(str(self.state.root)).session(session_id)
            output.write_container(replica, entry["Id"][:CONTAINER_ID], chosen.lines)
            self.ends.setdefault(session_id, {})[replica] = self._end(entry["Id"])
        except (SessionError, OSError) as error:
            self.problems.append(f"The output of {replica} could not be kept: {error}")

    def _end(self, container: str) -> dict[str, Any]:
        state = (self.engine.inspect(container) or {}).get("State") or {}
        return {
            "exit_code": state.get("ExitCode"),
            "oom_killed": bool(state.get("OOMKilled")),
            "finished": str(state.get("FinishedAt") or ""),
        }

    def note(self, record: Record) -> None:
        """Write down how replicas have ended of a session that goes on."""
        if record.id not in self.ends:
            return
        output = OutputDirectory(str(self.state.root)).session(record.id)
        owner = {"owner": record.owner, "shared_with": list(record.shared_with)}
        try:
            output.write_info(record.name, owner, None, {**output.read_info()["replicas"], **self.ends[record.id]})
        except (SessionError, OSError) as error:
            self.problems.append(f"How replicas have ended could not be written down: {error}")

    def finish(self, sessions: Mapping[str, Mapping[str, Any]]) -> None:
        """Write down that these sessions, by id, have ended here, and remove what was kept for long enough."""
        directory = OutputDirectory(str(self.state.root))
        try:
            for session_id, session in sessions.items():
                output = directory.session(session_id)
                if not self.size:
                    directory.remove(session_id)
                elif session_id in self.ends or output.path.exists():
                    ends = {**output.read_info()["replicas"], **self.ends.get(session_id, {})}
                    output.write_info(session["name"], whose(session), time.time(), ends)
            prune(self.state, self.seconds, self.most)
        except (SessionError, OSError) as error:
            self.problems.append(f"What is kept of output could not be put in order: {error}")


def own_archive(engine: Engine, state: StateDirectory) -> LogArchive:
    """Return what keeps the output of containers that this host removes by itself, as it was told to."""
    kept = state.read_settings()
    return LogArchive(engine, state, kept.output_size, kept.output_days * 86400, kept.output_sessions)


def prune(state: StateDirectory, seconds: float, most: int, check_mode: bool = False) -> list[str]:
    """Remove output that has been kept for long enough, or takes too much of the disk, and return whose."""
    directory = OutputDirectory(str(state.root))
    running = {key for key in directory.session_ids() if state.session(key).host_file.exists()}
    surplus = directory.surplus(time.time(), seconds, most, running, directory.share())
    if not check_mode:
        for session_id in surplus:
            directory.remove(session_id)
    return surplus


def known_sessions(
    state: StateDirectory, session_name: str, session_id: str = "", states: bool = False
) -> list[dict[str, Any]]:
    """Return the sessions of this name, or with this id, that this host has a record or output of.

    states: whether ``members`` tells what its replicas on this host are doing.
    """
    found: dict[str, dict[str, Any]] = {}
    for record in state.records()[0]:
        if (session_id or record.id) == record.id and record.name == session_name:
            host = state.session(record.id).read_host()
            found[record.id] = {
                **_nothing_known(record.id),
                "status": record.status,
                "revision": record.revision,
                "owner": record.owner,
                "shared_with": list(record.shared_with),
                "resource_group": group_of(record),
                "hosts": list(record.hosts),
                "host": host,
                "members": _members(record, host),
            }
    for key, session in found.items():
        if states and session["members"]:
            session["members"].update(_states(key))
    directory = OutputDirectory(str(state.root))
    for key in directory.session_ids():
        output = directory.session(key)
        description = output.read_info()
        if description["name"] == session_name and (session_id or key) == key:
            session = found.setdefault(key, {**_nothing_known(key), **whose(description)})
            jobs = {job.id: job.read_info() for job in output.jobs()}
            session.update(
                ended=output.ended(),
                replicas=description["replicas"],
                jobs={key: {name: job[name] for name in ("on", "here", "command")} for key, job in jobs.items() if job},
            )
    return [found[key] for key in sorted(found)]


def _nothing_known(session_id: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {"hosts": [], "members": {}, "replicas": {}, "jobs": {}}
    return {"id": session_id, "status": "", "revision": 0, "resource_group": "", "ended": None, **whose({}), **nothing}


def _members(record: Record, host: str | None) -> dict[str, str]:
    """Return the replicas that a session is to have on this host."""
    replicas = record.replicas if record.status == RUNNING else ()
    return {replica.name: "missing" for replica in replicas if replica.host == host}


def _states(session_id: str) -> dict[str, str]:
    """Return what the containers of a session are doing: ``running``, or what keeps them from being used."""
    found = {}
    for entry in Engine.connect().session_containers({docker_engine.LABEL_SESSION_ID: session_id}):
        state = str(entry["State"])
        health = [word for word in ("starting", "unhealthy") if f"{word})" in str(entry.get("Status"))]
        found[entry["Labels"].get(docker_engine.LABEL_REPLICA, "")] = health[0] if health else state
    return found


def read_log(engine: Engine, container: str, reader: LineReader) -> Iterator[Line]:
    """Yield what a container has written since *reader* was there last."""
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
    """Return the messages since a moment if they are few; None where there may be more than were asked for."""
    found = b"".join(engine.log_stream(container, since, FEW))
    counter, place = 0, 0
    while place < len(found):
        place += 8 + int.from_bytes(found[place + 4 : place + 8], "big")
        counter += 1
    return found if counter < FEW else None


@dataclass(frozen=True)
class Question:
    """What of a session's output on this host is asked for; see `core.output.LogsRequest`."""

    session_id: str
    replicas: Collection[str]
    since: Mapping[str, Any]
    tail: int | None
    grep: str
    size: int
    job: str = ""

    def selection(self) -> Selection:
        """Return what picks the lines of one replica."""
        since = str(self.since.get("time", ""))
        if "seconds" in self.since:
            since = time_of(max(0, time.time_ns() - int(self.since["seconds"]) * 10**9))
        return Selection(since, self.tail, self.size)


class OutputReader:
    """Reads the output of one session on this host, again and again, each line once."""

    def __init__(self, state: StateDirectory, question: Question, positions: Mapping[str, Any] | None = None) -> None:
        """Go on at *positions*, which `positions` of an earlier reader returned."""
        self._engine = Engine.connect()
        self._output: SessionOutput = OutputDirectory(str(state.root)).session(question.session_id)
        self._question = question
        self._matcher = Matcher(question.grep) if question.grep else None
        self._reads_on = positions is not None
        self.positions: dict[str, Any] = dict(positions or {})
        self.running = 0
        self.jobs: list[dict[str, Any]] = []

    def close(self) -> None:
        """End what looks for lines."""
        if self._matcher is not None:
            self._matcher.close()

    def read(self) -> list[dict[str, Any]]:
        """Return the new lines of each replica and job, ``left_out`` being how many older ones were too many."""
        only_job = self._question.job not in ("", NO_JOB)
        sources: dict[tuple[str, str], Selection] = {}
        self.jobs = []
        # What still runs is asked for before what was written, so that of what has ended nothing is missing.
        if self._question.job != NO_JOB:
            self._add_jobs(sources)
        self.running = sum(job["status"] == RUNNING for job in self.jobs)
        if not only_job:
            self._add_containers(sources)
        self._reads_on = True
        return [
            {
                "replica": replica,
                "job": job,
                "lines": [list(line) for line in selection.lines],
                "left_out": selection.left_out,
            }
            for (replica, job), selection in sources.items()
        ]

    def _add_jobs(self, sources: dict[tuple[str, str], Selection]) -> None:
        for job in self._output.jobs():
            if self._question.job in ("", job.id):
                for outcome in outcomes(job):
                    replica = outcome["replica"]
                    if self._is_wanted(replica):
                        self.jobs.append(outcome)
                        key = f"{job.id}/{replica}"
                        lines, self.positions[key] = job.read(replica, self.positions.get(key))
                        chosen = sources.setdefault((replica, job.id), self._selection())
                        self._add(chosen, lines)

    def _add_containers(self, sources: dict[tuple[str, str], Selection]) -> None:
        labels = {docker_engine.LABEL_SESSION_ID: self._question.session_id}
        live = {entry["Id"][:CONTAINER_ID]: entry for entry in self._engine.session_containers(labels)}
        self.running += sum(entry["State"] == "running" for entry in live.values())
        for replica, container in self._output.containers():
            if container not in live and self._is_wanted(replica):
                self._add_kept(sources, replica, container)
        for container, entry in live.items():
            replica = entry["Labels"].get(docker_engine.LABEL_REPLICA, "")
            if self._is_wanted(replica):
                reader = LineReader(self.positions.get(container))
                chosen = sources.setdefault((replica, ""), self._selection())
                self._add(chosen, read_log(self._engine, entry["Id"], reader))
                self.positions[container] = reader.position()

    def read_when_written(self, seconds: float) -> list[dict[str, Any]]:
        """Return new lines as soon as there are any, or nothing after so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.read()
            if any(source["lines"] for source in found) or not self.running or time.monotonic() > deadline:
                return found
            time.sleep(POLL)

    def _selection(self) -> Selection:
        question = self._question
        return Selection(size=question.size) if self._reads_on else question.selection()

    def _add(self, chosen: Selection, lines: Iterable[Line]) -> None:
        """Choose from the lines that hold what is looked for."""
        if self._matcher is not None:
            lines = self._matcher.matching(line for line in lines if line[0] >= chosen.since)
        for line in lines:
            chosen.add(line)

    def _is_wanted(self, replica: str) -> bool:
        return not self._question.replicas or replica in self._question.replicas

    def _add_kept(self, sources: dict[tuple[str, str], Selection], replica: str, container: str) -> None:
        """Add what is kept of a removed container; of one that was followed until then, what is new."""
        known = str(self.positions.get(container, {}).get("time", ""))

        def new_lines() -> Iterator[Line]:
            for line in self._output.read_container(replica, container):
                if line[0] > known:
                    self.positions[container] = {"time": line[0], "count": 0, "open": {}}
                    yield line

        self._add(sources.setdefault((replica, ""), self._selection()), new_lines())
