# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Steps of one host in a launch, in as few calls as possible: hold the reservation, release it, start.

The order of the steps makes a killed launch recognisable. The lease comes first, the record (PREPARING) before the
first directory and key, and the confirmed lease before the first link and container. Everything that a killed launch
leaves therefore has a record or a lease, which identifies its owner. The record of a session from the queue already
exists (PENDING) and does not change until the session starts, so a rejection leaves it unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace

from ..adapters.engine import PATIENCE, Engine
from ..adapters.ledger import LOOK_SECONDS, LedgerFile
from ..adapters.state import StateDirectory, StateError
from ..core.model.call.base import failed
from ..core.model.call.session_host import Hold, SessionAnswer, Start, claimed
from ..core.model.claims import COMMITTED, CONFIRMED, ClaimAnswer
from ..core.model.plan import Plan, read_plan
from ..core.model.record import ENDED, PREPARING, RUNNING, Record, is_stub
from ..core.values.errors import SessionError
from . import firewall_rules, names, reservation, steps
from .data import SessionData, remove_probes
from .prepare import keep_records, make_keys
from .removal import Terms, removal_stages, remove
from .session.context import Context
from .session.stages import session_stages
from .verify import PeersSilent, Waiting, verify, wait_until_ready

PUT_BACK_SECONDS = 5.0
"""Seconds for which a check waits for another process that works on a session, to restore its names, like the timer."""
GIVE_UP_SECONDS = 5.0
"""Seconds for which a host that could not start a session waits for other work on it, to inform other hosts."""


def hold(state: StateDirectory, ledger: LedgerFile, request: Hold, check_mode: bool) -> SessionAnswer:
    """Lease the claim if it fits now, and create missing directories, probes and keys under the lease.

    Returns the answer to the claim and, if it is granted, the public keys of this host's replicas. If the lease was
    granted but a directory or key cannot be created, or the session was torn down since then, the answer is that of a
    failure, and what was held is released.
    """
    claim, record, lease_owner = request.claim, request.record, request.lease_owner
    seconds = request.lease_seconds + request.turns_seconds
    leased, answer = reservation.lease(ledger, claim, request.allocatable, seconds, lease_owner, check_mode)
    if leased and not check_mode:
        answer = reservation.refused_by_name(state, ledger, claim, lease_owner)
    # After the lease: either a drain of the host sees the lease, or this sees the drain.
    drain = state.read_drain() if answer.granted and record.status == PREPARING else None
    if drain is not None:
        if not check_mode:
            ledger.release(record.id, lease_owner)
        answer = ClaimAnswer(False, (str(drain),))
    result = claimed(answer)
    if not answer.granted:
        return result
    try:
        with state.working_on(record.id):
            if not check_mode:
                _refuse_if_gone(state, ledger, request)
            session = state.session(record.id)
            if record.status == PREPARING and record.queue is None and not check_mode:
                # Before the first key, so that leftovers of a killed launch can be identified.
                keep_records(state, [record], check_mode)
            plan = read_plan(record.plan)
            data = SessionData(record, plan, request.host, session)
            made = make_under_lease(result, data, plan, lease_owner, request.regenerate_keys, check_mode)
    except (SessionError, OSError) as error:
        undone = roll_back(state, ledger, record, lease_owner, check_mode)
        return failed(error, replace(result, warnings=undone.warnings))
    return replace(made, changed=leased or made.changed)


def make_under_lease(
    answer: SessionAnswer, data: SessionData, plan: Plan, lease_owner: str, regenerate_keys: bool, check_mode: bool
) -> SessionAnswer:
    """Create the missing directories, probes and keys of a session here. Return the answer with what was created."""
    actions = data.prepare(lease_owner, check_mode)
    public_keys, made = make_keys(data.directory, plan, data.host, regenerate_keys, check_mode)
    actions += [f"create key {key}" for key in made]
    return steps.made(actions, replace(answer, public_keys=public_keys))


