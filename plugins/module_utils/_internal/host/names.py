# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Restore the names of a replica that its own programs have changed, in /etc/hosts and /etc/hostname.

Both are files of the host that are mounted into the replica. The replica cannot replace them with a link or another
file, but its programs, such as entrypoints, may write to them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ..adapters.engine import Engine
from ..adapters.engine_objects import Inspected
from ..adapters.state import SessionDirectory, StateDirectory, StateError, write_in_place
from ..core.model.plan import Plan, Replica, read_plan
from ..core.model.record import RUNNING, Record, is_stub
from ..core.rules import names
from ..core.values.deferred import dataclass
from ..core.values.errors import SessionError, message_of

MOST_SHOWN, LONGEST_SHOWN = 3, 80
"""Maximum number of lines of a file, and of characters of a line, in a message."""
HOSTNAME = "/etc/hostname"
HOSTS = "/etc/hosts"


@dataclass(frozen=True)
class Wrong:
    """A file of a replica with wrong content.

    text: the current content, None if it cannot be read. wanted: the correct content. started: when the replica was
    started, from the engine.
    """

    replica: Replica
    started: str
    name: str
    path: Path
    text: str | None
    wanted: str


def look(engine: Engine, session: SessionDirectory, plan: Plan, host: str) -> dict[str, list[Wrong]]:
    """Return the wrong files of running replicas on *host*, by replica. Raises EngineError."""
    wrong = {}
    for replica in plan.on(host):
        found = engine.inspect(replica.container)
        if found is not None and found.runs:
            wrong[replica.name] = [*_look_at(session, plan, replica, found)]
    return {name: files for name, files in wrong.items() if files}


def _look_at(session: SessionDirectory, plan: Plan, replica: Replica, found: Inspected) -> Iterator[Wrong]:
    with suppress(FileNotFoundError):  # a repair creates it again
        if plan.network is not None:
            path, own = session.hosts_file(replica.name), names.hosts_file(plan.replicas)
            text = read_text(path, len(own) + names.MOST_ADDED)
            members = [member.name for member in plan.replicas]
            wanted = names.corrected(text, own, members, plan.network.subnet)
            if wanted != text:
                yield Wrong(replica, found.started, HOSTS, path, text, wanted)
    with suppress(FileNotFoundError):
        path, own = Path(found.hostname_file or os.devnull), f"{found.hostname}\n"
        if stat.S_ISREG(path.lstat().st_mode) and (text := read_text(path, len(own))) != own:
            yield Wrong(replica, found.started, HOSTNAME, path, text, own)


def put_back(plan: Plan, wrong: Mapping[str, Sequence[Wrong]]) -> list[str]:
    """Correct files. Return what was wrong, as sentences. Raises OSError, StateError."""
    said = []
    for name, files in wrong.items():
        for file in files:
            write_in_place(file.path, file.wanted)
        said.append(_sentence(plan, name, files))
    return said


def read_text(path: Path, most: int) -> str | None:
    """Return the content of a file that a replica may write. None if it has more than *most* bytes or is not text.

    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = file.read(most + 1)
    if len(content) > most or b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _sentence(plan: Plan, name: str, files: Sequence[Wrong]) -> str:
    members = [member.name for member in plan.replicas]
    own = names.hosts_file(plan.replicas)
    lines = [line for file in files if file.name == HOSTS for line in names.contradictions(file.text, own, members)]
    shown = ", ".join(repr(line[:LONGEST_SHOWN]) for line in lines[:MOST_SHOWN])
    more = f" ({shown}{', …' if len(lines) > MOST_SHOWN else ''})" if shown else ""
    return (
        f"A program of {name} has changed what its {' and '.join(file.name for file in files)} says of the session"
        f"{more}; that was put back. Programs that have read it before may go on with it: have the image's entrypoint "
        "leave it alone."
    )


# ---- by the timer ---------------------------------------------------------------------------------------------------


def keep_names(engine: Engine, state: StateDirectory) -> tuple[list[str], list[str]]:
    """Correct the files of all running replicas. Return what was done and what could not be done, as sentences.

    If a program writes repeatedly, its files are no longer corrected after `names.MOST_TIMES`, until its replica is
    started again.
    """
    done: list[str] = []
    problems: list[str] = []
    for record in state.records()[0]:
        try:
            if _part(engine, state, record)[1]:
                # Another process that works on the session also writes these files.
                with suppress(StateError), state.working_on(record.id, 0.0):
                    now = state.session(record.id).read_record()
                    plan, wrong = _part(engine, state, now) if now is not None else (None, {})
                    if plan is not None:
                        # Counted first, so that a file that cannot be written is not tried more often than one that
                        # is written repeatedly.
                        _count(state.session(record.id), wrong)
                        done += [f"session {record.name}: {sentence}" for sentence in put_back(plan, wrong)]
        except (SessionError, OSError) as error:
            problems.append(f"Names in session {record.name} could not be put back: {message_of(error)}")
    return done, problems


def _part(engine: Engine, state: StateDirectory, record: Record) -> tuple[Plan | None, dict[str, list[Wrong]]]:
    """Return the plan of a session that runs here, and the wrong files to correct."""
    session = state.session(record.id)
    host = session.read_host()
    if record.status != RUNNING or is_stub(record) or host is None or host not in record.hosts:
        return None, {}
    plan = read_plan(record.plan)
    wrong = look(engine, session, plan, host)
    return plan, {
        name: files
        for name, files in wrong.items()
        if session.read_corrections(name) not in [(files[0].started, names.MOST_TIMES)]
    }


def _count(session: SessionDirectory, wrong: Mapping[str, Sequence[Wrong]]) -> None:
    for name, files in wrong.items():
        since, count = session.read_corrections(name)
        session.write_corrections(name, files[0].started, count + 1 if since == files[0].started else 1)
