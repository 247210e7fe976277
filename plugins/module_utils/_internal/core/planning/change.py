# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The decision of a launch for a running session: it grows, shrinks, or continues in other places."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ..model.claims import COMMITTED, Claim
from ..model.decode import encode
from ..model.fields import REPLACE, WAIT
from ..model.launch_state import ChangeState, HostClaim
from ..model.plan import Plan
from ..model.record import MOVE, RESIZE, RUNNING, Change, Growth, Record, advance, read_record
from ..model.request import Request, counts_of, diff_requests, with_counts
from ..rules.admission import check_request_against_hosts, render_shortfall
from ..rules.build import PlanInputs, with_images
from ..rules.capacity import allocatable_of, hosts_from_facts
from ..rules.change import Target, changed_plan, claim_beyond, find_places, refuse_growth, target_of
from ..rules.check import validate_plan
from ..rules.data import READS, WRITES
from ..rules.durations import together
from ..rules.ledger import CHANGE, claims_of
from ..rules.obstacles import obstacles, render_obstacles
from ..rules.placement import Host, Shortfall
from ..rules.queue import next_number
from ..values.deferred import dataclass
from ..values.errors import InvalidInput
from .planner import Decided, Planner, difference_of


@dataclass(frozen=True)
class Wanted:
    """The future of a running session.

    plan, before: its present plan and request. request: the request from now on. target: the replicas that follow from
    it. evicted: replicas that have to find another host; lost_hosts: because theirs is lost; unplaced: because they
    never came to the host that the last change gave them. shared_with: users who may enter. changes: of
    `diff_requests`.
    """

    plan: Plan
    before: Request
    request: Request
    target: Target
    evicted: set[str]
    lost_hosts: list[str]
    unplaced: list[str]
    shared_with: tuple[str, ...]
    changes: list[tuple[str, str, str]]


def changed(planner: Planner, current: Record, before: Request, request: Request) -> Decided:
    """Return the decision for a session that is to continue: as it is, or with other replicas or places."""
    plan = validate_plan(current.plan)
    if planner.wish.restores is not None:
        return _restored(planner, current, plan, read_record(planner.wish.restores))
    undecided = planner.cluster.undecided.get(current.id)
    if undecided is not None and undecided.before is not None:
        return _taken_back(planner, current, plan, undecided.before, undecided.agreed)
    lost_hosts = [host for host in plan.hosts if host not in planner.facts]
    unplaced = _unplaced(planner, current, plan)
    old = {entry.name: entry.host for entry in plan.replicas}
    # Replicas that have already left the host that they were to leave stay where they are.
    displaced = [name for name, host in planner.wish.displaced.items() if old.get(name) == host]
    evicted = {*displaced, *unplaced, *(name for name, host in old.items() if host in lost_hosts)}
    wanted = Wanted(
        plan,
        before,
        request,
        target_of(plan, _without(request, planner.wish.given_up), evicted),
        evicted,
        lost_hosts,
        unplaced,
        planner.users_of(current),
        diff_requests(before, request),
    )
    if wanted.target.homeless or wanted.target.gone:
        return _with_other_replicas(planner, current, wanted)
    return _in_place(planner, current, wanted)


def _in_place(planner: Planner, current: Record, wanted: Wanted) -> Decided:
    """Return the decision for a session whose replicas all stay."""
    plan, request, changes = wanted.plan, wanted.request, wanted.changes
    refuse_growth(plan, request.max_size or 0)
    missing = planner.group.unfinished(current)
    is_open = bool(missing) or current.id in planner.cluster.undecided
    if not changes and is_open and current.change is not None:
        return _finished(planner, current, plan, current.change, missing)
    others = planner.group.other_witnesses(current)
    if not changes and planner.wish.changes and others:
        return _as_before(planner, current, plan, replace(current, witnesses=others), "It has other witnesses.")
    growth = current.growth if planner.wish.changes else None  # the size that was requested last is right
    if not changes and (wanted.shared_with, growth) == (current.shared_with, current.growth):
        return planner.placed_already(current)
    why = "Settings that may change while it runs were changed."
    if not changes:
        why = "It is shared with others." if growth == current.growth else "It is not to grow any more."
    stored = request.to_dict()
    renewed = advance(
        current,
        RUNNING,
        why,
        request=stored,
        plan={**current.plan, "request": stored},
        shared_with=wanted.shared_with,
        growth=growth,
        witnesses=planner.witnesses(request, current),
    )
    decided = planner.placed_already(renewed)
    return {**decided, "diff": difference_of(changes)} if changes else decided


