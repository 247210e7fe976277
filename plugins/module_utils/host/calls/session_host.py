# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Bring this host's part of a session through its life: one state a call."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any, Callable

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError

# Each step imports what it needs: a host would spend a tenth of a second on what the other steps need.


def _held(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Hold the claim if it fits, and make the keys under the lease."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.ledger import Claim
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.launch_steps import hold

    return hold(
        StateDirectory(asked["state_directory"]),
        LedgerFile(asked["state_directory"]),
        Claim.from_dict(asked["claim"]),
        asked["allocatable"],
        asked["record"],
        asked["host"],
        check_mode=check_mode,
        **{key: asked[key] for key in ("lease_owner", "lease_seconds", "regenerate_keys", "recorded")},
    )


def _named(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Hold the session's name, on a host that carries no replica of it."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.ledger import Claim
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.reservation import lease_name

    state = StateDirectory(asked["state_directory"])
    ledger = LedgerFile(asked["state_directory"])
    claim = Claim.from_dict(asked["claim"])
    answer = lease_name(state, ledger, claim, asked["lease_seconds"], asked["lease_owner"], check_mode)
    return {
        "changed": False,  # nothing of it stays
        "granted": answer.granted,
        "reasons": list(answer.reasons),
        "tentative": list(answer.tentative),
        "actions": [],
    }


def _started(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Make what the plan gives to this host, and prove that it works."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.launch_steps import start

    return start(
        StateDirectory(asked["state_directory"]),
        LedgerFile(asked["state_directory"]),
        asked["record"],
        asked["host"],
        asked["public_keys"],
        lease_owner=asked["lease_owner"] or "",
        deadline=asked["deadline_seconds"],
        check_mode=check_mode,
        **{key: asked[key] for key in ("timeout", "patience", "recorded")},
    )


def _released(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Give back what the launch holds."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.ledger import Claim
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.reservation import release

    ledger = LedgerFile(asked["state_directory"])
    if asked["record"] is not None:
        from ansible_collections.cluster_compute.session.plugins.module_utils.host.launch_steps import roll_back

        state = StateDirectory(asked["state_directory"])
        changed, actions = roll_back(state, ledger, asked["record"], asked["lease_owner"], check_mode)
        return {"changed": changed, "actions": actions}
    return {"changed": release(ledger, Claim.from_dict(asked["claim"]), asked["lease_owner"], check_mode)}


def _probe_written(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Make missing folders, and write into those that hosts share."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.data import SessionData

    session = StateDirectory(asked["state_directory"]).session(asked["record"]["id"])
    actions = SessionData(asked["record"], asked["host"], session).prepare(asked["lease_owner"], check_mode)
    return {"changed": bool(actions), "actions": actions}


def _probe_checked(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Read in shared folders what other hosts wrote; in check mode there is nothing."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.data import SessionData

    session = StateDirectory(asked["state_directory"]).session(asked["record"]["id"])
    if not check_mode:
        SessionData(asked["record"], asked["host"], session).check_probes(asked["lease_owner"])
    return {"actions": []}


def _stub(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Keep a stub record, on a host that carries no replica."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.prepare import keep_stub

    actions = keep_stub(
        StateDirectory(asked["state_directory"]),
        LedgerFile(asked["state_directory"]),
        asked["record"],
        lease_owner=asked["lease_owner"],
        recorded=asked["recorded"],
        check_mode=check_mode,
    )
    diff = {"before": "", "after": "".join(f"{action}\n" for action in actions)}
    return {"changed": bool(actions), "actions": actions, "diff": diff}


def _verified(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Prove that the replicas work; in check mode there may be none yet."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.verify import verify

    if check_mode:
        return {"replicas": []}
    session = StateDirectory(asked["state_directory"]).session(asked["record"]["id"])
    keys = session.read_public_keys()
    replicas = verify(Engine.connect(), asked["record"]["plan"], asked["host"], asked["timeout"], keys)
    if session.made_file.exists():
        from ansible_collections.cluster_compute.session.plugins.module_utils.host.data import remove_probes

        remove_probes(session, asked["record"]["id"])
    return {"replicas": replicas}


def _absent(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Remove everything the session has on this host."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine
    from ansible_collections.cluster_compute.session.plugins.module_utils.host import removal, steps
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.prepare import keep_records

    engine = Engine.connect()
    state = StateDirectory(asked["state_directory"])
    ledger = LedgerFile(asked["state_directory"], forgiving=True)
    meant = (asked["session_name"], asked["session_id"])
    found = {
        "sessions": removal.known_sessions(engine, state, ledger, *meant),
        "tombstones": [one for one in state.tombstones() if meant[0] in (None, one["name"])],
    }
    known = [one["id"] for one in found["sessions"]]
    with ExitStack() as locks:
        for session_id in known:
            locks.enter_context(state.working_on(session_id))
        judged = (asked["session_id"], asked["unless_reserved"], asked["judged_revision"])
        if removal.has_moved_on(state, ledger, *judged):
            return {"actions": [], **found}
        archive = None if asked["undo"] else _archive(engine, state, asked)
        kept = {key: asked[key] for key in ("keep_record", "undo", "keep_data")}
        stages = removal.removal_stages(engine, state, ledger, *meant, known, archive=archive, **kept)
        records = [] if asked["record"] is None else [asked["record"]]
        with suppress(SessionError, OSError):
            # First, so that no record says that it runs when its parts are gone. A full disk must not keep them there.
            keep_records(state, records, check_mode, asked["recorded"])
        if not check_mode:
            steps.perform(stages)
            keep_records(state, records, check_mode, asked["recorded"])
            if archive is not None:
                archive.finish({one["id"]: one["name"] for one in found["sessions"]})
                found["warnings"] = archive.problems
    return {**steps.outcome(stages), **found}


def _archive(engine: Any, state: StateDirectory, asked: dict[str, Any]) -> Any:
    """Return what keeps the output of containers. Raises SessionError for what is no size."""
    from ansible_collections.cluster_compute.session.plugins.module_utils.core.output import parse_keep_size
    from ansible_collections.cluster_compute.session.plugins.module_utils.host.output import LogArchive

    size = parse_keep_size(asked["output_size"])
    return LogArchive(engine, state, size, asked["output_days"] * 86400, asked["output_sessions"])


STATES: dict[str, Callable[[dict[str, Any], bool], dict[str, Any]]] = {
    "held": _held,
    "named": _named,
    "started": _started,
    "released": _released,
    "probe_written": _probe_written,
    "probe_checked": _probe_checked,
    "stub": _stub,
    "verified": _verified,
    "absent": _absent,
}


def call(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring about the state that is asked for. Raises SessionError, OSError."""
    return STATES[asked["state"]](asked, check_mode)
