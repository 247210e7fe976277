# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keep what a host knows about sessions in its state directory.

Layout below the state directory (root only, mode 0700)::

    version                                      the version of all of this; without it, it is 1
    sessions/<session id>/record.json            the durable record of the session, or a stub record of it
    sessions/<session id>/host                   this host's name in the plan
    sessions/<session id>/public_keys.json       public keys of every replica of the session
    sessions/<session id>/tunnel.key             this host's private key for the tunnel of an encrypted session
    sessions/<session id>/times.json             for how long this host's part has run, and for how long without use
    sessions/<session id>/made.json              what its launch made that is not its own: folders, volumes, proofs
    sessions/<session id>/apps/<app>.json        an app that was opened in main1: its job, port and token
    sessions/<session id>/replicas/<name>/       mounted read-only at /etc/cluster-compute in the replica
    sessions/<session id>/replicas/<name>.hosts  mounted at /etc/hosts in the replica
    sessions/<session id>/replicas/<name>.owner  uid:gid:name that the replica's image runs as, to whom its keys belong
    sessions/<session id>/replicas/<name>.arriving  exists until a replica that joins a running session was started
    sessions/<session id>/replicas/<name>.restarts  how often the replica was started again after it had failed
    drained.json                                 why this host takes no new sessions
    ../<its name>-settings.json                  settings of this host for what it does by itself
    ../<its name>-labels.key                     by which this host knows its own records in labels (`host.labels`)
    use.json                                     what the sessions of each owner have used here recently
    images/<id>.json                             what was found in an image of this host (`host.image_notes`)
    metrics.json                                 what this host counts for the site's monitoring (`core.show.metrics`)
    tombstones/<session id>.json                 a session that was torn down while some hosts could not be reached
    damaged/<name>-<n>                           a file that could not be trusted, set aside
    .reserve                                     room for small writes on a full disk; made when hosts are prepared

Every file is written aside, flushed to disk and renamed, so that a reader never sees half a file. If a write finds the
disk full, it gets a piece of the reserve, so that sessions can be ended and removed; the next write for which there is
space fills the reserve up again.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ..core.model.decode import decode_known, encode
from ..core.model.health import Drain
from ..core.model.host_settings import HostSettings
from ..core.model.record import InvalidRecord, PublicKeys, Record, Tombstone, UnknownSchema, is_session_id, read_record
from ..core.values.errors import CoreError, SessionError, message_of, show
from .bounded import holding
from .locks import take_lock

VERSION = 1
"""Version of the state directory. It grows with data that an earlier release must not see, which then does nothing on
the host; data that it may ignore is in `model.decode.NEWER`."""
TOMBSTONE_SCHEMA = 1
VERSION_FILE = "version"
RESERVE = ".reserve"
RESERVE_SIZE = 1 << 20
"""Bytes of the reserve, which the role prepare_hosts makes, and bytes that have to be free when a session begins."""
PIECE = 64 << 10
"""Least bytes of the reserve for a write: the program that fills the disk may be faster than the write."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class StateError(SessionError):
    """The state directory contains something that cannot be used; the message names the file."""


class NewerState(StateError):
    """The state directory is a newer release's."""

    is_of_host = True


class DamagedFile(StateError):
    """A file of the state directory is malformed; it can be set aside."""

    is_of_host = True

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(problem)


LABEL_KEY_SIZE = 32
"""Bytes of the key for records in labels."""
LOCKS = "/run"
"""Folder of the locks of sessions while they are held; gone with the boot."""
WORK_DEADLINE = 600.0
"""Seconds to wait for another process that works on a session on this host."""


