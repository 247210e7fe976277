# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Record the time of running sessions, warn their programs, and end those over time, as `rules.durations` decides.

A timer checks this periodically (`prepare_hosts`), and so does each repair. A host ends its own part of a session whose
time is over. It ends an idle session if it is the only host of the session. Otherwise it reports the idle time with its
facts, because it cannot decide for other hosts. The record of an ended session has the status TERMINATED. The next run
from a controller informs the other hosts.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from ..adapters.background import parent_of, start_of
from ..adapters.engine import PATIENCE, Engine
from ..adapters.engine_objects import LABEL_SESSION_ID, Container
from ..adapters.ledger import LedgerFile, boot_id
from ..adapters.state import SessionDirectory, StateDirectory, write_file
from ..core.model.claims import COMMITTED
from ..core.model.decode import decode_known, encode
from ..core.model.host_parts import KnownSession
from ..core.model.record import ENDED, RUNNING, TERMINATED, Record, advance, is_stub
from ..core.model.times import Counters, Limits, PartTimes, Sample, Times
from ..core.rules import durations as rules
from ..core.rules.durations import limits_of
from ..core.values.errors import CoreError, SessionError, message_of
from .disk import members_by_container

WARNING = "end_warning.json"
"""Next to the other files of a replica, which sees them below /etc/cluster-compute."""
SIGNAL = signal.SIGUSR1
PATIENT = 5.0
"""Seconds to wait for another process that works on a session. The next check comes soon."""

PARALLEL = 16
"""Number of replicas to check in parallel."""

Members = Callable[[], Mapping[str, list[int]]]
Clock = Callable[[], float]


