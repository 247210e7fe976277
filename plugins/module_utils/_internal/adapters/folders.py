# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Folders and files of the host that sessions mount: opened below an allowed folder, and bind-mounted.

Docker Engine resolves a path again whenever a container starts, so a program that can write in the folder above could
put a link there after the check. A path is therefore opened here, one name after the other and without following links,
and what was opened is mounted (by its descriptor, so its path is not resolved again) at a place below `BIND_MOUNTS`
that only root can reach. Containers mount that place.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from ..core.model.record import is_session_id
from ..core.values.deferred import dataclass
from ..core.values.errors import SessionError
from ..core.values.paths import is_below
from .bounded import waiting_for

BIND_MOUNTS = "/run/cluster-compute-data"
"""Folder of the bind mounts; gone with the boot. Nothing here is ever removed except empty folders and files."""

# mount(2) and umount2(2); the numbers are the same on every machine.
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 0x2
FLAGS = {
    "ro": MS_RDONLY,
    "nosuid": 0x2,
    "nodev": 0x4,
    "noexec": 0x8,
    "noatime": 0x400,
    "nodiratime": 0x800,
    "relatime": 0x200000,
}
"""Options of a mount in /proc that a remount has to name again, because it drops them otherwise."""


SECONDS = 20.0
"""Seconds that the file system of a path may take to answer: one that is mounted on first use takes a while."""


class FolderError(SessionError):
    """A folder is missing, not allowed, or cannot be mounted; the message is a full sentence."""


@dataclass(frozen=True)
class Mounted:
    """One line of /proc/PID/mountinfo (proc(5)). options: those of the mount; details: those of its file system."""

    point: str
    options: tuple[str, ...]
    filesystem: str
    origin: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ids:
    """Numbers of a user, of the user's group, and of more groups."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.uid}:{self.gid}"

    @property
    def text(self) -> str:
        """The numbers as text, for `read_ids`."""
        return ":".join([str(self.uid), str(self.gid), *map(str, self.groups)])


def read_ids(text: str) -> Ids:
    """Return the numbers in the text of `Ids.text`."""
    uid, gid, *groups = map(int, text.split(":"))
    return Ids(uid, gid, tuple(groups))


IDENTITY = threading.RLock()
"""Held by who acts as another user: the kernel's calls for that change all threads of the process."""


def mounted(pid: int | str = "self") -> list[Mounted]:
    """Return the mounts of a process, in the order in which they were made."""
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.split(" ") for line in file.read().splitlines()]
    found = []
    for fields in lines:
        kind = fields.index("-") + 1
        options, details = (tuple(fields[place].split(",")) for place in (5, kind + 2))
        found.append(Mounted(_plain(fields[4]), options, fields[kind], _plain(fields[kind + 1]), details))
    return found