def _refuse_if_gone(state: StateDirectory, ledger: LedgerFile, request: Hold | Start) -> None:
    record, recorded, looked = request.record, request.recorded, request.looked
    # The facts of a running session that this host did not have came from another host, maybe before the teardown.
    from_another = looked is not None and record.status == RUNNING and record.id not in recorded
    since = looked - LOOK_SECONDS if looked is not None and from_another else looked
    was_removed = ledger.was_removed(record.name, record.id, since, request.lease_owner or "")
    here = state.session(record.id).read_record()
    if was_removed or (record.id in recorded and here is None):
        raise _torn_down(record)
    if here is not None and here.status in ENDED:
        raise StateError(f"Session {record.name} has ended while this launch was at work. Launch again.")
    if here is not None and record.status == RUNNING and here.revision > record.revision:
        raise StateError(f"Session {record.name} was changed while this launch was at work. Launch again.")


def _torn_down(record: Record) -> StateError:
    return StateError(f"Session {record.name} was torn down while this launch was at work. Launch again.")


def roll_back(
    state: StateDirectory, ledger: LedgerFile, record: Record, lease_owner: str, check_mode: bool
) -> SessionAnswer:
    """Release what this run holds here unless the session runs, with everything that was created under the lease.

    Returns whether it held anything, and as actions what else was removed. What another run holds for the same session
    stays.
    """
    mine = _is_held(ledger, record, lease_owner)
    if check_mode:
        return SessionAnswer(changed=mine, actions=())
    gone: list[steps.Stage] = []
    warnings: list[str] = []
    if mine and record.status == PREPARING:
        # While the lease exists, no other run begins to create parts of the session here.
        engine = Engine.connect(PATIENCE)
        with state.working_on(record.id):
            # A call that a run has begun here continues after its controller has ended, so the session may run by now.
            if _is_held(ledger, record, lease_owner):
                known = [record.id] if state.session(record.id).exists() else []
                terms = Terms(keep_record=record.queue is not None, undo=True)
                stages = removal_stages(engine, state, ledger, None, record.id, known, terms)
                gone, warnings = remove(stages)
    released = ledger.release(record.id, lease_owner) or mine
    return SessionAnswer(changed=released, actions=tuple(steps.descriptions(gone)), warnings=tuple(warnings))


def _is_held(ledger: LedgerFile, record: Record, lease_owner: str) -> bool:
    held = ledger.read().get(record.id)
    return held is not None and held.stage != COMMITTED and held.lease_owner == lease_owner


def start(state: StateDirectory, ledger: LedgerFile, request: Start, check_mode: bool) -> SessionAnswer:
    """Confirm the lease, create missing parts of this host's plan, and check that they work.

    With roles in the request, only their replicas are started now and ready when this returns, as others come later,
    and the session does not run yet. A wait for peers on other hosts ends early if another host has given up, or the
    session is torn down. If this host gives up, the waiting hosts are informed.

    Returns the changes, how long they took, and one of three: ``replicas``; with roles ``begun``, the names of their
    replicas here; or ``unproven``, the reason, if this has to wait for other hosts. Raises LedgerError if the
    lease has expired, and what `session_stages` and `verify` raise.
    """
    record, host, lease_owner = request.record, request.host, request.lease_owner or ""
    engine = Engine.connect(PATIENCE)
    nftables = engine.uses_nftables()
    begun = ledger.now()

    def check() -> None:
        if ledger.was_removed(record.name, record.id, begun, lease_owner):
            raise _torn_down(record)
        peers.check()

    tells = not check_mode and record.status != RUNNING
    with _telling_peers(state, ledger, record, host, lease_owner, nftables) if tells else nullcontext():
        with state.working_on(record.id):
            if not check_mode:
                _refuse_if_gone(state, ledger, request)
                ledger.admit(record.name, record.id)
                ledger.advance(record.id, CONFIRMED, request.deadline_seconds + request.turns_seconds, lease_owner)
                if record.status == PREPARING:
                    keep_records(state, [record], check_mode)
            context = Context(engine, state, ledger, record, host, lease_owner)
            # A launch that repairs a session also restores the standing rules.
            standing = firewall_rules.standing_steps(nftables)
            stages = [standing, *session_stages(context, request.public_keys, check_mode, request.roles)]
            taken: list[float] = []
            if not check_mode:
                # A running session is repaired, and a repair does not undo parts that work again.
                taken = steps.perform(stages, undo=record.status != RUNNING)
        network, begin = steps.seconds_until("container", stages, taken)
        seconds = {"network": network, "start": begin}
        if check_mode:
            return steps.result(stages, SessionAnswer(replicas=(), seconds=seconds))
        from .peers import Peers

        peers = Peers(context.plan, host)
        started = time.monotonic()
        timeout, patience = request.timeout, request.patience
        if request.roles is not None:
            proof = await_roles(engine, context.plan, host, request.roles, timeout, bool(patience), check)
        else:
            proof = prove(state, engine, context.plan, host, timeout, patience, check)
            seconds["ready"] = round(time.monotonic() - started, 3)
        return steps.result(stages, replace(proof, seconds=seconds))


