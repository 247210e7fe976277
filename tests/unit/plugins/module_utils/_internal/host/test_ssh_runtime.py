# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What needs no OpenSSH: moving the built files into place, and reading what ldd says. The rest is shown on the lab."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.logins import UNREAD
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.places import LAUNCHERS
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import (
    runtime_proof,
    ssh_runtime,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.package_manager import (
    BuildFailed,
    Dpkg,
    PackageManager,
    Rpm,
)

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


@pytest.mark.parametrize(
    "where", ["class Agent:", "def main(argv: list[str]) -> int:", "def _ended(self, number: int,"]
)
def test_what_session_run_loads_late_is_in_the_runtime(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ssh_runtime._source_of_session_run()
    head = next(line for line in source.splitlines() if where in line)
    indent = " " * (len(head) - len(head.lstrip()) + 4)
    late = source.replace(head, f"{head}\n{indent}import colorsys\n")
    monkeypatch.setattr(ssh_runtime, "_source_of_session_run", lambda: late)
    found = ssh_runtime._modules()
    assert any(name.endswith("/colorsys.py") for name in found)
    assert {name.split("/")[1] for name in found} == {name.split("/")[1] for name in found if name.endswith("/os.py")}


def test_a_runtime_is_not_built_of_what_session_run_fails_with(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ssh_runtime._source_of_session_run()
    monkeypatch.setattr(ssh_runtime, "_source_of_session_run", lambda: f"{source}\nimport no_such_module\n")
    with pytest.raises(BuildFailed, match="No module named 'no_such_module'"):
        ssh_runtime._modules()


def test_programs_do_not_read_what_is_meant_for_those_of_an_image(tmp_path: Path) -> None:
    library = tmp_path / "library"
    kept = b"\0a/etc/hosts.deny\0/etc/hosts.deny.d\0/etc/hosts\0"
    library.write_bytes(b"\x7fELF\0/etc/hosts.deny\0%/etc/nologin\0" + kept)
    ssh_runtime._keep_from(library, UNREAD)
    assert library.read_bytes() == b"\x7fELF\0/proc/self/----\0%/proc/self/-\0" + kept


@pytest.mark.parametrize(
    ("arguments", "alone"),
    [
        ("train.py", False),
        ("--standalone train.py", True),
        ("--nproc-per-node 2 --standalone train.py", True),
        ("--nnodes=1 train.py", True),
        ("--nnodes 1:1 -m train", True),
        ("--nnodes 4 --node-rank 1 train.py", False),
        ("--log-dir --standalone train.py", False),
        ("-m train --standalone", False),
        ("train.py --nnodes 1", False),
    ],
)
@pytest.mark.parametrize("before", ["", "/foo:", "{launchers}:/foo:"])
def test_torchrun_of_the_image_runs_and_one_that_is_to_be_alone_is(
    arguments: str, alone: bool, before: str, tmp_path: Path
) -> None:
    image = tmp_path / "image"
    image.mkdir()
    (image / "torchrun").write_text('#!/bin/sh\necho "${PET_NNODES-none} $PET_NPROC_PER_NODE $PATH $*"\n')
    (image / "torchrun").chmod(0o755)
    path = f"{before.format(launchers=LAUNCHERS)}{LAUNCHERS}:{image}:/usr/bin:/bin"
    session = {"PATH": path, "PET_NNODES": "4", "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "2"}
    script = ssh_runtime._SCRIPTS["launchers/torchrun"]
    done = subprocess.run(
        ["/bin/dash", "-c", script, "torchrun", *arguments.split()],
        env=session,
        capture_output=True,
        text=True,
        check=True,
    )
    others = "/foo:" if "/foo" in before else ""
    assert done.stdout.split("\n")[0] == f"{'none' if alone else 4} 2 {others}{image}:/usr/bin:/bin {arguments}"


def scontrol(*arguments: str, nodes: str = "") -> Any:
    script = ssh_runtime._SCRIPTS["slurm/scontrol"]
    return subprocess.run(
        ["/bin/dash", "-c", script, "scontrol", *arguments],
        env={"SLURM_JOB_NODELIST": nodes} if nodes else {},
        capture_output=True,
        text=True,
        check=False,
        timeout=10,
    )


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("main1,sub1,sub2", "main1 sub1 sub2"),
        ("main1", "main1"),
        ("sub[1-3,08-11,20],main1", "sub1 sub2 sub3 sub08 sub09 sub10 sub11 sub20 main1"),
        ("a[1-2]-x,b[3]", "a1-x a2-x b3"),
        ("*,main1", "* main1"),
    ],
)
def test_scontrol_names_the_hosts_of_a_list(given: str, names: str) -> None:
    for done in (scontrol("show", "hostnames", nodes=given), scontrol("show", "hostname", given, nodes="other")):
        assert (done.stdout.split(), done.returncode) == (names.split(), 0)


@pytest.mark.parametrize(
    "arguments",
    [("show", "hostnames"), ("show", "job", "1"), ("show", "hostnames", "a[1-"), ("show", "hostnames", "a[x]")],
)
def test_scontrol_says_what_it_answers(arguments: tuple[str, ...]) -> None:
    done = scontrol(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert "what answers here is: scontrol show hostnames" in done.stderr


def test_licences_of_all_packages_are_kept_beside_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: None
) -> None:
    """Of what was unpacked too; the host has the others."""
    root = tmp_path / "root"
    for package in (*Dpkg.openssh, "libunpacked", "libhost"):
        make(root / "usr/share/doc" / package, "copyright")
    monkeypatch.setattr(Dpkg, "owners", lambda _self, paths: dict.fromkeys(paths, "libhost"))
    monkeypatch.setattr(ssh_runtime, "package_manager", Dpkg)
    sources = [f"{root}/usr/bin/ssh", "/lib/libhost.so"]
    ssh_runtime._keep_licences(tmp_path / "licences", str(root), sources)
    kept = {path.name: path.read_text() for path in (tmp_path / "licences").iterdir()}
    assert kept == {name: f"{name} copyright" for name in (*Dpkg.openssh, "libunpacked", "libhost")}
    assert (tmp_path / "licences").stat().st_mode & 0o7777 == 0o755


def test_a_runtime_has_every_program_and_what_else_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer releases of OpenSSH have more parts; unpacked files come before those of the host."""
    programs = {"sshd": "/nowhere/sshd", "ssh": "/nowhere/ssh"}
    monkeypatch.setattr(ssh_runtime, "PROGRAMS", programs)
    parts = {"sshd-session": ["/nowhere/sshd-session"], "sshd-auth": ["/nowhere/a/sshd-auth", "/nowhere/b/sshd-auth"]}
    monkeypatch.setattr(ssh_runtime, "PARTS", parts)
    monkeypatch.setattr(ssh_runtime, "package_manager", Rpm)
    monkeypatch.setattr(ssh_runtime, "_modules", dict)
    monkeypatch.setattr(ssh_runtime, "_libraries", lambda _root, files: {f"lib/{len(list(files))}": "x"})
    make(tmp_path / "nowhere", "sshd")
    missing = (
        "The program /nowhere/ssh is not on this host. Install the packages openssh-clients, openssh-server, dash."
    )
    with pytest.raises(BuildFailed, match=missing):
        ssh_runtime._closure(str(tmp_path))
    make(tmp_path / "nowhere", "ssh", "b/sshd-auth")
    files = {f"libexec/{name}": f"{tmp_path}{path}" for name, path in programs.items()}
    files["libexec/sshd-auth"] = f"{tmp_path}/nowhere/b/sshd-auth"
    assert ssh_runtime._closure(str(tmp_path)) == {**files, "lib/3": "x"}


def test_a_runtime_that_was_copied_is_taken_where_none_can_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one of this release, and only if it works."""

    def none() -> PackageManager:
        raise BuildFailed("This host has no package manager.")

    proven: list[Path] = []
    monkeypatch.setattr(ssh_runtime, "package_manager", none)
    monkeypatch.setattr(runtime_proof, "prove", proven.append)
    for lines in ([], ["form 0", "scripts 0"]):
        (tmp_path / "manifest").write_text("\n".join(lines), encoding="utf-8")
        with pytest.raises(BuildFailed, match="no package manager"):
            ssh_runtime.install(path=str(tmp_path))
    (tmp_path / "manifest").write_text("\n".join(ssh_runtime._of_this_release()), encoding="utf-8")
    assert ssh_runtime.install(path=str(tmp_path)).changed is False
    assert proven == [tmp_path]
