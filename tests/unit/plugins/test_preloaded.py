# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests on labs run ansible-playbook as children of a process that has imported everything: what comes of it is the
same as by the command.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.tests.support.preloaded import CHECKOUT, Preloaded, run_command

PLAY = """
- hosts: all
  gather_facts: false
  vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}", session_resource_group: all}
  tasks:
    - {debug: {msg: "{{ lookup('pipe', 'pwd') }} {{ lookup('env', 'CLUSTER_COMPUTE_WORD') }}"}}
    - {command: sleep 60, when: slow | default(false)}
    - {debug: {msg: "{{ lookup('pipe', leaves) }}"}, when: leaves is defined}
    - {cluster_compute.session.session_request: {only: name}}
"""
CASES: tuple[dict[str, object], ...] = ({"session_name": "right"}, {"session_name": "Not A Name"}, {})
"""One that succeeds, one that an action of the collection refuses, one that fails by itself."""


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Return the environment of the runs."""
    own = {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    own["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"  # its output has no times
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, **own, "PATH": path, "PYTHONUNBUFFERED": "1", "CLUSTER_COMPUTE_WORD": "first"}


@pytest.fixture(scope="module")
def preloaded(environment: dict[str, str]) -> Iterator[Preloaded]:
    """Give the process that starts runs."""
    process = Preloaded(environment)
    yield process
    process.close()


def command(folder: Path, **variables: object) -> list[str]:
    """Return the command for the play, on this machine."""
    play = folder / "play.yml"
    play.write_text(PLAY, encoding="utf-8")
    return ["ansible-playbook", "-i", "localhost,", "-c", "local", str(play), "-e", json.dumps(variables)]


@pytest.mark.parametrize("variables", CASES)
def test_code_output_folder_and_environment_are_those_of_the_command(
    preloaded: Preloaded, environment: dict[str, str], tmp_path: Path, variables: dict[str, object]
) -> None:
    """Also where the variable and the folder are not those in which everything was imported."""
    given = {**environment, "CLUSTER_COMPUTE_WORD": "second"}
    argv = command(tmp_path, **variables)
    here, there = (start(argv, tmp_path, given, 60) for start in (preloaded.run, run_command))
    assert (here.returncode, here.stdout) == (there.returncode, there.stdout)
    assert (here.returncode == 0) == (variables == CASES[0])
    assert f"{tmp_path} second" in here.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["play.yml"]


def test_runs_side_by_side_have_folders_of_their_own_which_go(environment: dict[str, str], tmp_path: Path) -> None:
    """The folder that a process has for temporary files is made while Ansible is imported."""
    place = tmp_path / "own"
    given = {**environment, "ANSIBLE_LOCAL_TEMP": str(place)}
    process = Preloaded(given)
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda _number: process.run(command(tmp_path), tmp_path, given, 60), range(3)))
    assert len({run.stdout for run in runs}) == 1
    assert len(list(place.iterdir())) == 1
    process.close()
    assert list(place.iterdir()) == []


def runs_of(process: Preloaded) -> list[str]:
    """Return the numbers of the runs that go on."""
    argv = ["pgrep", "--parent", str(process.number)]
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False).stdout.split()


def wait_for_runs(process: Preloaded, number: int) -> None:
    """Wait until so many runs go on."""
    deadline = time.monotonic() + 30
    while len(runs_of(process)) != number:
        assert time.monotonic() < deadline, runs_of(process)
        time.sleep(0.05)


def test_a_run_that_takes_too_long_is_killed_and_the_next_one_works(
    preloaded: Preloaded, environment: dict[str, str], tmp_path: Path
) -> None:
    """As subprocess.run does it with a command."""
    with pytest.raises(subprocess.TimeoutExpired):
        preloaded.run(command(tmp_path, session_name="right", slow=True), tmp_path, environment, 3)
    wait_for_runs(preloaded, 0)
    assert preloaded.run(command(tmp_path, session_name="right"), tmp_path, environment, 60).returncode == 0


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_run_that_nobody_waits_for_any_more_is_killed_and_the_next_one_works(
    preloaded: Preloaded,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_begun: bool,
) -> None:
    def interrupted(*_given: object) -> None:
        if has_begun:
            wait_for_runs(preloaded, 1)
        raise KeyboardInterrupt

    argv = command(tmp_path, session_name="right", slow=True)
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "recv", interrupted)
        with pytest.raises(KeyboardInterrupt):
            preloaded.run(argv, tmp_path, environment, 60)
    assert preloaded.run(command(tmp_path, session_name="right"), tmp_path, environment, 60).returncode == 0
    wait_for_runs(preloaded, 0)


def test_what_a_run_leaves_behind_with_its_output_open_does_not_hold_its_limit(
    preloaded: Preloaded, environment: dict[str, str], tmp_path: Path
) -> None:
    # The lookup runs in a child of the run.
    output = "/proc/$(ps -o ppid= -p $PPID | tr -d ' ')/fd/1"
    leaves = f"sleep 300 </dev/null 2>/dev/null >{output} & echo $! >{tmp_path}/left"
    with pytest.raises(subprocess.TimeoutExpired):
        preloaded.run(command(tmp_path, session_name="right", leaves=leaves), tmp_path, environment, 10)
    os.kill(int((tmp_path / "left").read_text(encoding="utf-8")), signal.SIGKILL)  # it is still there


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_for_the_runs_leaves_the_process_that_starts_them(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """A run removes the lab after the signal that ended the tests."""
    process = Preloaded(environment)
    assert process.run(command(tmp_path, session_name="right"), tmp_path, environment, 60).returncode == 0
    os.kill(process.number, number)
    assert process.run(command(tmp_path, session_name="right"), tmp_path, environment, 60).returncode == 0
    process.close()
    assert not process.is_there


def test_nothing_is_said_before_a_run(environment: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    """Ansible says what is deprecated once in a process: nobody would see it in a run."""
    Preloaded(environment).close()
    assert capfd.readouterr() == ("", "")
