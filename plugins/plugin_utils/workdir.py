# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read the folder of the controller that a session takes along, and make the packs that go to hosts.

A pack is a tar archive of a part of the folder, without times and owners, so that the same content always gives the
same bytes. Each of the largest files is a pack of its own, and all other files are one: after a change of a program,
only that one is sent again. What .gitignore or .ccsignore name stays away, and as in git, folders without files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..module_utils._internal.core.model.workdir import WORK, Workdir, in_mib
from ..module_utils._internal.core.values.errors import InvalidInput, show
from ..module_utils._internal.core.values.image_names import PACK, digest_of
from ..module_utils._internal.core.values.paths import is_below

VARIABLE = "session_workdir"
LIMIT = "cluster_compute_workdir_size"
GIT_IGNORE, OWN_IGNORE = ".gitignore", ".ccsignore"
LARGE = 4 * 1024**2
"""Bytes from which on a file may be a pack of its own."""
MOST_LARGE = 7
"""Most files that are packs of their own: a host gets one pack after another."""
MOST_FILES = 100_000
TIME = 1577836800
"""Time of all files in a replica, in seconds since 1970 (2020-01-01): the controller's own would make new packs."""
CHUNK = 1024**2


@dataclass(frozen=True)
class _Entry:
    """Something in the folder. name: its path there. status: as lstat(2) reports it."""

    name: str
    status: os.stat_result

    @property
    def size(self) -> int:
        """Bytes of a file, 0 of anything else."""
        return self.status.st_size if stat.S_ISREG(self.status.st_mode) else 0


def read_workdir(path: str, most: int, within: str | None = None) -> tuple[Workdir, list[str]]:
    """Return a folder with what identifies its content, and warnings about what replicas will not have of it.

    path: as the user gave it, from the directory of the run if it is relative. most: bytes that the site allows.
    within: the folder that has to hold it, None for any. Raises InvalidInput.
    """
    folder = os.path.abspath(os.path.expanduser(path))
    if within is not None and not is_below(os.path.realpath(folder), os.path.realpath(within)):
        message = "A job of AWX can take along only folders of its project, as others are not the user's."
        raise InvalidInput.single(VARIABLE, path, message)
    entries = _entries(folder)
    size = sum(entry.size for entry in entries)
    if size > most:
        largest = max(entries, key=lambda entry: entry.size)
        raise InvalidInput.single(
            VARIABLE,
            path,
            f"It has {in_mib(size)}, {in_mib(largest.size)} of it in {show(largest.name)}, and {LIMIT} is "
            f"{in_mib(most)}. Name in .ccsignore what the session does not need, or mount a shared folder.",
        )
    packs = tuple(_reference_of(_archive(folder, part)) for part in _parts(entries))
    return Workdir(folder, packs, size), _warnings(folder, entries)


def write_pack(folder: str, reference: str, into: str) -> str:
    """Write a pack of a folder into the directory *into*, and return its path.

    Raises InvalidInput if the folder has changed since it was read.
    """
    path = _place(into, reference)
    if not path.exists():
        for part in _parts(_entries(folder)):
            _write(into, _archive(folder, part))
            if path.exists():
                break
    if not path.exists():
        message = "It was changed while the session was launched. Launch again when nothing changes it any more."
        raise InvalidInput.single(VARIABLE, folder, message)
    return str(path)


def _write(into: str, archive: Iterable[bytes]) -> None:
    part = Path(into) / f"pack.{os.getpid()}"
    try:
        with open(part, "wb") as file:
            reference = _reference_of(archive, file)
        os.replace(part, _place(into, reference))
    except OSError as error:
        message = f"It cannot be written to {into}: {error.strerror or error}."
        raise InvalidInput.single(VARIABLE, part.name, message) from None
    finally:
        part.unlink(missing_ok=True)


def _place(into: str, reference: str) -> Path:
    return Path(into) / f"pack-{str(digest_of(reference)).partition(':')[2]}.tar"


def _reference_of(archive: Iterable[bytes], file: IO[bytes] | None = None) -> str:
    """Return the reference of a pack by its content, which is also written to *file* if one is given."""
    digest = hashlib.sha256()
    for chunk in archive:
        digest.update(chunk)
        if file is not None:
            file.write(chunk)
    return f"{PACK}sha256:{digest.hexdigest()}"


def _entries(folder: str) -> list[_Entry]:
    """Return what is sent of a folder, itself first, sorted. Raises InvalidInput."""
    names = _names_in(folder)
    if len(names) > MOST_FILES:
        message = f"It has {len(names)} files. Name in .ccsignore what the session does not need."
        raise InvalidInput.single(VARIABLE, folder, message)
    above = {parent for name in names for parent in _folders_above(name)}
    try:
        return [_Entry(name, os.lstat(os.path.join(folder, name))) for name in ["", *sorted({*names, *above})]]
    except OSError as error:
        raise _unreadable(error, folder) from None


def _unreadable(error: OSError, path: str) -> InvalidInput:
    place = error.filename if isinstance(error.filename, str) else path
    return InvalidInput.single(VARIABLE, place, f"It cannot be read: {error.strerror or error}.")


def _folders_above(name: str) -> Iterator[str]:
    while name := os.path.dirname(name):
        yield name


