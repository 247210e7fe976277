# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep a host's reservations on its disk, changed only under its lock.

The lock is an flock(2) on the state directory, held for the time of one read and one durable write, never while
anything else is asked. A host that holds nothing has no ledger file. Time is CLOCK_BOOTTIME within one boot
(clock_gettime(2)), so a wrong or a changed calendar clock does not affect leases.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..core.model import claims
from ..core.model.claims import Allocatable, Claim, ClaimAnswer, InvalidLedger, NewerLedger, Reservation
from ..core.rules import ledger as rules
from ..core.values.errors import SessionError
from .locks import take_lock
from .state import check_space, make_directory, write_file

LOCK_DEADLINE = 30.0
"""Seconds to wait for the lock, which is held for milliseconds: longer means that something is wrong with the host."""

REMOVALS = "/run"
"""File of the recent teardowns by name; gone with the boot, like every run that was at work before."""
LOOK_SECONDS = 300
"""How long it may take to collect the facts of all hosts: facts of another host may be so much older than this
one's."""
REMOVAL_SECONDS, MOST_REMOVALS = 86400.0, 500
"""How long a teardown is remembered, which is longer than a verb is at work, and how many teardowns."""


class LedgerError(SessionError):
    """The ledger cannot be used; the message names it."""


@cache
def boot_id() -> str:
    """Return the identity of this boot: that of the kernel's (random(4)) and the start of the first process (proc(5)).

    A host that shares its kernel, like those of the lab, reboots while the kernel's identity stays the same.
    """
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    first_process = Path("/proc/1/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return f"{kernel}:{first_process[19]}"


class DamagedLedger(LedgerError):
    """The ledger is malformed; it can be set aside."""

    is_of_host = True


def refused_change(claim: Claim, reasons: Iterable[str]) -> str:
    """Return the message that a session cannot have on this host what it would change to."""
    return f"Session {claim.session_name} does not have the place on this host that it needs: {' '.join(reasons)}"


def key_of(state_directory: str) -> str:
    """Return a name for a state directory, for places that hold files of several."""
    return hashlib.sha256(os.path.abspath(state_directory).encode()).hexdigest()[:16]


class _Removal(NamedTuple):
    """When a name was torn down, by the run that replaces it, and the session that was admitted under it since."""

    when: float
    by: str | None = None
    admitted: str | None = None


class LedgerFile:
    """The ledger of one host."""

    def __init__(
        self,
        state_directory: str,
        boot: Callable[[], str] = boot_id,
        clock: Callable[[], float] | None = None,
        forgiving: bool = False,
    ) -> None:
        """Use the ledger in *state_directory*.

        forgiving: a damaged ledger is read as an empty one, for verbs that have to work although it is damaged: repair,
        teardown. Nothing is ever held or released in a damaged one.
        """
        self._forgiving = forgiving
        self.path = Path(state_directory) / "ledger.json"
        self._boot = boot
        self._clock = clock or (lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
        self._removals = Path(REMOVALS) / f"cluster-compute-removed-{key_of(state_directory)}.json"

    def read(self) -> dict[str, Reservation]:
        """Return the live reservations by session id. Writes are atomic, so reading takes no lock."""
        try:
            return rules.live(self._load(), self._boot(), self._clock())
        except DamagedLedger:
            if self._forgiving:
                return {}
            raise

    def expired(self) -> dict[str, Reservation]:
        """Return the expired reservations that are still in the file; they hold nothing."""
        try:
            entries = self._load()
        except DamagedLedger:
            return {}
        kept = rules.live(entries, self._boot(), self._clock())
        return {key: reservation for key, reservation in entries.items() if key not in kept}

    def reserve(
        self,
        claim: Claim,
        untracked: Iterable[Claim],
        allocatable: Allocatable | None,
        seconds: float,
        lease_owner: str,
    ) -> ClaimAnswer:
        """Lease *claim* for *seconds* if it fits now, and return the answer.

        lease_owner: the run that asks. Its own lease is renewed; a running session keeps what it has; a lease of
        another run for the same session is a conflict. A lease of the name alone does not replace one that holds more:
        one machine may be two hosts of the inventory.
        """
        with self._locked() as ledger:
            held = ledger.get(claim.session_id)
            if held is not None and held.stage != claims.COMMITTED and held.lease_owner != lease_owner:
                reason = f"Session {claim.session_name} is being launched by another run."
                return ClaimAnswer(False, (reason,), (claim.session_id,))
            if held is not None and (held.stage != claims.LEASED or held.claim.replicas > claim.replicas == 0):
                return ClaimAnswer(True)
            answer = rules.answer(claim, ledger, untracked, allocatable)
            if answer.granted:
                check_space(self.path.parent)
                ledger[claim.session_id] = rules.lease(claim, self._boot(), self._clock(), seconds, lease_owner)
                self._store(ledger)
            return answer

    def advance(self, session_id: str, stage: str, seconds: float, lease_owner: str) -> None:
        """Take a reservation to *stage*. Raises LedgerError if it is gone: its lease expired or was released."""
        with self._locked() as ledger:
            held = self._own(ledger, session_id, lease_owner)
            advanced = rules.advance(held, stage, self._clock(), seconds)
            if advanced != held:
                ledger[session_id] = advanced
                self._store(ledger)

    def require(self, session_id: str, lease_owner: str) -> None:
        """Raise LedgerError if the session does not hold its place, neither by this run nor because it runs."""
        self._own(self.read(), session_id, lease_owner)

    def _own(self, ledger: dict[str, Reservation], session_id: str, lease_owner: str) -> Reservation:
        held = ledger.get(session_id)
        if held is None or (held.stage != claims.COMMITTED and held.lease_owner != lease_owner):
            raise LedgerError(
                f"The reservation of session {session_id} on this host has run out. Launch again; a longer "
                "cluster_compute_lease_seconds, or cluster_compute_deadline_seconds, helps where hosts or controllers "
                "are slow."
            )
        return held

    def commit(self, claim: Claim, lease_owner: str | None) -> None:
        """Hold *claim* until its session is torn down.

        lease_owner: the run that holds it so far; None for a running session, which may be missing from the ledger.
        Raises LedgerError if *lease_owner* does not hold it any more, or another session has what is claimed.
        """
        with self._locked() as ledger:
            if lease_owner is not None:
                self._own(ledger, claim.session_id, lease_owner)
            elif reasons := rules.collisions(claim, [held.claim for held in ledger.values()]):
                raise LedgerError(f"Session {claim.session_name} cannot be held here: {' '.join(reasons)}")
            ledger[claim.session_id] = Reservation(claim, claims.COMMITTED, self._boot(), None)
            self._store(ledger)

    def amend(
        self,
        claim: Claim,
        untracked: Iterable[Claim],
        allocatable: Allocatable | None,
        change_id: str | None = None,
        lease_owner: str | None = None,
    ) -> None:
        """Hold what a running session takes while it goes from what it has to *claim*, until it is torn down.

        change_id: under which *lease_owner* has leased what it needs beyond; that becomes the session's. Raises
        LedgerError if that lease has expired, and what it needs is not free within *allocatable*, or that is not known.
        """
        with self._locked() as ledger:
            wanted, reasons = rules.amended(claim, ledger, untracked, allocatable, change_id, lease_owner)
            if wanted is None:
                raise LedgerError(refused_change(claim, reasons))
            leased = None if change_id is None else ledger.get(change_id)
            if leased is not None and leased.lease_owner == lease_owner and leased.claim.amends == claim.session_id:
                del ledger[leased.claim.session_id]
            ledger[claim.session_id] = Reservation(wanted, claims.COMMITTED, self._boot(), None)
            self._store(ledger)

    def release(self, session_id: str, lease_owner: str | None = None) -> bool:
        """Release what a session holds here; return whether it held anything.

        lease_owner: release only what this run holds, and nothing of a running session.
        """
        if not self.path.exists() and not self._unfinished():
            return False
        with self._locked() as ledger:
            held = ledger.get(session_id)
            if held is None and session_id in self._load():
                self._store(ledger)  # it had expired
                return True
            if held is None or (
                lease_owner is not None and (held.stage == claims.COMMITTED or held.lease_owner != lease_owner)
            ):
                return False
            del ledger[session_id]
            self._store(ledger)
            return True

    def now(self) -> float:
        """Return the time of the clock that leases on this host use."""
        return self._clock()

    def remember_removal(self, session_name: str, lease_owner: str | None) -> None:
        """Remember that a name is torn down now, whatever this host has of it. lease_owner: a run that replaces it."""
        with self._remembered() as kept:
            now = self._clock()
            kept[session_name] = _Removal(now, lease_owner)
            for key in sorted(kept, key=lambda key: kept[key].when)[:-MOST_REMOVALS]:
                del kept[key]
            for key in [key for key in kept if kept[key].when < now - REMOVAL_SECONDS]:
                del kept[key]

    def was_removed(self, name: str, session_id: str, looked: float | None, lease_owner: str | None) -> bool:
        """Tell whether another run has torn down the name of a session here since a run collected this host's facts.

        A session that was admitted since then was requested after the teardown.
        """
        if looked is None or not self._removals.exists():
            return False
        with self._remembered() as kept:
            when, by, admitted = kept.get(name, _Removal(0.0))
        return bool(when > looked and (by is None or by != lease_owner) and admitted != session_id)

    def admit(self, name: str, session_id: str) -> None:
        """Admit a session under a name that was torn down before the session was requested."""
        if self._removals.exists():
            with self._remembered() as kept:
                if name in kept:
                    kept[name] = kept[name]._replace(admitted=session_id)

    @contextmanager
    def _remembered(self) -> Iterator[dict[str, _Removal]]:
        """Yield when each name was torn down, by which run, and what was admitted since; store what has changed."""
        with os.fdopen(os.open(self._removals, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+") as file:
            _lock(file.fileno(), self._removals)
            text = file.read()
            kept = _removals_in(text)
            yield kept
            if json.dumps(kept) != text:
                file.seek(0)
                file.write(json.dumps(kept))
                file.truncate()

    def _load(self) -> dict[str, Reservation]:
        try:
            return rules.read_ledger(json.loads(self.path.read_text(encoding="utf-8", errors="replace")))
        except FileNotFoundError:
            return {}
        except NewerLedger as error:
            raise LedgerError(f"The ledger {self.path} cannot be read: {error}") from error
        except (ValueError, RecursionError, InvalidLedger) as error:
            raise DamagedLedger(
                f"The ledger {self.path} is damaged: {error} The repair playbook sets it aside and makes a new one "
                "from the sessions that run."
            ) from error

    def _store(self, ledger: dict[str, Reservation]) -> None:
        if not ledger:
            self.path.unlink(missing_ok=True)
            return
        write_file(self.path, json.dumps(rules.write_ledger(ledger), separators=(",", ":")) + "\n", mode=0o600)

    def _unfinished(self) -> list[Path]:
        """Return files that writers left beside the ledger; under the lock none is at work, so they were killed."""
        return list(self.path.parent.glob(f".{self.path.name}.*"))

    @contextmanager
    def _locked(self) -> Iterator[dict[str, Reservation]]:
        """Hold the lock, remove files of killed writers, and yield the live reservations."""
        make_directory(self.path.parent)
        descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(descriptor, self.path.parent)
            for path in self._unfinished():
                path.unlink(missing_ok=True)
            yield rules.live(self._load(), self._boot(), self._clock())
        finally:
            os.close(descriptor)


def _removals_in(text: str) -> dict[str, _Removal]:
    """Return the remembered teardowns; a damaged file contains none, and a newer release may have added to each."""
    with suppress(ValueError, TypeError, AttributeError):
        return {name: _Removal(float(when), *more[:2]) for name, (when, *more) in json.loads(text).items()}
    return {}


def _lock(descriptor: int, path: Path) -> None:
    if not take_lock(descriptor, LOCK_DEADLINE):
        raise LedgerError(
            f"The lock on {path} was not free within {LOCK_DEADLINE:.0f} seconds: another run is at work on this host. "
            "Try again when it has ended."
        )
