# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Change: move a running session to another plan.

| step | what hosts do | what follows |
|---|---|---|
| reserve | hosts that get replicas hold what is new, make keys; the first holds the change | part, fence, apply |
| withhold, free | each releases what it holds of a change that is not possible | look, or the end |
| part | hosts of removed replicas let them end, while all others still reach them | fence, apply, failed |
| fence | hosts that stay let go of leaving hosts; if witnesses decide, they learn what comes | agree, apply, failed |
| agree | the other witnesses of the session record which hosts it has | apply, failed |
| apply | hosts that get replicas start and prove them; the others learn of a resize | join, clear, done, failed |
| again | hosts that had another copy than expected get the whole record | what the step before led to |
| join | hosts whose peers were late look for them again | clear, done, failed |
| clear | hosts without replicas keep only a stub; the proofs that folders are shared are removed | done |

When it is done, the batch command starts if main1 was lost, or the launch ends. When it has failed, the record contains
the wanted state: the launch collects facts again, to find other hosts or to give up what is new, or it ends. If no
other hosts are found for what was lost, the session gets back what it had, by a change of its own (restore).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...model.answers import SessionAnswer, read_answers
from ...model.calls import Agree, Amend, Remove
from ...model.claims import ClaimAnswer
from ...model.decode import encode
from ...model.launch_state import Base, ChangeState, LaunchState
from ...model.patch import difference, digest
from ...model.record import REPLACE, RESIZE, stub_of
from ...model.verb_state import StepCall
from ...rules.data import WRITES
from ...rules.ledger import ASK_AGAIN, GRANTED, resolve_reservations
from ...rules.quorum import is_quorum
from ..verb import REMOVAL
from . import claims, start
from .launch import ADVICE, Launch

STEPS = ("reserve", "withhold", "free", "part", "fence", "agree", "apply", "again", "join", "clear")
KEPT = ("containers", "undecided", "ran", "prove", "patience")
"""Fields of a call that a host gets again if it had another copy of the record."""
Answers = Mapping[str, SessionAnswer]


def begin(launch: Launch) -> LaunchState:
    """Begin a change. The state has ``change``, and the wanted record."""
    return _reserve(launch)


def _of(launch: Launch) -> ChangeState:
    """Return the change that is made."""
    if launch.state.change is None:
        raise ValueError("This step needs a change.")
    return launch.state.change


# ---- holding -------------------------------------------------------------------------------------------------------


def _reserve(launch: Launch) -> LaunchState:
    change = _of(launch)
    # Until a host that stays has the next record, only this keeps other runs from making a change of their own.
    turns = claims.turns(launch, {*change.holding, *change.staying, *change.leaving})
    calls = [claims.held(launch, change.holding, turns)]
    return launch.step("reserve", "Hold what the session is to have beyond what it has", calls)


def after_reserve(launch: Launch) -> LaunchState:
    """Continue with the change if all needed hosts agree; else try again, or roll back what was held."""
    state, change = launch.state, _of(launch)
    # A host that was granted a lease and could make no keys, or finds the session changed or gone, has released it.
    given = {
        host: answer.to_claim
        if answer.public_keys is not None or not answer.granted
        else ClaimAnswer(False, (answer.why_not,))
        for host, answer in launch.answers.items()
    }
    needed = _needed(change, given)
    outcome = resolve_reservations(change.id, needed)
    if outcome == GRANTED:
        made = {name: keys for answer in launch.answers.values() for name, keys in (answer.public_keys or {}).items()}
        state.change = replace(change, made={name: made[name] for name in change.places if name in made})
        state.public_keys = {**state.public_keys, **made}
        return _apply(launch) if launch.outside.check_mode else _part(launch)
    if outcome == ASK_AGAIN and not launch.is_last:
        state.attempt += 1
        return launch.after_pause(_reserve(launch))
    state.change = replace(change, sick=[host for host, answer in launch.answers.items() if answer.sick])
    state.refused = claims.reasons_of(needed)
    return launch.step("withhold", "Roll back what was held", [claims.released(launch, change.holding)])


