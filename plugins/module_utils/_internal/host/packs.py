# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The working directories that sessions take along, as this host keeps them: archives named after their content.

They come and go between hosts like images, but are files in the state directory: a replica is made again from them
after "docker system prune", and the engine's store has no part in what they are called.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ..adapters.state import StateDirectory, check_space, make_directory
from ..core.values.errors import SessionError
from ..core.values.image_names import digest_of

if TYPE_CHECKING:
    from ..adapters.engine import Engine
    from ..core.model.record import Record

UNUSED = 24 * 3600.0
"""Seconds for which a pack without a session stays: a launch that follows soon sends only what has changed."""
CHUNK = 1024**2
"""Bytes that are read at a time."""


class PackError(SessionError):
    """A pack cannot be kept, or is not what it should be. The message is a full sentence."""


def _folder(state: StateDirectory) -> Path:
    return state.root / "packs"


def _file(state: StateDirectory, reference: str) -> Path:
    return _folder(state) / f"{str(digest_of(reference)).partition(':')[2]}.tar"


def has(state: StateDirectory, reference: str) -> bool:
    """Tell whether this host has a pack, which then stays for a while."""
    path = _file(state, reference)
    with suppress(OSError):  # on a disk that cannot be written to, it can still be read
        os.utime(path)
    return path.exists()


def take_in(state: StateDirectory, chunks: Iterable[bytes], reference: str) -> None:
    """Keep a pack that comes in pieces. Raises PackError unless its content is what its reference says, and OSError."""
    folder = _folder(state)
    make_directory(folder)
    check_space(folder)
    digest = hashlib.sha256()
    part = _file(state, reference).with_suffix(f".{os.getpid()}")
    try:
        with open(part, "wb", opener=partial(os.open, mode=0o600)) as file:
            for chunk in chunks:
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if f"sha256:{digest.hexdigest()}" != digest_of(reference):
            raise PackError(
                "A part of session_workdir came with another content than it had when the launch began. Launch again "
                "when nothing changes the folder any more."
            )
        os.replace(part, _file(state, reference))
    finally:
        part.unlink(missing_ok=True)


def opened(state: StateDirectory, reference: str) -> IO[bytes]:
    """Open a pack. Raises PackError if this host does not have it."""
    try:
        return open(_file(state, reference), "rb")
    except FileNotFoundError:
        raise PackError(
            "This host does not have a part of session_workdir any more. Launch the session again, which brings it "
            "from a host that has it, or from its folder."
        ) from None


def chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of a file, and close it."""
    with file:
        while chunk := file.read(CHUNK):
            yield chunk


def unpack(
    engine: Engine, state: StateDirectory, container: str, references: Sequence[str], owner: tuple[int, int]
) -> None:
    """Put packs into a container that was never started, where they belong to its user. Raises SessionError.

    Their content was checked when they came; one that was damaged since is removed, so that the next launch brings it
    again. Doing it again changes nothing.
    """
    from tarfile import TarError

    for reference in references:
        try:
            engine.put_archive(container, "/", _owned(opened(state, reference), *owner))
        except TarError as error:
            _file(state, reference).unlink(missing_ok=True)
            raise PackError(
                f"A part of session_workdir was damaged on this host, and is removed ({error}). Launch the session "
                "again, which brings it again."
            ) from error


def _owned(file: IO[bytes], uid: int, gid: int) -> Iterator[bytes]:
    """Yield an archive again, with this owner of all that is in it."""
    import tarfile

    with file, tarfile.open(fileobj=file, mode="r:") as archive:
        for member in archive:
            member.uid, member.gid = uid, gid
            yield member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                yield from iter(partial(content.read, CHUNK), b"")
                yield bytes(-member.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def prune(state: StateDirectory) -> list[str]:
    """Remove the packs that no session on this host has had for a while, and what a stopped transfer left.

    Returns their names. Raises OSError.
    """
    folder = _folder(state)
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    old = [path for path in found if _age(path) > UNUSED]
    if not old:
        return []
    records, damaged = state.records()
    kept = {_file(state, pack) for record in records for pack in _packs_of(record)}
    left = [] if damaged else [path for path in old if path not in kept]
    for path in left:
        path.unlink(missing_ok=True)
    return [path.name for path in left]


def _age(path: Path) -> float:
    """Return the seconds since a file was used, 0 if it has just gone, as a transfer that ends renames it."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _packs_of(record: Record) -> list[str]:
    """Return the packs of a session, and of the request with which it waits to grow; none of a stub record."""
    growth = [] if record.growth is None else [record.growth.request]
    return [
        pack
        for request in (record.request, *growth)
        for pack in ((request or {}).get("workdir") or {}).get("packs", ())
    ]
