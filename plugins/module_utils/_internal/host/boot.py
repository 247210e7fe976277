# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Restore the sessions of this host after a reboot or a restart of its engine. This is the program that runs at boot.

It runs twice. Before the engine starts, it creates the links of the overlays, because an engine gives up a network
whose link is missing, and the rules that keep its containers out of sessions. When the engine answers, it restores
everything else that is missing.

It needs no controller. It contacts other hosts only to find out if a session still belongs to this host. If other hosts
have replaced this host's part of a session, the part is removed. Each action is written to standard output as one line.
"""

from __future__ import annotations

import argparse
import fcntl
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

from ..adapters import ssh_keys
from ..adapters.bounded import bounded, waiting_for
from ..adapters.engine import Engine, EngineError
from ..adapters.ledger import LedgerFile
from ..adapters.state import StateDirectory
from ..adapters.suspicion import SuspicionFile
from ..core.model.call.session_repair import Repaired
from ..core.model.decode import decode, encode
from ..core.model.record import RUNNING, Record, is_stub, read_record, stub_of
from ..core.values.errors import SessionError, hangs, message_of
from . import firewall_rules, membership, timer
from .identity import read_identity
from .journal import say
from .repair import repair_host
from .session import links
from .session.context import Context
from .steps import Stage, descriptions, perform

STATE_DIRECTORY = "/var/lib/cluster-compute"

ENGINE_SECONDS = 120.0
"""Seconds to wait until Docker Engine answers. It loads all its containers and networks first."""

ENGINE_PAUSE = 0.5
"""Seconds between two checks of whether it answers."""

HELD_BACK_SECONDS = 120.0
"""Seconds for which other hosts are contacted again if a session is held back, as they may be booting as well."""

HELD_BACK_PAUSE = 5.0
"""Seconds between two attempts."""

STATE_SECONDS = 60.0
"""For the file system of the state directory, which may just be mounted."""
LINK_SECONDS = 60.0
"""For the parts of one session that have to exist before the engine starts, which waits for them."""
REPAIR_SECONDS = 6 * 3600.0
"""For the repair of the host; each session has a limit of its own."""

LOCK = "/run/cluster-compute-boot.lock"
"""Held while the program runs, so that the timer does not start it a second time. Gone at the next boot."""


def main(argv: Sequence[str] | None = None) -> int:
    """Repair this host's parts of sessions and return the exit code, 1 if something could not be repaired."""
    parser = argparse.ArgumentParser(
        prog="host.pyz", description="Restore missing parts of the sessions that run on this host."
    )
    parser.add_argument(
        "--state-directory",
        default=STATE_DIRECTORY,
        metavar="PATH",
        help="where this host stores the data of sessions; %(default)s if not given",
    )
    parser.add_argument(
        "--links", action="store_true", help="only create the links of overlays, before the engine starts"
    )
    parser.add_argument("--disks", action="store_true", help="only run the tasks of the timer")
    chosen = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _stop)
    if chosen.disks:
        state = StateDirectory(chosen.state_directory)
        code = timer.look(state)
        try:
            if not bounded(partial(membership.is_due, state), "the state directory", STATE_SECONDS):
                return code
        except SessionError:  # the timer's own output reports why
            return 1
    if chosen.links:
        return _make_links(StateDirectory(chosen.state_directory))
    with _alone() as alone:
        if not alone:
            say("Another run is at work already; this one does nothing.")
            return 0
        return _repair(StateDirectory(chosen.state_directory))


def _stop(number: int, _frame: object) -> NoReturn:
    """End in a way in which `bounded` also ends its child, which would otherwise continue during the next run."""
    raise SystemExit(128 + number)


