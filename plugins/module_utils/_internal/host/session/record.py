# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""A session's record on this host, and its reservation here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ...adapters.engine import EngineError
from ...adapters.ledger import LedgerError, refused_change
from ...core.model.claims import COMMITTED, Claim, Ledger
from ...core.model.decode import encode
from ...core.model.record import PREPARING, started
from ...core.rules import ledger as rules
from ...core.rules.ledger import claim_of
from ..reservation import labelled_claims
from ..steps import Stage, Step
from .context import Context


def place_steps(context: Context, found: Mapping[str, object], check_mode: bool) -> Stage:
    """Return the step to reserve resources before a replica of a running session is created, if any.

    found: its existing containers. Raises EngineError and LedgerError if the resources of a missing replica are neither
    held nor free any more.
    """
    claim = claim_of(context.plan, context.host)
    held = context.ledger.read()
    mine = held.get(claim.session_id)
    if context.amendment is None:
        if _is_complete(context, found):
            return []
        if mine is None:
            _require_place(context, claim, held, bool(found))
            return []
        change_id, lease_owner = None, None
    else:
        change_id, lease_owner = context.amendment.change_id, context.amendment.lease_owner
    is_covered = mine is not None and (mine.stage != COMMITTED or rules.covers(mine.claim, claim))
    if is_covered and change_id not in held:
        return []
    untracked = labelled_claims(context.engine.session_containers())
    if not check_mode or change_id is None:  # check mode has leased nothing
        wanted, reasons = rules.amended(claim, held, untracked, context.allocatable, change_id, lease_owner)
        if wanted is None:
            raise LedgerError(refused_change(claim, reasons))
    amend = partial(context.ledger.amend, claim, untracked, context.allocatable, change_id, lease_owner)
    before = None if mine is None else encode(mine.claim)
    return [Step("commit", "reservation", context.session.name, amend, before=before, after=encode(claim))]


def _is_complete(context: Context, found: Mapping[str, object]) -> bool:
    return all(replica.name in found for replica in context.replicas)


def _require_place(context: Context, claim: Claim, held: Ledger, is_partly_there: bool) -> None:
    """Reject replicas whose reservation was lost and whose resources are not free.

    If the capacity is unknown, or the session still has a part of its reservation, only named resources of other
    sessions block it.
    """
    untracked = labelled_claims(context.engine.session_containers())
    if context.allocatable is not None and (context.arriving or not is_partly_there):
        reasons = rules.answer(claim, held, untracked, context.allocatable).reasons
    else:
        reasons = tuple(rules.collisions(claim, [*(reservation.claim for reservation in held.values()), *untracked]))
    if reasons:
        raise EngineError(
            f"The place of session {context.session.name} on {context.host} was lost and is taken by now: "
            + " ".join(reasons)
        )


def record_steps(context: Context) -> Stage:
    """Return the step for the record of a running session, if any.

    If the step is undone, such as when the lease was released before it could be committed, the record has the status
    of a session that is being started again. Nothing else shows that the rest of it is incomplete.
    """
    wanted = started(context.record)
    found = context.directory.read_record()
    if found is not None and found.revision >= wanted.revision and found.plan is not None:
        return []
    undo = None if found is None else partial(context.directory.write_record, found)
    if found is not None and found.status == PREPARING:
        found = None  # it belongs to this launch
    return [
        Step(
            "update" if found else "create",
            "record",
            context.session.name,
            partial(context.directory.write_record, wanted),
            undo,
            before=found and {"status": found.status, "revision": found.revision},
            after={"status": wanted.status, "revision": wanted.revision},
        )
    ]


def commit_steps(context: Context, is_amended: bool) -> Stage:
    """Make the reservation last as long as the session. If the ledger has lost it, it is restored.

    What the session no longer needs is released. is_amended: whether `place_steps` reserve before.
    """
    session_id = context.session.id
    held = context.ledger.read().get(session_id)
    claim = claim_of(context.plan, context.host)
    is_exact = is_amended if held is None else held.stage == COMMITTED and rules.covers(claim, held.claim)
    if is_exact:
        return []
    commit = partial(context.ledger.commit, claim, context.lease_owner)
    return [
        Step(
            "commit",
            "reservation",
            context.session.name,
            commit,
            partial(context.ledger.release, session_id),
            before=held.stage if held else None,
            after=COMMITTED,
        )
    ]
