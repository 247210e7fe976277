# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Something of a host does not answer: it is named, remembered and left behind, and nobody else waits for it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import (
    accelerators,
    bounded,
    disk_use,
    folders,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import engine as docker_engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.suspicion import SuspicionFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.disk import MOST_WORK
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import boot, disk, program, timer
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.tests.support.contract.dead_filesystem import dead
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    HERE,
    Host,
    Session,
    has_ended,
    until,
)

Asked = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give everything two seconds, and one where it has hung before."""
    for module, name in (
        (program, "STATE_SECONDS"),
        (boot, "STATE_SECONDS"),
        (boot, "LINK_SECONDS"),
        (timer, "STATE_SECONDS"),
        (folders, "SECONDS"),
        (docker_engine, "FIRST_ANSWER"),
        (accelerators, "PATIENCE"),
        (disk, "SECONDS"),
    ):
        monkeypatch.setattr(module, name, 2.0)
    monkeypatch.setattr(bounded, "AGAIN", 1.0)
    monkeypatch.setattr(bounded._Told, "hung", set())
    monkeypatch.setattr(bounded._Told, "is_impatient", False)
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")  # lines without the time


@pytest.fixture
def ask(host: Host) -> Iterator[Asked]:
    """Return what calls this host as a controller does."""

    def call(name: str, check_mode: bool = False, **given: Any) -> dict[str, Any]:
        defaults = {key: option.get("default") for key, option in ARGUMENTS[name]["argument_spec"].items()}
        place = {"state_directory": str(host.state.root)} if "state_directory" in defaults else {}
        given = json.loads(json.dumps({**defaults, **place, **given}))
        return dict(program.run_bounded(name, given, check_mode))

    yield call
    note(host).forget()


def note(host: Host) -> SuspicionFile:
    return SuspicionFile(str(host.state.root))


@contextmanager
def stopped_engine() -> Iterator[None]:
    """Let the engine do nothing for the time of the block."""
    pid = int(Path("/run/docker.pid").read_text(encoding="ascii"))
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def left_behind() -> int:
    """Return how many children of this process there are."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return len(file.read().split())


def test_a_state_directory_that_hangs_makes_the_host_unusable_and_the_next_call_waits_less(
    host: Host, ask: Asked
) -> None:
    with dead(str(host.state.root)):
        first, second = (ask("host_info")["host"] for _time in range(2))
        removal = ask("session_host", state="absent", session_name="demo")
        looked = timer.look(host.state)
    name = f"the file system of the state directory {host.state.root}"
    assert first == {
        "usable": False,
        "hangs": True,
        "problem": f"This host hangs: {name} did not answer within 2 seconds.",
    }
    assert second["problem"] == f"This host hangs: {name} did not answer within 1 seconds."
    assert (removal["failed"], removal["sick"], removal["hangs"]) == (True, True, True)
    assert looked == 1
    found = ask("host_info")["host"]
    assert found["usable"], "it answers again"
    assert found["suspect"]["reason"] == second["problem"]
    assert not note(host).hangs(), "the next call waits as long as ever"


def test_check_mode_remembers_nothing(host: Host, ask: Asked) -> None:
    with dead(str(host.state.root)):
        assert not ask("host_info", check_mode=True)["host"]["usable"]
    assert note(host).read() is None


