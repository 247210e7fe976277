# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is given back when a run is interrupted, and by which command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ansible import context
from ansible_collections.cluster_compute.session.plugins.callback import give_back
from ansible_collections.cluster_compute.session.plugins.plugin_utils.decisions import DECISION
from ansible_collections.cluster_compute.session.plugins.plugin_utils.run_identity import INTERRUPTED, run_of

HELD = {"verb": "launch", "step": "hold", "session_name": "train", "request": {"resource_group": "lab"}}


class Interrupted(Exception):
    """What the one who was asked before does with a signal."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give a callback in a run that ends by an exception when it is interrupted, and what it runs then."""

    def stop(_number: int, _frame: Any) -> None:
        raise Interrupted

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    commands: list[tuple[list[str], str]] = []
    popen, program = subprocess.Popen, ["true"]

    def called(argv: list[str], env: dict[str, str], **streams: int) -> Any:
        commands.append((argv, env[INTERRUPTED]))
        assert streams == {"stdin": 0, "stdout": 1, "stderr": 2}
        return popen(program)

    monkeypatch.setattr(subprocess, "Popen", called)
    monkeypatch.setattr(give_back, "PATIENCE", 0.5)
    monkeypatch.setattr(sys, "argv", ["/bin/ansible-playbook", "-i", "lab", "site.yml"])
    monkeypatch.setattr(context, "CLIARGS", {"args": ("site.yml",), "check": False})
    yield SimpleNamespace(callback=give_back.CallbackModule(), commands=commands, program=program, popen=popen)
    for number, handler in before.items():
        signal.signal(number, handler)


def decided(run: Any, state: dict[str, Any], action: str = DECISION) -> None:
    run.callback.v2_runner_on_ok(SimpleNamespace(_task=SimpleNamespace(action=action), _result=state))


def test_what_a_launch_holds_is_known_before_its_next_task_though_no_result_shows_it(run: Any) -> None:
    registered = SimpleNamespace(get_vars=lambda play, host, include_hostvars: {"launch_state": HELD})
    run.callback.v2_playbook_on_play_start(SimpleNamespace(get_variable_manager=lambda: registered))
    task = SimpleNamespace(action=DECISION, register="launch_state")
    run.callback.v2_runner_on_ok(SimpleNamespace(_task=task, _host="h1", _result={"censored": "it is hidden"}))
    run.callback.v2_playbook_on_task_start(task, False)
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGTERM)
    assert len(run.commands) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_held_is_given_back_before_the_run_ends_as_it_was_told_to(run: Any, number: int) -> None:
    decided(run, HELD)
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), number)
    ((argv, interrupted),) = run.commands
    assert argv[1:5] == ["/bin/ansible-playbook", "-i", "lab", give_back.PLAYBOOK]
    assert argv[-1] == '{"session_resource_group": "lab", "session_name": ""}'
    assert interrupted == run_of(os.getpid()) != ""
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), number)
    assert len(run.commands) == 1


def test_where_nothing_is_held_a_signal_is_what_it_is_without_the_callback(run: Any) -> None:
    for state in ({**HELD, "step": ""}, {**HELD, "step": "look"}, {**HELD, "verb": "schedule"}, {}):
        decided(run, HELD)
        decided(run, state)
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)
    decided(run, HELD, "ansible.builtin.debug")
    decided(run, HELD)
    failed = SimpleNamespace(_task=SimpleNamespace(action=DECISION), _result={"msg": "no"})
    run.callback.v2_runner_on_failed(failed)
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGTERM)
    context.CLIARGS["check"] = True
    decided(run, HELD)
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGINT)
    assert run.commands == []


def test_a_clean_up_that_does_not_end_or_fails_keeps_nobody(run: Any, capfd: pytest.CaptureFixture[str]) -> None:
    run.program[:] = ["sleep", "60"]
    decided(run, HELD)
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGINT)
    assert "That has not ended within 0.5 s: what is still held" in capfd.readouterr().err
    run.program[:] = ["false"]
    decided(run, HELD)
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGINT)
    assert "That ended with 1: what is still held" in capfd.readouterr().err


def test_who_interrupts_again_is_obeyed(
    run: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def again(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    run.program[:] = ["sleep", "60"]
    monkeypatch.setattr(run.popen, "wait", again)
    monkeypatch.setattr(run.popen, "__exit__", lambda *_arguments: None)
    decided(run, HELD)
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGINT)
    assert "Interrupted again: what is still held is held until its time is up" in capfd.readouterr().err


def test_a_worker_passes_a_signal_on_and_gives_nothing_back(run: Any) -> None:
    decided(run, HELD)
    run.callback._process = os.getppid()
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGTERM)
    assert run.commands == []


def test_the_clean_up_has_the_options_of_the_run_but_for_those_of_its_playbook() -> None:
    argv = ["ap", "-i", "site.yml", "--tags", "a", "--start-at-task=x", "site.yml", "other.yml", "-b", "--step", "-vv"]
    found = give_back.gc_command(argv, ("site.yml", "other.yml"), "{}")
    assert found[1:] == ["ap", "-i", "site.yml", "-b", "-vv", give_back.PLAYBOOK, "-e", "{}"]
