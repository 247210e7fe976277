# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replicas get the files of a folder of the controller, in packs that are named after their content."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.plugin_utils import workdir
from ansible_collections.cluster_compute.session.plugins.plugin_utils.workdir import LARGE, read_workdir, write_pack

MOST = 1024**3


def write(root: Path, **files: str) -> Path:
    """Write files, whose names have "__" for a slash."""
    for name, text in files.items():
        place = root / name.replace("__", "/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return root


def unpacked(folder: str, packs: tuple[str, ...], into: Path) -> set[str]:
    """Write the packs of a folder and unpack them; return what files came, and where."""
    (into / "tmp").mkdir(parents=True)
    for pack in packs:
        subprocess.run(["tar", "-xpf", write_pack(folder, pack, str(into / "tmp")), "-C", into], check=True)
    return {str(place.relative_to(into / "work")) for place in (into / "work").rglob("*") if not place.is_dir()}


def test_a_folder_arrives_as_it_is(tmp_path: Path) -> None:
    folder = write(tmp_path / "code", train="import os", lib__deep__a="a", run="#!/bin/sh")
    (folder / "run").chmod(0o4755)
    (folder / "lib/secret").write_bytes(bytes(range(256)) * 3)
    (folder / "lib/secret").chmod(0o600)
    (folder / "link").symlink_to("lib/deep/a")
    long = "x" * 120 + "/" + "é" * 100
    write(folder, **{long: "long"})
    (folder / os.fsdecode(b"\xff\xfe")).write_text("odd")
    found, warnings = read_workdir(str(folder), MOST)
    assert (found.path, len(found.packs), warnings) == (str(folder), 1, [])
    assert found.size == sum(
        place.lstat().st_size for place in folder.rglob("*") if place.is_file() and place.name != "link"
    )
    came = unpacked(str(folder), found.packs, tmp_path / "replica")
    assert came == {"train", "lib/deep/a", "lib/secret", "run", "link", long, os.fsdecode(b"\xff\xfe")}
    there = tmp_path / "replica/work"
    assert (there / "lib/secret").read_bytes() == (folder / "lib/secret").read_bytes()
    assert os.readlink(there / "link") == "lib/deep/a"
    assert [(there / name).stat().st_mode & 0o7777 for name in ("run", "lib/secret")] == [0o755, 0o600]


def test_the_same_content_has_the_same_name_wherever_and_whenever_it_is_written(tmp_path: Path) -> None:
    first = write(tmp_path / "first", a="a", b__c="c")
    second = write(tmp_path / "second", b__c="c", a="a")
    os.utime(second / "a", (1, 1))
    assert read_workdir(str(first), MOST)[0] == read_workdir(str(second), MOST)[0]
    (second / "a").write_text("b")
    assert read_workdir(str(first), MOST)[0] != read_workdir(str(second), MOST)[0]


def test_a_changed_program_leaves_the_packs_of_large_files_as_they_are(tmp_path: Path) -> None:
    folder = write(tmp_path / "code", train="1")
    for number in range(workdir.MOST_LARGE + 2):
        (folder / f"data{number}").write_bytes(bytes([number]) * (LARGE + number))
    before = read_workdir(str(folder), MOST)[0]
    assert len(before.packs) == 1 + workdir.MOST_LARGE
    (folder / "train").write_text("2")
    after = read_workdir(str(folder), MOST)[0]
    assert [old == new for old, new in zip(before.packs, after.packs)] == [False] + [True] * workdir.MOST_LARGE
    came = unpacked(str(folder), after.packs, tmp_path / "replica")
    assert came == {"train", *(f"data{number}" for number in range(workdir.MOST_LARGE + 2))}
    (folder / "data8").write_bytes(bytes([9]) * (LARGE + 8))
    assert sum(old != new for old, new in zip(after.packs, read_workdir(str(folder), MOST)[0].packs)) == 1


def test_what_either_file_ignores_stays_away_in_nested_repositories_too(tmp_path: Path) -> None:
    folder = write(tmp_path / "code", a="a", b="b", c="c", sub__x="x", sub__y="y", old__z="z")
    write(folder, **{".gitignore": "a\n", "sub__.gitignore": "y", ".ccsignore": "!a\nc\n.*\n"})
    for place in (".", "sub"):
        subprocess.run(["git", "init", "-q", folder / place], check=True)
    (folder / "old/.git").write_text("gitdir: /elsewhere")
    packs = read_workdir(str(folder), MOST)[0].packs
    assert unpacked(str(folder), packs, tmp_path / "replica") == {"b", "sub/x", "sub/.gitignore", "old/z"}
    (folder / ".gitignore").write_text("a\n.ccsignore\n")  # git then does not name it, and it counts all the same
    packs = read_workdir(str(folder), MOST)[0].packs
    assert unpacked(str(folder), packs, tmp_path / "again") == {"b", "sub/x", "sub/.gitignore", "old/z"}


def refusal(path: object, most: int = MOST) -> str:
    with pytest.raises(InvalidInput) as refused:
        read_workdir(str(path), most)
    return str(refused.value)


def test_what_cannot_be_sent_is_refused_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "code", a="a", lib__data="x" * 3 * 1024**2)
    assert "none': The controller has no such folder." in refusal(tmp_path / "none")
    assert "a': The controller has no such folder." in refusal(folder / "a")
    message = refusal(folder, 1024**2)
    assert "It has 3.0 MiB, 3.0 MiB of it in 'lib/data', and cluster_compute_workdir_size is 1.0 MiB." in message
    monkeypatch.setattr(workdir, "MOST_FILES", 2)
    write(folder, b="b")
    assert "It has 3 files. Name in .ccsignore" in refusal(folder)


