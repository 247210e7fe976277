# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keep what a host knows about sessions in its state directory.

Layout below the state directory (root only, mode 0700)::

    sessions/<session id>/record.json            the durable account of the session
    sessions/<session id>/replicas/<name>/       mounted read-only at /etc/cluster-compute in the replica
    sessions/<session id>/replicas/<name>.hosts  mounted at /etc/hosts in the replica
    sessions/<session id>/replicas/<name>.owner  uid:gid that the replica's image runs as, to whom its keys belong

Every file is written aside, flushed to disk and renamed, so that a reader never meets half a file.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

RECORD_SCHEMA = 1
PREPARING = "PREPARING"
RUNNING = "RUNNING"
"""Status of a session whose keys are being made, and of one that was started."""
_SESSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class StateError(Exception):
    """The state directory holds something that cannot be used; the message names the file."""


class StateDirectory:
    """The state directory of one host."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)
        self.sessions = self.root / "sessions"

    def session(self, session_id: str) -> SessionDirectory:
        """Return the directory of one session. Raises StateError if *session_id* is no UUID."""
        if not _SESSION_ID.fullmatch(session_id):
            raise StateError(f"The session id {session_id!r} is not a UUID; refusing to use it as a path.")
        return SessionDirectory(self.sessions / session_id)

    def session_ids(self) -> list[str]:
        """Return the ids of all sessions this host keeps state for, sorted."""
        if not self.sessions.is_dir():
            return []
        return sorted(entry.name for entry in self.sessions.iterdir() if _SESSION_ID.fullmatch(entry.name))

    def records(self, session_name: str) -> list[dict[str, Any]]:
        """Return the records kept here of the sessions named *session_name*; damaged ones are left out."""
        found = []
        for session_id in self.session_ids():
            try:
                record = self.session(session_id).read_record()
            except StateError:
                continue  # one damaged record must not keep all sessions from this host
            if record is not None and record["plan"]["session"]["name"] == session_name:
                found.append(record)
        return found

    def remove_session(self, session_id: str) -> None:
        """Remove everything this host keeps of the session; the state directory itself belongs to the host."""
        shutil.rmtree(self.session(session_id).path)
        try:
            self.sessions.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise


class SessionDirectory:
    """The state of one session on one host."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record_file = path / "record.json"
        self.replicas = path / "replicas"

    def replica(self, name: str) -> Path:
        """Return the folder that is mounted at /etc/cluster-compute in the replica *name*."""
        return self.replicas / name

    def hosts_file(self, name: str) -> Path:
        """Return the file that is mounted at /etc/hosts in the replica *name*."""
        return self.replicas / f"{name}.hosts"

    def read_owner(self, name: str) -> tuple[int, int] | None:
        """Return uid and gid of the user that the replica *name* runs as, or None before it was first started."""
        try:
            uid, _dummy, gid = (self.replicas / f"{name}.owner").read_text(encoding="ascii").strip().partition(":")
            return int(uid), int(gid)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StateError(f"The file {self.replicas / name}.owner does not hold uid:gid.") from error

    def write_owner(self, name: str, uid: int, gid: int) -> None:
        """Remember uid and gid of the user that the replica *name* runs as."""
        write_file(self.replicas / f"{name}.owner", f"{uid}:{gid}\n")

    def read_record(self) -> dict[str, Any] | None:
        """Return the record, or None where there is none.

        Raises StateError for a damaged record or one with an unknown schema: it is never trusted and never removed
        silently.
        """
        try:
            text = self.record_file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            record = json.loads(text)
            schema, _dummy = record["schema"], record["plan"]["session"]["name"]
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"The session record {self.record_file} is damaged ({type(error).__name__}: {error}). Tear the session "
                "down by its name, which does not need the record, or move the file aside and launch again."
            ) from error
        if schema != RECORD_SCHEMA:
            raise StateError(
                f"The session record {self.record_file} has schema {schema!r}, this version of the collection reads "
                f"schema {RECORD_SCHEMA}. Use the version of the collection that wrote it."
            )
        return dict(record)

    def write_record(self, record: dict[str, Any]) -> None:
        """Replace the record atomically."""
        write_file(self.record_file, json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n", mode=0o600)

    def exists(self) -> bool:
        """Tell whether this host keeps anything of the session."""
        return self.path.exists()


def make_directory(path: Path, mode: int = 0o700) -> None:
    """Make *path* and its missing parents; parents get 0700, *path* itself *mode*."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(path, mode)


def file_differs(path: Path, content: str, mode: int, owner: tuple[int, int] = (0, 0)) -> bool:
    """Tell whether *path* is anything but a regular file with exactly this content, mode and owner (uid, gid)."""
    try:
        status = path.lstat()
        if path.is_symlink() or not path.is_file():
            return True
        same = (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (mode, owner[0], owner[1])
        return not same or path.read_text(encoding="utf-8") != content
    except (FileNotFoundError, UnicodeDecodeError):
        return True


def write_in_place(path: Path, content: str, mode: int = 0o644, owner: tuple[int, int] = (0, 0)) -> None:
    """Write *content* into the existing file *path*, which stays the same file for whoever has it mounted."""
    with open(path, "r+", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        os.fchown(file.fileno(), owner[0], owner[1])
        file.truncate()
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_file(path: Path, content: str, mode: int = 0o644, owner: tuple[int, int] = (0, 0)) -> None:
    """Write *content* to *path* atomically, durable before it returns, with *mode* and *owner* from the first byte."""
    make_directory(path.parent, path.parent.stat().st_mode & 0o7777 if path.parent.exists() else 0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            os.fchown(file.fileno(), owner[0], owner[1])
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
