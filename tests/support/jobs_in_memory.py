# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands in replicas of hosts in memory, and who watches them: they go on when they are told to."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import Container
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import (
    JobOutput,
    OutputDirectory,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import jobs as host_jobs
from ansible_collections.cluster_compute.session.tests.support.small_steps import NOW, rest

NUMBERS = itertools.count(1000)
LOOK = 0.0005


@dataclass
class Command:
    """A command in a container. job: where its output is kept. runner: who watches it, None for what was not begun.

    ends: whether it comes to its end by itself.
    """

    pid: int
    container: Container
    job: JobOutput
    runner: int | None = None
    ends: bool = False
    code: int | None = None


class Jobs:
    """The part of a host that runs jobs. runners: by number the work of those that watch them."""

    root: Any
    containers: dict[str, Container]
    commands: dict[str, Command]
    runners: dict[int, Callable[[], object]]

    def prepare_command(self, container: str, _argv: Any, _user: str, _directory: str, env: Mapping[str, str]) -> str:
        rest()
        if container not in self.containers:
            raise EngineError(f"Docker Engine has no container {container}.")
        entry = self.containers[container]
        output = OutputDirectory(str(self.root)).session(entry.labels.session_id)
        command = Command(next(NUMBERS), entry, output.job(env[host_jobs.MARK]))
        assert command.job.read_end(entry.replica) is None, "it has run here"
        assert not self.working(command.job.id), "it runs here"
        self.commands[f"exec {command.pid}"] = command
        NOW.prepared.append(command)
        return f"exec {command.pid}"

    def run_command(self, key: str) -> Iterator[tuple[bytes | None, bytes | None]]:
        command = self.commands[key]
        yield b"It has begun.\n", None
        while command.code is None and not command.ends and self.is_there(command):
            time.sleep(LOOK)
        command.code = 0 if command.code is None else command.code

    def command_state(self, key: str) -> tuple[bool, int, int | None]:
        command = self.commands[key]
        if not self.is_there(command):
            raise EngineError("Docker Engine has no such command.")
        return command.code is None, command.pid, command.code

    def log_stream(self, _container: str, _since: str = "", _tail: int | None = None) -> Iterator[bytes]:
        return iter(())

    def is_there(self, command: Command) -> bool:
        return self.containers.get(command.container.id) is command.container

    def working(self, job: str) -> list[Command]:
        """Return the commands of a job that run here."""
        return [
            command
            for command in self.commands.values()
            if command.job.id == job and command.runner in self.runners and self.is_there(command)
        ]

    def go_on(self, ends: bool = False) -> None:
        """Let time pass for those that watch jobs. ends: whether commands come to their end that nobody stops."""
        NOW.host = self
        for runner, work in list(self.runners.items()):
            mine = [command for command in self.commands.values() if command.runner == runner]
            is_stopped = any(command.job.stop_file.exists() for command in mine)
            if ends or is_stopped or not all(map(self.is_there, mine)):
                for command in mine:
                    command.ends = not is_stopped
                work()
                del self.runners[runner]

    def reboot(self) -> None:
        """End whatever runs on the host; its containers are there again."""
        self.runners.clear()
        self.commands.clear()


class _Thread(threading.Thread):
    """A thread that works on the host of who starts it."""

    def start(self) -> None:
        self._host = NOW.host
        super().start()

    def run(self) -> None:
        NOW.host = self._host
        super().run()


def run_in_memory(patch: pytest.MonkeyPatch, group: Callable[[], Any]) -> None:
    """Let hosts run jobs in memory. group: returns the world that is asked."""

    def begin(_name: str, work: Callable[[], object]) -> dict[str, int]:
        rest()
        runner = next(NUMBERS)
        NOW.host.runners[runner] = work
        for command in NOW.prepared:
            command.runner = runner
        rest()
        return {"pid": runner, "start": 1}

    def family(_leader: int, mark: str) -> set[int]:
        return {command.pid for command in NOW.host.commands.values() if mark.endswith(command.job.id)} & alive()

    def alive() -> set[int]:
        host = NOW.host
        there = {command.pid for command in host.commands.values() if command.code is None and host.is_there(command)}
        return there | set(host.runners)

    def send(pids: set[int], _number: int) -> None:
        for command in NOW.host.commands.values():
            if command.pid in pids:
                command.code = 137

    def sleep(seconds: float) -> None:
        if threading.current_thread().__class__ is not _Thread:  # a call waits for what those do
            NOW.host.go_on()
        time.sleep(seconds)

    clock = SimpleNamespace(**{**vars(time), "time": lambda: group().now, "sleep": sleep})
    for name, value in {
        "run_in_background": begin,
        "start_of": lambda pid: 1 if pid in alive() else None,
        "family": family,
        "bears": lambda _pid, _mark: False,
        "send": send,
        "time": clock,
        "threading": SimpleNamespace(Thread=_Thread, Event=threading.Event),
        "LOOK": LOOK,
        "_boot": lambda: "boot",
    }.items():
        patch.setattr(host_jobs, name, value)