def test_without_git_a_folder_is_sent_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "code", a="a", sub__b="b", **{".git__HEAD": "x", "sub__.git": "gitdir: /elsewhere"})
    (folder / "link").symlink_to("a")
    with_git = read_workdir(str(folder), MOST)
    monkeypatch.setattr(shutil, "which", lambda _program: None)
    assert read_workdir(str(folder), MOST) == with_git
    write(folder, **{"sub__.ccsignore": "a"})
    assert "sub/.ccsignore': Without git, the controller cannot leave out what it names." in refusal(folder)


def test_a_file_that_others_may_not_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "code", a="a")

    def refuse(*_arguments: object) -> Iterator[bytes]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(workdir, "_content", refuse)
    assert "code/a': It cannot be read: Permission denied." in refusal(folder)


def test_a_part_that_git_cannot_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "code", a="a")
    git = (
        write(tmp_path / "bin", git="#!/bin/sh\necho \"warning: could not open directory 'data/': Denied\" >&2\n")
        / "git"
    )
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}:{os.environ['PATH']}")
    assert "git cannot read it: warning: could not open directory 'data/': Denied." in refusal(folder)


def test_a_job_of_awx_sends_only_what_is_in_its_project(tmp_path: Path) -> None:
    project = write(tmp_path / "project", code__a="a")
    write(tmp_path / "keys", id="secret")
    (project / "link").symlink_to(tmp_path / "keys")
    assert read_workdir(str(project / "code"), MOST, str(project))[0].size == 1
    assert read_workdir(str(project), MOST, str(project))[0].size == 1
    for path in (tmp_path / "keys", project / "../keys", project / "link", tmp_path):
        with pytest.raises(InvalidInput, match="A job of AWX can take along only folders of its project"):
            read_workdir(str(path), MOST, str(project))


def test_links_out_of_the_folder_are_told(tmp_path: Path) -> None:
    folder = write(tmp_path / "code", sub__a="a")
    os.mkfifo(folder / "pipe")
    (folder / "sub/in").symlink_to("../sub/a")
    (folder / "sub/out").symlink_to("../../other")
    (folder / "root").symlink_to("/etc/passwd")
    found, warnings = read_workdir(str(folder), MOST)
    assert warnings == ["session_workdir: in a replica, links out of the folder lead elsewhere: 'root', 'sub/out'."]
    assert unpacked(str(folder), found.packs, tmp_path / "replica") == {"sub/a", "sub/in", "sub/out", "root"}


def test_a_folder_that_changes_after_it_was_read_is_not_sent(tmp_path: Path) -> None:
    folder = write(tmp_path / "code", a="a")
    (pack,) = read_workdir(str(folder), MOST)[0].packs
    (folder / "a").write_text("other")
    with pytest.raises(InvalidInput, match=r"It was changed while the session was launched"):
        write_pack(str(folder), pack, str(tmp_path))


def test_packs_are_written_only_up_to_the_one_that_is_sent(tmp_path: Path) -> None:
    folder = write(tmp_path / "code", train="1")
    (folder / "data").write_bytes(b"x" * LARGE)
    (tmp_path / "out").mkdir()
    for number, pack in enumerate(read_workdir(str(folder), MOST)[0].packs, 1):
        write_pack(str(folder), pack, str(tmp_path / "out"))
        assert len(list((tmp_path / "out").iterdir())) == number


def test_a_file_that_grows_while_it_is_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "code", a="a")
    content = workdir._content
    monkeypatch.setattr(workdir, "_content", lambda path, size: content(path, size - 1))
    assert "code/a': It changes while it is read." in refusal(folder)


def test_a_path_is_taken_from_where_the_run_is_and_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "code", a="a")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert {read_workdir(path, MOST)[0].path for path in ("code", "~/code", "./code/")} == {str(tmp_path / "code")}
