# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of the hosts' side is started alike by every shell that a host's user may have."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible.plugins.loader import become_loader, shell_loader
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.entry_point import ABSENT
from ansible_collections.cluster_compute.session.plugins.plugin_utils.any_shell import (
    LONGEST_ARGUMENT,
    for_any_shell,
    with_input,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.host_program import Program

LOGIN_SHELLS = ("sh", "bash", "fish", "tcsh", "mksh")
"""Those of Debian that read a command in ways of their own."""
EXECUTABLES = ("/bin/sh", "/bin/bash", "/usr/bin/fish", "/usr/bin/tcsh")
"""Values of ansible_shell_executable."""


def by_ansible(command: str, executable: str) -> str:
    """Return what Ansible makes of a command (`_low_level_execute_command`)."""
    return f"{executable} -c {shlex.quote(f'{command} && sleep 0')}"


def by_ansible_with_become(command: str, executable: str) -> str:
    """Return what it makes of one that another user runs; env stands in for sudo."""
    become, shell = become_loader.get("sudo"), shell_loader.get("sh")
    shell.executable = executable
    become.set_options(direct={"become_exe": "env", "become_flags": "", "become_user": None})
    return by_ansible(become.build_become_command(command, shell), executable)


@pytest.mark.parametrize("executable", EXECUTABLES)
@pytest.mark.parametrize("login_shell", LOGIN_SHELLS)
@pytest.mark.parametrize("wrap", [by_ansible, by_ansible_with_become])
def test_the_program_is_started(
    tmp_path: Path, wrap: Callable[[str, str], str], login_shell: str, executable: str
) -> None:
    command = Program("0" * 32, tmp_path, str(tmp_path / "pro grams!")).command("HOME=/ python3")
    done = subprocess.run(
        [login_shell, "-c", wrap(for_any_shell(command), executable)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ABSENT in done.stdout.splitlines(), done
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("login_shell", LOGIN_SHELLS)
def test_input_and_exit_code_are_those_of_the_script(login_shell: str) -> None:
    shell = shutil.which(login_shell)
    assert shell is not None

    def run(script: str, **environment: str) -> tuple[int, str]:
        done = subprocess.run(
            [shell, "-c", for_any_shell(script)],
            env={**os.environ, **environment},
            input="a\nb\n",
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    assert run("cat\nexit 3") == (3, "a\nb\n")
    assert run("false") == (1, "")
    code, said = run("echo it ran", PATH="/nowhere")
    assert code != 0, "a host without base64 runs nothing, and says so"
    assert said == ""


@pytest.mark.parametrize("length", [LONGEST_ARGUMENT * 3 // 4, LONGEST_ARGUMENT * 3 // 4 + 1, 1_500_000])
@pytest.mark.parametrize("login_shell", LOGIN_SHELLS)
def test_a_script_of_any_length_gets_its_input(login_shell: str, length: int) -> None:
    script = "cat; exit 3 #".ljust(length, "x")
    command, content = with_input(script, b"a\n\0b")
    done = subprocess.run(
        [login_shell, "-c", by_ansible_with_become(command, "/bin/sh")], input=content, capture_output=True, check=False
    )
    assert done.stdout.endswith(b"\na\n\0b"), done.stderr  # after what become says
    assert (done.returncode, done.stderr) == (3, b"")
