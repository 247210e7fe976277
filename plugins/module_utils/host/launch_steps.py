# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What one host does in a launch, in as few calls as can be: hold the place, give it back, start there.

The order within them is what makes a killed launch recognisable. The lease comes first; the record, PREPARING, before
the first folder and key; the confirmed lease before the first link and container. So whatever is found of a launch that
was killed has a record or a lease, and nobody has to guess whose it is. The record of a session from the queue is there
already, PENDING, and stays as it is until the session starts: a refusal leaves it as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from ..adapters.engine import PATIENCE, Engine
from ..adapters.ledger import LOOK_SECONDS, LedgerFile
from ..adapters.state import StateDirectory, StateError
from ..core.model.claims import COMMITTED, CONFIRMED, Claim, ClaimAnswer
from ..core.model.plan import Plan, read_plan
from ..core.model.record import ENDED, PREPARING, RUNNING, Record, is_stub
from ..core.values.errors import SessionError, failed
from . import firewall_rules, names, reservation, steps
from .data import SessionData, remove_probes
from .prepare import keep_records, make_keys
from .removal import removal_stages, remove
from .session.context import Context
from .session.stages import session_stages
from .verify import PeersSilent, verify, wait_until_ready

PUT_BACK_SECONDS = 5.0
"""For how long a proof waits for who works on a session, to put its names back; the timer does so as well."""
GIVE_UP_SECONDS = 5.0
"""For how long a host that could not start a session waits for who works on it, to tell others."""


def hold(
    state: StateDirectory,
    ledger: LedgerFile,
    claim: Claim,
    allocatable: Mapping[str, Any],
    record: Record,
    host: str,
    *,
    lease_owner: str,
    lease_seconds: float,
    regenerate_keys: bool,
    recorded: Collection[str],
    looked: float | None = None,
    check_mode: bool,
) -> dict[str, Any]:
    """Lease the claim if it fits now, and make under the lease the folders, proofs and keys that are missing.

    recorded: sessions that this host had a record of when the launch *looked*. Returns ``granted``, ``reasons``,
    ``tentative``, ``actions`` and, where it is granted, ``public_keys``, the public keys of this host's
    replicas. Where the lease was granted and a folder or key cannot be made, or the session was torn down since the
    launch looked, the result is that of a failure, and what was held is given back.
    """
    leased, answer = reservation.lease(ledger, claim, allocatable, lease_seconds, lease_owner, check_mode)
    if leased and not check_mode:
        answer = reservation.refused_by_name(state, ledger, claim, lease_owner)
    # Once it is leased: who drains the host sees the lease, or this sees the drain.
    drain = state.read_drain() if answer.granted and record.status == PREPARING else None
    if drain is not None:
        if not check_mode:
            ledger.release(record.id, lease_owner)
        answer = ClaimAnswer(False, (str(drain),))
    result = {"changed": False, **answer.to_dict(), "actions": []}
    if not answer.granted:
        return result
    try:
        with state.working_on(record.id):
            if not check_mode:
                _refuse_if_gone(state, ledger, record, recorded, looked, lease_owner)
            session = state.session(record.id)
            if record.status == PREPARING and record.queue is None and not check_mode:
                # Before the first key: what is found later of a launch that was killed can then be told whose it is.
                keep_records(state, [record], check_mode)
            plan = read_plan(record.plan)
            data = SessionData(record, plan, host, session)
            made = make_under_lease(data, plan, lease_owner, regenerate_keys, check_mode)
    except (SessionError, OSError) as error:
        undone = roll_back(state, ledger, record, lease_owner, check_mode)
        return {**result, **failed(error), "warnings": undone["warnings"]}
    return {**result, **made, "changed": leased or bool(made["actions"])}


def make_under_lease(
    data: SessionData, plan: Plan, lease_owner: str, regenerate_keys: bool, check_mode: bool
) -> dict[str, Any]:
    """Make the folders, proofs and keys that a session lacks here, and return what was made."""
    actions = data.prepare(lease_owner, check_mode)
    public_keys, made = make_keys(data.directory, plan, data.host, regenerate_keys, check_mode)
    actions += [f"create key {key}" for key in made]
    difference = {"before": "", "after": "".join(f"{action}\n" for action in actions)}
    return {"public_keys": public_keys, "actions": actions, "diff": difference}


def _refuse_if_gone(
    state: StateDirectory,
    ledger: LedgerFile,
    record: Record,
    recorded: Collection[str],
    looked: float | None,
    lease_owner: str,
) -> None:
    # Of one that runs and of which this host knew nothing another host was asked, maybe before the teardown.
    from_another = looked is not None and record.status == RUNNING and record.id not in recorded
    since = looked - LOOK_SECONDS if looked is not None and from_another else looked
    was_removed = ledger.was_removed(record.name, record.id, since, lease_owner)
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
) -> dict[str, Any]:
    """Give back what this run holds here unless the session runs, with what was made under the lease.

    Returns ``changed``, whether it held anything, ``actions``, what else went, and ``warnings``. What another run holds
    for the same session stays.
    """
    mine = _is_held(ledger, record, lease_owner)
    if check_mode:
        return {"changed": mine, "actions": [], "warnings": []}
    gone: list[steps.Stage] = []
    warnings: list[str] = []
    if mine and record.status == PREPARING:
        # While the lease still stands nobody else begins to make anything of the session here.
        engine = Engine.connect(PATIENCE)
        kept = record.queue is not None
        with state.working_on(record.id):
            # What a run has begun here goes on when its controller has ended, and the session may run by now.
            if _is_held(ledger, record, lease_owner):
                known = [record.id] if state.session(record.id).exists() else []
                stages = removal_stages(engine, state, ledger, None, record.id, known, keep_record=kept, undo=True)
                gone, warnings = remove(stages)
    released = ledger.release(record.id, lease_owner) or mine
    return {"changed": released, "actions": steps.descriptions(gone), "warnings": warnings}


