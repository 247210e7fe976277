# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the progress of a run looks like on a terminal, and that a fault of it stays its own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.callback import CallbackBase
from ansible_collections.cluster_compute.session.plugins.callback import progress as shown


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Put a terminal of 30 columns where standard error is, and give its other end."""
    controller, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
    os.set_blocking(controller, False)
    monkeypatch.setattr(shown, "STDERR", end)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv(shown.RUNNER, raising=False)
    yield controller
    os.close(controller)
    os.close(end)


@pytest.fixture
def callback(terminal: int) -> Iterator[Any]:
    callback = made()
    yield callback
    callback._end()


def made(show: bool = True) -> Any:
    """Return a callback as Ansible makes it."""
    callback = shown.CallbackModule()
    callback.get_option = lambda name: show
    callback.set_options()
    return callback


@pytest.fixture(autouse=True)
def options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options are read from the plugin loader, which loads nothing here."""
    monkeypatch.setattr(CallbackBase, "set_options", lambda self, *arguments, **named: None)


def seen(terminal: int) -> str:
    """Return what came on the terminal since the last look."""
    try:
        return os.read(terminal, 65536).decode()
    except BlockingIOError:
        return ""


def task(step: str) -> Any:
    action = "cluster_compute.session.session_step"
    return SimpleNamespace(action=action, args={"verb": "launch", "step": step}, run_once=False)


def host(name: str) -> Any:
    return SimpleNamespace(get_name=lambda: name)


def result(name: str, of: Any, values: dict[str, Any]) -> Any:
    return SimpleNamespace(_host=host(name), _task=of, _result=values)


def play(hosts: list[str]) -> Any:
    manager = SimpleNamespace(_inventory=SimpleNamespace(get_hosts=lambda pattern: hosts))
    return SimpleNamespace(hosts="all", get_variable_manager=lambda: manager)


def reserve(callback: Any) -> None:
    """Let one of two hosts do its part."""
    callback.v2_playbook_on_play_start(play(["h1", "h2"]))
    reserving = task("hold")
    callback.v2_playbook_on_task_start(reserving, is_conditional=False)
    for name in ("h1", "h2"):
        callback.v2_runner_on_start(host(name), reserving)
    callback.v2_runner_on_ok(result("h1", reserving, {"granted": True}))


def until(terminal: int, text: str) -> str:
    """Return what comes on the terminal up to a text."""
    found = ""
    end = time.monotonic() + 10
    while text not in found:
        assert time.monotonic() < end, repr(found)
        found += seen(terminal)
        time.sleep(0.02)
    return found


def test_one_line_is_written_again_in_its_place(callback: Any, terminal: int) -> None:
    reserve(callback)
    written = until(terminal, "reserve 1/2 hosts, 1 s")
    assert "\n" not in written
    lines = written.split(shown.ERASE)
    assert lines[0] == ""
    assert lines[1] == "reserve 0/2 hosts, 0 s"
    assert lines[-1] == "reserve 1/2 hosts, 1 s"
    assert len(lines) <= 7, "more than four times a second"


def test_many_hosts_at_once_are_few_lines(callback: Any, terminal: int) -> None:
    names = [f"h{number}" for number in range(300)]
    reserving = task("hold")
    callback.v2_playbook_on_play_start(play(names))
    callback.v2_playbook_on_task_start(reserving, is_conditional=False)
    begin = time.monotonic()
    for name in names:
        callback.v2_runner_on_start(host(name), reserving)
    for name in names:
        callback.v2_runner_on_ok(result(name, reserving, {"granted": True}))
    allowed = 2 + int(8 * (time.monotonic() - begin))
    callback.v2_playbook_on_stats(None)
    assert until(terminal, "reserve  300/300 hosts").count("reserve ") <= 1 + allowed


def test_others_print_where_the_line_was(callback: Any, terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    reserve(callback)
    until(terminal, "reserve 1/2")
    callback._display.display("TASK")
    assert until(terminal, "reserve 1/2").startswith(shown.ERASE * 2)
    assert capsys.readouterr().out == "TASK\n"


def test_the_end_tells_each_state_and_leaves_the_display_as_it_was(callback: Any, terminal: int) -> None:
    before = callback._display.display
    reserve(callback)
    assert callback._display.display != before
    callback.v2_playbook_on_stats(None)
    assert callback._display.display == before
    assert f"{shown.ERASE}PROGRESS\r\n" in until(terminal, "reserve  1/2 hosts     0.0 s\r\n")
    time.sleep(2 * shown.INTERVAL)
    assert seen(terminal) == ""


def test_a_narrow_terminal_is_not_left(callback: Any, terminal: int) -> None:
    fcntl.ioctl(shown.STDERR, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 12, 0, 0))
    reserve(callback)
    assert until(terminal, "reserve 1/2").split(shown.ERASE)[-1] == "reserve 1/2"
    callback.v2_playbook_on_stats(None)
    assert until(terminal, "PROGRESS\r\nreserve  1/\r\n")


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_rewrite_gets_lines(terminal: int, monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    monkeypatch.setenv("TERM", term)
    callback = made()
    reserve(callback)
    assert until(terminal, "\n") == "reserve 0/2 hosts, 0 s\r\n"
    second = task("start")
    callback.v2_runner_on_ok(result("h2", task("hold"), {"granted": True}))
    callback.v2_playbook_on_task_start(second, is_conditional=False)
    callback.v2_runner_on_start(host("h1"), second)
    callback.v2_playbook_on_stats(None)
    written = until(terminal, "start  ")
    assert written.startswith("network, start 0/2 hosts, 0 s\r\nPROGRESS\r\n")
    assert "\x1b" not in written


def test_nothing_is_shown_where_nobody_looks(terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not made().disabled
    assert made(show=False).disabled
    monkeypatch.setenv(shown.RUNNER, "/runner/artifacts/1")
    assert made().disabled
    monkeypatch.delenv(shown.RUNNER)
    read, write = os.pipe()
    monkeypatch.setattr(shown, "STDERR", write)
    assert made().disabled
    os.close(read)
    os.close(write)


def test_a_fault_ends_the_display_and_nothing_else(
    callback: Any, terminal: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reserve(callback)
    until(terminal, "reserve 1/2")

    def refuse(*_arguments: Any) -> None:
        raise OSError("the terminal is gone")

    monkeypatch.setattr(callback, "_write", refuse)
    callback._display.display("TASK")
    assert capsys.readouterr().out == "TASK\n"
    assert callback.disabled
    callback.v2_runner_on_ok(result("h2", task("hold"), {"granted": True}))
    callback.v2_playbook_on_stats(None)


def test_a_result_that_nobody_expects_is_no_fault_of_the_run(callback: Any, terminal: int) -> None:
    reserve(callback)
    callback.v2_runner_on_ok(SimpleNamespace())
    assert callback.disabled