def _repair(
    state: StateDirectory,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> int:
    deadline = clock() + HELD_BACK_SECONDS
    problems: list[str] = []
    while True:
        try:
            _need_libraries()
            plain = bounded(partial(_repaired, state), "the repair of this host", REPAIR_SECONDS)
            done = decode(Repaired, plain, "The repair of this host")
        except (SessionError, OSError) as error:
            _remember(state, error)
            say(f"Nothing could be repaired: {error}")
            return 1
        new = [problem for problem in done.problems if problem not in problems]
        for line in (*done.actions, *done.warnings, *new):
            say(line)
        problems = done.problems
        if not done.held_back or clock() >= deadline:
            return 1 if problems else 0
        sleep(HELD_BACK_PAUSE)


def _repaired(state: StateDirectory) -> object:
    """Return what a repair of this host did, in its plain form. Raises SessionError, OSError."""
    with waiting_for(f"the file system of the state directory {state.root}", STATE_SECONDS):
        read_identity(state)
        state.touch()
    await_engine(ENGINE_SECONDS)
    done = repair_host(state, alone=True)
    membership.write_held_back(done.held_back)
    return encode(done)


def _make_links(state: StateDirectory) -> int:
    """Create the links of all sessions that run here, and the rules that keep containers out of the overlays.

    A failure for one session does not affect the others.
    """
    what = f"the file system of the state directory {state.root}"
    try:
        known = bounded(partial(_recorded, state), what, STATE_SECONDS)
    except SessionError as error:
        _remember(state, error)
        say(f"No link is made: {error}")
        return 1
    nftables = firewall_rules.will_use_nftables()
    works: list[tuple[str, Callable[[], Sequence[Stage]]]] = [
        ("Overlays of the site", lambda: [firewall_rules.standing_steps(nftables)])
    ]
    code = 0
    records = map(read_record, known)
    works += [(f"Session {record.name}", partial(_early_stages, state, record, nftables)) for record in records]
    for whose, plan in works:
        try:
            lines = bounded(partial(_performed, plan), f"what is made for {whose}", LINK_SECONDS)
        except Exception as error:  # as in a repair, whatever the error is, the other sessions continue
            say(f"{whose}: {message_of(error)}")
            code = 1
        else:
            for line in lines:
                say(line)
    return code


def _recorded(state: StateDirectory) -> list[Any]:
    """Return the records of this host in their plain form. Raises SessionError, OSError."""
    read_identity(state)
    return [encode(record) for record in state.records()[0]]


def _performed(plan: Callable[[], Sequence[Stage]]) -> list[str]:
    """Run a plan and return what was done, one line for each action."""
    stages = plan()
    perform(stages)
    return descriptions(stages)


def _remember(state: StateDirectory, error: BaseException) -> None:
    """Make later calls of a controller wait less for whatever did not answer."""
    if hangs(error):
        SuspicionFile(str(state.root)).remember(str(error), hangs=True)


def _early_stages(state: StateDirectory, record: Record, nftables: bool) -> list[Stage]:
    """Return the steps for a session before the engine starts: its rules, and if it runs here its link."""
    if record.status != RUNNING:
        return []
    host = state.session(record.id).read_host()
    if host is None or host not in record.hosts or is_stub(record):
        return [firewall_rules.keep_out_steps(stub_of(record), nftables)]
    no_engine: Any = None
    context = Context(no_engine, state, LedgerFile(str(state.root)), record, host, "")
    known = state.session(record.id).read_public_keys()
    return links.early_stages(context, known, nftables)


def _need_libraries() -> None:
    if ssh_keys.CRYPTOGRAPHY_IMPORT_ERROR is not None:
        raise ssh_keys.KeyFileError(f"{sys.executable} cannot import the library of the package python3-cryptography.")


def await_engine(
    seconds: float,
    connect: Callable[[], object] = Engine.connect,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Return as soon as Docker Engine answers. Raises EngineError if it does not answer within *seconds*."""
    deadline = clock() + seconds
    while True:
        try:
            connect()
        except EngineError as error:
            if clock() >= deadline:
                raise EngineError(f"Docker Engine did not answer within {seconds:.0f} seconds: {error}") from error
        else:
            return
        sleep(ENGINE_PAUSE)


@contextmanager
def _alone() -> Iterator[bool]:
    """Return whether this is the only run of the program, and prevent other runs during the block."""
    with open(LOCK, "a", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
