# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Create, start, change and remove this host's part of a session, one state in each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...adapters.ledger import LedgerError, LedgerFile
from ...adapters.state import StateDirectory, StateError
from ...adapters.suspicion import SuspicionFile
from ...core.model.call.base import Call
from ...core.model.call.session_host import (
    Agree,
    Amend,
    CheckProbes,
    Hold,
    HoldName,
    KeepStub,
    Release,
    Remove,
    SessionAnswer,
    Start,
    Verify,
    WriteProbes,
    claimed,
)
from ...core.model.host_parts import KnownSession
from ...core.model.record import RUNNING, Record, Tombstone
from ...core.values.errors import CoreError, SessionError, is_of_host, message_of

if TYPE_CHECKING:
    from ...adapters.engine import Engine
    from ...core.model.claims import Claim
    from ..data import SessionData
    from ..output import LogArchive

# Each step imports what it needs. The imports of the other steps would take a tenth of a second.


def _held(request: Hold, check_mode: bool) -> SessionAnswer:
    """Hold the claim if it fits, and create the keys under the lease."""
    if _is_change(request.claim, request.record):
        from ..change_steps import hold
    else:
        from ..launch_steps import hold
    return hold(*_files(request), request, check_mode)


def _files(request: Hold | Start | Amend | Agree) -> tuple[StateDirectory, LedgerFile]:
    return StateDirectory(request.state_directory), LedgerFile(request.state_directory)


def _is_change(claim: Claim, record: Record) -> bool:
    """Return whether a claim belongs to a change, so that it has what a running session needs in addition."""
    return record.status == RUNNING and claim.session_id != record.id


def _named(request: HoldName, check_mode: bool) -> SessionAnswer:
    """Hold the session's name, on a host that carries no replica of it."""
    from ..reservation import lease_name

    state = StateDirectory(request.state_directory)
    ledger = LedgerFile(request.state_directory)
    seconds = request.lease_seconds + request.turns_seconds
    answer = lease_name(state, ledger, request.claim, seconds, request.lease_owner, check_mode)
    return claimed(answer)  # nothing of it is left


def _started(request: Start, check_mode: bool) -> SessionAnswer:
    """Create this host's part of the plan, and check that it works."""
    from ..launch_steps import start

    return start(*_files(request), request, check_mode)


def _released(request: Release, check_mode: bool) -> SessionAnswer:
    """Release what the launch holds."""
    from ..reservation import release

    state, ledger = StateDirectory(request.state_directory), LedgerFile(request.state_directory)
    claim, record, lease_owner = request.claim, request.record, request.lease_owner
    if record is None:
        return SessionAnswer(changed=release(ledger, claim, lease_owner, check_mode))
    if _is_change(claim, record):
        from .. import change_steps

        return change_steps.release(state, ledger, claim.session_id, record, lease_owner, check_mode)
    from ..launch_steps import roll_back

    return roll_back(state, ledger, record, lease_owner, check_mode)


def _amended(request: Amend, check_mode: bool) -> SessionAnswer:
    """Change this host's part of a running session to a new revision of its record."""
    from ..change_steps import amend

    return amend(*_files(request), request, _kept_output(request), check_mode)


def _agreed(request: Agree, check_mode: bool) -> SessionAnswer:
    """Agree to a change of a session that has lost a host, and store its remaining hosts."""
    from ..change_steps import agree

    return agree(*_files(request), request, check_mode)


def _probe_written(request: WriteProbes, check_mode: bool) -> SessionAnswer:
    """Create missing directories, and write into those that hosts share."""
    actions = _data(request).prepare(request.lease_owner, check_mode)
    return SessionAnswer(changed=bool(actions), actions=tuple(actions))


def _probe_checked(request: CheckProbes, check_mode: bool) -> SessionAnswer:
    """Read the files of other hosts in shared directories. In check mode there are none."""
    if not check_mode:
        _data(request).check_probes(request.lease_owner)
    return SessionAnswer(actions=())


