# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run something in a process of its own, which is abandoned if it hangs.

A program that waits for a dead disk, file server or driver cannot be interrupted and often not even killed (proc(5),
state D). So the work is done by a child that shares no open file and no lock with its parent, and the parent waits for
a limited time. The child reports what it begins to wait for (`waiting_for`), so the parent can name what hangs.
Something that has hung once gets less time from then on.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeVar

from ..core.values.errors import SessionError, hangs, is_of_host, message_of

AGAIN = 5.0
"""Seconds for something that has hung before."""
TO_END = 10.0
"""Seconds for a child that has returned its result and only cleans up."""
LONGEST_POLL = 86400.0
"""Seconds; poll(2) accepts no more than 24 days."""
LAST_SECONDS = 1.0
"""Seconds for a killed child to end."""
ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals whose handlers raise. They wait while a child would be forgotten: when it starts, and when it is ended. That
holds for a program of one thread, as the kernel gives a signal to any that does not block it (signal(7))."""

T = TypeVar("T")


class Hung(SessionError):
    """Something of the host did not answer; the message names it. what: its name. seconds: how long it was given."""

    is_of_host = True
    hangs = True

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"This host hangs: {what} did not answer within {seconds:.0f} seconds.")
        self.what = what


class Failed(SessionError):
    """The work failed in a known way; the message is that of its error."""

    def __init__(self, message: str, its_host_is_at_fault: bool, hangs: bool) -> None:
        super().__init__(message)
        self.is_of_host = its_host_is_at_fault
        self.hangs = hangs


class Crashed(RuntimeError):
    """The work failed in an unexpected way. trace: Python's traceback; empty if the child was killed."""

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


class _Told:
    """The messages from this process to its parent, if it is a child of `bounded`."""

    pipe: int | None = None
    child = 0
    """The child itself; it may continue as another process in the background (`background`), without the pipe."""
    lock = threading.Lock()
    is_impatient = False
    hung: set[str] = set()  # noqa: RUF012 - of this process

    @classmethod
    def tell(cls, *message: Any) -> None:
        """Send one message."""
        if cls.pipe is None or cls.child != os.getpid():
            return
        content = json.dumps(message).encode()
        content = len(content).to_bytes(8, "big") + content
        with cls.lock:
            while content:
                content = content[os.write(cls.pipe, content) :]


def be_impatient() -> None:
    """Give everything little time from now on: this host hung in an earlier run."""
    _Told.is_impatient = True


def patience(what: str, seconds: float) -> float:
    """Return for how many seconds to wait for *what*: less if it, or in an earlier run this host, has hung."""
    return min(seconds, AGAIN) if _Told.is_impatient or what in _Told.hung else seconds


@contextmanager
def waiting_for(what: str, seconds: float) -> Iterator[None]:
    """Allow the watching process to abandon this one if the block takes longer than *seconds*.

    what: its name in a sentence, such as "the directory /data". Without a watching process nothing is done.
    """
    number = time.monotonic_ns()
    _Told.tell("begin", number, what, patience(what, seconds))
    try:
        yield
    finally:
        _Told.tell("end", number)


@contextmanager
def holding(path: str) -> Iterator[None]:
    """Report that this process holds the lock on a file that other processes create again if it is gone.

    The file is removed if this process is abandoned: it was sent a signal to end, so it does nothing any more, even if
    what it waits for should answer.
    """
    _Told.tell("holds", path)
    try:
        yield
    finally:
        _Told.tell("frees", path)