def test_a_path_that_hangs_is_named_and_who_does_not_ask_for_it_is_not_concerned(ask: Asked, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with dead(str(tmp_path / "data")):
        found = ask("host_info", paths=[str(tmp_path / "data" / "set1")])["host"]
        other = ask("host_info")["host"]
    name = f"the file system of {tmp_path}/data/set1 (session_mounts)"
    problem = f"This host hangs: {name} did not answer within 2 seconds."
    assert (found["usable"], found["problem"]) == (False, problem)
    assert (other["usable"], other["suspect"]["reason"]) == (True, problem)


def test_an_engine_that_hangs_makes_the_host_unusable_and_the_next_call_waits_less(ask: Asked) -> None:
    with stopped_engine():
        first, second = (ask("host_info")["host"] for _time in range(2))
        made = ask("session_images", state="resolved")
    assert first["problem"].startswith("This host hangs: Docker Engine did not answer within 2 seconds.")
    assert second["problem"].startswith("This host hangs: Docker Engine did not answer within 1 seconds.")
    assert (made["failed"], made["sick"], made["hangs"]) == (True, True, True)
    found = ask("host_info")["host"]
    assert found["usable"]
    assert found["suspect"] is not None


def test_a_tool_for_accelerators_that_hangs_says_nothing_and_keeps_nobody(
    ask: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "driver").mkdir()
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\nexec cat {tmp_path}/driver/gpu\n", encoding="ascii")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(accelerators, "HANGS", str(tmp_path / "hangs"))
    with dead(str(tmp_path / "driver")):
        for seconds in (2, 1):  # it is remembered by the next call, which is another process
            found = ask("host_info", accelerators={"gpu": "nvidia"})["host"]
            assert found["usable"]
            problem = f"'nvidia-smi -L' did not end within {seconds} seconds."
            assert found["accelerators"]["gpu"]["problem"] == problem


def test_a_count_of_what_hangs_is_waited_for_by_nobody_and_stops_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "layer"
    folder.mkdir()
    with dead(str(folder)):
        for _look in range(2):
            with pytest.raises(disk_use.NotCounted) as caught:
                disk_use.count(str(folder), "--inodes", 0.5)
        assert caught.value.work < MOST_WORK, "it does not work, it waits"
    deadline = time.monotonic() + 60
    while True:  # the one that hung ends with an error
        with suppress(SessionError):
            assert disk_use.count(str(folder), "--inodes", 60) == 1
            break
        assert time.monotonic() < deadline


@dataclass
class Two:
    """Two sessions that have lost their container. data: what the first of them, by id, mounts."""

    first: Session
    second: Session
    data: Path


@pytest.fixture
def two(host: Host) -> Iterator[Two]:
    """Launch two sessions with data."""
    folders_of = {name: Path(f"/srv/{name}") for name in ("one", "other")}
    try:
        for name, folder in folders_of.items():
            folder.mkdir()
            mount = {"source": str(folder), "target": "/data", "read_only": False}
            host.launch(name=name, mounts=[mount])
            host.engine.stop_container(f"{name}-main1", 0)
            assert until(partial(has_ended, f"{name}-main1"))
        first, second = sorted(host.sessions, key=lambda session: session.id)
        yield Two(first, second, folders_of[first.name])
        host.clear()
    finally:
        for folder in folders_of.values():
            folder.rmdir()


def is_running(session: Session) -> bool:
    return bool(session.containers()["main1"]["State"]["Running"])


def test_in_a_repair_and_at_boot_one_session_whose_data_hangs_does_not_keep_the_next(
    two: Two, host: Host, ask: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    folders.remove_bind_mount(folders.bind_mount_path(two.first.id, 0))  # as after a reboot
    with dead(str(two.data)):
        done = ask("session_repair", host=HERE)
        assert [is_running(session) for session in (two.first, two.second)] == [False, True]
        host.engine.stop_container(f"{two.second.name}-main1", 0)
        assert until(lambda: has_ended(f"{two.second.name}-main1"))
        assert boot._repair(host.state) == 1
        assert [is_running(session) for session in (two.first, two.second)] == [False, True]
        assert boot._make_links(host.state) == 0
    (problem,) = (session["problem"] for session in done["sessions"].values() if session["problem"])
    assert (
        problem == f"This host hangs: the file system of {two.data} (session_mounts) did not answer within 2 seconds."
    )
    assert f"Session {two.first.name}: This host hangs: the file system of {two.data}" in capsys.readouterr().out
    ask("session_repair", host=HERE)
    assert is_running(two.first), "it is put back when its data is there again"


def test_at_boot_a_state_directory_that_hangs_is_said_and_remembered(
    host: Host, ask: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    with dead(str(host.state.root)):
        assert boot._make_links(host.state) == 1
        assert boot._repair(host.state) == 1
        assert not ask("host_info")["host"]["usable"]
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == ["No link is made", "Nothing could be repaired"]
    assert note(host).hangs()


def test_data_that_hangs_does_not_keep_a_session_from_being_removed(two: Two, host: Host, ask: Asked) -> None:
    two.first.files.write_made({"proofs": [str(two.data)], "roots": ["/srv"]})
    with dead(str(two.data)):
        done = ask("session_host", state="absent", session_name=two.first.name, session_id=two.first.id)
        assert not done.get("failed"), done
        assert two.first.id not in host.state.session_ids()


def test_nothing_that_was_left_behind_is_there_when_all_answers_again(host: Host, ask: Asked) -> None:
    with dead(str(host.state.root)):
        ask("host_info")
    deadline = time.monotonic() + 60
    while left_behind():
        os.waitpid(-1, os.WNOHANG)
        assert time.monotonic() < deadline
