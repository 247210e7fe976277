# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of the hosts' side: sent once, kept under its digest, run only where nobody else could write it."""

from __future__ import annotations

import base64
import os
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import kinds_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import calls_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import boot_install
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.entry_point import (
    ABSENT,
    DAMAGED,
    REFUSED,
    UNKEPT,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.install import MONTH
from ansible_collections.cluster_compute.session.plugins.plugin_utils import host_program
from ansible_collections.cluster_compute.session.plugins.plugin_utils.host_program import (
    Program,
    answer_in,
    text_behind,
)
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import (
    Launch,
    request,
)


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program as a controller has it."""
    return host_program.the_program(str(tmp_path_factory.mktemp("controller")))


@pytest.fixture
def program(sent: Program, tmp_path: Path) -> Program:
    """The same for a host that has none yet."""
    return replace(sent, folder=str(tmp_path / "host" / "programs"))


def known(tmp_path: Path, check_mode: bool = False) -> bytes:
    arguments = {name: option.get("default") for name, option in ARGUMENTS["session_output"]["argument_spec"].items()}
    given = {"state": "known", "session_name": "train", "state_directory": str(tmp_path / "state")}
    return host_program.question("session_output", {**arguments, **given}, check_mode)


def run(program: Program, question: bytes, sources: bool = False, keep: bool = True) -> str:
    """Start the program as a host's shell does and return what it writes."""
    content = program.path.read_bytes() if sources else b""
    command = program.command(sys.executable, len(content), keep)
    done = subprocess.run(["sh", "-c", command], input=content + question, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def kept(program: Program) -> list[Path]:
    return sorted(Path(program.folder).glob("*"))


ANSWER = {"changed": False, "sessions": []}


def test_it_is_sent_once_and_found_again(program: Program, tmp_path: Path) -> None:
    assert text_behind(run(program, known(tmp_path)), ABSENT) is not None
    assert answer_in(run(program, known(tmp_path), sources=True)) == ANSWER
    (path,) = kept(program)
    assert path.name.startswith(program.digest)
    assert path.stat().st_mode & 0o777 == 0o644
    before = path.stat()
    assert answer_in(run(program, known(tmp_path))) == ANSWER
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_check_mode_keeps_nothing(program: Program, tmp_path: Path) -> None:
    assert answer_in(run(program, known(tmp_path, True), sources=True, keep=False)) == ANSWER
    assert not Path(program.folder).exists()


def _turn_a_bit(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", [lambda content: b"", lambda content: content[:-1], _turn_a_bit])
def test_a_damaged_program_is_not_run(program: Program, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    run(program, known(tmp_path), sources=True)
    (path,) = kept(program)
    path.write_bytes(damage(path.read_bytes()))
    output = run(program, known(tmp_path))
    assert text_behind(output, DAMAGED) is not None
    assert answer_in(output) is None
    assert answer_in(run(program, known(tmp_path), sources=True)) == ANSWER
    assert answer_in(run(program, known(tmp_path))) == ANSWER


def test_the_program_that_runs_at_boot_is_made_of_the_same_sources(program: Program, tmp_path: Path) -> None:
    run(program, known(tmp_path), sources=True)
    path = tmp_path / "lib" / "host.pyz"
    elsewhere = str(tmp_path / "elsewhere")
    arguments = {name: option.get("default") for name, option in ARGUMENTS["host_boot"]["argument_spec"].items()}
    given = {**arguments, "path": str(path), "state_directory": elsewhere, "output_size": "4k"}
    answer = answer_in(run(program, host_program.question("host_boot", given, False)))
    assert answer is not None
    assert answer["changed"], answer
    assert path.read_bytes() == boot_install.build(elsewhere)
    assert StateDirectory(elsewhere).read_settings().output_size == 4096
    done = subprocess.run([sys.executable, str(path), "--help"], capture_output=True, text=True, check=False)
    assert "Restore missing parts" in done.stdout, done.stderr


@pytest.mark.parametrize("place", ["programs", "file", "above"])
def test_what_others_can_write_is_not_run(program: Program, tmp_path: Path, place: str) -> None:
    run(program, known(tmp_path), sources=True)
    (path,) = kept(program)
    chosen = {"programs": path.parent, "file": path, "above": path.parent.parent}[place]
    chosen.chmod(chosen.stat().st_mode | 0o020)
    output = run(program, known(tmp_path))
    refused = text_behind(output, REFUSED)
    assert refused is not None
    assert str(chosen) in refused
    assert "others can change it" in refused
    assert answer_in(output) is None


def test_what_belongs_to_somebody_else_is_not_run(program: Program, tmp_path: Path) -> None:
    assert os.geteuid() == 0, "the tests run as root, as the whole check does"
    run(program, known(tmp_path), sources=True)
    (path,) = kept(program)
    os.chown(path, 4321, 4321)
    refused = text_behind(run(program, known(tmp_path)), REFUSED)
    assert refused is not None
    assert "4321" in refused


def test_a_link_is_not_followed(program: Program, tmp_path: Path) -> None:
    run(program, known(tmp_path), sources=True)
    (path,) = kept(program)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert text_behind(run(program, known(tmp_path)), REFUSED) is not None


def test_a_host_that_cannot_keep_it_runs_it_all_the_same(program: Program, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    crowded = replace(program, folder=str(tmp_path / "file" / "programs"))
    output = run(crowded, known(tmp_path), sources=True)
    assert text_behind(output, UNKEPT)
    assert answer_in(output) == ANSWER


def test_programs_that_nobody_uses_go_after_a_month(program: Program, tmp_path: Path) -> None:
    run(program, known(tmp_path), sources=True)
    (path,) = kept(program)
    old, young = path.with_name("old"), path.with_name("young")
    for other, age in ((old, MONTH + 60), (young, MONTH - 60)):
        other.write_text("", encoding="utf-8")
        os.utime(other, (time.time() - age,) * 2)
    run(program, known(tmp_path), sources=True)
    assert kept(program) == sorted([path, young])


def test_a_program_that_is_used_is_not_old(program: Program, tmp_path: Path) -> None:
    run(program, known(tmp_path), sources=True)
    (path,) = kept(program)
    os.utime(path, (time.time() - MONTH,) * 2)
    run(program, known(tmp_path))
    assert path.stat().st_mtime > time.time() - 60


def keys_of(self: Launch, host: str) -> dict[str, Any]:
    """Return public keys as long as real ones are, and as different from each other."""
    draw = random.Random(host)  # the same in every run

    def key() -> str:
        blob = b"\0\0\0\x0bssh-ed25519\0\0\0 " + draw.randbytes(32)
        return f"ssh-ed25519 {base64.b64encode(blob).decode()}"

    members = [replica["name"] for replica in self.record.plan["replicas"] if replica["host"] == host]
    return {name: {kind: key() for kind in ("client", "host", "tunnel")} for name in members}


@pytest.mark.parametrize("size", [12, 48, 400])
def test_a_launch_sends_a_host_little(program: Program, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Launch, "_keys", keys_of)
    run = Launch(request(size=size, max_replicas_per_host=size))
    for host in run.hosts.values():
        host["capacity"] = {"cpus": 2000 * size, "memory": size << 33}
        host["topology"]["cores"] = [{"node": 0, "cpus": [number]} for number in range(2 * size)]
    sent, calls = 0, 0
    while run.step:
        for call, arguments, _variables in calls_of(run.state, "h1"):
            sent += len(program.command("/usr/bin/python3")) + len(host_program.question(call, arguments, False))
            calls += 1
        run.answer()
    assert (run.state["outcome"]["status"], calls) == ("RUNNING", 3)
    assert sent <= (64 << 10) + 150 * size


def test_the_digest_follows_from_names_and_texts() -> None:
    sources = {"a.py": b"1", "b.py": b"2"}
    assert host_program.digest(sources) == host_program.digest(dict(reversed(sources.items())))
    others = [{"a.py": b"1", "b.py": b"3"}, {"a.py": b"2", "b.py": b"1"}, {"a.py": b"1"}, {"a.py": b"1", "c.py": b"2"}]
    assert len({host_program.digest(tree) for tree in [sources, *others]}) == 5


def test_one_run_of_ansible_makes_the_archive_once_and_only_for_a_host_that_lacks_the_program(tmp_path: Path) -> None:
    first = host_program.the_program(str(tmp_path))
    assert not (tmp_path / "cluster-compute-program" / "sources.zip").exists()
    before = first.path.stat()
    assert host_program.the_program(str(tmp_path)) == first
    after = first.path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("call", sorted(ARGUMENTS))
def test_every_call_has_its_code(call: str) -> None:
    code: Any = import_module(
        f"ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls.{call}"
    )
    assert callable(code.call)
    assert list(code.STATES) == kinds_of(call)


def test_a_fault_of_the_program_is_told(program: Program) -> None:
    content = program.path.read_bytes()
    command = program.command(sys.executable, len(content), keep=False)
    done = subprocess.run(["sh", "-c", command], input=content + zlib.compress(b"{}"), capture_output=True, check=False)
    assert done.returncode == 1
    assert b"KeyError" in done.stderr


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("", None),
        ('Welcome!\nCLUSTER-COMPUTE-ANSWER {"changed": true}\n', {"changed": True}),
        ('CLUSTER-COMPUTE-ANSWER {"changed": true}\r\n', {"changed": True}),
        ("CLUSTER-COMPUTE-ANSWER 3", None),
    ],
)
def test_the_answer_is_found_in_what_a_host_writes(output: str, wanted: Any) -> None:
    assert answer_in(output) == wanted


@pytest.mark.parametrize("call", sorted(name for name, known in ARGUMENTS.items() if "state" in known["argument_spec"]))
def test_every_state_that_can_be_asked_for_is_one(call: str) -> None:
    code: Any = import_module(
        f"ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls.{call}"
    )
    choices = ARGUMENTS[call]["argument_spec"]["state"]["choices"]
    assert choices == [kind.state for kind in code.STATES]


def test_hosts_do_not_load_how_a_request_is_read() -> None:
    package = "ansible_collections.cluster_compute.session.plugins.module_utils._internal"
    calls = Path(import_module(f"{package}.host.calls").__path__[0])
    lines = [f"import {package}.host.calls.{path.stem}" for path in calls.glob("*.py") if path.stem != "__init__"]
    text = "\n".join([f"import sys; sys.path[:] = {sys.path!r}", *lines, "print(*sys.modules)"])
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    loaded = {name.rpartition(".core.")[2] for name in done.stdout.split() if ".core." in name}
    assert "values.parse" in loaded
    assert loaded.isdisjoint({"model.fields", "model.read_fields", "model.read_mounts", "model.request"})