def _data(request: WriteProbes | CheckProbes) -> SessionData:
    """Return the data of the session on this host. Raises InvalidPlan."""
    from ...core.model.plan import read_plan
    from ..data import SessionData

    record = request.record
    session = StateDirectory(request.state_directory).session(record.id)
    return SessionData(record, read_plan(record.plan), request.host, session)


def _stub(request: KeepStub, check_mode: bool) -> SessionAnswer:
    """Store a stub record, on a host that carries no replica."""
    from .. import steps
    from ..prepare import keep_stub

    actions, unwritten = keep_stub(
        StateDirectory(request.state_directory),
        LedgerFile(request.state_directory),
        request.record,
        lease_owner=request.lease_owner,
        recorded=request.recorded,
        looked=request.looked,
        check_mode=check_mode,
    )
    return steps.made(actions, SessionAnswer(unwritten=unwritten))


def _verified(request: Verify, check_mode: bool) -> SessionAnswer:
    """Check that the replicas work, or that those of some roles are ready. In check mode there may be none yet."""
    from ...adapters.engine import Engine
    from ...core.model.plan import read_plan
    from ..launch_steps import await_roles
    from ..verify import verify

    if check_mode:
        return SessionAnswer(replicas=())
    record, host, timeout = request.record, request.host, request.timeout
    plan = read_plan(record.plan)
    if request.roles is not None:
        return await_roles(Engine.connect(), plan, host, request.roles, timeout)
    session = StateDirectory(request.state_directory).session(record.id)
    replicas = verify(Engine.connect(), plan, host, timeout, session.read_public_keys())
    if session.made_file.exists():
        from ..data import remove_probes

        remove_probes(session, record.id)
    return SessionAnswer(replicas=tuple(replicas))


def _absent(request: Remove, check_mode: bool) -> SessionAnswer:
    """Remove all parts of the session on this host."""
    from ...adapters.engine import PATIENCE, Engine
    from .. import owner, removal

    engine = Engine.connect(PATIENCE)
    state = StateDirectory(request.state_directory)
    ledger = LedgerFile(request.state_directory, forgiving=True)
    name, wanted, change_id = request.session_name, request.session_id, request.change_id
    others = removal.sessions_of_others(engine, state, name, wanted, request.scope)
    if name is not None:
        owner.check(engine, state, name, request.asker, others)
        is_whole = wanted is None and not others
        if is_whole and not check_mode:
            with suppress(SessionError, OSError):
                # First, also on hosts without any part of it. A running launch or repair finds it, or is found below.
                ledger.remember_removal(name, request.lease_owner)
    known = removal.known_sessions(engine, state, ledger, name, wanted)
    sessions = [session for session in known if session.id not in others]
    found = SessionAnswer(
        actions=(),
        sessions=tuple(sessions),
        elsewhere=tuple(others.values()),
        tombstones=_tombstones(state, name),
    )
    with ExitStack() as locks:
        for session in sessions:
            locks.enter_context(state.working_on(session.id))
        judged = (wanted or "", request.unless_reserved, request.judged_revision, change_id)
        if removal.has_moved_on(state, ledger, *judged):
            if change_id is not None:  # what leaves this host would continue to run while it starts elsewhere
                raise StateError("Its session was changed while this run was at work. Try again.")
            return found
        if not check_mode:
            _remember_part(ledger, request)
        return _remove_parts(engine, state, ledger, request, found, check_mode)