def _plain(text: str) -> str:
    """Return a name in its original form: /proc writes blanks, line breaks and backslashes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def mount_of(path: str) -> Mounted:
    """Return the mount that a real path is on."""
    best = Mounted("/", (), "unknown", "unknown")
    for mount in mounted():
        if is_below(path, mount.point) and len(mount.point) >= len(best.point):
            best = mount
    return best


def waiting(path: str) -> AbstractContextManager[None]:
    """Allow the watching process to abandon this one if the file system of a mounted path hangs."""
    return waiting_for(f"the file system of {path} (session_mounts)", SECONDS)


@contextmanager
def opened(path: str, roots: Iterable[str], users: Sequence[Ids] = ()) -> Iterator[int]:
    """Yield a descriptor (O_PATH) of *path*, if its real path is below the one of *roots* that it is written below.

    Links on the way are followed once, to learn the real path; that is opened name by name without following any, so a
    link that is made meanwhile has no effect. The roots are the site's own, and trusted. users: who may all enter the
    folders between the root and the path; they do so where root may not, as on NFS with root_squash.
    Raises FolderError.
    """
    with waiting(path):
        descriptor = _open(path, list(roots), users)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _open(path: str, roots: list[str], users: Sequence[Ids]) -> int:
    _wake(path)
    real = os.path.realpath(path)
    for root in roots:
        top = os.path.realpath(root)
        if is_below(path, root) and is_below(real, top):
            _refuse_replaceable(root)
            return _descend(path, top, [name for name in real[len(top) :].split("/") if name], users)
    raise FolderError(f"{path} is really {real}, which is not below {', '.join(roots) or 'any allowed folder'}.")


def _refuse_replaceable(root: str) -> None:
    """Refuse a root that a user could replace by a link, as its owner could in a folder in which all may write."""
    with suppress(OSError):
        above, own = os.stat(os.path.dirname(root)), os.lstat(root)
        if own.st_uid != 0 and above.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise FolderError(
                f"{root} cannot be a mount root: its owner may replace it, because others than root may write in the "
                "folder above. Take that right from them, or name another root."
            )


def _wake(path: str) -> None:
    """Walk *path*, so that file systems that are mounted on first use, by autofs or x-systemd.automount, are mounted.

    Neither stat(2) of a folder nor opening it with O_PATH does that (open(2)): they return the empty folder instead.
    """
    with suppress(OSError):
        os.stat(f"{path}/.")


def ask_again(path: str) -> None:
    """Make a network file system forget that *path*, or something in it, did not exist.

    NFS caches that for half a minute (nfs(5), acdirmin). It asks the server again when a folder is opened for reading,
    the one above first, but not when it is opened with O_PATH.
    """
    for folder in (os.path.dirname(path), path):
        with suppress(OSError):
            os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def _descend(path: str, top: str, names: list[str], users: Sequence[Ids] = (), by_owner: bool = False) -> int:
    """Open a path below *top* name by name. by_owner: where root may not, the owner of the folder does it."""
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        found = os.open(top, flags)
        for number, name in enumerate(names):
            above = found
            try:
                if number:
                    _refuse_entry(above, path, users)
                found = _open_in(above, name, flags, users, by_owner)
            finally:
                os.close(above)
            if stat.S_ISLNK(os.fstat(found).st_mode):
                os.close(found)
                raise FolderError(f"{path} was changed during the check: there is a symbolic link in it now.")
        return found
    except FileNotFoundError:
        raise FolderError(f"{path} does not exist.") from None
    except OSError as error:
        raise FolderError(f"{path} cannot be opened: {error.strerror}.") from error


def _refuse_entry(folder: int, path: str, users: Iterable[Ids]) -> None:
    for ids in users:
        if not _may(folder, ids, os.X_OK):
            raise FolderError(
                f"The user {ids} (session_user) may not enter every folder above {path}. Give that user the right, or "
                "mount what this user can reach."
            )


def _open_in(folder: int, name: str, flags: int, users: Sequence[Ids], by_owner: bool) -> int:
    """Open a name in an open folder, as the first of the users if root may not. Raises OSError."""
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        status = os.fstat(folder)
        if not users and not (by_owner and status.st_uid):
            raise
    with acting_as(users[0] if users else Ids(status.st_uid, status.st_gid)):
        return os.open(name, flags, dir_fd=folder)


def identity(status: os.stat_result) -> tuple[int, int]:
    """Return the numbers that identify a folder or file on this host."""
    return status.st_dev, status.st_ino


def bind_mount_path(session_id: str, number: int) -> str:
    """Return where mount *number* of a session is bind-mounted."""
    return f"{BIND_MOUNTS}/{session_id}/{number}"


def bind_mounts(session_id: str) -> list[str]:
    """Return the places of a session's bind mounts, mounted or not."""
    folder = f"{BIND_MOUNTS}/{session_id}"
    return [f"{folder}/{name}" for name in sorted(os.listdir(folder))] if os.path.isdir(folder) else []


def bind_mounted_sessions() -> list[str]:
    """Return the ids of the sessions that have anything below `BIND_MOUNTS`."""
    names = os.listdir(BIND_MOUNTS) if os.path.isdir(BIND_MOUNTS) else []
    return sorted(filter(is_session_id, names))