def _finished(planner: Planner, current: Record, plan: Plan, change: Change, missing: Sequence[str]) -> Decided:
    """Return the decision that finishes a change: the same again, in which hosts that have their part do nothing.

    missing: replicas that are not in their new places.
    """
    decided = planner.placed_already(current)
    places = {name: change.places[name] for name in missing}
    known = planner.electors(current) if change.kind == REPLACE else current.witnesses
    begun, claims = _parts_of_change(planner, current, plan, plan, replace(change, places=places), known)
    return {**decided, "claims": encode(claims), "change": encode(begun)}


def _with_other_replicas(planner: Planner, current: Record, wanted: Wanted) -> Decided:
    """Return the decision for a session of which replicas come, go or move, if there is room for them."""
    plan, request, target = wanted.plan, wanted.request, wanted.target
    refuse_growth(plan, max(request.size, request.max_size or 0))
    if {*target.names} - {entry.name for entry in plan.replicas}:
        used = planner.group.used_by(current.owner, planner.cluster, planner.request.name)
        planner.settings.limits.check(request, current.owner, used)
    known = {entry.role for entry in plan.replicas}
    planner.check_users([role for role in request.roles if role.name not in known], current.owner)
    inventory = planner.inventory_of(current.owner)
    hosts = hosts_from_facts(planner.facts, inventory)
    homes: dict[str, str] = {}
    if target.homeless:
        check_request_against_hosts(request, planner.facts, current=plan, inventory=inventory)
        candidates = [host for host in hosts if host.name not in planner.wish.avoid]
        keys = planner.settings.topology_keys
        found = find_places(plan, request, target, candidates, planner.facts, keys, planner.group.known)
        if isinstance(found, Shortfall):
            names = [host.name for host in candidates]
            blocked = obstacles(plan, request, target.homeless, names, planner.facts)
            return _no_room(planner, current, wanted, found, blocked)
        homes = found
    return _in_new_places(planner, current, wanted, hosts, homes)


def _in_new_places(
    planner: Planner, current: Record, wanted: Wanted, hosts: Sequence[Host], homes: Mapping[str, str]
) -> Decided:
    """Return the decision for a session whose replicas have found new places. homes: by replica that needs one."""
    plan, target = wanted.plan, wanted.target
    free = {host.name: host.free_devices for host in hosts}
    fenced = [address for host in wanted.lost_hosts if (address := plan.hosts[host].underlay_address)]
    request = Request.from_dict(_without(wanted.request, planner.wish.given_up).to_dict())
    inputs = PlanInputs(planner.facts, planner.settings, free, planner.inventory_of(current.owner))
    after = changed_plan(plan, request, target, homes, inputs, fenced)
    needs = planner.needs_again(after)
    after = with_images(after, needs)
    change = _change(planner, current, wanted)
    why = _why_changed(len(plan.replicas), len(after.replicas), wanted.lost_hosts)
    record = advance(
        current,
        RUNNING,
        why,
        request=after.request,
        plan=encode(after),
        hosts=tuple(after.hosts),
        shared_with=wanted.shared_with,
        change=change,
        growth=None if wanted.changes else current.growth,
        witnesses=planner.witnesses(request, current),
    )
    decided = planner.placed(record, after, needs, fresh=False, replaces=False)
    # A replica that starts on this side of a broken network may be started on the other side as well.
    known = planner.electors(current) if change.kind == REPLACE else current.witnesses if change.places else ()
    begun, claims = _parts_of_change(planner, current, plan, after, change, known)
    is_new = change.kind == REPLACE and not planner.group.unfinished(current)
    moves = [(name, host or "-", homes[name]) for name, host in change.places.items()]
    return {
        **decided,
        "claims": encode(claims),
        "change": encode(replace(begun, is_new=is_new)),
        "diff": difference_of([*wanted.changes, *moves]),
        "report": [
            *_partly(planner, request),
            f"Session {record.name} ({record.id}): {why}",
            *_moves_report(change, homes),
        ],
    }