def _names_in(folder: str) -> set[str]:
    """Return the files and links of a folder that no ignore file names. Raises InvalidInput."""
    if not os.path.isdir(folder):
        message = "The controller has no such folder. The directory of an image in which programs start is named by "
        raise InvalidInput.single(VARIABLE, folder, f"{message}session_directory.")
    try:
        os.listdir(folder)  # of a folder that cannot be read, git reports nothing
        if shutil.which("git") is None:
            return set(_all_names(folder))
        with tempfile.TemporaryDirectory() as empty:
            subprocess.run(["git", "init", "-q", "--bare", empty], check=True, capture_output=True, env=_environment())
            names = {*_not_ignored(folder, empty, GIT_IGNORE)} & {*_not_ignored(folder, empty, OWN_IGNORE)}
    except OSError as error:
        raise _unreadable(error, folder) from None
    except subprocess.CalledProcessError as error:
        raise InvalidInput.single(
            VARIABLE, folder, f"git cannot read it: {os.fsdecode(error.stderr).strip()}."
        ) from None
    return names


def _not_ignored(folder: str, empty: str, ignore_file: str) -> Iterator[str]:
    """Yield the files and links of a folder that its files of this name do not name, as git finds them.

    empty: a repository without content, to which all files are new. A repository in the folder is searched by itself.
    """
    argv = ["git", f"--git-dir={empty}", f"--work-tree={folder}", "-C", folder]
    argv += ["ls-files", "-z", "--others", f"--exclude-per-directory={ignore_file}"]
    done = subprocess.run(argv, check=True, capture_output=True, env=_environment())
    if b"could not open" in done.stderr:  # git leaves out what it cannot read
        raise subprocess.CalledProcessError(0, argv, done.stdout, done.stderr)
    for name in os.fsdecode(done.stdout).split("\0")[:-1]:
        if name.endswith("/"):
            inside = _not_ignored(os.path.join(folder, name), empty, ignore_file)
            yield from (name + below for below in inside)
        else:
            yield name


def _environment() -> dict[str, str]:
    """Return the environment of git: no settings of the user, and no other repository."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**own, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}


def _all_names(folder: str) -> Iterator[str]:
    """Yield the files and links of a folder that has no ignore files. Raises InvalidInput, OSError."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name in (GIT_IGNORE, OWN_IGNORE):
            message = "Without git, the controller cannot leave out what it names. Install git there."
            raise InvalidInput.single(VARIABLE, path, message)
        mode = os.lstat(path).st_mode
        if name == ".git":
            continue
        if stat.S_ISDIR(mode):
            yield from (os.path.join(name, below) for below in _all_names(path))
        elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            yield name


def _parts(entries: list[_Entry]) -> list[list[_Entry]]:
    """Return the entries of each pack: first all that is not a large file, then the large files."""
    large = sorted((entry for entry in entries if entry.size >= LARGE), key=lambda entry: -entry.size)[:MOST_LARGE]
    alone = {entry.name for entry in large}
    others = [entry for entry in entries if entry.name not in alone]
    return [others, *([entry] for entry in entries if entry.name in alone)]


def _archive(folder: str, entries: Iterable[_Entry]) -> Iterator[bytes]:
    """Yield a tar archive. Raises InvalidInput if a file cannot be read, or changes meanwhile."""
    for entry in entries:
        path = os.path.join(folder, entry.name)
        member = tarfile.TarInfo(os.path.normpath(os.path.join(WORK.lstrip("/"), entry.name)))
        member.mode, member.mtime, member.size = stat.S_IMODE(entry.status.st_mode) & 0o777, TIME, entry.size
        try:
            if stat.S_ISLNK(entry.status.st_mode):
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, os.readlink(path), 0o777
            elif stat.S_ISDIR(entry.status.st_mode):
                member.type = tarfile.DIRTYPE
            yield member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
            if member.isreg():
                yield from _content(path, entry.size)
        except OSError as error:
            raise _unreadable(error, path) from None
    yield bytes(2 * tarfile.BLOCKSIZE)


def _content(path: str, size: int) -> Iterator[bytes]:
    """Yield the content of a file, filled up to whole blocks. Raises InvalidInput if it has another size, OSError."""
    left = size
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        while chunk := file.read(CHUNK):
            left -= len(chunk)
            if left < 0:
                break
            yield chunk
    if left:
        message = "It changes while it is read. Launch again when nothing writes to it, or name it in .ccsignore."
        raise InvalidInput.single(VARIABLE, path, message)
    yield bytes(-size % tarfile.BLOCKSIZE)


def _warnings(folder: str, entries: Iterable[_Entry]) -> list[str]:
    """Return what replicas will not have as it is in the folder."""
    astray = [entry.name for entry in entries if stat.S_ISLNK(entry.status.st_mode) and _leads_out(folder, entry.name)]
    return [f"{VARIABLE}: in a replica, links out of the folder lead elsewhere: {_first(astray)}."] if astray else []


def _first(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(show, names[:3])) + more


def _leads_out(folder: str, name: str) -> bool:
    path = os.path.join(folder, name)
    target = os.readlink(path)
    if os.path.isabs(target):
        return True
    inside = os.path.normpath(os.path.join(os.path.dirname(name), target))
    return inside == ".." or inside.startswith("../")