def _is_held(ledger: LedgerFile, record: Record, lease_owner: str) -> bool:
    held = ledger.read().get(record.id)
    return held is not None and held.stage != COMMITTED and held.lease_owner == lease_owner


def start(
    state: StateDirectory,
    ledger: LedgerFile,
    record: Record,
    host: str,
    public_keys: Mapping[str, Any],
    *,
    lease_owner: str,
    deadline: float,
    timeout: float,
    patience: float,
    recorded: Collection[str],
    looked: float | None = None,
    roles: Collection[str] | None = None,
    check_mode: bool,
) -> dict[str, Any]:
    """Confirm the lease, make what the plan gives to this host and is missing, and prove that it works.

    roles: where others are to come later, those whose replicas are started; they are ready when this returns, and the
    session does not run yet.

    deadline: seconds within which the session has to run. timeout: those after which a replica here that is not ready
    is reported. patience: those for which peers on other hosts are looked for, which may start later; with 0 nothing is
    waited for that may need them. A wait ends early where another host has given up, or the session is torn down; where
    this one gives up, others are told that wait.
    Returns the result of the steps, ``seconds``, and either ``replicas``, or where *roles* are given ``begun``, the
    names of their replicas here, or where that has to wait for other hosts ``unproven``, why. Raises LedgerError where
    the lease has run out, and what `session_stages` and `verify` raise.
    """
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
                _refuse_if_gone(state, ledger, record, recorded, looked, lease_owner)
                ledger.admit(record.name, record.id)
                ledger.advance(record.id, CONFIRMED, deadline, lease_owner)
                if record.status == PREPARING:
                    keep_records(state, [record], check_mode)
            context = Context(engine, state, ledger, record, host, lease_owner)
            # Who repairs by launching again has the standing rules back as well.
            standing = firewall_rules.standing_steps(nftables)
            stages = [standing, *session_stages(context, public_keys, check_mode, roles)]
            taken: list[float] = []
            if not check_mode:
                # A session that runs is repaired, which takes nothing away from what works again.
                taken = steps.perform(stages, undo=record.status != RUNNING)
        network, begin = steps.seconds_until("container", stages, taken)
        made: dict[str, Any] = {**steps.result(stages), "seconds": {"network": network, "start": begin}}
        if check_mode:
            return {**made, "replicas": []}
        from .peers import Peers

        peers = Peers(context.plan, host)
        started = time.monotonic()
        if roles is not None:
            return {**made, **await_roles(engine, context.plan, host, roles, timeout, bool(patience), check)}
        proof = prove(state, engine, context.plan, host, timeout, patience, check)
        made["seconds"]["ready"] = round(time.monotonic() - started, 3)
        return {**made, **proof}


@contextmanager
def _telling_peers(
    state: StateDirectory, ledger: LedgerFile, record: Record, host: str, lease_owner: str, nftables: bool
) -> Iterator[None]:
    """Have the other hosts of a session told where it cannot be started here.

    That ends with the session's removal here, which is what comes next. Nothing is told where somebody else has removed
    it, or goes on with it.
    """
    try:
        yield
    except Exception:
        with suppress(SessionError, OSError), state.working_on(record.id, GIVE_UP_SECONDS):
            held, here = ledger.read().get(record.id), state.session(record.id).read_record()
            is_mine = held is not None and held.lease_owner in ("", lease_owner)  # the start itself makes it nobody's
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
) -> dict[str, Any]:
    """Wait until the replicas of some roles here are ready; return ``begun``, their names, or else ``unproven``, why.

    waits, check: as in `wait_until_ready`. Raises VerificationFailed, and what *check* does.
    """
    replicas = [replica for replica in plan.on(host) if replica.role in roles]
    try:
        deadline = time.monotonic() + timeout
        ready = wait_until_ready(engine, plan, replicas, deadline, waits=waits, check=check, healthy=True)
    except PeersSilent as error:
        return {"unproven": str(error)}
    return {"begun": [replica["name"] for replica in ready]}


def prove(
    state: StateDirectory,
    engine: Engine,
    plan: Plan,
    host: str,
    timeout: float,
    patience: float,
    check: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Prove that the replicas here work; return ``replicas``, or ``unproven`` where peers did not answer in time.

    ``warnings`` says what programs of the replicas had changed of their names, which is put back.

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
        replicas = verify(engine, plan, host, timeout, session.read_public_keys(), patience, check, put_back)
    except PeersSilent as error:
        return {"unproven": str(error), **_warned(corrected)}
    if session.made_file.exists():
        remove_probes(session, plan.session.id)
    put_back()
    return {"replicas": replicas, **_warned(corrected)}


def _warned(corrected: list[str]) -> dict[str, list[str]]:
    return {"warnings": corrected} if corrected else {}
