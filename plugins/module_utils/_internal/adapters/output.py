# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keep what sessions wrote in a folder of the state directory, beyond the life of their containers.

Layout below the state directory (root only, mode 0700)::

    output/<session id>/about.json               name of the session, when it ended here, how its replicas ended
    output/<session id>/<replica>@<container>    the newest lines of a container that was removed
    output/<session id>/jobs/<job>/job.json      a job that was run in replicas: what, where, and who watches it
    output/<session id>/jobs/<job>/<replica>.log.<number>  what it wrote in a replica, in the newest two of its files
    output/<session id>/jobs/<job>/<replica>.json   how it ended there
    output/<session id>/jobs/<job>/stop          tells the process that watches it to end it
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.model.decode import Malformed, decode, encode
from ..core.model.output import JobInfo
from ..core.model.record import is_session_id
from ..core.rules.output import JOB_ID, Line, read_stored, stored
from .state import StateError, make_directory, write_file

REQUEUE = "requeue"
"""Content of the request to end a job that is to start again elsewhere."""
INFO_SCHEMA = 1
PARTS = 20
"""The output that a host keeps may take one part in this many of its file system."""


class OutputDirectory:
    """All output of sessions that one host keeps."""

    def __init__(self, state_directory: str) -> None:
        self.root = Path(state_directory) / "output"

    def session(self, session_id: str) -> SessionOutput:
        """Return the output of one session. Raises StateError if *session_id* is not a UUID."""
        if not is_session_id(session_id):
            raise StateError(f"The session id {session_id!r} is not a UUID; refusing to use it as a path.")
        return SessionOutput(self.root / session_id)

    def session_ids(self) -> list[str]:
        """Return the ids of all sessions of which output is kept, sorted."""
        try:
            return sorted(name for name in os.listdir(self.root) if is_session_id(name))
        except FileNotFoundError:
            return []

    def surplus(
        self, now: float, seconds: float, most: int, running: Collection[str], share: int | None = None
    ) -> list[str]:
        """Return the sessions whose output has been kept for long enough, or that are beyond the newest *most*.

        now: seconds since 1970. seconds: for how long output is kept after a session has ended. running: sessions of
        which nothing goes. share: bytes that all of it may take, those that run included; None for no limit.
        """
        ids = self.session_ids()
        ended = {key: self.session(key).ended() for key in ids if key not in running}
        newest = sorted(ended, key=lambda key: -ended[key])
        found = {key for number, key in enumerate(newest) if number >= most or ended[key] < now - seconds}
        taken = 0
        for key in [*sorted(set(ids) & set(running)), *newest] if share is not None else ():
            taken += 0 if key in found else self.session(key).size()
            if key in ended and taken > (share or 0):
                found.add(key)
        return sorted(found)

    def share(self) -> int:
        """Return how many bytes all of it may take: a part of the file system, as that is the host's as well."""
        try:
            found = os.statvfs(self.root)
        except FileNotFoundError:
            return 0
        return found.f_blocks * found.f_frsize // PARTS

    def remove(self, session_id: str) -> None:
        """Remove the output of a session; having none is fine."""
        shutil.rmtree(self.session(session_id).path, ignore_errors=True)
        with suppress(OSError):  # it contains something of others, or is gone
            self.root.rmdir()


def size_of(folder: Path) -> int:
    """Return the bytes on disk of all files below a folder; files that are removed meanwhile do not count."""
    total = 0
    for parent, _folders, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return total