def _needed(change: ChangeState, given: Mapping[str, ClaimAnswer]) -> dict[str, ClaimAnswer]:
    """Return the answers that a change needs: a host that only has to agree is not needed if most others do.

    If most have not agreed, unreachable hosts count as a no.
    """
    granted = [host for host, answer in given.items() if answer.granted and host not in change.voted]
    if not change.electors:
        return dict(given)
    if not is_quorum(granted, change.electors, change.main):
        away = [host for host in change.electors if host not in given]
        why = f"Most of {', '.join(change.electors)} have to agree to that; it cannot be asked."
        return {**given, **{host: ClaimAnswer(False, (why,)) for host in away}}
    only_agree = {*change.electors} - {*change.receiving, *change.staying}
    return {host: answer for host, answer in given.items() if answer.granted or host not in only_agree}


def after_withhold(launch: Launch) -> LaunchState:
    """Collect facts again without the faulty hosts; after the last attempt, end or restore what the session had."""
    state = launch.state
    if launch.is_last:
        if state.before_loss:
            return restore(launch, state.refused)
        return launch.not_changed(
            f"The session {state.session_name} runs on as it is; it could not be changed.", *state.refused
        )
    state.avoid = sorted({*state.avoid, *_of(launch).sick})
    return launch.look_again(pause=True)


# ---- changing ------------------------------------------------------------------------------------------------------


def _amend(launch: Launch, host: str, *, containers: bool = True, undecided: bool = False) -> Amend:
    """Return the call by which a host takes over the record, without what it needs for that (`_amended`)."""
    return Amend(host, launch.state.lease_owner, containers=containers, undecided=undecided)


def _amended(launch: Launch, hosts: Iterable[Amend], whole: bool) -> StepCall:
    """Return the call by which hosts take over the record. whole: whether they get all of it, and all keys.

    Otherwise they have the record before this one, or this one already, and get only the difference.
    """
    state, change = launch.state, _of(launch)
    # Once for all hosts: with thousands of replicas it takes a while.
    patch = nothing = None
    if not whole:
        known, record = encode(change.before), encode(launch.record)
        patch = {**_made_for(known), "changes": difference(known, record)}
        nothing = {**_made_for(record), "changes": {}}
    own = {
        request.host: replace(
            request,
            **launch.knew(request.host),
            allocatable=change.allocatable[request.host],
            change_id=change.id if request.host in change.holding else None,
            record=launch.record if whole else None,
            patch=nothing if request.host in change.changed else patch,
            public_keys=state.public_keys if whole else change.made,
        )
        for request in hosts
    }
    return launch.call(own, ("timeout", *REMOVAL))