class StateDirectory:
    """The state directory of one host."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)
        self.sessions = self.root / "sessions"
        self.passed_over: set[Path] = set()
        """Files that check mode would set aside: reading takes them for missing."""

    def touch(self) -> None:
        """Read the parts of the state directory that need its file system; missing files are reported elsewhere."""
        with suppress(OSError):
            os.statvfs(self.root)
            os.listdir(self.sessions if self.sessions.is_dir() else self.root)

    def check_version(self) -> None:
        """Raise NewerState if a newer release has written here, and StateError if the version cannot be read."""
        path = self.root / VERSION_FILE
        try:
            text = path.read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            return
        if not text.isascii() or not text.isdigit():
            raise StateError(
                f"The version of the state directory, in {path}, is {show(text)}, where a whole number is expected. "
                f"Write {VERSION} there where no newer release of the collection was at work on this host."
            )
        if int(text) > VERSION:
            raise NewerState(
                f"The state directory {self.root} has version {text}, which a newer release of the collection wrote; "
                f"this release reads versions up to {VERSION}. Nothing was touched on this host. Use that release, or "
                "a newer one."
            )

    def session(self, session_id: str) -> SessionDirectory:
        """Return the directory of one session. Raises StateError if *session_id* is not a UUID."""
        if not is_session_id(session_id):
            raise StateError(f"The session id {session_id!r} is not a UUID; refusing to use it as a path.")
        return SessionDirectory(self.sessions / session_id, self.passed_over)

    @contextmanager
    def working_on(self, session_id: str, patience: float = WORK_DEADLINE) -> Iterator[None]:
        """Keep all other processes on this host from changing the session for the time of the block.

        Launch, repair, teardown and the unit at boot do not know of each other. Raises StateError if another one has
        not ended within *patience* seconds. The lock is a file that its holder removes, so nothing of it stays.
        """
        path = Path(LOCKS) / f"cluster-compute-{self.session(session_id).path.name}.lock"
        deadline = time.monotonic() + patience
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if take_lock(descriptor, deadline - time.monotonic()) and _is_same_file(path, descriptor):
                break
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise StateError(
                    f"Another program has been working on session {session_id} on this host for "
                    f"{patience:.0f} seconds (it holds {path}). Try again when it has ended."
                )
        try:
            with holding(str(path)):
                yield
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def session_ids(self) -> list[str]:
        """Return the ids of all sessions this host keeps state for, sorted."""
        if not self.sessions.is_dir():
            return []
        return sorted(entry.name for entry in self.sessions.iterdir() if is_session_id(entry.name))

    def records(self) -> tuple[list[Record], list[StateError]]:
        """Return all records and stubs that this host keeps, by id, and why others cannot be read.

        One of these must not keep all other sessions from this host. A DamagedFile can be set aside.
        """
        found: list[Record] = []
        damaged: list[StateError] = []
        for session_id in self.session_ids():
            try:
                record = self.session(session_id).read_record()
            except StateError as error:
                damaged.append(error)
                continue
            except (OSError, MemoryError) as error:
                path = self.session(session_id).record_file
                damaged.append(StateError(f"The session record {path} cannot be read now: {message_of(error)}"))
                continue
            if record is not None:
                found.append(record)
        return found, damaged

    def set_aside(self, path: Path) -> Path:
        """Move a file that cannot be trusted to the folder of such files, where it is not read; return the new path."""
        name = "-".join(path.relative_to(self.root).parts)
        folder = self.root / "damaged"
        make_directory(folder)
        number = 1
        while (target := folder / f"{name}-{number}").exists():
            number += 1
        os.rename(path, target)
        return target

    def tombstones(self) -> list[Tombstone]:
        """Return the tombstones. Raises DamagedFile."""
        folder = self.root / "tombstones"
        return [_read_tombstone(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []

    def tombstone_file(self, session_id: str) -> Path:
        """Return where the tombstone of a session is kept."""
        self.session(session_id)
        return self.root / "tombstones" / f"{session_id}.json"

    def write_tombstone(self, session_id: str, session_name: str, hosts: list[str]) -> None:
        """Remember that *hosts* have to be cleaned of a session when they are back."""
        content = {"schema": TOMBSTONE_SCHEMA, "id": session_id, "name": session_name, "hosts": sorted(hosts)}
        mark_version(self.root)
        write_file(self.tombstone_file(session_id), json.dumps(content, sort_keys=True) + "\n", mode=0o600)

    def remove_tombstone(self, session_id: str) -> None:
        """Forget a tombstone."""
        path = self.tombstone_file(session_id)
        path.unlink(missing_ok=True)
        _remove_if_empty(path.parent)

    @property
    def drain_file(self) -> Path:
        """File that exists while this host takes no new sessions, with the reason."""
        return self.root / "drained.json"

    def read_drain(self) -> Drain | None:
        """Return why this host takes no new sessions, None if it does. With a damaged file it takes none either."""
        try:
            return decode_known(Drain, json.loads(self.drain_file.read_text(encoding="utf-8")), "The drain")
        except FileNotFoundError:
            return None
        except (ValueError, CoreError):
            return Drain(f"{self.drain_file} is damaged. Drain the host again, or undrain it.", "", "")

    def write_drain(self, drain: Drain) -> None:
        """Take no new sessions from now on."""
        write_file(self.drain_file, json.dumps(encode(drain), sort_keys=True) + "\n", mode=0o600)

    @property
    def settings_file(self) -> Path:
        """File of this host's settings for what it does by itself: beside, since only preparing writes it."""
        return self.root.with_name(f"{self.root.name}-settings.json")

    def read_settings(self) -> HostSettings:
        """Return this host's settings; the defaults if there are none, or they cannot be read."""
        try:
            found = json.loads(self.settings_file.read_text(encoding="utf-8", errors="replace"))
            return decode_known(HostSettings, found, "The settings")
        except (OSError, ValueError, CoreError):
            return HostSettings()

    def settings_text(self) -> str:
        """Return the text of the file of `read_settings`; empty if there is none."""
        try:
            return self.settings_file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def write_settings(self, settings: HostSettings, check_mode: bool) -> str:
        """Store this host's settings, and return the file's text."""
        text = json.dumps(encode(settings), sort_keys=True) + "\n"
        if not check_mode and text != self.settings_text():
            write_file(self.settings_file, text, mode=0o600)
        return text

    @property
    def label_key_file(self) -> Path:
        """File of the key for records in labels: beside, since those are for when the state directory is lost."""
        return self.root.with_name(f"{self.root.name}-labels.key")

    def read_label_key(self) -> bytes | None:
        """Return the key for records in labels; None if there is none, or if it is not valid."""
        try:
            key = bytes.fromhex(self.label_key_file.read_text(encoding="ascii").strip())
        except (OSError, ValueError):
            return None
        return key if len(key) == LABEL_KEY_SIZE else None

    def make_label_key(self) -> bytes:
        """Return the key for records in labels, made if there is none. Raises OSError."""
        found = self.read_label_key()
        if found is not None:
            return found
        made = self.label_key_file.with_name(f".{self.label_key_file.name}.{os.urandom(8).hex()}")
        write_file(made, f"{os.urandom(LABEL_KEY_SIZE).hex()}\n", mode=0o600)
        try:
            # Of two concurrent launches the first makes it: a record with a code by a lost key is never trusted.
            os.link(made, self.label_key_file)
        except FileExistsError:
            if self.read_label_key() is None:
                os.replace(made, self.label_key_file)
        finally:
            made.unlink(missing_ok=True)
        return self.read_label_key() or b""

    @property
    def use_file(self) -> Path:
        """File of what owners have used recently."""
        return self.root / "use.json"

    def read_use(self) -> Any:
        """Return what `write_use` stored; None if it cannot be read."""
        try:
            return json.loads(self.use_file.read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError):
            return None

    def write_use(self, use: Mapping[str, Any]) -> None:
        """Store what owners have used recently (`rules.share`)."""
        write_file(self.use_file, json.dumps(use, sort_keys=True) + "\n", mode=0o600)

    @property
    def metrics_file(self) -> Path:
        """File of the counters for the site's monitoring; `host.metrics` reads and writes it."""
        return self.root / "metrics.json"

    def remove_session(self, session_id: str) -> None:
        """Remove everything this host keeps of the session; the state directory itself belongs to the host."""
        import shutil

        shutil.rmtree(self.session(session_id).path)
        _remove_if_empty(self.sessions)