def _change(planner: Planner, current: Record, wanted: Wanted) -> Change:
    """Return the kind of a change, and the places of the replicas that need a host before it."""
    homeless = wanted.target.homeless
    # A change that was begun is finished as it began: hosts that may still run what comes are let go of first.
    is_begun = bool({*planner.group.unfinished(current)} & {*homeless})
    began = current.change.kind if current.change and is_begun else RESIZE
    kind = REPLACE if wanted.lost_hosts or began == REPLACE else MOVE if planner.wish.displaced else began
    # Replicas that never came to their new place come from where they were before, or are still new.
    origin: dict[str, str | None] = {entry.name: entry.host for entry in wanted.plan.replicas}
    if current.change:
        origin.update({name: current.change.places[name] for name in wanted.unplaced})
    return Change(kind, {name: origin.get(name) for name in homeless})


def _restored(planner: Planner, current: Record, plan: Plan, before: Record) -> Decided:
    """Return the decision that gives a session back the hosts that it had, because others could not take over.

    The lost host is one of them again: the session waits for it, and the next run gives its part to others. Raises
    InvalidInput if a host that may have started what others were to take over cannot be reached.
    """
    away = [host for host in plan.hosts if host not in planner.facts]
    if away:
        raise InvalidInput.single(
            "session_name", current.name, f"{', '.join(away)} may have started replicas and cannot be reached."
        )
    why = "Its lost replicas could not be started elsewhere; it has its earlier places again."
    return _as_before(planner, current, plan, before, why)


def _taken_back(planner: Planner, current: Record, plan: Plan, before: Record, voted: Sequence[str]) -> Decided:
    """Return the decision that gives a session back the hosts that it had, one of which was only cut off.

    A run that ended has begun to replace it. So that this run cannot continue with that, most witnesses have to
    agree that have not agreed to the replacement. voted: those that have.
    """
    why = "The host that was taken for lost is reachable; it has its earlier places again."
    decided = _as_before(planner, current, plan, before, why)
    staying = [host for host in before.hosts if host in planner.facts]
    base = {"revision": before.revision, "hosts": list(before.hosts)}
    change = {**decided["change"], "staying": staying, "voted": list(voted), "base": base}
    return {**decided, "hosts": staying, "change": change}


def _as_before(planner: Planner, current: Record, plan: Plan, before: Record, why: str) -> Decided:
    record = advance(
        replace(before, revision=current.revision, history=current.history),
        RUNNING,
        why,
        change=None,
        growth=current.growth,
        shared_with=current.shared_with,
    )
    after, change = validate_plan(before.plan), Change(MOVE, {})
    begun, claims = _parts_of_change(planner, current, plan, after, change, planner.electors(current))
    return planner.answer(
        "SCHEDULED",
        fresh=False,
        hosts=[host for host in after.hosts if host in plan.hosts],
        record=record,
        claims=encode(claims),
        change=encode(begun),
        report=[f"Session {record.name} ({record.id}): {why}"],
    )


def _partly(planner: Planner, request: Request) -> list[str]:
    missing = planner.request.size - request.size
    return [] if missing <= 0 else [f"There is room for {request.size} of {planner.request.size} replicas."]


