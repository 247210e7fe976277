# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What hangs is left behind: with a name, with no lock, and with less time for what has hung before."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import bounded as module
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.background import (
    run_in_background,
    start_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.bounded import (
    AGAIN,
    Crashed,
    Failed,
    Hung,
    be_impatient,
    bounded,
    holding,
    patience,
    waiting_for,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.base import (
    Answer,
    failed,
    plain_answer,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    SessionError,
)


@pytest.fixture(autouse=True)
def _as_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Told, "hung", set())
    monkeypatch.setattr(module._Told, "is_impatient", False)


@pytest.fixture
def dead(tmp_path: Path) -> str:
    """A file that nobody ever answers for: a pipe that has no other end."""
    path = str(tmp_path / "dead")
    os.mkfifo(path)
    return path


@pytest.fixture
def immortal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Processes that cannot be killed, as those that a driver holds; they are when the test has ended."""
    kept: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(module, "LAST_SECONDS", 0.01)
        patch.setattr(os, "killpg", lambda pid, _number: kept.append(pid))
        patch.setattr(os, "kill", lambda _pid, _number: None)
        yield kept
    for pid in kept:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def test_what_the_work_returns_comes_back() -> None:
    found = {"names": ["a\udcff", "ü"], "size": "x" * (3 << 20)}
    assert bounded(lambda: found, "this", 60) == found


def test_what_hangs_is_given_up_by_its_name(dead: str) -> None:
    with pytest.raises(Hung, match=r"^This host hangs: the disk did not answer within 0 seconds\.$") as caught:
        bounded(partial(read, dead), "the disk", 0.05)
    found = plain_answer(failed(caught.value, Answer()))
    assert found == {"failed": True, "sick": True, "hangs": True, "msg": str(caught.value)}


def test_one_may_wait_for_longer_than_the_kernel_does_at_once(dead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bounded(lambda: "done", "a job of a year", 365 * 86400) == "done"
    monkeypatch.setattr(module, "LONGEST_POLL", 0.02)
    with pytest.raises(Hung, match="within 0 seconds"):
        bounded(partial(read, dead), "the disk", 0.1)


def test_the_part_that_hangs_is_named_and_not_the_whole(dead: str) -> None:
    def work() -> str:
        with waiting_for("the network", 60):
            pass
        with waiting_for(f"the directory {dead}", 0.05):
            return read(dead)

    with pytest.raises(Hung, match=r"the directory .* did not answer"):
        bounded(work, "the call", 60)


def test_a_part_that_was_in_time_counts_no_more(dead: str) -> None:
    def work() -> str:
        with waiting_for("the network", 0.05):
            pass
        return read(dead)

    with pytest.raises(Hung, match="the call did not answer"):
        bounded(work, "the call", 0.3)


def test_nobody_waits_for_what_cannot_be_killed_nor_for_its_locks(
    dead: str, immortal: list[int], tmp_path: Path
) -> None:
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(Hung):
        bounded(partial(read, dead), "the disk", 0.05)
    os.close(lock)
    other = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the process that was left behind does not hold it
    os.close(other)
    assert len(immortal) == 1
    assert os.waitpid(immortal[0], os.WNOHANG) == (0, 0), "it is still there"


def test_a_session_that_one_works_on_who_is_left_behind_is_free_for_the_next(
    dead: str, immortal: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "LOCKS", str(tmp_path))
    directory, session_id = state.StateDirectory(str(tmp_path)), "4f8c2a10-1111-4222-8333-444455556666"

    def work() -> str:
        with directory.working_on("4f8c2a10-2222-4222-8333-444455556666"):
            pass
        with directory.working_on(session_id):
            return read(dead)

    with pytest.raises(Hung):
        bounded(work, "the disk", 0.3)
    with directory.working_on(session_id, 0):
        assert len(immortal) == 1


def test_a_lock_of_one_who_is_gone_is_left_alone(dead: str, tmp_path: Path) -> None:
    """Somebody else may hold it by now."""

    def work() -> str:
        with holding(str(tmp_path / "lock")):
            return read(dead)

    (tmp_path / "lock").touch()
    with pytest.raises(Hung):
        bounded(work, "the disk", 0.3)
    assert (tmp_path / "lock").exists()


def test_whoever_reads_what_this_process_writes_does_not_wait_for_what_it_leaves_behind(
    dead: str, immortal: list[int]
) -> None:
    reading, writing = os.pipe()
    with pytest.raises(Hung):
        bounded(partial(read, dead), "the disk", 0.05)
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_the_programs_that_it_has_started_go_with_it(dead: str, tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def work() -> None:
        with subprocess.Popen(["cat", dead]) as process:
            note.write_text(str(process.pid), encoding="ascii")
            process.wait()

    with pytest.raises(Hung):
        bounded(work, "du", 0.3)
    state = Path(f"/proc/{note.read_text(encoding='ascii')}/stat")
    deadline = time.monotonic() + 60
    while state.exists() and state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("error", "of_host"), [(SessionError("It is full."), False), (OSError(errno.EIO, "Input/output error"), True)]
)
def test_an_error_for_people_comes_back_in_its_words(error: Exception, of_host: bool) -> None:
    def work() -> None:
        raise error

    with pytest.raises(Failed) as caught:
        bounded(work, "this", 60)
    assert str(caught.value) in ("It is full.", "Input/output error.")
    assert (caught.value.is_of_host, caught.value.hangs) == (of_host, False)


def test_what_hangs_two_levels_down_is_known_above(dead: str) -> None:
    def work() -> Any:
        return bounded(partial(read, dead), "the disk", 0.05)

    with pytest.raises(Failed) as caught:
        bounded(work, "the call", 60)
    assert caught.value.hangs
    assert patience("the disk", 60) == AGAIN


def test_a_fault_of_the_program_comes_back_with_its_trace() -> None:
    nothing: dict[str, Any] = {}
    with pytest.raises(Crashed, match="KeyError") as caught:
        bounded(lambda: nothing["plan"], "this", 60)
    assert "test_bounded" in caught.value.trace


def test_a_process_that_was_killed_is_no_answer() -> None:
    with pytest.raises(Crashed, match="has ended without an answer"):
        bounded(lambda: os.kill(os.getpid(), signal.SIGKILL), "this", 60)


def test_what_has_hung_gets_less_time_and_a_host_that_has_gives_less_to_all(dead: str) -> None:
    assert patience("the disk", 60) == 60
    with pytest.raises(Hung):
        bounded(partial(read, dead), "the disk", 0.05)
    assert (patience("the disk", 60), patience("the disk", 1), patience("other", 60)) == (AGAIN, 1, 60)
    be_impatient()
    assert patience("other", 60) == AGAIN


def test_an_answer_is_handed_on_before_the_rest_is_done(tmp_path: Path) -> None:
    told: list[Any] = []
    note = tmp_path / "then"

    def then(found: str) -> None:
        note.write_text(found, encoding="ascii")

    assert bounded(lambda: "done", "this", 60, told.append, then) == "done"
    assert told == ["done"]
    assert note.read_text(encoding="ascii") == "done"


def test_a_rest_that_hangs_keeps_nobody(dead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TO_END", 0.05)
    assert bounded(lambda: "done", "this", 60, then=lambda _found: read(dead)) == "done"


def test_without_a_process_that_watches_nothing_is_told() -> None:
    with waiting_for("this", 0):
        pass


def test_what_goes_on_in_the_background_tells_nobody_anything(tmp_path: Path) -> None:
    note = tmp_path / "note"

    def later() -> None:
        with open(os.devnull, "rb"), waiting_for("this", 0):  # whose number may be that of the pipe
            note.write_text("done", encoding="ascii")

    def work() -> None:
        run_in_background("cc-test", later)

    bounded(work, "the call", 60)
    deadline = time.monotonic() + 60
    while not note.exists() or note.read_text(encoding="ascii") != "done":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_level_that_is_given_up_leaves_none_below_it_at_work(dead: str, tmp_path: Path) -> None:
    """The one below is in a process group of its own, and its parent cannot end it any more."""
    note = tmp_path / "pid"

    def below() -> None:
        note.write_text(str(os.getpid()), encoding="ascii")
        signal.pause()

    with pytest.raises(Hung):
        bounded(lambda: bounded(below, "the one below", 3600.0), "the one above", 1.0)
    deadline = time.monotonic() + 60
    while start_of(int(note.read_text(encoding="ascii"))) is not None:
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.02)


def test_where_no_child_can_be_started_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))

    def full() -> int:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(os, "fork", full)
    with pytest.raises(OSError, match="no more processes"):
        bounded(lambda: None, "the call", 5)
    assert len(os.listdir("/proc/self/fd")) == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


INTERRUPTED = f"""
import os, signal, sys
from functools import partial
from {module.__name__.rpartition(".")[0]} import bounded as module

fork, give_up = os.fork, module._give_up
children = []

def interrupted_fork():
    child = fork()
    if child:
        children.append(child)
        os.kill(os.getpid(), signal.SIGTERM)
    return child

def interrupted_end(child, held):
    children.append(child)
    os.kill(os.getpid(), signal.SIGTERM)
    give_up(child, held)

def stop(_number, _frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, stop)
where, name = (os, "fork") if sys.argv[1] == "start" else (module, "_give_up")
setattr(where, name, interrupted_fork if sys.argv[1] == "start" else interrupted_end)
try:
    module.bounded(partial(open, sys.argv[2]), "the call", 0.5)
except KeyboardInterrupt:
    print("interrupted", children[0], len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
"""


@pytest.mark.parametrize("moment", ["start", "end"])
def test_a_signal_while_a_child_starts_or_is_ended_leaves_nothing_at_work(moment: str, dead: str) -> None:
    """Its handler raises wherever the program is. A program of its own, as other threads of this one would get it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[6] / ".collections")}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, moment, dead],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    word, child, masked = done.stdout.split()
    assert (word, masked) == ("interrupted", "0")
    deadline = time.monotonic() + 60
    while start_of(int(child)) is not None:
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.02)
