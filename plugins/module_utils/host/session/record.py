# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""A session's record on this host, and the place that it holds here."""

from __future__ import annotations

from functools import partial

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import PREPARING, started
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules import ledger as rules
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.ledger import COMMITTED, claims_of
from ansible_collections.cluster_compute.session.plugins.module_utils.host.reservation import labelled_claims
from ansible_collections.cluster_compute.session.plugins.module_utils.host.session.context import Context
from ansible_collections.cluster_compute.session.plugins.module_utils.host.steps import Stage, Step


def require_place(context: Context, is_partly_there: bool) -> None:
    """Refuse to bring back replicas whose place is neither held nor free any more.

    Where nobody says what room there is, or the session still has a part of its place, only what others have by
    name is in the way.
    """
    claim = claims_of(context.plan)[context.host]
    held = context.ledger.read()
    if claim.session_id in held:
        return
    untracked = labelled_claims(context.engine.session_containers())
    if context.allocatable is not None and not is_partly_there:
        reasons = rules.answer(claim, held, untracked, context.allocatable).reasons
    else:
        reasons = tuple(rules.collisions(claim, [*(reservation.claim for reservation in held.values()), *untracked]))
    if reasons:
        raise EngineError(
            f"The place of session {context.session.name} on {context.host} was lost and is taken by now: "
            + " ".join(reasons)
        )


def record_steps(context: Context) -> Stage:
    """Return what is missing of the record of a session that runs: one step or none.

    Undone, as when the lease was given back before it could be committed, the record says again that the session is
    being started: nothing else tells that what remains of it is half a session.
    """
    wanted = started(context.record)
    found = context.directory.read_record()
    if found is not None and found.revision >= wanted.revision and found.plan is not None:
        return []
    undo = None if found is None else partial(context.directory.write_record, found)
    if found is not None and found.status == PREPARING:
        found = None  # it stands for this very launch
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


def commit_steps(context: Context) -> Stage:
    """Make the reservation last as long as the session; a ledger that lost it gets it back."""
    session_id = context.session.id
    held = context.ledger.read().get(session_id)
    if held is not None and held.stage == COMMITTED:
        return []
    claim = claims_of(context.plan)[context.host]
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