def _unplaced(planner: Planner, current: Record, plan: Plan) -> list[str]:
    """Return the replicas whose host according to the last change neither has them nor holds a place for them.

    This happens if a controller ended between the leases and the hosts' taking over the replicas.
    """
    missing = planner.group.unfinished(current)
    found: list[str] = []
    for host in plan.hosts:
        if host not in planner.facts:
            continue
        held = [
            reservation.claim.replicas
            for reservation in planner.facts[host].reservations
            if reservation.claim.session_id == current.id and reservation.stage == COMMITTED
        ]
        here = [entry.name for entry in plan.on(host)]
        if sum(held) < len(here):
            found += [name for name in here if name in missing]
    return found


def _no_room(
    planner: Planner, current: Record, wanted: Wanted, short: Shortfall, blocked: Mapping[str, str]
) -> Decided:
    """Return the decision if not all replicas that need a host find one. blocked: `obstacles`."""
    decided = _grown_by_less(planner, current, wanted, short) or _without_unplaced(planner, current, wanted, short)
    if decided is not None:
        return decided
    reasons = [*render_shortfall(short), *render_obstacles(blocked)]
    stored, new = wanted.request.to_dict(), wanted.request.size - len(wanted.plan.replicas)
    is_known = current.growth is not None and current.growth.request == stored
    if new > 0 and not wanted.evicted and (planner.wish.on_no_capacity == WAIT or is_known):
        report = [
            f"Session {planner.request.name} runs on as it is, and waits for room to grow by {new}.",
            *reasons,
            "The schedule_pending playbook lets it grow when there is room; a launch with its present size cancels "
            "that.",
        ]
        if is_known:
            return planner.answer("PENDING", record=current, report=report, grows_later=True)
        growth = Growth(stored, next_number(planner.cluster.pending()))
        renewed = advance(current, RUNNING, "It is to grow when there is room.", growth=growth)
        return {**planner.placed_already(renewed), "report": report, "grows_later": True}
    homeless = ", ".join(sorted(wanted.evicted)) or "more replicas"
    first = f"Session {planner.request.name} stays as it is: there is no room for {homeless}."
    return planner.answer("PENDING", report=[first, *reasons, "Launch it again when there is room."])


def _grown_by_less(planner: Planner, current: Record, wanted: Wanted, short: Shortfall) -> Decided | None:
    """Return the decision by which a session grows as far as there is room; None if that is not wished for."""
    plan, request, least = wanted.plan, wanted.request, planner.wish.min_size
    if request.size <= len(plan.replicas) or least is None or short.largest_size <= 0:
        return None
    # Replicas that have lost their host come first in rank order.
    most = len([entry for entry in plan.replicas if entry.name not in wanted.evicted]) + short.largest_size
    size = max(least, min(most, request.size - 1))
    if most >= size > wanted.before.size:
        return changed(planner, current, wanted.before, _shortened(request, plan, size))
    return None


def _without_unplaced(planner: Planner, current: Record, wanted: Wanted, short: Shortfall) -> Decided | None:
    """Return the decision that undoes a change whose new replicas never came to be; None if there is none.

    It is undone from the first of them on, as they came together and the highest ranks go. Replicas that only lost
    their host have run, and wait for another.
    """
    places = current.change.places if current.change else {}
    names = {name for name, _role, _index in wanted.request.replicas()}
    unplaced = [name for name in wanted.unplaced if places[name] is None and name in names]
    if not unplaced:
        return None
    first = min(entry.rank for entry in wanted.plan.replicas if entry.name in unplaced)
    keep = {**counts_of(wanted.before)}
    for entry in wanted.plan.replicas[first:]:
        keep[entry.role] -= 1
    decided = changed(planner, current, wanted.before, with_counts(wanted.before, keep))
    return {**decided, "report": [*render_shortfall(short), *decided["report"]]}