def _remove_parts(
    engine: Engine,
    state: StateDirectory,
    ledger: LedgerFile,
    request: Remove,
    found: SessionAnswer,
    check_mode: bool,
) -> SessionAnswer:
    """Remove the parts of the sessions that were found. Return the answer with what was removed."""
    from .. import removal, steps
    from ..prepare import keep_records

    archive = None if request.undo else _archive(engine, state, request)
    terms = removal.Terms(
        keep_record=request.keep_record,
        undo=request.undo,
        keep_data=request.keep_data,
        archive=archive,
        left=request.record,
        change_id=request.change_id,
    )
    # What others have of that name stays, so that each session is removed by its id.
    sessions = [session.id for session in found.sessions or ()]
    parts: dict[str | None, list[str]] = (
        {key: [key] for key in sessions} if found.elsewhere else {request.session_id: sessions}
    )
    stages = []
    for part, ids in parts.items():
        stages += removal.removal_stages(engine, state, ledger, request.session_name, part, ids, terms)
    records = [] if request.record is None else [request.record]
    with suppress(SessionError, OSError):
        # First, so that no record has the status of a running session after its parts are removed. A full disk
        # must not prevent that.
        keep_records(state, records, check_mode, request.recorded)
    if check_mode:
        return steps.result(stages, found)
    # Check mode cannot detect what an engine keeps, because only its rejection shows this.
    stages, warnings = removal.remove(stages)
    keep_records(state, records, check_mode, request.recorded)
    warnings += _finished(archive, found.sessions or ())
    return steps.result(stages, replace(found, warnings=tuple(warnings)))


def _tombstones(state: StateDirectory, name: str | None) -> tuple[Tombstone, ...]:
    """Return the tombstones of sessions with this name; of all for None."""
    return tuple(tombstone for tombstone in state.tombstones() if name in (None, tombstone.name))


def _remember_part(ledger: LedgerFile, request: Remove) -> None:
    """Remember that a part is removed whose session goes on, with the record that still has it.

    A repair with older facts would start that again.
    """
    if request.keep_record and request.record is None and not request.undo:
        with suppress(SessionError, OSError):
            ledger.remember_removal(request.session_id or "", None)


def _finished(archive: LogArchive | None, sessions: Iterable[KnownSession]) -> list[str]:
    """Finish the archive of a removal, and return what could not be kept."""
    if archive is None:
        return []
    archive.finish(sessions)
    return archive.problems


def _archive(engine: Engine, state: StateDirectory, request: Remove) -> LogArchive:
    """Return the archive for the output of containers. Raises SessionError for an invalid size."""
    from ..output import LogArchive

    return LogArchive(engine, state, *_kept_output(request))


def _kept_output(request: Amend | Remove) -> tuple[int, float, int]:
    """Return how much output of a replica to keep, for how many seconds, and for how many sessions."""
    from ...core.rules.output import parse_keep_size

    size = parse_keep_size(request.output_size)
    return size, request.output_days * 86400, request.output_sessions


STATES: Mapping[type[Call], Callable[[Any, bool], SessionAnswer]] = {
    Hold: _held,
    HoldName: _named,
    Start: _started,
    Release: _released,
    Amend: _amended,
    Agree: _agreed,
    WriteProbes: _probe_written,
    CheckProbes: _probe_checked,
    KeepStub: _stub,
    Verify: _verified,
    Remove: _absent,
}


MAKING = (Hold, Start, Amend, WriteProbes, CheckProbes, Verify)
"""States in which a failure of the host itself makes it suspect."""


STARTING = (Start, Amend, Verify)
"""States in which replicas start. If that fails, the host tests if it is the cause."""


def _fault(error: SessionError | OSError, request: Call) -> SessionError | OSError | None:
    """Return the error if the host itself is the cause. None if it is the session or something else."""
    if is_of_host(error):
        return error if isinstance(request, MAKING) else None
    if not isinstance(request, STARTING) or isinstance(error, (CoreError, StateError, LedgerError)):
        return None
    from ..engine_trial import host_fault
    from ..verify import PeersSilent

    return None if isinstance(error, PeersSilent) else host_fault(error)


def call(request: Call, check_mode: bool) -> SessionAnswer:
    """Run the requested state. Raises SessionError, OSError."""
    try:
        answer = STATES[type(request)](request, check_mode)
    except (SessionError, OSError) as error:
        fault = None if check_mode else _fault(error, request)
        if fault is None or not isinstance(request, MAKING):
            raise
        SuspicionFile(request.state_directory).remember(message_of(fault))
        if fault is error:
            raise
        raise fault from error
    if isinstance(request, Start) and answer.changed and not check_mode:
        SuspicionFile(request.state_directory).forget()
    return answer
