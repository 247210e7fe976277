# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reserve capacity of this host: the ledger and the labels of the containers together are what is held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..adapters import engine as docker_engine
from ..adapters.engine import Engine
from ..adapters.ledger import LedgerFile
from ..adapters.state import StateDirectory
from ..core.model import claims
from ..core.model.claims import Allocatable, Claim, ClaimAnswer
from ..core.model.record import ENDED, PENDING
from ..core.rules import ledger as rules
from ..core.values.errors import printable


def labelled_claims(containers: list[dict[str, Any]]) -> list[Claim]:
    """Return what the containers of sessions use of this host, one claim a session, as their labels say."""
    claims: dict[str, Claim] = {}
    for entry in containers:
        labels = entry["Labels"]
        session_id = docker_engine.session_id_of(labels)
        before = claims.get(session_id)
        ports = [
            (str(port.get("IP", "")), int(port["PublicPort"]), str(port["Type"]))
            for port in entry.get("Ports", [])
            if "PublicPort" in port
        ]
        claims[session_id] = Claim(
            session_id=session_id,
            session_name=labels.get(docker_engine.LABEL_SESSION_NAME, ""),
            replicas=(before.replicas if before else 0) + 1,
            cpus=(before.cpus if before else 0) + docker_engine.number_of(labels, docker_engine.LABEL_CPUS),
            memory=(before.memory if before else 0) + docker_engine.number_of(labels, docker_engine.LABEL_MEMORY),
            devices=(before.devices if before else ()) + docker_engine.devices_of(labels),
            ports=(before.ports if before else ()) + tuple(ports),
        )
    return list(claims.values())


def lease(
    ledger: LedgerFile, claim: Claim, allocatable: Mapping[str, Any], seconds: float, lease_owner: str, check_mode: bool
) -> tuple[bool, ClaimAnswer]:
    """Lease *claim* if it fits now; return whether that changed the ledger, and the answer.

    The engine is asked before the lock is taken: a container that the ledger does not know can then only have
    vanished, which errs on the side of refusing.
    """
    untracked = labelled_claims(Engine.connect().session_containers())
    limits = Allocatable.from_dict(allocatable)
    before = ledger.read().get(claim.session_id)
    if check_mode:
        # The session of this name that the claim's session replaces is still there, and will not be.
        held = {
            key: reservation
            for key, reservation in ledger.read().items()
            if reservation.claim.session_name != claim.session_name
        }
        untracked = [other for other in untracked if other.session_name != claim.session_name]
        answer = ClaimAnswer(True) if before else rules.answer(claim, held, untracked, limits)
    else:
        answer = ledger.reserve(claim, untracked, limits, seconds, lease_owner)
    return answer.granted and before is None, answer


def lease_name(
    state: StateDirectory, ledger: LedgerFile, claim: Claim, seconds: float, lease_owner: str, check_mode: bool
) -> ClaimAnswer:
    """Lease the name of a claim's session alone, on a host that carries none of its replicas."""
    if check_mode:
        return ClaimAnswer(True)
    answer = ledger.reserve(claim, [], None, seconds, lease_owner)
    return refused_by_name(state, ledger, claim, lease_owner) if answer.granted else answer


def refused_by_name(state: StateDirectory, ledger: LedgerFile, claim: Claim, lease_owner: str) -> ClaimAnswer:
    """Tell whether a session that was granted its claim may keep it: a name means one session.

    What was leased is given back where this host has a record of another session of this name. Who made that record
    held the name in the ledger until it was written, so one of two launches always finds the other. Of two that both
    wait, as they were asked for at the same moment, neither has the name: they would refuse each other for ever.
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
    """Give back what this run holds here for the session of *claim* unless it runs; return whether it held any."""
    if check_mode:
        held = ledger.read().get(claim.session_id)
        return held is not None and held.stage != claims.COMMITTED and held.lease_owner == lease_owner
    return ledger.release(claim.session_id, lease_owner)