def _parts_of_change(
    planner: Planner, current: Record, plan: Plan, after: Plan, change: Change, known: Sequence[str]
) -> tuple[ChangeState, dict[str, HostClaim]]:
    """Return the hosts' parts in a change, and what each has to hold for it.

    current: the record before it, with *plan*. known: hosts of which most have to agree to it (`rules.quorum`), none if
    nothing starts.
    """
    change_id = planner.draw()
    allocatable = {host.name: allocatable_of(host) for host in planner.hosts(with_tentative=True)}
    receiving = [host for host in after.hosts if any(after_on.name in change.places for after_on in after.on(host))]
    staying = [host for host in after.hosts if host in plan.hosts and host in planner.facts]
    # Two concurrent changes meet at the first host of the session, whichever hosts they concern. While that host
    # leaves, the first that stays keeps others out.
    first = [host for host in plan.hosts if host in planner.facts][:1]
    agreeing = [host for host in known if host in planner.facts]
    holding = list(dict.fromkeys([*receiving, *first, *staying[:1], *_writers(after, receiving), *agreeing]))
    begun = ChangeState(
        id=change_id,
        kind=change.kind,
        main=plan.replicas[0].host,
        before=current,
        places=change.places,
        receiving=receiving,
        staying=staying,
        leaving=[host for host in plan.hosts if host not in after.hosts and host in planner.facts],
        holding=holding,
        electors=list(known),
        ran=together(facts.times.get(plan.session.id) for facts in planner.facts.values()).ran or 0,
        allocatable={host: allocatable[host] for host in after.hosts if host in allocatable},
    )
    claims = _claims_of_change(planner, after, change_id, holding)
    return begun, {host: HostClaim(claim, allocatable[host]) for host, claim in claims.items()}


def _claims_of_change(planner: Planner, after: Plan, change_id: str, holding: Sequence[str]) -> dict[str, Claim]:
    """Return what hosts have to hold for a change beyond what they hold for the session."""
    claims, held = claims_of(after), _held(planner, after.session.id)
    nothing = Claim(change_id, f"{after.session.name}{CHANGE}")
    return {host: claim_beyond(claims.get(host, nothing), held.get(host), change_id) or nothing for host in holding}


def _held(planner: Planner, session_id: str) -> dict[str, Claim]:
    """Return what each host holds for a session that runs."""
    return {
        host: reservation.claim
        for host, facts in planner.facts.items()
        for reservation in facts.reservations
        if reservation.claim.session_id == session_id and reservation.stage == COMMITTED
    }


def _without(request: Request, names: Collection[str]) -> Request:
    """Return the request without some of its replicas, the last of their roles."""
    counts = counts_of(request)
    for name, role, _index in request.replicas():
        counts[role.name] -= name in names
    return with_counts(request, counts) if names else request


def _shortened(request: Request, plan: Plan, size: int) -> Request:
    """Return the request with only *size* replicas: all of the plan, and the first of the new ones."""
    old = {entry.name for entry in plan.replicas}
    new = [name for name, _role, _index in request.replicas() if name not in old]
    return _without(request, new[size - len(old) :])


def _writers(plan: Plan, receiving: Sequence[str]) -> list[str]:
    """Return the hosts that write the proof for *receiving* hosts that folders are shared."""
    read = {path for host in receiving for path, folder in plan.hosts[host].data.items() if folder.proof == READS}
    return [
        host
        for host, planned in plan.hosts.items()
        if any(path in read and folder.proof == WRITES for path, folder in planned.data.items())
    ]


def _moves_report(change: Change, homes: Mapping[str, str]) -> list[str]:
    """Return the new places of replicas that had another host, and what of them is lost."""
    moved = [f"{name} from {before} to {homes[name]}" for name, before in change.places.items() if before is not None]
    if not moved:
        return []
    return [f"It goes on elsewhere: {', '.join(moved)}. What these replicas had written outside their mounts is gone."]


def _why_changed(before: int, after: int, lost_hosts: Sequence[str]) -> str:
    what = f"It has {after} replicas in place of {before}." if before != after else "Its replicas have new places."
    return f"It does without {', '.join(lost_hosts)}. {what}" if lost_hosts else what
