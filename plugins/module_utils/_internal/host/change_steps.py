# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Steps of one host to change a running session: hold what it needs in addition, release that, and change.

The session continues in the meantime, so its record and its own claim do not change until the change is certain. The
lease is a separate claim with the id of the change. It names its session (`Claim.amends`), so that nothing that is
created under it counts as orphaned. A new replica is expected (`SessionDirectory.expect`) until it was started. Only a
controller starts it, because this host cannot know whether the replica still runs elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..adapters.engine import PATIENCE, Engine
from ..adapters.ledger import LedgerFile
from ..adapters.state import StateDirectory, StateError
from ..core.model.call.base import failed
from ..core.model.call.session_host import Agree, Amend, Hold, SessionAnswer, claimed
from ..core.model.claims import COMMITTED, ClaimAnswer
from ..core.model.decode import encode
from ..core.model.patch import digest, patched
from ..core.model.plan import Plan, read_plan
from ..core.model.record import PublicKeys, Record, is_stub, read_record, stub_of
from ..core.values.errors import SessionError
from . import reservation, steps
from .data import SessionData, remove_probes
from .durations import carry_on
from .launch_steps import make_under_lease, prove
from .output import LogArchive
from .prepare import keep_out
from .removal import Terms, removal_stages, remove
from .session.containers import foreign_containers
from .session.context import Amendment, Context, Upkeep, has_ssh
from .session.stages import session_stages


def hold(state: StateDirectory, ledger: LedgerFile, request: Hold, check_mode: bool) -> SessionAnswer:
    """Lease what a changed session needs in addition here, and create what its replicas need under the lease.

    Returns what `launch_steps.hold` returns, including a failure. If the lease is not granted, nothing is left.
    """
    record, host, lease_owner = request.record, request.host, request.lease_owner
    claim, plan = replace(request.claim, amends=record.id), read_plan(record.plan)
    seconds = request.lease_seconds + request.turns_seconds
    engine = Engine.connect()
    leased, answer = reservation.lease(ledger, claim, request.allocatable, seconds, lease_owner, check_mode)
    if answer.granted and claim.replicas and (reasons := _why_no_replicas(state, engine, plan, host)):
        if not check_mode:
            ledger.release(claim.session_id, lease_owner)
        answer = ClaimAnswer(False, tuple(reasons))
    result = claimed(answer)
    if not answer.granted:
        return result
    try:
        with state.working_on(record.id):
            _refuse_if_changed(state, ledger, record, request, check_mode)
            if host not in record.hosts:  # it leaves and holds only the change, or has to agree to it
                _require_known(state, record, host)
                return replace(result, changed=leased, public_keys={})
            session = state.session(record.id)
            here = _names(state, record.id)
            for name in plan.hosts[host].replicas if not check_mode else ():
                if name not in here:
                    session.expect(name)
            data = SessionData(record, plan, host, session)
            data.is_new = not here
            made = make_under_lease(result, data, plan, lease_owner, False, check_mode)
    except (SessionError, OSError) as error:
        undone = release(state, ledger, claim.session_id, record, lease_owner, check_mode)
        return failed(error, replace(result, warnings=undone.warnings))
    return replace(made, changed=leased or made.changed)


def _why_no_replicas(state: StateDirectory, engine: Engine, plan: Plan, host: str) -> list[str]:
    """Return why no replicas of a session can come to this host, where a lease is held for them."""
    # After the lease: either a drain of the host sees the lease, or this sees the drain.
    drain = state.read_drain()
    return [str(drain)] if drain is not None else foreign_containers(engine, plan, host, _names(state, plan.session.id))


def _names(state: StateDirectory, session_id: str) -> set[str]:
    """Return the replicas that the record here assigns to this host."""
    session = state.session(session_id)
    record = session.read_record()
    if record is None or record.plan is None:
        return set()
    host = session.name_in(record)
    return {replica.name for replica in read_plan(record.plan, forgiving=True).on(str(host))}


def _refuse_if_changed(
    state: StateDirectory, ledger: LedgerFile, record: Record, request: Hold | Amend | Agree, check_mode: bool
) -> None:
    """Raise StateError if the session was torn down since the run collected facts, or changed by another run."""
    found = state.session(record.id).read_record()
    was_removed = not check_mode and ledger.was_removed(record.name, record.id, request.looked, request.lease_owner)
    if was_removed or (found is None and record.id in request.recorded):
        raise StateError(f"Session {record.name} was torn down while this run was at work.")
    if found is not None and found.revision >= record.revision:
        is_other = encode(found) != encode(record) if not is_stub(found) else found.hosts != record.hosts
        if found.revision > record.revision or is_other:
            raise StateError(f"Session {record.name} was changed while this run was at work. Try again.")


def _require_known(state: StateDirectory, record: Record, host: str) -> Record:
    """Return the copy on this host. Raises StateError if there is none, as a host may have lost its data."""
    found = state.session(record.id).read_record()
    if found is None:
        raise StateError(f"Session {record.name} is not known here, so {host} does not agree to a change of it.")
    return found