def bind_mount(descriptor: int, path: str, read_only: bool) -> None:
    """Mount what *descriptor* refers to, with all that is mounted below it, at *path*; read-only throughout if asked.

    Raises FolderError.
    """
    for folder in (BIND_MOUNTS, os.path.dirname(path)):
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.mkdir(path, 0o700)
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    _mount(f"/proc/self/fd/{descriptor}", path, MS_BIND | MS_REC)
    try:
        # Otherwise an unmount here would also unmount the source (mount_namespaces(7)).
        _mount(None, path, MS_REC | MS_PRIVATE)
        if read_only:
            # Engines before 25 make only the topmost mount read-only.
            for mount in mounted():
                if is_below(mount.point, path):
                    kept = sum(flag for option, flag in FLAGS.items() if option in mount.options)
                    _mount(None, mount.point, MS_BIND | MS_REMOUNT | MS_RDONLY | kept)
    except FolderError:
        release(path)
        raise


def remove_bind_mount(path: str) -> None:
    """Unmount a bind mount and remove its place, with the folders above if nothing else is in them."""
    release(path)
    for folder in (os.path.dirname(path), BIND_MOUNTS):
        try:
            os.rmdir(folder)
        except OSError:  # others are in it, or it is gone
            break


def release(path: str) -> None:
    """Unmount a bind mount and remove its place, which is empty then. Gone already is fine."""
    while any(mount.point == path for mount in mounted()):
        _call("umount2", path, os.fsencode(path), MNT_DETACH)
    try:
        os.rmdir(path)
    except NotADirectoryError:
        os.unlink(path)
    except FileNotFoundError:
        return


def _mount(source: str | None, target: str, flags: int) -> None:
    name = None if source is None else os.fsencode(source)
    _call("mount", target, name, os.fsencode(target), None, flags, None)


def _call(function: str, place: str, *arguments: bytes | int | None) -> None:
    """Call mount(2) or umount2(2), for which Python has no function of its own."""
    import ctypes  # most sessions do not need it

    converted = [ctypes.c_ulong(argument) if isinstance(argument, int) else argument for argument in arguments]
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*converted) != 0:
        raise FolderError(f"The kernel refuses to {function} {place}: {os.strerror(ctypes.get_errno())}.")


def sees(pid: int, wanted: tuple[int, int]) -> bool:
    """Tell whether a folder or file, by its `identity`, is mounted anywhere for a process. Gone already is fine."""
    try:
        points = [mount.point for mount in mounted(pid)]
    except OSError:
        return True
    for point in points:
        try:
            if identity(os.stat(f"/proc/{pid}/root{point}")) == wanted:
                return True
        except OSError:
            continue
    return False


def make_folder(path: str, roots: Iterable[str], owner: tuple[int, int], mode: int, users: Sequence[Ids] = ()) -> None:
    """Make the folder *path*, whose parent is below one of *roots*. Raises FolderError, also where it exists.

    users: as of `opened`; the first of them makes it.
    """
    parent, _dummy, name = path.rpartition("/")
    with opened(parent, roots, users) as above:
        try:
            with acting_as(users[0]) if users else nullcontext():
                os.mkdir(name, 0o700, dir_fd=above)
                made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        except OSError as error:
            raise FolderError(f"The folder {path} cannot be made: {error.strerror}.") from error
        try:
            if (os.fstat(made).st_uid, os.fstat(made).st_gid) != owner:
                os.fchown(made, *owner)
            with acting_as(users[0]) if users and users[0].uid == owner[0] else nullcontext():
                os.fchmod(made, mode)
        except OSError as error:
            os.rmdir(name, dir_fd=above)
            raise FolderError(f"The folder {path} cannot be given to its owner: {error.strerror}.") from error
        finally:
            os.close(made)


def remove_folder(path: str, roots: Iterable[str], users: Sequence[Ids] = ()) -> None:
    """Remove the folder *path* if it is empty; one that is not, or is gone, is left as it is. users: as of `opened`."""
    parent, _dummy, name = path.rpartition("/")
    try:
        with opened(parent, roots, users) as above:
            _as(users[0] if users else None, above, lambda: os.rmdir(name, dir_fd=above))
    except (OSError, FolderError):
        return


def write_inside(folder: int, name: str, text: str, ids: Ids | None = None) -> None:
    """Write a new file in an open folder, replacing an existing one. ids: of who does it. Raises OSError."""

    def write() -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o644, dir_fd=folder), "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    _as(ids, folder, write)