def boot_clock() -> float:
    """Return the seconds since this host's boot, including those in which it was suspended (clock_gettime(2))."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def keep_time(
    engine: Engine, state: StateDirectory, check_mode: bool = False, clock: Clock = boot_clock
) -> tuple[list[str], list[str], list[str]]:
    """Check all sessions that run here, and return what was done, what went wrong, and warnings, as sentences.

    This also completes an earlier unfinished end of a session.
    """
    done: list[str] = []
    problems: list[str] = []
    warnings: list[str] = []
    members = cache(members_by_container)
    held = LedgerFile(str(state.root), forgiving=True).read()
    for record in state.records()[0]:
        try:
            if record.status in ENDED:
                if not check_mode and state.session(record.id).times_file.exists():
                    done += _finish(state, record, warnings)
            elif _is_kept(state, record) and record.id in held and held[record.id].stage == COMMITTED:
                _Part(engine, state, record, members, clock).keep_time(check_mode, done, warnings)
        except (SessionError, CoreError, OSError) as error:
            problems.append(f"Session {record.name} has a limit of time, and it could not be kept: {message_of(error)}")
    return done, problems, warnings


def part_times(
    engine: Engine | None,
    state: StateDirectory,
    records: list[Record],
    figures: Collection[str] = (),
    clock: Clock = boot_clock,
) -> dict[str, PartTimes]:
    """Return the times of this host's parts of sessions with time limits, by id. Nothing is changed.

    engine: None to return the results of the last check. figures: ids of sessions for which to return seconds.
    """
    found = {}
    members = cache(members_by_container)
    for record in records:
        if not _is_kept(state, record):
            continue
        limits = limits_of(record.request)
        times = _read(state.session(record.id))
        is_told = record.id in figures
        may_have_changed = is_told or limits.max_duration is not None or times is None or rules.is_idle(limits, times)
        if engine is not None and may_have_changed:
            times = _Part(engine, state, record, members, clock).look()
        if times is not None:
            found[record.id] = _reported(limits, times, is_told)
    return found


def _reported(limits: Limits, times: Times, in_seconds: bool) -> PartTimes:
    """Return what this host reports about the times of a part."""
    part = PartTimes(rules.over(limits, times), rules.is_idle(limits, times))
    if not in_seconds:
        return part
    return replace(part, ran=int(times.ran), idle=None if limits.max_idle is None else int(times.idle))


def carry_on(directory: SessionDirectory, ran: float) -> None:
    """Set the time of a part that joined later to that of its session."""
    before = _read(directory) or Times(boot_id(), boot_clock())
    if before.ran < ran:
        directory.write_times(encode(replace(before, ran=float(ran))))


def _is_kept(state: StateDirectory, record: Record) -> bool:
    """Return whether this host records the time of its part of a session, or did before its limits were removed."""
    if record.status != RUNNING or is_stub(record):
        return False
    if not (limits_of(record.request).exist or state.session(record.id).times_file.exists()):
        return False
    return state.session(record.id).read_host() in record.hosts


def _read(directory: SessionDirectory) -> Times | None:
    """Return the stored time of a part. None if there is none or it cannot be read. The time then starts again."""
    try:
        return decode_known(Times, directory.read_times(), "The times")
    except CoreError:
        return None


class _Part:
    """This host's part of one running session."""

    def __init__(self, engine: Engine, state: StateDirectory, record: Record, members: Members, clock: Clock) -> None:
        self.engine = engine
        self.state = state
        self.record = record
        self.members = members
        self.clock = clock
        self.directory = state.session(record.id)
        self.limits: Limits = limits_of(record.request)
        wanted = {LABEL_SESSION_ID: record.id}
        self.containers = [entry for entry in engine.session_containers(wanted) if entry.runs]

    def keep_time(self, check_mode: bool, done: list[str], warnings: list[str]) -> None:
        """Store its time, warn its programs, and end it if its time is over. done, warnings: get more."""
        warned, times = self.warn(self.look(), check_mode)
        done += warned
        if not check_mode:
            self.directory.write_times(encode(times))
        why = self.why_over(times)
        if why and (check_mode or self.end(why, warnings)):
            done.append(f"end session {self.record.name}: {why}")

    def look(self) -> Times:
        """Return what has to be stored now."""
        from concurrent.futures import ThreadPoolExecutor  # not needed to check a host without limits

        now, started = self.clock(), 0.0
        is_watched = self.limits.max_idle is not None
        with ThreadPoolExecutor(PARALLEL) as pool:  # an engine of 20.10 takes a second for each
            measured = list(pool.map(partial(self._measure, is_watched), self.containers))
        replicas = {name: used for name, _pid, used in measured if used is not None}
        for ticks in (start_of(pid) for _name, pid, _used in measured if pid):
            if ticks is not None:
                started = max(started, now - ticks / os.sysconf("SC_CLK_TCK"))
        in_use = is_watched and self._is_in_use()
        sample = Sample(boot_id(), now, started, replicas if is_watched else None, in_use)
        return rules.after_look(_read(self.directory), sample)

    def _measure(self, is_watched: bool, entry: Container) -> tuple[str, int, Counters | None]:
        """Return the name of a replica, its first process (0 if it has ended), and its use so far."""
        pid = self.engine.pid_of(entry.id)
        used = self.engine.consumption(entry.id) if is_watched and pid else None
        counters = Counters(used[0] / 1e9, float(_traffic(pid))) if used is not None else None
        return entry.replica, pid, counters

    def _is_in_use(self) -> bool:
        """Return whether a job or an app runs here, or a user is logged in."""
        from ..adapters.output import OutputDirectory
        from .jobs import is_running

        jobs = OutputDirectory(str(self.state.root)).session(self.record.id).jobs()
        return any(is_running(job) for job in jobs) or any(map(_is_login, self._processes()))

    def _processes(self) -> Iterator[int]:
        for entry in self.containers:
            yield from self.members().get(entry.id, ())

    def warn(self, times: Times, check_mode: bool) -> tuple[list[str], Times]:
        """Notify programs that the end is near, or no longer is. Return what was done, and the current state."""
        found = rules.warning(self.limits, times)
        is_warned = times.warned is not None
        if found is None:
            return self._take_back_warning(times, check_mode) if is_warned else ([], times)
        left, why = found
        if not check_mode:
            self._write_warnings(json.dumps({"seconds_left": left, "reason": f"Its {why}."}) + "\n")
        if is_warned:
            return [], times
        if not check_mode:
            self._signal_programs()
        return [f"warn session {self.record.name}, which ends in {left} s: its {why}"], replace(times, warned=times.ran)

    def _take_back_warning(self, times: Times, check_mode: bool) -> tuple[list[str], Times]:
        if not check_mode:
            for path in self._warnings():
                path.unlink(missing_ok=True)
        return [f"take back the warning of session {self.record.name}"], replace(times, warned=None)

    def _write_warnings(self, text: str) -> None:
        for path in self._warnings():
            if path.parent.is_dir():
                write_file(path, text)

    def _signal_programs(self) -> None:
        for pid in self._processes():
            with suppress(OSError):
                if _catches(pid, SIGNAL):
                    os.kill(pid, SIGNAL)

    def _warnings(self) -> list[Path]:
        host, replicas = self.directory.read_host(), self.record.replicas
        return [self.directory.replica(replica.name) / WARNING for replica in replicas if replica.host == host]

    def why_over(self, times: Times) -> str:
        """Return why this host ends its part, as a sentence. Empty if it does not."""
        why = rules.over(self.limits, times)
        is_alone = len(self.record.hosts) == 1
        return why or (rules.why_idle(self.limits) if is_alone and rules.is_idle(self.limits, times) else "")

    def end(self, why: str, warnings: list[str]) -> bool:
        """End this host's part, unless the session was changed in the meantime. Return whether it was ended.

        warnings: gets more.
        """
        with self.state.working_on(self.record.id, PATIENT):
            here = self.directory.read_record()
            held = LedgerFile(str(self.state.root)).read().get(self.record.id)
            if here is None or here.status != RUNNING or is_stub(here) or held is None or held.stage != COMMITTED:
                return False
            self.members = members_by_container  # users who logged in since the first check are not in there
            if not rules.over(self.limits, self.look()) and self._is_in_use():
                return False
            # First, so that nothing restores what is removed now, and no new job starts.
            self.directory.write_record(advance(here, TERMINATED, why, report=(why,)))
            warnings += _remove(self.state, here)
            return True


