# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Create, start, change and remove this host's part of a session, one state in each call."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any, Callable

from ...adapters.ledger import LedgerError, LedgerFile
from ...adapters.state import StateDirectory, StateError
from ...adapters.suspicion import SuspicionFile
from ...core.model.record import RUNNING, read_record
from ...core.values.errors import CoreError, SessionError, is_of_host, message_of

# Each step imports what it needs. The imports of the other steps would take a tenth of a second.


def _held(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Hold the claim if it fits, and create the keys under the lease."""
    from ...core.model.claims import Claim
    from ..launch_steps import hold

    claim, seconds = Claim.from_dict(arguments["claim"]), arguments["lease_seconds"] + arguments["turns_seconds"]
    parts = (
        StateDirectory(arguments["state_directory"]),
        LedgerFile(arguments["state_directory"]),
        claim,
        arguments["allocatable"],
        arguments["record"],
        arguments["host"],
    )
    if _is_change(arguments):
        from .. import change_steps

        return change_steps.hold(*parts, _run_of(arguments), lease_seconds=seconds, check_mode=check_mode)
    return hold(
        *parts,
        lease_seconds=seconds,
        check_mode=check_mode,
        **{key: arguments[key] for key in ("lease_owner", "regenerate_keys", "recorded", "looked")},
    )


def _is_change(arguments: dict[str, Any]) -> bool:
    """Return whether a claim belongs to a change, so that it has what a running session needs in addition."""
    record = arguments["record"]
    return record is not None and record.status == RUNNING and arguments["claim"].get("session_id") != record.id


def _run_of(arguments: dict[str, Any]) -> Any:
    from ..change_steps import Run

    return Run(arguments["lease_owner"] or "", arguments["recorded"], arguments["looked"])


def _named(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Hold the session's name, on a host that carries no replica of it."""
    from ...core.model.claims import Claim
    from ..reservation import lease_name

    state = StateDirectory(arguments["state_directory"])
    ledger = LedgerFile(arguments["state_directory"])
    claim = Claim.from_dict(arguments["claim"])
    seconds = arguments["lease_seconds"] + arguments["turns_seconds"]
    answer = lease_name(state, ledger, claim, seconds, arguments["lease_owner"], check_mode)
    return {"changed": False, **answer.to_dict(), "actions": []}  # nothing of it is left


def _started(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Create this host's part of the plan, and check that it works."""
    from ..launch_steps import start

    return start(
        StateDirectory(arguments["state_directory"]),
        LedgerFile(arguments["state_directory"]),
        arguments["record"],
        arguments["host"],
        arguments["public_keys"],
        lease_owner=arguments["lease_owner"] or "",
        deadline=arguments["deadline_seconds"] + arguments["turns_seconds"],
        check_mode=check_mode,
        **{key: arguments[key] for key in ("timeout", "patience", "recorded", "looked", "roles")},
    )


def _released(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Release what the launch holds."""
    from ...core.model.claims import Claim
    from ..reservation import release

    ledger = LedgerFile(arguments["state_directory"])
    if _is_change(arguments):
        from .. import change_steps

        state, change_id = StateDirectory(arguments["state_directory"]), arguments["claim"]["session_id"]
        given = (change_id, arguments["record"], arguments["lease_owner"], check_mode)
        return change_steps.release(state, ledger, *given)
    if arguments["record"] is not None:
        from ..launch_steps import roll_back

        state = StateDirectory(arguments["state_directory"])
        return roll_back(state, ledger, arguments["record"], arguments["lease_owner"], check_mode)
    return {"changed": release(ledger, Claim.from_dict(arguments["claim"]), arguments["lease_owner"], check_mode)}


def _amended(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Change this host's part of a running session to a new revision of its record."""
    from ...core.model.claims import Allocatable
    from ..change_steps import amend

    allocatable = arguments["allocatable"]
    return amend(
        StateDirectory(arguments["state_directory"]),
        LedgerFile(arguments["state_directory"]),
        arguments["record"],
        arguments["patch"],
        arguments["host"],
        arguments["public_keys"],
        _run_of(arguments),
        allocatable=None if allocatable is None else Allocatable.from_dict(allocatable),
        prove_too=arguments["prove"],
        keep=_kept_output(arguments),
        check_mode=check_mode,
        **{key: arguments[key] for key in ("change_id", "containers", "undecided", "ran", "timeout", "patience")},
    )


def _agreed(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Agree to a change of a session that has lost a host, and store its remaining hosts."""
    from ..change_steps import agree

    return agree(
        StateDirectory(arguments["state_directory"]),
        LedgerFile(arguments["state_directory"]),
        arguments["record"],
        arguments["host"],
        _run_of(arguments),
        change_id=arguments["change_id"],
        known=(arguments["judged_revision"], arguments["judged_hosts"]),
        check_mode=check_mode,
    )


def _probe_written(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Create missing directories, and write into those that hosts share."""
    actions = _data(arguments).prepare(arguments["lease_owner"], check_mode)
    return {"changed": bool(actions), "actions": actions}


def _probe_checked(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Read the files of other hosts in shared directories. In check mode there are none."""
    if not check_mode:
        _data(arguments).check_probes(arguments["lease_owner"])
    return {"actions": []}


def _data(arguments: dict[str, Any]) -> Any:
    """Return the data of the session on this host. Raises InvalidPlan."""
    from ...core.model.plan import read_plan
    from ..data import SessionData

    record = arguments["record"]
    session = StateDirectory(arguments["state_directory"]).session(record.id)
    return SessionData(record, read_plan(record.plan), arguments["host"], session)


def _stub(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Store a stub record, on a host that carries no replica."""
    from ..prepare import keep_stub

    actions, unwritten = keep_stub(
        StateDirectory(arguments["state_directory"]),
        LedgerFile(arguments["state_directory"]),
        arguments["record"],
        lease_owner=arguments["lease_owner"],
        recorded=arguments["recorded"],
        looked=arguments["looked"],
        check_mode=check_mode,
    )
    diff = {"before": "", "after": "".join(f"{action}\n" for action in actions)}
    found = {"unwritten": unwritten} if unwritten else {}
    return {"changed": bool(actions), "actions": actions, "diff": diff, **found}


def _verified(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Check that the replicas work, or that those of some roles are ready. In check mode there may be none yet."""
    from ...adapters.engine import Engine
    from ...core.model.plan import read_plan
    from ..launch_steps import await_roles
    from ..verify import verify

    if check_mode:
        return {"replicas": []}
    plan, host, timeout = read_plan(arguments["record"].plan), arguments["host"], arguments["timeout"]
    if arguments["roles"] is not None:
        return await_roles(Engine.connect(), plan, host, arguments["roles"], timeout)
    session = StateDirectory(arguments["state_directory"]).session(arguments["record"].id)
    replicas = verify(Engine.connect(), plan, host, timeout, session.read_public_keys())
    if session.made_file.exists():
        from ..data import remove_probes

        remove_probes(session, arguments["record"].id)
    return {"replicas": replicas}


def _absent(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Remove all parts of the session on this host."""
    from ...adapters.engine import PATIENCE, Engine
    from .. import owner, removal, steps
    from ..prepare import keep_records

    engine = Engine.connect(PATIENCE)
    state = StateDirectory(arguments["state_directory"])
    ledger = LedgerFile(arguments["state_directory"], forgiving=True)
    meant = (arguments["session_name"], arguments["session_id"])
    others = removal.sessions_of_others(engine, state, *meant, arguments["scope"])
    if meant[0] is not None:
        owner.check(engine, state, meant[0], arguments["asker"], others)
    if meant[0] is not None and meant[1] is None and not others and not check_mode:
        with suppress(SessionError, OSError):
            # First, and also on hosts without any part of it. A running launch or repair finds it, or is found below.
            ledger.remember_removal(meant[0], arguments["lease_owner"])
    found: dict[str, list[Any]] = {
        "sessions": [
            known for known in removal.known_sessions(engine, state, ledger, *meant) if known["id"] not in others
        ],
        "elsewhere": list(others.values()),
        "tombstones": [tombstone for tombstone in state.tombstones() if meant[0] in (None, tombstone["name"])],
    }
    known = [session["id"] for session in found["sessions"]]
    with ExitStack() as locks:
        for session_id in known:
            locks.enter_context(state.working_on(session_id))
        judged = (arguments["session_id"], arguments["unless_reserved"], arguments["judged_revision"])
        change_id = arguments["change_id"]
        if removal.has_moved_on(state, ledger, *judged, change_id):
            if change_id is not None:  # what leaves this host would continue to run while it starts elsewhere
                raise StateError("Its session was changed while this run was at work. Try again.")
            return {"actions": [], **found}
        if arguments["keep_record"] and arguments["record"] is None and not arguments["undo"] and not check_mode:
            with suppress(SessionError, OSError):
                # Its record still has the part of this host, and a repair with older facts would start that again.
                ledger.remember_removal(arguments["session_id"], None)
        archive = None if arguments["undo"] else _archive(engine, state, arguments)
        kept = {key: arguments[key] for key in ("keep_record", "undo", "keep_data")}
        terms = removal.Terms(**kept, archive=archive, left=arguments["record"], change_id=change_id)
        parts = [((meant[0], key), [key]) for key in known] if others else [(meant, known)]
        stages = [
            stage for part, ids in parts for stage in removal.removal_stages(engine, state, ledger, *part, ids, terms)
        ]
        records = [] if arguments["record"] is None else [arguments["record"]]
        with suppress(SessionError, OSError):
            # First, so that no record has the status of a running session after its parts are removed. A full disk
            # must not prevent that.
            keep_records(state, records, check_mode, arguments["recorded"])
        if not check_mode:
            # Check mode cannot detect what an engine keeps, because only its rejection shows this.
            stages, found["warnings"] = removal.remove(stages)
            keep_records(state, records, check_mode, arguments["recorded"])
            if archive is not None:
                archive.finish({session["id"]: session for session in found["sessions"]})
                found["warnings"] += archive.problems
    return {**steps.result(stages), **found}


def _archive(engine: Any, state: StateDirectory, arguments: dict[str, Any]) -> Any:
    """Return the archive for the output of containers. Raises SessionError for an invalid size."""
    from ..output import LogArchive

    return LogArchive(engine, state, *_kept_output(arguments))


def _kept_output(arguments: dict[str, Any]) -> tuple[int, float, int]:
    """Return how much output of a replica to keep, for how many seconds, and for how many sessions."""
    from ...core.rules.output import parse_keep_size

    size = parse_keep_size(arguments["output_size"])
    return size, arguments["output_days"] * 86400, arguments["output_sessions"]


STATES: dict[str, Callable[[dict[str, Any], bool], dict[str, Any]]] = {
    "held": _held,
    "named": _named,
    "started": _started,
    "released": _released,
    "amended": _amended,
    "agreed": _agreed,
    "probe_written": _probe_written,
    "probe_checked": _probe_checked,
    "stub": _stub,
    "verified": _verified,
    "absent": _absent,
}


MAKING = ("held", "started", "amended", "probe_written", "probe_checked", "verified")
"""States in which a failure of the host itself makes it suspect."""


STARTING = ("started", "amended", "verified")
"""States in which replicas start. If that fails, the host tests if it is the cause."""


def _fault(error: SessionError | OSError, state: str) -> SessionError | OSError | None:
    """Return the error if the host itself is the cause. None if it is the session or something else."""
    if is_of_host(error):
        return error if state in MAKING else None
    if state not in STARTING or isinstance(error, (CoreError, StateError, LedgerError)):
        return None
    from ..engine_trial import host_fault
    from ..verify import PeersSilent

    return None if isinstance(error, PeersSilent) else host_fault(error)


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Run the requested state. Raises SessionError, OSError."""
    if arguments["record"] is not None:
        arguments = {**arguments, "record": read_record(arguments["record"])}
    try:
        answer = STATES[arguments["state"]](arguments, check_mode)
    except (SessionError, OSError) as error:
        fault = None if check_mode else _fault(error, arguments["state"])
        if fault is None:
            raise
        SuspicionFile(arguments["state_directory"]).remember(message_of(fault))
        if fault is error:
            raise
        raise fault from error
    if arguments["state"] == "started" and answer.get("changed") and not check_mode:
        SuspicionFile(arguments["state_directory"]).forget()
    return answer
