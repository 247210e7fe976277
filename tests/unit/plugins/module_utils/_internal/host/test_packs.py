# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The packs that a host keeps: only those that are what they are called, for whom they are used."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    Growth,
    QueueTicket,
    advance,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import packs
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.packs import PackError

WORK = "work"
SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(str(tmp_path))


def name_of(content: bytes) -> str:
    return f"/work@sha256:{hashlib.sha256(content).hexdigest()}"


def kept(state: StateDirectory) -> list[str]:
    return sorted(path.name for path in (state.root / "packs").iterdir())


def take_in(state: StateDirectory, content: bytes, days: float = 0) -> str:
    """Keep a pack that was last used so many days ago, and return its name."""
    name = name_of(content)
    packs.take_in(state, [content[:2], content[2:]], name)
    then = time.time() - days * 86400
    os.utime(state.root / "packs" / file_of(name), (then, then))
    return name


def file_of(name: str) -> str:
    return f"{name.partition(':')[2]}.tar"


def test_a_pack_is_kept_for_root_alone_and_can_be_read(state: StateDirectory) -> None:
    name = take_in(state, b"content")
    assert packs.has(state, name)
    assert not packs.has(state, name_of(b"other"))
    assert b"".join(packs.chunks_of(packs.opened(state, name))) == b"content"
    (path,) = (state.root / "packs").iterdir()
    assert [place.stat().st_mode & 0o777 for place in (path, path.parent)] == [0o600, 0o700]
    with pytest.raises(PackError, match=r"does not have a part of session_workdir any more"):
        packs.opened(state, name_of(b"other"))


def test_what_comes_with_another_content_or_breaks_off_leaves_nothing(state: StateDirectory) -> None:
    with pytest.raises(PackError, match=r"came with another content"):
        packs.take_in(state, [b"other"], name_of(b"content"))

    def broken() -> Iterable[bytes]:
        yield b"con"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        packs.take_in(state, broken(), name_of(b"content"))
    assert kept(state) == []


def test_a_pack_without_a_session_goes_after_a_day(state: StateDirectory) -> None:
    assert packs.prune(state) == []
    used, grows, asked, new, old = (
        take_in(state, text, days)
        for text, days in ((b"used", 2), (b"grows", 2), (b"asked", 2), (b"new", 0.9), (b"old", 1.1))
    )
    assert packs.has(state, asked)
    request, growth = (
        {"name": "train", "workdir": {"path": "/code", "packs": [name], "size": 1}} for name in (used, grows)
    )
    record = advance(new_record(SESSION, "ada", request), PENDING, "No room.", queue=QueueTicket(1))
    record = replace(record, growth=Growth(growth, 1))
    state.session(SESSION).write_record(record)
    assert packs.prune(state) == [file_of(old)]
    state.remove_session(SESSION)
    assert sorted(packs.prune(state)) == sorted(map(file_of, (used, grows)))
    assert kept(state) == sorted(map(file_of, (asked, new)))


def test_while_a_record_cannot_be_read_nothing_goes(state: StateDirectory) -> None:
    take_in(state, b"old", days=2)
    folder = state.session(SESSION).path
    folder.mkdir(parents=True)
    (folder / "record.json").write_text("{")
    assert packs.prune(state) == []
    assert len(kept(state)) == 1


class Unpacked:
    """An engine that unpacks archives into memory."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[Any, ...]] = {}

    def put_archive(self, container: str, path: str, archive: Iterable[bytes]) -> None:
        with tarfile.open(fileobj=io.BytesIO(b"".join(archive))) as found:
            for member in found:
                file = found.extractfile(member) if member.isreg() else None
                content = member.linkname if file is None else file.read()
                self.files[f"{path}{member.name}"] = (content, member.mode, member.uid, member.gid)


def test_a_damaged_pack_is_removed_so_that_the_next_launch_brings_it_again(state: StateDirectory) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        member = tarfile.TarInfo(f"{WORK}/a")
        member.size = 5000
        archive.addfile(member, io.BytesIO(b"x" * 5000))
    name = take_in(state, made.getvalue())
    os.truncate(state.root / "packs" / file_of(name), 2000)
    with pytest.raises(PackError, match=r"was damaged on this host, and is removed .* Launch the session again"):
        packs.unpack(cast(Engine, Unpacked()), state, "c", [name], (0, 0))
    assert not packs.has(state, name)


def test_what_is_unpacked_belongs_to_the_user_of_the_replica(state: StateDirectory) -> None:
    made = io.BytesIO()
    long = f"{WORK}/" + "x" * 90 + "/" + "é" * 120
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, content in (
            (WORK, tarfile.DIRTYPE, b""),
            (f"{WORK}/a", tarfile.REGTYPE, b"x" * 1500),
            (f"{WORK}/empty", tarfile.REGTYPE, b""),
            (f"{WORK}/link", tarfile.SYMTYPE, b""),
            (long, tarfile.REGTYPE, b"y" * 512),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.size, member.mode = kind, len(content), 0o640
            member.linkname = "a" if kind == tarfile.SYMTYPE else ""
            archive.addfile(member, io.BytesIO(content))
    name = take_in(state, made.getvalue())
    engine = Unpacked()
    packs.unpack(cast(Engine, engine), state, "c", [name], (1000, 100))
    assert engine.files == {
        f"/{WORK}": ("", 0o640, 1000, 100),
        f"/{WORK}/a": (b"x" * 1500, 0o640, 1000, 100),
        f"/{WORK}/empty": (b"", 0o640, 1000, 100),
        f"/{WORK}/link": ("a", 0o640, 1000, 100),
        f"/{long}": (b"y" * 512, 0o640, 1000, 100),
    }
