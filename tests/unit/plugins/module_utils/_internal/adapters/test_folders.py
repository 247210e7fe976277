# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Folders are opened below an allowed one, whatever is put in the way."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import folders
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.folders import FolderError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make an allowed folder beside one that is not."""
    (tmp_path / "root/inner/deep").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    return tmp_path / "root"


def identity(path: Path) -> tuple[int, int]:
    return folders.identity(path.stat())


def open_identity(path: Path | str, *roots: Path) -> tuple[int, int]:
    with folders.opened(str(path), [str(root) for root in roots]) as found:
        return folders.identity(os.fstat(found))


def test_what_is_below_the_root_is_opened(root: Path) -> None:
    (root / "link").symlink_to("inner")
    (root / "file").write_text("x")
    assert open_identity(root / "inner/deep", root) == identity(root / "inner/deep")
    assert open_identity(root / "link/deep", root) == identity(root / "inner/deep")
    assert open_identity(root / "file", root) == identity(root / "file")
    assert open_identity(root, root) == identity(root)
    (root.parent / "door").symlink_to(root)
    assert open_identity(root.parent / "door/inner", root.parent / "door") == identity(root / "inner")


def test_what_is_not_is_refused(root: Path) -> None:
    (root / "out").symlink_to(root.parent / "other")
    (root / "up").symlink_to("..")
    for path in (root / "out", root / "up/other", root.parent / "other", root.parent, f"{root}/../other"):
        with pytest.raises(FolderError, match="not below"):
            open_identity(path, root)
    with pytest.raises(FolderError, match="does not exist"):
        open_identity(root / "nothing", root)


@pytest.mark.parametrize("name", ["inner", "inner/deep"])
def test_a_link_that_is_put_there_after_the_look_is_not_followed(
    root: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.path.realpath

    def swap(path: str) -> str:
        found = really(path)
        if path.endswith("/deep"):  # the path has been looked at, so somebody swaps it now
            (root / name).rename(root.parent / "moved")
            (root / name).symlink_to(root.parent / "other")
            (root.parent / "other/deep").mkdir()
        return found

    monkeypatch.setattr(os.path, "realpath", swap)
    with pytest.raises(FolderError, match=r"there is a symbolic link in it now|cannot be opened"):
        open_identity(root / "inner/deep", root)


def test_what_is_mounted_on_first_use_is_mounted_before_it_is_looked_at(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mount as the kernel does for an automount point: when a path leads through it, not when it is the path's end."""
    really = os.stat

    def stat(path: str, **named: Any) -> os.stat_result:
        if str(path).startswith(f"{root}/inner/"):
            with suppress(FileExistsError):
                os.mkdir(root / "inner/share")
        return really(path, **named)

    monkeypatch.setattr(os, "stat", stat)
    with folders.opened(str(root / "inner"), [str(root)]) as found:
        assert sorted(os.listdir(f"/proc/self/fd/{found}")) == ["deep", "share"]
    (root / "inner/share").rmdir()
    folders.path_facts(str(root / "inner"))
    assert os.path.isdir(root / "inner/share")


def test_where_nobody_can_write_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mount may be read-only, or its file system, or that in which a folder would be made."""
    assert folders.path_facts(str(root))["read_only"] is False
    assert {"rw", "ro"} & set(folders.mount_of(str(root)).options)
    with monkeypatch.context() as patched:
        mount = replace(folders.mount_of(str(root)), options=("ro", "relatime"))
        patched.setattr(folders, "mount_of", lambda _path: mount)
        assert folders.path_facts(str(root))["read_only"] is True
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY * (path == str(root))))
    assert folders.path_facts(str(root))["read_only"] is True
    assert folders.path_facts(str(root / "new"))["read_only"] is True


def test_names_in_mountinfo_are_read_as_they_are() -> None:
    points = [mount.point for mount in folders.mounted()]
    assert "/" in points
    assert folders._plain(r"/a\040b\134c\012") == "/a b\\c\n"
    assert folders.mount_of("/proc/self").filesystem == "proc"


def test_nothing_that_a_replica_puts_in_the_place_of_a_proof_holds_the_host_up(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "large").touch()
    os.truncate(root / "large", 2**43)
    (root / "proof").write_text("yes")
    folder = os.open(root, os.O_RDONLY)
    found: list[str | None] = []
    names = ("proof", "large", "pipe", "missing")
    reads = Thread(target=lambda: found.extend(folders.read_inside(folder, name) for name in names), daemon=True)
    reads.start()
    reads.join(10)
    assert not reads.is_alive(), "it waits for the other end of a pipe"
    assert found == ["yes", "\0" * 1024, "", None]