@contextmanager
def _telling_peers(
    state: StateDirectory, ledger: LedgerFile, record: Record, host: str, lease_owner: str, nftables: bool
) -> Iterator[None]:
    """Inform the other hosts of a session that it cannot be started here.

    This ends with the session's removal here, which comes next. Nothing is sent if another run has removed it or
    continues with it.
    """
    try:
        yield
    except Exception:
        with suppress(SessionError, OSError), state.working_on(record.id, GIVE_UP_SECONDS):
            held, here = ledger.read().get(record.id), state.session(record.id).read_record()
            is_mine = held is not None and held.lease_owner in ("", lease_owner)  # the start itself has released it
            if is_mine and here is not None and here.plan == record.plan:
                steps.perform([firewall_rules.give_up_steps(record, host, nftables)])
        raise


def await_roles(
    engine: Engine,
    plan: Plan,
    host: str,
    roles: Collection[str],
    timeout: float,
    waits: bool = True,
    check: Callable[[], None] = lambda: None,
) -> SessionAnswer:
    """Wait until the replicas of some roles here are ready. Return ``begun``, their names, or ``unproven``, the reason.

    waits, check: as in `wait_until_ready`. Raises VerificationFailed, and what *check* does.
    """
    replicas = [replica for replica in plan.on(host) if replica.role in roles]
    try:
        deadline = time.monotonic() + timeout
        ready = wait_until_ready(engine, plan, replicas, deadline, waits=waits, check=check, healthy=True)
    except PeersSilent as error:
        return SessionAnswer(unproven=str(error))
    return SessionAnswer(begun=tuple(found.replica.name for found in ready))


def prove(
    state: StateDirectory,
    engine: Engine,
    plan: Plan,
    host: str,
    timeout: float,
    patience: float,
    check: Callable[[], None] = lambda: None,
) -> SessionAnswer:
    """Check that the replicas here work. Return ``replicas``, or ``unproven`` if peers did not answer in time.

    The warnings report names that programs of the replicas had changed, which are restored.

    check: as in `verify`, which raises.
    """
    session = state.session(plan.session.id)
    corrected: list[str] = []

    def put_back() -> list[str]:
        found: list[str] = []
        if names.look(engine, session, plan, host):
            with suppress(StateError), state.working_on(plan.session.id, PUT_BACK_SECONDS):
                here = session.read_record()
                if here is not None and not is_stub(here) and read_plan(here.plan) == plan:
                    found = names.put_back(plan, names.look(engine, session, plan, host))
        corrected.extend(found)
        return found

    try:
        replicas = verify(engine, plan, host, timeout, session.read_public_keys(), Waiting(patience, check, put_back))
    except PeersSilent as error:
        return SessionAnswer(unproven=str(error), warnings=tuple(corrected))
    if session.made_file.exists():
        remove_probes(session, plan.session.id)
    put_back()
    return SessionAnswer(replicas=tuple(replicas), warnings=tuple(corrected))
