# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Bring the sessions of this host back after a reboot or a restart of its engine: the program that runs at boot.

It runs twice. Before the engine starts it makes the links of the overlays, because an engine gives up a network whose
link is not there, and the rules that keep its containers out of sessions; when the engine answers, it puts back
everything else that is missing.

It needs no controller, and no other host but to learn whether a session is still here: the part of one that other hosts
have given away is removed. What it does is written to standard output, one line each.
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
from ..core.model.decode import encode
from ..core.model.record import RUNNING, Record, is_stub, read_record, stub_of
from ..core.values.errors import SessionError, hangs, message_of
from . import firewall_rules, membership, timer
from .identity import read_identity
from .journal import say
from .repair import Repair, repair_host
from .session import links
from .session.context import Context
from .steps import Stage, descriptions, perform

STATE_DIRECTORY = "/var/lib/cluster-compute"

ENGINE_SECONDS = 120.0
"""For how long to wait until Docker Engine answers; it loads all its containers and networks first."""

ENGINE_PAUSE = 0.5
"""Seconds between two questions whether it does."""

HELD_BACK_SECONDS = 120.0
"""For how long other hosts are asked again where a session is held back: those that boot with this one answer soon."""

HELD_BACK_PAUSE = 5.0
"""Seconds from one time to the next."""

STATE_SECONDS = 60.0
"""For the file system of the state directory, which may just be mounted."""
LINK_SECONDS = 60.0
"""For what one session needs before the engine starts, which waits for all of that."""
REPAIR_SECONDS = 6 * 3600.0
"""For the repair of the host; each session has a limit of its own."""

LOCK = "/run/cluster-compute-boot.lock"
"""Held while the program runs, so that the timer does not start it beside itself; gone at the next boot."""


def main(argv: Sequence[str] | None = None) -> int:
    """Repair what this host owes its sessions and return the exit code: 1 where something could not be repaired."""
    parser = argparse.ArgumentParser(
        prog="host.pyz", description="Put back what is missing of the sessions that run on this host."
    )
    parser.add_argument(
        "--state-directory",
        default=STATE_DIRECTORY,
        metavar="PATH",
        help="where this host keeps what belongs to sessions; %(default)s if not given",
    )
    parser.add_argument("--links", action="store_true", help="make the overlays' links only, before the engine starts")
    parser.add_argument("--disks", action="store_true", help="do what the timer does, and no more")
    chosen = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _stop)
    if chosen.disks:
        state = StateDirectory(chosen.state_directory)
        code = timer.look(state)
        try:
            if not bounded(partial(membership.is_due, state), "the state directory", STATE_SECONDS):
                return code
        except SessionError:  # the timer's own words say why
            return 1
    if chosen.links:
        return _make_links(StateDirectory(chosen.state_directory))
    with _alone() as alone:
        if not alone:
            say("Another run is at work already; this one does nothing.")
            return 0
        return _repair(StateDirectory(chosen.state_directory))


def _stop(number: int, _frame: object) -> NoReturn:
    """End in a way in which `bounded` ends its child: that would work on beside the next run."""
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
            done = Repair()
            done.add(bounded(partial(_repaired, state), "the repair of this host", REPAIR_SECONDS))
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


def _repaired(state: StateDirectory) -> dict[str, Any]:
    """Return what a repair of this host did, in its plain form. Raises SessionError, OSError."""
    with waiting_for(f"the file system of the state directory {state.root}", STATE_SECONDS):
        read_identity(state)
        state.touch()
    await_engine(ENGINE_SECONDS)
    done = repair_host(state, alone=True)
    membership.write_held_back(done.held_back)
    return done.plain()


def _make_links(state: StateDirectory) -> int:
    """Make the links of all sessions that run here, and the rules that keep containers out of the overlays.

    One that cannot be made does not keep the others from it.
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
        except Exception as error:  # as in a repair: whatever it is, the others get theirs
            say(f"{whose}: {message_of(error)}")
            code = 1
        else:
            for line in lines:
                say(line)
    return code


def _recorded(state: StateDirectory) -> list[dict[str, Any]]:
    """Return the records of this host in their plain form. Raises SessionError, OSError."""
    read_identity(state)
    return [encode(record) for record in state.records()[0]]


def _performed(plan: Callable[[], Sequence[Stage]]) -> list[str]:
    """Do what a plan says and return what was done, a line each."""
    stages = plan()
    perform(stages)
    return descriptions(stages)


def _remember(state: StateDirectory, error: BaseException) -> None:
    """Let the calls of a controller that follow wait less for what did not answer."""
    if hangs(error):
        SuspicionFile(str(state.root)).remember(str(error), hangs=True)


def _early_stages(state: StateDirectory, record: Record, nftables: bool) -> list[Stage]:
    """Return what a session needs of this host before the engine starts: rules, and where it runs here its link."""
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
        raise ssh_keys.KeyFileError(f"{sys.executable} lacks what the package python3-cryptography brings.")


def await_engine(
    seconds: float,
    connect: Callable[[], object] = Engine.connect,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Return as soon as Docker Engine answers. Raises EngineError when it has not within *seconds*."""
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
    """Tell whether this is the only run of the program, and keep it that for the time of the block."""
    with open(LOCK, "a", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