def _finish(state: StateDirectory, record: Record, warnings: list[str]) -> list[str]:
    """Remove leftovers of an ended session with time limits, unless another process works on it.

    warnings: gets more.
    """
    with state.working_on(record.id, PATIENT):
        here = state.session(record.id).read_record()
        held = LedgerFile(str(state.root)).read().get(record.id)
        if here is None or here.status not in ENDED or (held is not None and held.stage != COMMITTED):
            return []
        warnings += _remove(state, here)
    return [f"remove what is left of session {record.name}, which has ended"]


def _remove(state: StateDirectory, record: Record) -> list[str]:
    """Remove this host's part of a session as a clean-up does, and keep its output in the same way. Return warnings."""
    # Only needed to end something.
    from .output import own_archive
    from .removal import Terms, removal_stages, remove

    engine = Engine.connect(PATIENCE)
    archive = own_archive(engine, state)
    ledger = LedgerFile(str(state.root))
    terms = Terms(keep_record=True, keep_data=True, archive=archive)
    stages = removal_stages(engine, state, ledger, None, record.id, [record.id], terms)
    _gone, warnings = remove(stages)
    archive.finish([KnownSession(record.id, record.name, (), record.owner, record.shared_with)])
    return [*warnings, *archive.problems]


def _traffic(pid: int) -> int:
    """Return bytes in and out of all interfaces of a process except the loopback (proc_pid_net(5), dev)."""
    total = 0
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii", errors="replace")
        for line in text.splitlines()[2:]:
            name, _colon, numbers = line.partition(":")
            if name.strip() != "lo":
                counts = numbers.split()
                total += int(counts[0]) + int(counts[8])
    return total


def _is_login(pid: int) -> bool:
    """Return whether a process serves a logged-in user, which is an SSH server that another one has started."""
    return _comm(pid).startswith("sshd") and _comm(parent_of(pid)).startswith("sshd")


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _catches(pid: int, number: signal.Signals) -> bool:
    """Return whether a process handles a signal (proc_pid_status(5), SigCgt). Without a handler it would end."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    caught = next((line.split()[1] for line in text.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)