def read_inside(folder: int, name: str, ids: Ids | None = None) -> str | None:
    """Return the content of a small file in an open folder, None if there is none. Raises OSError.

    ids: of who does it.

    Replicas may write there: a pipe is not read, because that would wait for its other end.
    """
    found: list[str] = []
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

    def read() -> None:
        with open(os.open(name, flags, dir_fd=folder), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            found.append(file.read(1024).decode("ascii", "replace") if is_file else "")

    try:
        _as(ids, folder, read)
    except FileNotFoundError:
        return None
    return found[0]


def remove_inside(folder: int, name: str, ids: Ids | None = None) -> None:
    """Remove a file in an open folder; gone already is fine. ids: of who wrote it. Raises OSError."""

    def remove() -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)

    _as(ids, folder, remove)


def may_use(found: int, ids: Ids, writes: bool) -> bool:
    """Tell whether a user may read an open folder or file, and write there."""
    is_folder = stat.S_ISDIR(os.fstat(found).st_mode)
    return _may(found, ids, os.R_OK | (os.X_OK if is_folder else 0) | (os.W_OK if writes else 0))


def _may(found: int, ids: Ids, mode: int) -> bool:
    with acting_as(ids):
        return os.access(f"/proc/self/fd/{found}", mode, effective_ids=True)


def _as(ids: Ids | None, folder: int, act: Callable[[], None]) -> None:
    """Do something in a folder as a user, or without one as root or the folder's owner."""
    if ids is None:
        _as_root_or_owner(folder, act)
        return
    with acting_as(ids):
        act()


def _as_root_or_owner(folder: int, act: Callable[[], None]) -> None:
    """Do something in a folder; if root may not, as on NFS with root_squash, do it as the folder's owner."""
    try:
        act()
        return
    except PermissionError:
        status = os.fstat(folder)
        if status.st_uid == 0:
            raise
    with acting_as(Ids(status.st_uid, status.st_gid)):
        act()


@contextmanager
def acting_as(ids: Ids) -> Iterator[None]:
    """Do something as a user, whose rights the kernel and file servers then check."""
    with IDENTITY:
        groups = os.getgroups()
        try:
            os.setgroups(ids.groups)
            os.setegid(ids.gid)
            os.seteuid(ids.uid)
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)


def owner_of(status: os.stat_result) -> str:
    """Return "uid:gid"."""
    return f"{status.st_uid}:{status.st_gid}"


def mode_of(status: os.stat_result) -> str:
    """Return the mode as four octal digits."""
    return f"{status.st_mode & 0o7777:04o}"


def path_facts(path: str) -> dict[str, Any]:
    """Return the facts that planning needs of a path that a session is to mount (`core.rules.data`)."""
    _wake(path)
    real = os.path.realpath(path)
    parts = [part for part in path.split("/") if part]
    ancestors = ["/" + "/".join(parts[:number]) for number in range(len(parts) + 1)]
    status = status_of(path)
    kind = "missing" if status is None else "directory" if stat.S_ISDIR(status.st_mode) else "file"
    parent = os.path.dirname(path)
    mount = mount_of(real)
    return {
        "kind": kind,
        "real": real,
        "ancestors": {ancestor: os.path.realpath(ancestor) for ancestor in ancestors},
        "parent": (above := status_of(parent)) is not None and stat.S_ISDIR(above.st_mode) and not os.path.islink(path),
        "owner": status and owner_of(status),
        "mode": status and mode_of(status),
        "filesystem": mount.filesystem,
        "origin": mount.origin,
        "inode": status and status.st_ino,
        "read_only": "ro" in mount.options or _is_read_only(path if status else parent),
    }


def status_of(path: str) -> os.stat_result | None:
    """Return what *path* leads to, None if that is nothing.

    Folders that are closed to root, as on NFS with root_squash, are entered as their owner, without following links.
    """
    try:
        return os.stat(path)
    except PermissionError:
        pass
    except OSError:
        return None
    try:
        found = _descend(path, "/", [name for name in os.path.realpath(path).split("/") if name], by_owner=True)
    except FolderError:
        return None
    try:
        return os.fstat(found)
    finally:
        os.close(found)


def _is_read_only(path: str) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False