def whose(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``owner`` and ``shared_with`` as recorded for a session; none if they are not known."""
    names = found.get("shared_with")
    shared_with = [str(name) for name in names] if isinstance(names, (list, tuple)) else []
    return {"owner": str(found.get("owner") or ""), "shared_with": shared_with}


class SessionOutput:
    """All output of one session that one host keeps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.info_file = path / "about.json"

    def read_info(self) -> dict[str, Any]:
        """Return ``name``, ``owner``, ``shared_with``, ``ended``, ``replicas``, without values that cannot be read."""
        try:
            found = json.loads(self.info_file.read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.get("schema") != INFO_SCHEMA:
            found = {}
        replicas = found.get("replicas")
        return {
            "name": str(found.get("name") or ""),
            **whose(found),
            "ended": found.get("ended"),
            "replicas": replicas if isinstance(replicas, dict) else {},
        }

    def write_info(self, name: str, owner: Mapping[str, Any], ended: float | None, replicas: Mapping[str, Any]) -> None:
        """Record to which session this output belongs.

        owner: of `whose`; if it is not known the earlier entry stays. ended: seconds since 1970, None while the session
        runs.
        """
        make_directory(self.path.parent)
        make_directory(self.path)
        owner = owner if owner["owner"] else whose(self.read_info())
        description = {"schema": INFO_SCHEMA, "name": name, **owner, "ended": ended, "replicas": dict(replicas)}
        write_file(self.info_file, json.dumps(description, sort_keys=True) + "\n", mode=0o600)

    def size(self) -> int:
        """Return the bytes on disk of all that is kept of the session."""
        return size_of(self.path)

    def ended(self) -> float:
        """Return when the session ended here, in seconds since 1970, or else when anything was last kept of it."""
        ended = self.read_info()["ended"]
        if isinstance(ended, (int, float)):
            return float(ended)
        try:
            return self.path.stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def containers(self) -> list[tuple[str, str]]:
        """Return the removed containers of which lines are kept, oldest first: replica and id."""
        try:
            found = [path for path in self.path.iterdir() if "@" in path.name and not path.name.startswith(".")]
        except FileNotFoundError:
            return []
        found.sort(key=lambda path: (path.stat().st_mtime, path.name))
        return [(replica, container) for replica, _at, container in (path.name.partition("@") for path in found)]

    def job(self, job_id: str) -> JobOutput:
        """Return the output of a job. Raises StateError if *job_id* is not the id of a job."""
        if JOB_ID.fullmatch(job_id) is None:
            raise StateError(f"The job id {job_id!r} is not one; refusing to use it as a path.")
        return JobOutput(self.path / "jobs" / job_id)

    def jobs(self) -> list[JobOutput]:
        """Return the jobs that were run here, by the time at which they were started."""
        try:
            found = [self.job(name) for name in os.listdir(self.path / "jobs") if JOB_ID.fullmatch(name)]
        except FileNotFoundError:
            return []
        return sorted(found, key=lambda job: (info.started if (info := job.read_info()) else 0.0, job.id))

    def container_file(self, replica: str, container: str) -> Path:
        """Return the file for the lines of a removed container."""
        return self.path / f"{replica}@{container}"

    def write_container(self, replica: str, container: str, lines: Iterable[Line]) -> None:
        """Keep the lines of a container, replacing earlier ones."""
        make_directory(self.path.parent)
        make_directory(self.path)
        handle, temporary = tempfile.mkstemp(dir=self.path, prefix=".")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(map(stored, lines))
            os.replace(temporary, self.container_file(replica, container))
        except BaseException:
            os.unlink(temporary)
            raise

    def read_container(self, replica: str, container: str) -> Iterator[Line]:
        """Yield the stored lines of a container."""
        return read_lines(self.container_file(replica, container))


class JobOutput:
    """All data of one job that one host keeps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name
        self.info_file = path / "job.json"
        self.stop_file = path / "stop"

    def read_info(self) -> JobInfo | None:
        """Return the description that was recorded at its start; None if it cannot be read."""
        try:
            found = json.loads(self.info_file.read_text(encoding="utf-8", errors="replace"))
            info = decode(JobInfo, found, "A job", forgiving=True)
        except (OSError, ValueError, RecursionError, Malformed):
            return None
        return info if found.get("schema") == INFO_SCHEMA else None

    def write_info(self, info: JobInfo) -> None:
        """Record what is run."""
        for folder in (self.path.parent.parent.parent, self.path.parent.parent, self.path.parent, self.path):
            make_directory(folder)
        write_file(
            self.info_file,
            json.dumps({"schema": INFO_SCHEMA, **encode(info)}, sort_keys=True) + "\n",
            mode=0o600,
        )

    def ask_to_end(self, *, requeue: bool) -> None:
        """Tell the process that watches it to end it; requeue: to start it elsewhere, if not yet asked to end."""
        if not requeue or not self.stop_file.exists():
            write_file(self.stop_file, REQUEUE if requeue else "", mode=0o600)

    def is_requeued(self) -> bool:
        """Tell whether it was ended in order to start again elsewhere."""
        with suppress(FileNotFoundError):
            return self.stop_file.read_text(encoding="ascii", errors="replace") == REQUEUE
        return False

    def set_aside(self, token: str) -> None:
        """Keep it under another id, the first letters of *token*, 12 of 0-9 and a-f at least."""
        self.path.rename(self.path.with_name(token[: len(self.id)]))

    def read_end(self, replica: str) -> dict[str, Any] | None:
        """Return how it ended in a replica; None while it has not."""
        try:
            found = json.loads((self.path / f"{replica}.json").read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def write_end(self, replica: str, end: Mapping[str, Any]) -> None:
        """Record how it ended in a replica, except if the job was removed meanwhile."""
        if self.path.is_dir():
            write_file(self.path / f"{replica}.json", json.dumps(dict(end), sort_keys=True) + "\n", mode=0o600)

    def log_files(self, replica: str) -> dict[int, Path]:
        """Return the files of what it wrote in a replica, by number, the older one first; there may be none."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return {}
        found = [name.partition(f"{replica}.log.")[2] for name in names if name.startswith(f"{replica}.log.")]
        return {
            number: self.log_file(replica, number) for number in sorted(int(file) for file in found if file.isdigit())
        }

    def log_file(self, replica: str, number: int) -> Path:
        """Return the file for the lines from one change of files to the next."""
        return self.path / f"{replica}.log.{number}"

    def read(self, replica: str, position: Mapping[str, Any] | None) -> tuple[list[Line], dict[str, Any]]:
        """Return the lines since *position*, and where they end: a file's number and offset.

        Unlike inodes, numbers are never used again: a reader may be slower than two changes of files.
        """
        begin = position or {"file": 0, "offset": 0}
        lines, end = [], dict(begin)
        for number, path in self.log_files(replica).items():
            if number < begin["file"]:
                continue
            with suppress(FileNotFoundError), open(path, "rb") as file:
                if number == begin["file"]:
                    file.seek(begin["offset"])
                end = {"file": number, "offset": file.tell()}
                for raw in file:
                    if not raw.endswith(b"\n"):
                        break  # it is just being written
                    end["offset"] += len(raw)
                    line = read_stored(raw.decode("utf-8", "surrogateescape"))
                    if line is not None:
                        lines.append(line)
        return lines, end


class JobWriter:
    """Writes what a job writes in one replica, the newest *size* bytes of it at least."""

    def __init__(self, job: JobOutput, replica: str, size: int) -> None:
        self._job = job
        self._replica = replica
        self._size = size
        self._number = 1
        self._file = self._open()
        self._written = 0

    def _open(self) -> Any:
        path = self._job.log_file(self._replica, self._number)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, "wb", buffering=0)

    def write(self, lines: Iterable[Line]) -> None:
        """Write lines, so that readers see them at once. Raises OSError, for example if the job was removed."""
        text = "".join(map(stored, lines)).encode("utf-8", "surrogateescape")
        if self._written and self._written + len(text) > self._size:
            self._file.close()
            with suppress(FileNotFoundError):
                os.unlink(self._job.log_file(self._replica, self._number - 1))
            self._number += 1
            self._file, self._written = self._open(), 0
        self._file.write(text)
        self._written += len(text)


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file of output; nothing if there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            for text in file:
                line = read_stored(text)
                if line is not None:
                    yield line
    except FileNotFoundError:
        return