def bounded(
    work: Callable[[], T],
    what: str,
    seconds: float,
    answered: Callable[[T], object] | None = None,
    then: Callable[[T], object] | None = None,
) -> T:
    """Return the result of *work*, in a form that fits JSON, done by a child process within *seconds*.

    answered: is called here with the result as soon as it exists. then: what the child does with it afterwards, for
    which the parent waits only briefly. Raises Hung if the child, or what it waits for, takes longer: it is killed, if
    that is possible, and abandoned. Raises Failed for an error of the work that is meant for people, Crashed for
    others.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    held: set[str] = set()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        child = os.fork()
    except BaseException:
        os.close(reading)
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    if not child:
        _work(work, writing, then, parent, mask)
    try:
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        result: T = _result_of(reading, what, seconds, held)
        if answered is not None:
            answered(result)
        # It closes the pipe when it ends: so no time is lost by polling.
        poll = select.poll()
        poll.register(reading, 0)
        poll.poll((TO_END if then is not None else LAST_SECONDS) * 1000)
        _await_end(child, LAST_SECONDS)
    except Hung as error:
        _Told.hung.add(error.what)
        raise
    finally:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        finally:  # one that came just before is raised by that line
            try:
                os.close(reading)
                _give_up(child, held)
                for path in held:
                    _Told.tell("frees", path)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return result


def _work(
    work: Callable[[], Any],
    pipe: int,
    then: Callable[[Any], object] | None,
    parent: int,
    mask: Iterable[signal.Signals | int],
) -> NoReturn:
    """Run as the child of *parent*. mask: the signals that its work does not get."""
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if _Told.pipe is not None:
            _end_with(parent)
        os.setpgid(0, 0)  # so that the programs that it starts end with it
        _let_go_of_all_but(pipe)
        _Told.pipe, _Told.lock, _Told.child = pipe, threading.Lock(), os.getpid()
        try:
            result = work()
        except (SessionError, OSError) as error:
            if isinstance(error, Hung):
                _Told.tell("hung", error.what)
            _Told.tell("failed", message_of(error), is_of_host(error), hangs(error))
        except BaseException as error:
            import traceback  # which takes long to import, and is needed only here

            _Told.tell("crashed", message_of(error), traceback.format_exc())
        else:
            _Told.tell("done", result)
            if then is not None:
                then(result)
    finally:
        os._exit(0)  # the rest of the parent must not run a second time


def _end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends (PR_SET_PDEATHSIG of prctl(2)).

    The parent is a child itself, and the process that abandons it knows nothing of this one.
    """
    import ctypes  # which takes long to import, and is seldom needed

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:  # it ended just before
        os._exit(1)


def _let_go_of_all_but(kept: int) -> None:
    """Share no file with the parent, whose locks last as long as any process has them open (flock(2)).

    The numbers stay in use: so Python's objects that own them close nothing that is opened later.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in (kept, null):
            with suppress(OSError):
                os.fstat(number)  # the folder's own is closed by now
                os.dup2(null, number, inheritable=number <= 2)


def _result_of(pipe: int, what: str, seconds: float, held: set[str]) -> Any:
    """Return the result of a child. held: gets the locks that it holds. Raises Hung, Failed, Crashed."""
    waits = {0: (time.monotonic() + seconds, what, seconds)}
    for kind, message in _messages(pipe, waits):
        if kind == "begin":
            waits[message[0]] = (time.monotonic() + message[2], message[1], message[2])
        elif kind == "end":
            waits.pop(message[0], None)
        elif kind == "holds":
            held.add(message[0])
            _Told.tell(kind, message[0])
        elif kind == "frees":
            held.discard(message[0])
            _Told.tell(kind, message[0])
        elif kind == "hung":
            _Told.hung.add(message[0])
        elif kind == "failed":
            raise Failed(*message)
        elif kind == "crashed":
            raise Crashed(*message)
        else:
            return message[0]
    raise Crashed("its process has ended without an answer")


_Wait = tuple[float, str, float]
"""Something that a child waits for: until when, its name, and how many seconds it was given."""


def _messages(pipe: int, waits: Mapping[int, _Wait]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the messages of a child until it ends. waits: what it waits for. Raises Hung."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    rest = bytearray()
    while True:
        _await_message(poll, waits)
        found = os.read(pipe, 1 << 20)
        if not found:
            return
        rest += found
        while len(rest) >= 8 and len(rest) >= (end := 8 + int.from_bytes(rest[:8], "big")):
            kind, *message = json.loads(rest[8:end])
            del rest[:end]
            yield kind, message


def _await_message(poll: select.poll, waits: Mapping[int, _Wait]) -> None:
    """Wait until a child sends something or ends. Raises Hung for the first of *waits* whose time is over."""
    first = min(waits.values())
    while True:
        left = first[0] - time.monotonic()
        if poll.poll(max(0.0, min(left, LONGEST_POLL)) * 1000):
            return
        if left <= LONGEST_POLL:
            raise Hung(first[1], first[2])


def _await_end(child: int, seconds: float) -> bool:
    """Tell whether a child has ended within *seconds*."""
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while True:
        try:
            if os.waitpid(child, os.WNOHANG)[0]:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _give_up(child: int, held: Iterable[str]) -> None:
    """End a child with the programs that it has started, but do not wait for processes that the kernel does not end.

    held: locks that it holds, if it still exists.
    """
    if _await_end(child, 0):
        return
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(child, signal.SIGKILL)
    if not _await_end(child, LAST_SECONDS):
        for path in held:
            with suppress(OSError):
                os.unlink(path)