def _made_for(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by which a host checks that a patch was made for its copy."""
    return {"id": record["id"], "from": record["revision"], "digest": digest(record)}


def _takes_patches(launch: Launch) -> bool:
    """Tell whether hosts know the session's record by the names that it has here."""
    return not launch.state.host_names.get(launch.record.id)


def _part(launch: Launch) -> LaunchState:
    """Let removed replicas end while their network still works: programs pass on their data and disconnect."""
    change = _of(launch)
    after = {replica.name: replica.host for replica in launch.record.replicas}
    losing = {replica.host for replica in change.before.replicas if after.get(replica.name) != replica.host}
    hosts = [_amend(launch, host, containers=host not in change.receiving) for host in change.staying if host in losing]
    calls = [_amended(launch, hosts, not _takes_patches(launch))] if hosts else []
    if change.leaving:
        # Their record stays that of the session, until a host that stays has the next one.
        judged = Remove(change_id=change.id, judged_revision=change.before.revision, unless_reserved=True)
        calls.append(_given_up(launch, judged))
    if not calls:
        return _fence(launch)
    return launch.step("part", "End the replicas that are removed", calls)


def after_part(launch: Launch) -> LaunchState:
    """Continue after removed replicas have ended."""
    return _unless_stale(launch, _parted)


def _parted(launch: Launch, answers: Answers) -> LaunchState:
    return _unless_missing(launch, answers, _fence)


def _unless_missing(launch: Launch, answers: Answers, follow: Callable[[Launch], LaunchState]) -> LaunchState:
    """End the change if a host has not done its part; else note which hosts have the record by now, and continue."""
    missing = _missing(answers)
    if missing:
        return _failed(launch, missing)
    change = _of(launch)
    staying = [host for host in answers if host in change.staying]
    launch.state.change = replace(change, changed=[*change.changed, *staying])
    return follow(launch)


def _fence(launch: Launch) -> LaunchState:
    """Send hosts that stay the new places of replicas, and let go of lost hosts, before anything starts elsewhere."""
    change = _of(launch)
    undecided = _is_decided_by_witnesses(change)
    hosts = [
        _amend(launch, host, containers=host not in change.receiving, undecided=undecided)
        for host in change.staying
        if host not in change.changed
    ]
    if not hosts or (change.kind == RESIZE and not change.electors):
        return _agree(launch)
    return launch.step("fence", "Let go of what is lost", [_amended(launch, hosts, not _takes_patches(launch))])


def after_fence(launch: Launch) -> LaunchState:
    """Continue after hosts that stay have let go of the lost ones."""
    return _unless_stale(launch, _fenced)


def _fenced(launch: Launch, answers: Answers) -> LaunchState:
    return _unless_missing(launch, answers, _agree)


def _agree(launch: Launch) -> LaunchState:
    """Record on the witnesses that do not stay which hosts the session has, before anything starts elsewhere.

    Hosts that leave do so as well: otherwise one could agree to another change as soon as its lease has ended.
    Each agrees to one content of a revision, and only to one that follows from the revision it knows. So of two runs
    that reach different hosts of the session only one continues.
    """
    state, change = launch.state, _of(launch)
    hosts = [
        host for host in change.electors if host in change.holding and host not in [*change.staying, *change.voted]
    ]
    if launch.outside.check_mode or not change.electors:
        return _apply(launch)
    if not hosts:
        return _agreed(launch, ())
    names = state.host_names.get(launch.record.id, {})
    base = change.base or Base(change.before.revision, [*change.before.hosts])
    known = tuple(names.get(host, host) for host in base.hosts)
    stub = stub_of(launch.record)
    own = {
        host: Agree(stub, state.lease_owner, change.id, base.revision, host, known, **launch.knew(host))
        for host in hosts
    }
    return launch.step("agree", "Agree on the hosts that the session has", [launch.call(own)])


def after_agree(launch: Launch) -> LaunchState:
    """Continue with the witnesses that have recorded the new hosts of the session."""
    return _agreed(launch, [host for host, answer in launch.answers.items() if answer.actions is not None])


def _agreed(launch: Launch, hosts: Collection[str]) -> LaunchState:
    """Continue if most witnesses have agreed; hosts that stay have agreed, because they have the record."""
    state, change = launch.state, _of(launch)
    agreed = {*hosts, *change.staying} - {*change.voted}
    if not is_quorum(agreed, change.electors, change.main):
        return _failed(launch, _missing(launch.answers) or dict.fromkeys(hosts, "It is too few of the witnesses."))
    if change.is_new and not state.before_loss:
        state.before_loss = change.before
    return _apply(launch)


def _is_decided_by_witnesses(change: ChangeState) -> bool:
    """Tell whether lost hosts are let go of, which get no answer from the others before most witnesses have agreed."""
    return change.kind == REPLACE and bool(change.electors)


def _apply(launch: Launch) -> LaunchState:
    state, change = launch.state, _of(launch)
    patience = start.patience(launch, change.receiving)
    starts = [replace(_amend(launch, host), prove=True, patience=patience, ran=change.ran) for host in change.receiving]
    new = [request for request in starts if request.host not in change.staying]
    old = [request for request in starts if request.host in change.staying]
    known = [] if _is_decided_by_witnesses(change) else change.changed
    old += [_amend(launch, host) for host in change.staying if host not in [*change.receiving, *known]]
    calls = [_amended(launch, new, True)] if new else []
    if old:
        calls.append(_amended(launch, old, not _takes_patches(launch)))
    stubs = [host for host in state.stub_hosts if host not in change.leaving]
    if stubs:
        calls.append(start.stubbed(launch, stubs, stub_of(launch.record)))
    if not calls:
        return _applied(launch, {})
    title = "Start what is new, and prove that it works" if change.receiving else "Let go of the replicas that go"
    return launch.step("apply", title, calls)


def after_apply(launch: Launch) -> LaunchState:
    """Continue after hosts have started the new replicas and taken over the record."""
    return _unless_stale(launch, _applied)


def _unless_stale(launch: Launch, follow: Callable[[Launch, Answers], LaunchState]) -> LaunchState:
    """Send the whole record to hosts that had another copy than expected; else continue."""
    state = launch.state
    stale = [host for host, answer in launch.answers.items() if answer.stale]
    if not stale:
        return follow(launch, launch.answers)
    again = [
        Amend(host, state.lease_owner, **{key: given[key] for key in KEPT if key in given})
        for step_call in state.calls
        for host in step_call.hosts
        if host in stale and (given := step_call.given_to(host))
    ]
    others = {host: answer for host, answer in launch.answers.items() if host not in stale}
    state.change = replace(_of(launch), after=state.step, answers=encode(others))
    return launch.step("again", "Send the whole record to hosts with another copy", [_amended(launch, again, True)])


def after_again(launch: Launch) -> LaunchState:
    """Continue with the step in which hosts had another copy, with their new answers and the earlier ones."""
    change = _of(launch)
    follow = {"part": _parted, "fence": _fenced, "apply": _applied}[change.after]
    return follow(launch, {**read_answers(SessionAnswer, change.answers), **launch.answers})


def _applied(launch: Launch, answers: Answers) -> LaunchState:
    state, change = launch.state, _of(launch)
    # Hosts that have it all already only learn that it is decided; they do not need that to continue.
    heard = {*change.changed} - {*change.receiving}
    amended = {host: answer for host, answer in answers.items() if host in {*launch.record.hosts} - heard}
    state.replicas = start.replicas_of(amended)
    if missing := _missing(amended):
        displaced = {
            replica.name: replica.host
            for replica in launch.record.replicas
            if replica.host in missing and replica.name in change.places
        }
        return _failed(launch, missing, displaced)
    late = [host for host, answer in amended.items() if answer.unproven]
    if late:
        return launch.step("join", "Prove that the new replicas reach the others", [start.verified(launch, late)])
    return _clear(launch)


def after_join(launch: Launch) -> LaunchState:
    """Clear up if late hosts have reached their peers; else the change has failed."""
    missing = {host: answer.why_not for host, answer in launch.answers.items() if answer.replicas is None}
    if missing:
        return _failed(launch, missing)
    launch.state.replicas = [*launch.state.replicas, *start.replicas_of(launch.answers)]
    return _clear(launch)


def _clear(launch: Launch) -> LaunchState:
    change, hosts = _of(launch), launch.record.plan["hosts"]
    calls = [_given_up(launch, Remove(record=stub_of(launch.record)))] if change.leaving else []
    # Hosts that are proven with their new replicas have removed by then what they wrote into shared folders.
    writers = [
        host
        for host in change.holding
        if host in hosts
        and host not in change.receiving
        and any(folder["proof"] == WRITES for folder in hosts[host]["data"].values())
    ]
    if writers and not launch.outside.check_mode:
        calls.append(claims.released(launch, writers))
    return launch.step("clear", "Remove what is not needed any more", calls) if calls else _done(launch)


def _given_up(launch: Launch, request: Remove) -> StepCall:
    """Return the call by which hosts give up their part of the session except the record, or replace it by a stub."""
    own = {
        host: replace(request, session_id=launch.record.id, keep_record=True, recorded=launch.recorded(host))
        for host in _of(launch).leaving
    }
    return launch.call(own, REMOVAL)


def after_clear(launch: Launch) -> LaunchState:
    """Finish the change; hosts that could not be cleaned become warnings."""
    # The next run removes what stays there: according to the newest record the session runs elsewhere.
    launch.state.warnings = [f"{host} could not be cleaned: {why}" for host, why in _missing(launch.answers).items()]
    return _done(launch)


def _missing(answers: Answers) -> dict[str, str]:
    """Return which hosts have not done their part, and why."""
    return {host: answer.why_not for host, answer in answers.items() if answer.actions is None}


# ---- how it went ---------------------------------------------------------------------------------------------------


def restore(launch: Launch, reasons: Iterable[str], holding: Iterable[str] = ()) -> LaunchState:
    """Give a session back the hosts that it had, if what was lost could not be started elsewhere.

    reasons: why not. holding: hosts that may hold reservations for it. It is a change like any other, under a revision
    of its own: what was started ends first.
    """
    launch.state.restores, launch.state.before_loss = launch.state.before_loss, None
    launch.state.failures = [*launch.state.failures, *reasons]
    return _free(launch, holding)


def _free(launch: Launch, hosts: Iterable[str]) -> LaunchState:
    """Release what hosts still hold of a change before the next one is planned."""
    holding = [host for host in hosts if host in _of(launch).holding]
    if not holding:
        return launch.look_again()
    return launch.step("free", "Roll back what was held", [claims.released(launch, holding)])


def _done(launch: Launch) -> LaunchState:
    state, change = launch.state, _of(launch)
    if state.restores:
        return launch.not_changed(
            f"What session {state.session_name} has lost could not be started on other hosts; it waits for its "
            "hosts, as before.",
            *dict.fromkeys(state.failures),
            ADVICE,
        )
    if state.given_up:
        return launch.not_changed(
            f"The session {state.session_name} could not be changed as requested; it runs on as it was.",
            *state.failures,
            ADVICE,
        )
    known = {replica["name"] for replica in state.replicas}
    state.replicas = [
        *state.replicas,
        *(status for status in state.statuses if status["name"] not in known),
    ]
    is_replaced = change.kind == REPLACE and "main1" in change.places
    if is_replaced and launch.record.request["batch_command"] is not None:
        return start.batch(launch)
    return launch.over(launch.running, state.report)


def _failed(launch: Launch, missing: Mapping[str, str], displaced: Mapping[str, str] | None = None) -> LaunchState:
    """Follow a change that was begun and not finished. missing: by host whose part is not done, the reason.

    displaced: replicas that their host could not run, with that host.
    """
    state, change = launch.state, _of(launch)
    reasons = [f"{host}: {why}" for host, why in missing.items()]
    new = [replica for replica, before in change.places.items() if before is None]
    is_new = launch.record.revision > change.before.revision  # else they may have run long ago
    if displaced and {*displaced} <= {*new}:
        if is_new:
            # New replicas are given up, and with them everything that came in the same change.
            state.given_up, state.failures = new, reasons
            return launch.look_again()
    elif displaced and not launch.is_last:
        state.displaced = {**state.displaced, **displaced}
        state.avoid = sorted({*state.avoid, *displaced.values()})
        state.failures = [*state.failures, *reasons]
        return _free(launch, sorted({*displaced.values()}))
    if state.before_loss and not state.restores:
        return restore(launch, reasons, missing)
    return unfinished(launch, reasons)


def unfinished(launch: Launch, reasons: Iterable[str]) -> LaunchState:
    """End if hosts have the wanted record of a session, but not all of it is done. reasons: why not."""
    state = launch.state
    return launch.not_changed(
        f"The change of session {state.session_name} was begun and not finished. Launch it again to finish it.",
        *dict.fromkeys([*state.failures, *reasons]),
    )