class SessionDirectory:
    """The state of one session on one host."""

    def __init__(self, path: Path, passed_over: Container[Path] = ()) -> None:
        self.path = path
        self._passed_over = passed_over

    # Each path is made when it is needed: a host checks all its sessions, and one or two files of each.
    @property
    def record_file(self) -> Path:
        """File of its record."""
        return self.path / "record.json"

    @property
    def public_keys_file(self) -> Path:
        """File of the public keys of its replicas."""
        return self.path / "public_keys.json"

    @property
    def host_file(self) -> Path:
        """File of this host's name in the plan."""
        return self.path / "host"

    @property
    def tunnel_key_file(self) -> Path:
        """File of the key of this host's end of the tunnel."""
        return self.path / "tunnel.key"

    @property
    def made_file(self) -> Path:
        """File of the list of what was made outside of the state directory."""
        return self.path / "made.json"

    @property
    def times_file(self) -> Path:
        """File of the times for which it has run."""
        return self.path / "times.json"

    @property
    def replicas(self) -> Path:
        """Folder of the folders of its replicas."""
        return self.path / "replicas"

    @property
    def apps(self) -> Path:
        """Folder of its apps."""
        return self.path / "apps"

    @property
    def undecided_file(self) -> Path:
        """File that exists while most witnesses may not have agreed."""
        return self.path / "undecided"

    def replica(self, name: str) -> Path:
        """Return the folder that is mounted at /etc/cluster-compute in the replica *name*."""
        return self.replicas / name

    def hosts_file(self, name: str) -> Path:
        """Return the file that is mounted at /etc/hosts in the replica *name*."""
        return self.replicas / f"{name}.hosts"

    def read_owner(self, name: str) -> tuple[int, int] | None:
        """Return uid and gid of the user that the replica *name* runs as, or None before it was first started."""
        try:
            uid, gid, _login = (self.replicas / f"{name}.owner").read_text(encoding="utf-8").strip().split(":")
            return int(uid), int(gid)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StateError(f"The file {self.replicas / name}.owner does not hold uid:gid:name.") from error

    def read_logins(self) -> dict[str, str]:
        """Return the names of the users that the replicas here run as, by replica."""
        files = sorted(self.replicas.glob("*.owner"))
        return {file.stem: file.read_text(encoding="utf-8", errors="replace").strip().split(":")[-1] for file in files}

    def write_owner(self, name: str, uid: int, gid: int, login: str) -> None:
        """Remember uid, gid and name of the user that the replica *name* runs as."""
        write_file(self.replicas / f"{name}.owner", f"{uid}:{gid}:{login}\n")

    def read_host(self) -> str | None:
        """Return this host's name in the session's plan, or None if it carries no replica of it."""
        try:
            return self.host_file.read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            return None

    def name_in(self, record: Record | None) -> str | None:
        """Return this host's name in the session's plan, as `read_host`, or if that is lost the name in its keys."""
        own = self.read_host()
        if own is not None or record is None or not self.replicas.is_dir():
            return own
        return next((replica.host for replica in record.replicas if self.replica(replica.name).exists()), None)

    def read_restarts(self, name: str) -> int:
        """Return how often the replica *name* was started again after it had failed."""
        try:
            return int((self.replicas / f"{name}.restarts").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    def write_restarts(self, name: str, count: int) -> None:
        """Remember how often the replica *name* was started again."""
        write_file(self.replicas / f"{name}.restarts", f"{count}\n")

    def read_corrections(self, name: str) -> tuple[str, int]:
        """Return the start time of the replica *name* at the last correction of its names, and their number."""
        try:
            since, count = (self.replicas / f"{name}.corrected").read_text(encoding="ascii").split()
            return since, int(count)
        except (OSError, ValueError):
            return "", 0

    def write_corrections(self, name: str, since: str, count: int) -> None:
        """Store what `read_corrections` returns."""
        write_file(self.replicas / f"{name}.corrected", f"{since} {count}\n")

    def expect(self, name: str) -> None:
        """Record that the replica *name* comes to this host with a change of a running session."""
        write_file(self.replicas / f"{name}.arriving", "")

    def is_expected(self, name: str) -> bool:
        """Tell whether the replica *name* comes with a change, and was not started here yet."""
        return (self.replicas / f"{name}.arriving").exists()

    @property
    def is_undecided(self) -> bool:
        """Whether most witnesses may not have agreed yet that this host lets go of lost hosts."""
        return self.undecided_file.exists()

    def note_undecided(self, is_undecided: bool) -> None:
        """Record whether they may not have."""
        if is_undecided:
            write_file(self.undecided_file, "")
        else:
            self.undecided_file.unlink(missing_ok=True)

    @property
    def expects_some(self) -> bool:
        """Whether a replica comes with a change, and was not started here yet."""
        return any(self.replicas.glob("*.arriving"))

    def has_arrived(self, name: str) -> None:
        """Record that the replica *name* was started here."""
        (self.replicas / f"{name}.arriving").unlink(missing_ok=True)

    def replica_names(self) -> list[str]:
        """Return the replicas that this host has a folder for."""
        return sorted(path.name for path in self.replicas.glob("*") if path.is_dir())

    def remove_replica(self, name: str) -> None:
        """Remove what this host keeps for the replica *name*, its keys included."""
        import shutil

        for path in self.replicas.glob(f"{name}.*"):
            path.unlink(missing_ok=True)
        if self.replica(name).exists():
            shutil.rmtree(self.replica(name))

    def read_stop(self, name: str) -> dict[str, str]:
        """Return, if this host stopped the replica *name* for what it wrote on a disk, ``started``, the start time
        according to the engine, and ``reason``, sentences. Else the same keys, empty.
        """
        nothing = {"started": "", "reason": ""}
        try:
            found = json.loads((self.replicas / f"{name}.stopped").read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError):
            return nothing
        return {**nothing, **found} if isinstance(found, dict) else nothing

    def write_stop(self, name: str, stop: Mapping[str, Any]) -> None:
        """Record why the replica *name* is about to be stopped, in the form of `read_stop`."""
        write_file(self.replicas / f"{name}.stopped", json.dumps(stop, sort_keys=True) + "\n")

    def read_times(self) -> Any:
        """Return what `write_times` stored; None if it cannot be read."""
        try:
            return json.loads(self.times_file.read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError):
            return None

    def write_times(self, times: Mapping[str, Any]) -> None:
        """Store for how long this host's part has run (`rules.durations`)."""
        write_file(self.times_file, json.dumps(times, sort_keys=True) + "\n", mode=0o600)

    def read_app(self, name: str) -> dict[str, Any] | None:
        """Return what was recorded when an app was opened; None if it cannot be read."""
        try:
            found = json.loads((self.apps / f"{name}.json").read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def write_app(self, name: str, app: Mapping[str, Any]) -> None:
        """Store the data of an app that is about to be opened: its token is included, so only root can read it."""
        make_directory(self.apps)
        write_file(self.apps / f"{name}.json", json.dumps(app, sort_keys=True) + "\n", mode=0o600)

    def forget_app(self, name: str) -> None:
        """Remove the data of an app."""
        (self.apps / f"{name}.json").unlink(missing_ok=True)

    def app_names(self) -> list[str]:
        """Return the apps that were opened and not closed again."""
        return sorted(path.stem for path in self.apps.glob("*.json"))

    def read_made(self) -> dict[str, list[str]]:
        """Return what the session's launch made here that is not the session's own: kind to names."""
        try:
            found = json.loads(self.made_file.read_text(encoding="utf-8", errors="replace"))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write_made(self, made: Mapping[str, list[str]]) -> None:
        """Record what the session's launch is about to make."""
        write_file(self.made_file, json.dumps(made, sort_keys=True) + "\n", mode=0o600)

    def clear(self) -> None:
        """Remove everything except the record."""
        for folder in (self.replicas, self.apps):
            if folder.exists():
                import shutil

                shutil.rmtree(folder)
        files = (self.public_keys_file, self.host_file, self.tunnel_key_file, self.made_file, self.times_file)
        for path in (*files, self.undecided_file):
            path.unlink(missing_ok=True)

    def read_record(self) -> Record | None:
        """Return the record, or None if there is none.

        Raises DamagedFile for a malformed record, which is never trusted and never removed silently, and StateError
        for a record of a newer release.
        """
        if self.record_file in self._passed_over:
            return None
        try:
            text = self.record_file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        try:
            return read_record(json.loads(text), self.path.name)
        except UnknownSchema as error:
            raise StateError(f"The session record {self.record_file} cannot be read: {error}") from error
        except (ValueError, RecursionError, InvalidRecord) as error:
            raise DamagedFile(
                self.record_file,
                f"The session record {self.record_file} is damaged: {error} The repair playbook sets it aside and "
                "makes a new one from what else is known of the session.",
            ) from error

    def write_record(self, record: Record) -> None:
        """Replace the record atomically."""
        mark_version(self.path.parent.parent)
        text = json.dumps(encode(record), sort_keys=True, separators=(",", ":"))
        write_file(self.record_file, text + "\n", mode=0o600)

    def read_public_keys(self) -> PublicKeys:
        """Return all public keys of the session, as far as they are known here; none from a damaged file."""
        try:
            found = json.loads(self.public_keys_file.read_text(encoding="utf-8", errors="replace"))
            keys = [key for of_replica in found.values() for key in of_replica.values()]
        except (FileNotFoundError, ValueError, AttributeError):
            return {}
        return found if all(key is None or isinstance(key, str) for key in keys) else {}

    def public_keys_text(self, public_keys: PublicKeys) -> str:
        """Return the content of the file that holds the public keys."""
        return json.dumps(public_keys, sort_keys=True, separators=(",", ":")) + "\n"

    def exists(self) -> bool:
        """Tell whether this host keeps anything of the session."""
        return self.path.exists()


def mark_version(root: Path) -> None:
    """Mark a state directory with its version, before something is written there that requires it.

    Raises like `StateDirectory.check_version`: a newer release may have come since the call began.
    """
    StateDirectory(str(root)).check_version()
    path, text = root / VERSION_FILE, f"{VERSION}\n"
    with suppress(FileNotFoundError):
        if path.read_text(encoding="utf-8", errors="replace") == text:
            return
    write_file(path, text, mode=0o600)


def _is_same_file(path: Path, descriptor: int) -> bool:
    """Tell whether *path* still is the open file: its last holder may have removed it meanwhile."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _read_tombstone(path: Path) -> Tombstone:
    """Return the content of a tombstone's file. Raises DamagedFile, and StateError for a newer release's."""
    tombstone = _read_json(path)
    schema = tombstone.get("schema") if isinstance(tombstone, dict) else None
    if isinstance(schema, int) and schema > TOMBSTONE_SCHEMA:
        raise StateError(f"The tombstone {path} has schema {schema}. Use the release that wrote it.")
    good = schema == TOMBSTONE_SCHEMA and tombstone.get("id") == path.stem and isinstance(tombstone.get("name"), str)
    hosts = tombstone.get("hosts") if good else None
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise DamagedFile(path, f"The tombstone {path} is malformed. The repair playbook sets it aside.")
    return Tombstone(tombstone["id"], tombstone["name"], tuple(hosts))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise DamagedFile(path, f"The file {path} is damaged ({error}). The repair playbook sets it aside.") from error


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
            raise


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
        wanted = content.encode()
        if not same:
            return True
        with open_shared(path) as file:  # a replica may have made it a file of terabytes
            return file.read(len(wanted) + 1) != wanted
    except FileNotFoundError:
        return True


def open_shared(path: Path, flags: int = os.O_RDONLY) -> BinaryIO:
    """Open a file that a replica may write, without waiting for its leases (fcntl(2), F_SETLEASE).

    Raises BlockingIOError if a process has one; the kernel ends it, so that the next try succeeds.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return open(os.open(path, flags), "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "r+b")


def write_in_place(path: Path, content: str, mode: int = 0o644, owner: tuple[int, int] = (0, 0)) -> None:
    """Write *content* into the existing file *path*, which stays the same file for containers that mount it."""
    _with_reserve(path, len(content), lambda: _write_in_place(path, content, mode, owner))


def _write_in_place(path: Path, content: str, mode: int, owner: tuple[int, int]) -> None:
    with open_shared(path, os.O_RDWR) as file:
        os.fchmod(file.fileno(), mode)
        os.fchown(file.fileno(), owner[0], owner[1])
        file.truncate()
        file.write(content.encode())
        file.flush()
        os.fsync(file.fileno())


def write_file(path: Path, content: str | bytes, mode: int = 0o644, owner: tuple[int, int] = (0, 0)) -> None:
    """Write *content* to *path* atomically, durable before it returns, with *mode* and *owner* from the first byte."""
    _with_reserve(path, len(content), lambda: _write_file(path, content, mode, owner))


def check_space(folder: Path) -> None:
    """Raise OSError if the disk is so full that a new session would need the reserve to end."""
    if _free_bytes(folder) < RESERVE_SIZE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _with_reserve(path: Path, size: int, write: Callable[[], None]) -> None:
    """Write so many bytes to *path*; if the disk is full, try again with a piece of the reserve."""
    try:
        write()
    except OSError as error:
        if error.errno not in FULL or not _spend_reserve(path, size):
            raise
        write()
    else:
        _fill_reserve(path)


def _free_bytes(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bfree * status.f_frsize


def _reserve_of(path: Path) -> tuple[Path, int] | None:
    """Return the reserve for a file of a state directory, and its size; None if there is none."""
    folder = os.path.dirname(path)
    while True:
        reserve = os.path.join(folder, RESERVE)
        with suppress(OSError):
            return Path(reserve), os.lstat(reserve).st_size
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _spend_reserve(path: Path, size: int) -> bool:
    """Release a piece of the reserve to the file system; tell whether there was any."""
    reserve, left = _reserve_of(path) or (path, 0)
    if left:
        os.truncate(reserve, max(0, left - max(PIECE, 2 * size)))
    return left > 0


def _fill_reserve(path: Path) -> None:
    reserve, left = _reserve_of(path) or (path, RESERVE_SIZE)
    if left < RESERVE_SIZE and _free_bytes(reserve.parent) >= 4 * RESERVE_SIZE:
        with suppress(OSError), open(reserve, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE_SIZE)


def _write_file(path: Path, content: str | bytes, mode: int, owner: tuple[int, int]) -> None:
    import tempfile  # imports much that readers do not need

    make_directory(path.parent, path.parent.stat().st_mode & 0o7777 if path.parent.exists() else 0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            os.fchown(file.fileno(), owner[0], owner[1])
            file.write(content.encode() if isinstance(content, str) else content)
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
