# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories are counted to the end however long that takes, and nobody waits for it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import disk_use
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.background import (
    seconds_used,
    start_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.disk_use import (
    NotCounted,
    count,
    end_counts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError

BYTES, INODES = "--block-size=1", "--inodes"


@pytest.fixture(autouse=True)
def counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep counts in a folder of the test, and end what is left of them."""
    found = tmp_path / "counts"
    monkeypatch.setattr(disk_use, "COUNTS", str(found))
    yield found
    for path in found.glob("*.json"):
        pid, start = (json.loads(path.read_text(encoding="utf-8"))[key] for key in ("pid", "start"))
        if start_of(pid) == start:
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "layer"
    (found / "inner").mkdir(parents=True)
    (found / "inner" / "file").write_bytes(b"x" * 100_000)
    return found


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A du that does not come to its end before this file is there, and that notes how often it was started."""
    found, du = tmp_path / "gate", tmp_path / "bin" / "du"
    du.parent.mkdir()
    wait = f"echo >>{tmp_path}/started; until [ -e {found} ]; do sleep 0.02; done"
    du.write_text(f'#!/bin/sh\n{wait}\nPATH=/usr/bin:/bin exec du "$@"\n', encoding="ascii")
    du.chmod(0o755)
    monkeypatch.setenv("PATH", f"{du.parent}:{os.environ['PATH']}")
    yield found
    found.touch()  # what is still counted ends with the test


def until_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while start_of(pid) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def started(tmp_path: Path) -> int:
    return len((tmp_path / "started").read_text(encoding="ascii").splitlines())


def test_what_is_there_is_counted(folder: Path, counts: Path) -> None:
    assert count(str(folder), INODES, 60) == 3
    assert count(str(folder), BYTES, 60) >= 100_000
    assert [path.name for path in counts.iterdir()] == ["lock"], "nothing is kept of what has ended"


def test_a_count_goes_on_from_look_to_look_and_is_begun_once(folder: Path, gate: Path, tmp_path: Path) -> None:
    for _look in range(2):
        with pytest.raises(
            NotCounted, match=rf"du has not come to the end of {folder} within 0 seconds, .*; it goes on"
        ):
            count(str(folder), INODES, 0.3)
    assert started(tmp_path) == 1
    gate.touch()
    assert count(str(folder), INODES, 60) == 3
    assert started(tmp_path) == 1
    count(str(folder), INODES, 60)
    assert started(tmp_path) == 2, "the next one is a new one"


def test_a_count_that_was_killed_or_ended_long_ago_is_begun_again(
    folder: Path, gate: Path, tmp_path: Path, counts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotCounted):
        count(str(folder), INODES, 0.3)
    (known,) = counts.glob("*.json")
    pid = json.loads(known.read_text(encoding="utf-8"))["pid"]
    os.kill(pid, signal.SIGKILL)
    until_gone(pid)
    gate.touch()
    assert count(str(folder), INODES, 60) == 3
    assert started(tmp_path) == 2

    gate.unlink()
    with pytest.raises(NotCounted):
        count(str(folder), INODES, 0.3)
    gate.touch()
    (known,) = counts.glob("*.json")
    until_gone(json.loads(known.read_text(encoding="utf-8"))["pid"])
    (folder / "another").touch()
    monkeypatch.setattr(disk_use, "FRESH", 0.0)
    assert count(str(folder), INODES, 60) == 4


def test_how_much_work_it_was_is_told(folder: Path, gate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seconds_used(os.getpid()) > 0
    assert seconds_used(0) == 0
    monkeypatch.setattr(disk_use, "seconds_used", lambda _pid: 301.0)
    with pytest.raises(NotCounted, match="after 301 seconds of work in all") as caught:
        count(str(folder), INODES, 0.1)
    assert caught.value.work == 301


def test_the_count_of_a_folder_that_is_gone_is_ended(folder: Path, gate: Path, counts: Path) -> None:
    with pytest.raises(NotCounted):
        count(str(folder), INODES, 0.1)
    (known,) = counts.glob("*.json")
    pid = json.loads(known.read_text(encoding="utf-8"))["pid"]
    end_counts()
    assert start_of(pid) is not None
    folder.rename(folder.with_name("elsewhere"))
    end_counts()
    assert list(counts.glob("*.json")) == []
    until_gone(pid)


def test_what_cannot_be_counted_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        count(str(tmp_path / "gone"), INODES, 60)
    du = tmp_path / "du"
    du.write_text("#!/bin/sh\necho It is broken. >&2\n", encoding="ascii")
    du.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SessionError, match=rf"du does not report what {tmp_path} holds: It is broken\."):
        count(str(tmp_path), INODES, 60)
