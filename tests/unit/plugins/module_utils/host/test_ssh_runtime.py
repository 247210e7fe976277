# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What needs no OpenSSH: moving the built files into place, and reading what ldd says. The rest is shown on the lab."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.host import ssh_runtime

MODERN = """\
\tlinux-vdso.so.1 (0x00007f92aa82a000)
\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f92a9f81000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f92aa82c000)
\tlibgone.so.7 => not found
"""


@pytest.fixture(params=[0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def make(folder: Path, *names: str) -> Path:
    for name in (*names, "manifest"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{folder.name} {name}")
    return folder


def test_new_files_take_the_place_of_old_ones_in_the_same_folder(tmp_path: Path, umask: None) -> None:
    target = make(tmp_path / "old", "lib/one", "lib/two", "libexec/sshd")
    same = target.stat().st_ino
    ssh_runtime._move(make(tmp_path / "new", "lib/one", "libexec/sshd", "libexec/sshd-session"), target)
    found = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    assert found == ["lib/one", "libexec/sshd", "libexec/sshd-session", "manifest"]
    assert (target / "lib/one").read_text() == "new lib/one"
    assert target.stat().st_ino == same
    folders = [target, *(path for path in target.rglob("*") if path.is_dir())]
    assert {path.stat().st_mode & 0o7777 for path in folders} == {0o755}


def test_the_folder_is_made_for_everybody_to_read(tmp_path: Path, umask: None) -> None:
    target = tmp_path / "a" / "b"
    ssh_runtime._move(make(tmp_path / "new", "lib/one"), target)
    for path in (target.parent, target, target / "lib"):
        assert path.stat().st_mode & 0o7777 == 0o755


def test_what_ldd_says_is_read() -> None:
    assert ssh_runtime._LIBRARY.findall(MODERN) == [
        ("libz.so.1", "/lib/x86_64-linux-gnu/libz.so.1", ""),
        ("", "/lib64/ld-linux-x86-64.so.2", ""),
        ("", "", "libgone.so.7"),
    ]
