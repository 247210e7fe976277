# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reserve capacity of this host. The ledger and the labels of the containers together define what is held."""

from __future__ import annotations

from collections.abc import Iterable

from ..adapters import engine_objects
from ..adapters.engine import Engine
from ..adapters.engine_objects import Container
from ..adapters.ledger import LedgerFile
from ..adapters.state import StateDirectory
from ..core.model import claims
from ..core.model.claims import Allocatable, Claim, ClaimAnswer
from ..core.model.record import ENDED, PENDING
from ..core.rules import ledger as rules
from ..core.values.errors import printable


def labelled_claims(containers: Iterable[Container]) -> list[Claim]:
    """Return what the containers of sessions use of this host from their labels, as one claim for each session."""
    claims: dict[str, Claim] = {}
    for entry in containers:
        labels = entry.labels
        before = claims.get(labels.session_id)
        claims[labels.session_id] = Claim(
            session_id=labels.session_id,
            session_name=labels.session_name,
            replicas=(before.replicas if before else 0) + 1,
            cpus=(before.cpus if before else 0) + labels.number(engine_objects.LABEL_CPUS),
            memory=(before.memory if before else 0) + labels.number(engine_objects.LABEL_MEMORY),
            devices=(before.devices if before else ()) + labels.devices,
            ports=(before.ports if before else ()) + entry.ports,
        )
    return list(claims.values())


def lease(
    ledger: LedgerFile, claim: Claim, allocatable: Allocatable, seconds: float, lease_owner: str, check_mode: bool
) -> tuple[bool, ClaimAnswer]:
    """Lease *claim* if it fits now. Return whether that changed the ledger, and the answer.

    The engine is queried before the lock is taken. A container that is not in the ledger can then only have
    disappeared, which can only cause a rejection.
    """
    untracked = labelled_claims(Engine.connect().session_containers())
    before = ledger.read().get(claim.session_id)
    if check_mode:
        # The session of this name that the claim's session replaces still exists, and will be removed.
        held = {
            key: reservation
            for key, reservation in ledger.read().items()
            if reservation.claim.session_name != claim.session_name
        }
        untracked = [other for other in untracked if other.session_name != claim.session_name]
        answer = ClaimAnswer(True) if before else rules.answer(claim, held, untracked, allocatable)
    else:
        answer = ledger.reserve(claim, untracked, allocatable, seconds, lease_owner)
    return answer.granted and before is None, answer


def lease_name(
    state: StateDirectory, ledger: LedgerFile, claim: Claim, seconds: float, lease_owner: str, check_mode: bool
) -> ClaimAnswer:
    """Lease only the name of a claim's session, on a host without its replicas."""
    if check_mode:
        return ClaimAnswer(True)
    answer = ledger.reserve(claim, [], None, seconds, lease_owner)
    return refused_by_name(state, ledger, claim, lease_owner) if answer.granted else answer


def refused_by_name(state: StateDirectory, ledger: LedgerFile, claim: Claim, lease_owner: str) -> ClaimAnswer:
    """Return whether a session may keep a granted claim, because a name belongs to only one session.

    The lease is released if this host has a record of another session with this name. The run that wrote that record
    held the name in the ledger until then, so one of two launches always finds the other. If two sessions were
    requested at the same time and both wait, neither has the name, because they would reject each other forever.
    """
    others = {record.id: record for record in state.records()[0] if record.name == claim.session_name}
    own = others.pop(claim.session_id, None)
    waits = own is not None and own.status == PENDING
    for session_id, other in others.items():
        if other.status not in ENDED and not (waits and other.status == PENDING):
            ledger.release(claim.session_id, lease_owner)
            whose = f"session {session_id} of {printable(other.owner)}"
            return ClaimAnswer(False, (f"The name {claim.session_name} is taken by {whose}.",))
    return ClaimAnswer(True)


def release(ledger: LedgerFile, claim: Claim, lease_owner: str, check_mode: bool) -> bool:
    """Release what this run holds here for the session of *claim* unless it runs. Return whether it held anything."""
    if check_mode:
        held = ledger.read().get(claim.session_id)
        return held is not None and held.stage != claims.COMMITTED and held.lease_owner == lease_owner
    return ledger.release(claim.session_id, lease_owner)