def agree(state: StateDirectory, ledger: LedgerFile, request: Agree, check_mode: bool) -> SessionAnswer:
    """Store the stub of a session that continues without a host, and release the lease of its change here.

    Raises StateError if this host has other data of the session or none, because it may have agreed to another change
    and lost that. Also raises it if another run holds a change of the session, because the lease of this run has then
    expired.
    """
    record, host, lease_owner = request.record, request.host, request.lease_owner
    stub = stub_of(record)
    with state.working_on(record.id):
        _refuse_if_changed(state, ledger, record, request, check_mode)
        found = _require_known(state, record, host)
        held = [held for held in ledger.read().values() if held.claim.amends == record.id]
        is_taken = any(other.lease_owner != lease_owner for other in held)
        is_rival = found.revision == request.judged_revision and {*found.hosts} != {*request.judged_hosts}
        if is_taken or is_rival:
            raise StateError(f"Session {record.name} was changed while this run was at work. Try again.")
        actions = [] if found.revision >= record.revision else [f"update record {record.name}"]
        if actions and not check_mode:
            state.session(record.id).write_record(stub)
        if host not in record.hosts:
            actions += keep_out(stub, check_mode)
        if not check_mode and host not in record.hosts:
            ledger.release(request.change_id, lease_owner)
    return SessionAnswer(changed=bool(actions), actions=tuple(actions))


def release(
    state: StateDirectory, ledger: LedgerFile, change_id: str, record: Record, lease_owner: str, check_mode: bool
) -> SessionAnswer:
    """Release what is leased for a change here, with everything that was created under it.

    Returns whether anything was leased, and as actions what else was removed. What another run holds for the same
    session stays, and what the record here gives to this host.
    """
    held = ledger.read().get(change_id)
    mine = held is not None and held.stage != COMMITTED and held.lease_owner == lease_owner
    if check_mode:
        return SessionAnswer(changed=mine, actions=())
    with state.working_on(record.id):
        answer = SessionAnswer(changed=ledger.release(change_id, lease_owner) or mine, actions=())
        others = [claimed for claimed in ledger.read().values() if claimed.claim.amends == record.id]
        session = state.session(record.id)
        if others or not session.exists():
            return answer
        found = session.read_record()
        if found is None or is_stub(found):
            engine = Engine.connect(PATIENCE)
            terms = Terms(keep_record=found is not None, undo=True)
            stages = removal_stages(engine, state, ledger, None, record.id, [], terms)
            gone, warnings = remove(stages)
            return replace(answer, actions=tuple(steps.descriptions(gone)), warnings=tuple(warnings))
        left = [name for name in session.replica_names() if name not in _names(state, record.id)]
        for name in left:
            session.remove_replica(name)
        if session.made_file.exists():
            remove_probes(session, record.id)
    return replace(answer, actions=tuple(f"remove files of replica {name}" for name in left))


def amend(
    state: StateDirectory, ledger: LedgerFile, request: Amend, keep: tuple[int, float, int], check_mode: bool
) -> SessionAnswer:
    """Change this host's part of a running session to a new revision of its record.

    keep: how much output of removed replicas to keep, for how many seconds, of how many sessions.

    Returns the changes, how long they took, and if that is requested what `launch_steps.prove` does; or ``stale`` if a
    patch does not match the record on this host. Raises StateError if another run has changed the session, and
    what `session_stages` and `verify` raise.
    """
    record, patch, host = request.record, request.patch, request.host
    engine = Engine.connect(PATIENCE)
    session_id = str((patch or {}).get("id")) if record is None else record.id
    with state.working_on(session_id):
        session = state.session(session_id)
        found = session.read_record()
        if record is None:
            record = _patched(found, patch or {}, session_id)
        if record is None:
            return _stale(found)
        _refuse_if_changed(state, ledger, record, request, check_mode)
        if host not in record.hosts:
            raise StateError(f"Session {record.name} has no replica on {host} any more, so nothing is changed there.")
        plan, known = read_plan(record.plan), {**session.read_public_keys(), **request.public_keys}
        if patch is not None and not _has_every_key(plan, known):
            return _stale(found)
        archive = LogArchive(engine, state, *keep)
        upkeep = Upkeep(request.allocatable, Amendment(request.change_id, request.lease_owner), archive)
        context = Context(engine, state, ledger, record, host, "", upkeep)
        context.data.is_new |= not _names(state, session_id)
        if not check_mode:
            session.note_undecided(request.undecided)  # this decides the answer to lost hosts
        stages = session_stages(context, known, check_mode, containers_too=request.containers)
        taken = [] if check_mode else _perform(context, stages, archive, request.ran)
    network, begin = steps.seconds_until("container", stages, taken)
    seconds = {"network": network, "start": begin}
    proof = SessionAnswer(replicas=() if request.prove else None)
    if request.prove and not check_mode:
        begun = time.monotonic()
        proof = prove(state, engine, plan, host, request.timeout, request.patience)
        seconds["ready"] = round(time.monotonic() - begun, 3)
    return steps.result(stages, replace(proof, seconds=seconds, warnings=(*archive.problems, *proof.warnings)))


def _patched(found: Record | None, patch: Mapping[str, Any], session_id: str) -> Record | None:
    """Return the record that *patch* makes of the one on this host. None if it does not match that."""
    if found is None or is_stub(found) or found.revision != patch.get("from"):
        return None
    plain = encode(found)
    if patch.get("digest") not in (None, digest(plain)):  # another one of the same revision
        return None
    return read_record(patched(plain, patch.get("changes") or {}), session_id)


def _has_every_key(plan: Plan, known: PublicKeys) -> bool:
    """Return whether the keys of all replicas that have some are known."""
    return not has_ssh(plan) or known.keys() >= {replica.name for replica in plan.replicas}


def _perform(context: Context, stages: list[steps.Stage], archive: LogArchive, ran: int) -> list[float]:
    """Perform the steps of a change, and return how long each stage took. ran: as in Amend."""
    record = context.record
    context.ledger.admit(record.name, record.id)
    taken = steps.perform(stages, undo=False)
    if ran:
        carry_on(context.directory, ran)
    archive.note(record)
    return taken


def _stale(found: Record | None) -> SessionAnswer:
    revision = None if found is None else found.revision
    return SessionAnswer(changed=False, actions=(), stale=True, revision=revision)
