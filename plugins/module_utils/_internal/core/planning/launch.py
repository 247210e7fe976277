# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The decision of a launch from the facts of its group's hosts: continue, find a place, wait, or reject."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..cluster.group import GroupFacts, cleanup_work, waiting_of, waiting_session
from ..cluster.state import Removal
from ..model.answers import FactsAnswer
from ..model.decode import encode
from ..model.fields import FAIL, SINGLE_NODE
from ..model.launch_state import Launcher
from ..model.plan import read_plan
from ..model.record import (
    ENDED,
    ERROR,
    PENDING,
    PREPARING,
    RUNNING,
    QueueTicket,
    Record,
    advance,
    group_of,
    is_stub,
    new_record,
    prepared,
    require_known,
)
from ..model.request import Request, diff_requests, in_mode_of, may_change_to
from ..rules.admission import (
    check_request_against_hosts,
    check_request_against_site,
    check_request_fits_idle,
    render_shortfall,
)
from ..rules.build import PlanInputs, build_plan, images_of, with_images
from ..rules.capacity import hosts_from_facts
from ..rules.check import validate_plan
from ..rules.data import drivers_of, exposed, roots_of
from ..rules.endpoints import engine_without_rules, why_no_endpoint
from ..rules.grants import check_plan
from ..rules.images import needs_of
from ..rules.obstacles import render_obstacles, unfit_hosts
from ..rules.placement import doubts
from ..rules.queue import QueueEntry, next_number, schedule_queue
from ..rules.scope import VARIABLE as GROUP
from ..rules.sizing import describe
from ..values.errors import CoreError, InvalidInput, printable
from .change import changed
from .planner import Decided, Planner, difference_of


def warnings_of(result: Mapping[str, Any], group: GroupFacts, problems: list[str]) -> list[str]:
    """Return the warnings for people. problems: of the queue."""
    warnings = problems + group.warnings
    swapping = [name for name in result.get("hosts") or () if not group.facts[name].engine.limits_swap]
    if swapping:
        warnings.append(
            f"The kernel of {', '.join(swapping)} does not account for swap (on Debian and Ubuntu: boot with "
            "swapaccount=1), so replicas there can swap beyond session_memory."
        )
    for name in result.get("hosts") or ():
        if group.facts[name].engine.no_rules:
            warnings.append(f"Host {name}: {' '.join(engine_without_rules(group.facts[name].engine))}")
    return warnings


def undetected(answers: Mapping[str, FactsAnswer]) -> list[str]:
    """Return which classes of accelerators could not be detected on which hosts, and why."""
    return [
        f"Accelerators {kind} of {name} were not detected: {detected['problem']}"
        for name, answer in answers.items()
        for kind, detected in (answer.host.accelerators if answer.host is not None else {}).items()
        if detected["problem"]
    ]


def decide(planner: Planner, waits: Record | None, queued: bool, cleaned_up: bool) -> Decided:
    """Return the decision.

    waits: the record of a waiting session as it was last seen, else None. queued: whether the launch comes from the
    queue. cleaned_up: whether unowned parts have been removed already. Raises InvalidInput if the run waits for a
    session that has left the queue, and RenamedHost.
    """
    planner.has_waited, planner.is_queued, planner.is_judged = queued or waits is not None, queued, queued
    planner.cluster.check_names()
    answer = answer_to_queued(planner, waits) if waits is not None else None
    if answer is None:
        return run_queued(planner, cleaned_up) if queued else run(planner, cleaned_up)
    if answer["pending"] is None and not queued:
        raise InvalidInput.single("session_name", planner.request.name, " ".join(answer["report"]))
    return answer


def answer_to_queued(planner: Planner, waits: Record) -> Decided | None:
    """Return the decision if the session that waited is not to be launched, else None.

    waits: its record as it was last seen.
    """
    record = planner.cluster.records.get(waits.id)
    if _may_be_elsewhere(planner, waits, record):
        report = [f"Session {planner.request.name} waits on: no facts could be collected from hosts that know it."]
        return planner.answer("PENDING", report=report, pending=waits)
    first = f"Session {planner.request.name} is not launched."
    if record is None:
        return planner.answer("CANCELLED", report=[first, "It was cancelled while it waited."])
    if record.status in ENDED:
        return planner.answer("REFUSED", report=[first, "It has ended.", *record.report], pending=record)
    if record.status == PENDING and planner.sized(Request.from_dict(record.request)) != planner.request:
        why = "Its request was changed while it waited; the new one is launched in its turn."
        return planner.answer("CANCELLED", report=[first, why])
    if waits.growth is not None and record.status == RUNNING:
        wanted = [record.request, *([] if record.growth is None else [record.growth.request])]
        if waits.growth.request not in wanted:
            why = "Its request was changed while it waited to grow."
            return planner.answer("CANCELLED", report=[first, why])
    return None


def _may_be_elsewhere(planner: Planner, waits: Record, record: Record | None) -> bool:
    """Tell whether a host that could not be asked may know more of a session that waited than its *record* shows."""
    known = planner.facts.values()
    if any(tombstone.id == waits.id for facts in known for tombstone in facts.tombstones):
        return False
    is_unsure = bool(planner.group.missing) or any(facts.damaged for facts in known)
    return is_unsure and (record is None or record.revision < waits.revision)


def run_queued(planner: Planner, cleaned_up: bool) -> Decided:
    """Return the decision for a session from the queue: one that cannot be launched leaves it."""
    try:
        return run(planner, cleaned_up)
    except CoreError as error:
        if planner.wish.changes or planner.wish.displaced:
            # It continues to run, and does not leave the queue if it waits there to grow.
            first = f"Session {planner.request.name} stays as it is."
            return planner.answer("PENDING", report=[first, *str(error).splitlines()])
        report = [f"Session {planner.request.name} cannot be launched and leaves the queue.", *str(error).splitlines()]
        others = [record for record in planner.cluster.named(planner.request.name) if record.status not in ENDED]
        if planner.group.missing or any(map(planner.group.scope.is_of_others, others)):
            # Whether an unreachable host or another group could help is not for this run to decide.
            return planner.answer("PENDING", report=str(error).splitlines())
        waiting = [record for record in planner.cluster.named(planner.request.name) if record.status == PENDING]
        if not waiting:
            raise
        refused = advance(waiting[0], ERROR, "It could not be launched.", report=tuple(report))
        return planner.answer("REFUSED", report=report, pending=refused)


def run(planner: Planner, cleaned_up: bool) -> Decided:
    """Return the decision. cleaned_up: whether unowned parts have been removed already.

    Raises InvalidInput, also for a name whose session belongs to another user.
    """
    _check_access(planner)
    work = cleanup_work(planner.group, planner.cluster, _removals(planner))
    if work and not cleaned_up:
        return planner.answer("CLEANUP", cleanup=work, report=["Removing parts that no session owns."])
    _check_conflicts(planner)
    current = _current(planner)
    meant = planner.wish.changes
    if meant and (current is None or (current.id, current.status) != (meant, RUNNING)):
        return _not_changed(planner, "It was torn down or has ended meanwhile.")
    launchers = _launchers(planner)
    if launchers or (current is not None and current.status == PREPARING):
        report = [_launch_report(planner, launchers)]
        return planner.answer("WAITING", record=current, launchers=encode(launchers), report=report)
    return _new_plan(planner, None) if current is None else _run_again(planner, current)


def _run_again(planner: Planner, current: Record) -> Decided:
    """Return the decision for a session that exists: it waits or runs."""
    require_known(current)
    stored_before = Request.from_dict(current.request)
    before = planner.sized(stored_before) if current.status == PENDING else stored_before
    if _was_changed_meanwhile(planner, current, before):
        return _not_changed(planner, "Its request was changed meanwhile, so it is left as it is.")
    request = in_mode_of(before, planner.request)
    is_recreated = planner.recreate and before.roles != request.roles
    if current.status == RUNNING and may_change_to(before, request) and not is_recreated:
        _refuse_more_than_granted(planner, current)
        return changed(planner, current, before, request)
    changes = diff_requests(before, planner.request)
    if changes and not planner.recreate:
        return _refusal(current, planner.owner, changes)
    if current.status == PENDING:
        stored, shared_with = planner.request.to_dict(), planner.users_of(current)
        planner.is_judged |= before == planner.request
        if (stored_before.to_dict(), current.shared_with) != (stored, shared_with):  # it keeps its place in the queue
            why = "Its request was changed."
            current = advance(current, PENDING, why, request=stored, shared_with=shared_with)
        return _new_plan(planner, current)
    if not changes:
        _refuse_more_than_granted(planner, current)
        return planner.placed_already(current)
    return {**_new_plan(planner, None, replaced=current), "diff": difference_of(changes)}


def _was_changed_meanwhile(planner: Planner, current: Record, before: Request) -> bool:
    """Tell whether the owner changed the request of a running session after this run had found a loss."""
    if not planner.wish.changes or not planner.is_queued or planner.wish.min_size is not None:
        return False
    growth = [] if current.growth is None else [Request.from_dict(current.growth.request)]
    return planner.request not in (before, *growth)


def _not_changed(planner: Planner, why: str) -> Decided:
    return planner.answer("CANCELLED", report=[f"Session {planner.request.name} is not changed.", why])


def _check_access(planner: Planner) -> None:
    """Reject a name whose session belongs to another resource group or user. Raises InvalidInput."""
    for record in planner.cluster.named(planner.request.name):
        if record.status not in ENDED:
            _check_group(planner, record)
            planner.asker.check(record.name, record.owner, record.shared_with)


def _check_conflicts(planner: Planner) -> None:
    for conflict in planner.cluster.conflicts.values():
        if conflict.session_name == planner.request.name:
            raise InvalidInput.single("session_name", planner.request.name, str(conflict))


def _removals(planner: Planner) -> dict[str, list[Removal]]:
    """Return what is removed before a launch, by host."""
    removals = dict(planner.cluster.orphaned)
    for host, ended in _ended_before(planner).items():
        removals[host] = removals.get(host, []) + ended
    return removals


def _check_group(planner: Planner, record: Record) -> None:
    """Reject a name whose session belongs to another resource group. Raises InvalidInput."""
    if planner.group.scope.is_of_others(record):
        raise InvalidInput.single(
            "session_name",
            record.name,
            f"A session of this name belongs to resource group {printable(group_of(record))}, which has some of "
            f"the same hosts. Launch it with {GROUP}={printable(group_of(record))}, or choose another name.",
        )


def _launchers(planner: Planner) -> dict[str, Launcher]:
    """Return, by host, the reservations of runs that may still be launching a session of this name."""
    return {
        host: Launcher(
            held.claim,
            held.stage,
            held.lease_owner,
            max(0, round(held.expires - facts.clock)),
            held.expires,
            None if held.since is None else max(0, round(facts.clock - held.since)),
        )
        for host, held, facts in ((host, held, planner.facts[host]) for host, held in planner.group.launching)
        if held.claim.session_name == planner.request.name and held.expires is not None
    }


def _launch_report(planner: Planner, launchers: Mapping[str, Launcher]) -> str:
    name = planner.request.name
    if not launchers:
        return f"Session {name} is being launched by another run."
    last = max(launchers.values(), key=lambda held: held.left)
    heard = "" if last.silent is None else f", which was last heard of {last.silent} s ago"
    return (
        f"Session {name} is being launched by another run{heard}; its place on {', '.join(launchers)} is held for "
        f"{last.left} s more."
    )


def _ended_before(planner: Planner) -> dict[str, list[Removal]]:
    """Return the remains of ended sessions of this name: this launch takes their place."""
    found: dict[str, list[Removal]] = {}
    named = planner.cluster.named(planner.request.name)
    ended = [record for record in named if record.status in ENDED and planner.group.scope.is_own(record)]
    for record in ended:
        for host, facts in planner.facts.items():
            if any(copy.id == record.id for copy in facts.records):
                why = f"It has ended and is launched again. {' '.join(record.report)}"
                found.setdefault(host, []).append(Removal(record.id, record.name, False, why, record.revision))
    return found


def _current(planner: Planner) -> Record | None:
    """Return the record of the existing session of this name. Raises InvalidInput, and InvalidPlan."""
    records = [record for record in planner.cluster.named(planner.request.name) if record.status not in ENDED]
    placed = [record for record in records if record.status != PENDING]
    if len(placed) > 1:
        return _launched_one(planner, placed)
    if placed:
        _check_placed(planner, placed[0])
        return placed[0]
    _check_without_record(planner, {record.id for record in records})
    return min(records, key=lambda record: (record.queue_number, record.id), default=None)


def _launched_one(planner: Planner, placed: Sequence[Record]) -> Record:
    """Return the one of several sessions that a run launches: of concurrent launches all but one give up."""
    at_work = {held.claim.session_id for held in _launchers(planner).values()}
    launched = next((record for record in placed if record.id in at_work), None)
    if launched is None:
        raise InvalidInput.single(
            "session_name",
            planner.request.name,
            "Hosts have records of different sessions of this name: "
            + ", ".join(f"{record.id} on {', '.join(record.hosts)}" for record in placed)
            + ". Tear the name down with the teardown_cluster playbook and launch it again.",
        )
    return launched


def _check_placed(planner: Planner, record: Record) -> None:
    """Reject a launch of a session that has a place, if it is not known enough of it. Raises InvalidInput."""
    missing = [host for host in record.hosts if host not in planner.facts]
    if missing and not _replaces(planner, record, missing):
        unusable = planner.group.unusable
        reasons = [f"{host}: {planner.group.why_missing[host]}" for host in missing if host in unusable]
        raise InvalidInput.single(
            "session_name",
            planner.request.name,
            f"The session has replicas on {', '.join(missing)}, which cannot be reached or left the resource "
            "group. Bring them back, or tear the session down. "
            + " ".join([*reasons, *_why_not_replaced(planner, record, missing)]),
        )
    if is_stub(record):
        raise InvalidInput.single(
            "session_name",
            planner.request.name,
            f"The session's hosts {', '.join(record.hosts)} have lost its record. Run the repair playbook, "
            "or tear the session down.",
        )
    if record.status == RUNNING:
        validate_plan(record.plan)


def _check_without_record(planner: Planner, known: Collection[str]) -> None:
    """Reject a name of which hosts have containers, but no host a record. known: ids of sessions that wait."""
    name = planner.request.name
    for host, facts in planner.facts.items():
        found = [container for container in facts.containers if container.session_name == name]
        if any(container.session_id not in known for container in found):
            raise InvalidInput.single(
                "session_name",
                name,
                f"Host {host} has containers of a session of this name, but no host has its record. Run the "
                "repair playbook, which makes a new one, or tear the session down. " + " ".join(facts.damaged),
            )


def _refuse_more_than_granted(planner: Planner, record: Record) -> None:
    """Reject making on a host what only a copy of another host contains. Raises InvalidInput and InvalidPlan."""
    inventory = planner.inventory_of(record.owner)
    reached = {name: planner.facts[name] for name in record.hosts if name in planner.facts}
    for host in hosts_from_facts(reached, inventory):
        own = next((copy for copy in planner.facts[host.name].records if copy.id == record.id), None)
        if own is None or is_stub(own) or own.revision < record.revision:
            private = planner.facts[host.name].private
            roots = {root: exposed(root, private) for root in roots_of(inventory, host.name)}
            drivers = drivers_of(inventory, host.name)
            check_plan(record.plan, host.name, roots, drivers, host.devices)


def _replaces(planner: Planner, record: Record, missing: Sequence[str]) -> bool:
    """Tell whether the replicas of *missing* hosts of a session move to others now."""
    wants = planner.wants_replacement(record) and not is_stub(record)
    return wants and not _why_not_replaced(planner, record, missing)


def _why_not_replaced(planner: Planner, record: Record, missing: Sequence[str]) -> list[str]:
    """Return why replicas of unreachable hosts stay where they are, in full sentences."""
    if not planner.wants_replacement(record):
        return []
    reasons = [
        why for host in missing if (why := planner.group.why_not_lost(record, host, planner.wish.without_retired))
    ]
    return [f"Its replicas are not given to others: {' '.join(reasons)}"] if reasons else []


def _new_plan(planner: Planner, waiting: Record | None, replaced: Record | None = None) -> Decided:
    """Find a place. waiting: the record, if the session waits already. replaced: that of the one it replaces."""
    request = planner.request
    before = waiting or replaced  # it keeps its owner, whichever user changes its request
    owner = planner.owner if before is None else before.owner
    inventory = planner.inventory_of(owner, is_new=True)
    _check_limits(planner, owner)
    old = read_plan(replaced.plan) if replaced is not None else None
    check_request_against_hosts(request, planner.facts, current=old, inventory=inventory)
    if not planner.group.missing:
        check_request_fits_idle(request, planner.hosts(True))
    session_id = waiting.id if waiting is not None else planner.draw()
    number = waiting.queue_number if waiting is not None else next_number(planner.cluster.pending())
    entry = _queue_entry(planner, session_id, number, with_tentative=True)
    if entry.problem is not None:
        raise entry.problem
    shared_with = planner.shared_with if before is None else planner.users_of(before)
    record = waiting or new_record(session_id, owner, request.to_dict(), shared_with)
    if entry.placement is None:
        return _no_place(planner, entry, record, number, replaced is not None)
    planner.problems += doubts(entry.placement)
    check_request_against_hosts(request, planner.facts, entry.placement, old, inventory)
    free = {host.name: host.free_devices for host in planner.hosts(True)}
    inputs = PlanInputs(planner.facts, planner.settings, free, inventory)
    plan = build_plan(request, entry.placement, session_id, inputs, old)
    needs = needs_of(images_of(plan.replicas), planner.facts, request.image_pull, planner.archived_images())
    plan = with_images(plan, needs)
    faster = ["Concurrent launches took the capacity."]
    pending = None if replaced is not None else _pending(record, number, faster)
    record = replace(prepared(record, encode(plan)), witnesses=planner.witnesses(request))
    return planner.placed(record, plan, needs, fresh=True, replaces=replaced is not None, pending=pending)


def _check_limits(planner: Planner, owner: str) -> None:
    """Reject a request for a new session that exceeds limits, or that the site does not allow. Raises InvalidInput."""
    request = planner.request
    known = [record.request["priority"] for record in planner.cluster.named(request.name) if record.request]
    asks_priority = not planner.is_queued and not planner.asker.is_admin and request.priority not in known
    used = planner.group.used_by(owner, planner.cluster, request.name)
    planner.settings.limits.check(request, owner, used, asks_priority)
    check_request_against_site(request, planner.settings)
    planner.check_users(request.roles, owner)


def _no_place(planner: Planner, entry: QueueEntry, record: Record, number: int, replaces: bool) -> Decided:
    """Return the decision for a session that has no place now. replaces: whether it was to replace another one."""
    # Resources that only tentative sessions hold may be free soon: their launches end, one way or the other.
    if _queue_entry(planner, record.id, number, with_tentative=False).placement is not None:
        report = [f"Session {planner.request.name} waits for sessions that are being launched."]
        return planner.answer("WAITING", report=report, pending=_pending(record, number, report))
    report = _reasons(planner, entry, record)
    if replaces:
        report[-1] = "The session that it was to replace runs on."
        return planner.answer("PENDING", report=report)
    return planner.answer("PENDING", report=report, pending=_pending(record, number, report))


def _queue_entry(planner: Planner, session_id: str, number: int, with_tentative: bool) -> QueueEntry:
    others = [record for record in planner.group.pending(planner.cluster) if record.name != planner.request.name]
    shares = planner.group.shares(planner.settings.fair_share)
    waiting, planner.problems = waiting_of(others, shares, planner.facts)
    own = planner.cluster.records.get(session_id)
    owner, is_head = (planner.owner, False) if own is None else (own.owner, own.is_head)
    unfit = unfit_hosts(planner.request, planner.facts)
    waiting.append(waiting_session(session_id, planner.request, number, owner, shares, is_head, unfit))
    hosts = planner.hosts(with_tentative)
    entries = schedule_queue(waiting, hosts, planner.settings.topology_keys, planner.group.known)
    return next(entry for entry in entries if entry.waiting.session_id == session_id)


def _reasons(planner: Planner, entry: QueueEntry, record: Record) -> list[str]:
    earlier = planner.cluster.records.get(record.id)
    is_kept = planner.wish.on_no_capacity != FAIL or (earlier is not None and earlier.request == record.request)
    first = f"Session {planner.request.name} is PENDING, position {entry.position} in the queue."
    if not is_kept:
        first = f"There is no capacity for session {planner.request.name} now, and session_on_no_capacity is {FAIL}."
    lines = [first, *describe(planner.request)]
    if entry.blocked_by is not None:
        lines.append(
            f"Capacity reserved for session {entry.blocked_by}, the first of the queue, does not count as free."
        )
    lines += [] if entry.shortfall is None else render_shortfall(entry.shortfall)
    lines += render_obstacles(entry.waiting.obstacles)
    lines += [f"Host {name}: {facts.drained}" for name, facts in planner.facts.items() if facts.drained is not None]
    if planner.request.size > 1 and planner.request.mode != SINGLE_NODE:
        lines += [f"Host {name}: {why}" for name, why in why_no_endpoint(planner.facts).items()]
    if not is_kept:
        kept = "; the earlier request stays in the queue" if earlier else ""
        return [*lines, f"Nothing was started or queued{kept}."]
    return [*lines, "The schedule_pending playbook launches it when there is room; its teardown cancels it."]


def _pending(record: Record, number: int, report: list[str]) -> Record:
    """Return the record of a session that waits; if it waits already it stays as it is."""
    if record.status == PENDING:
        return record
    return advance(record, PENDING, "There was no room for it.", queue=QueueTicket(number), report=tuple(report))


def _refusal(current: Record, owner: str, changes: list[tuple[str, str, str]]) -> Decided:
    lines = [f"{field}: {old} -> {new}" for field, old, new in changes]
    if current.owner != owner:
        lines.append(f"It was asked for by {printable(current.owner)}.")
    return {
        "status": "DIFFERENT",
        "failure": f"The session {current.name} exists with a different specification:\n"
        + "\n".join(lines)
        + "\nNothing is touched. Launch with session_recreate=true to remove it and launch it again, or tear it down "
        "first.",
        "diff": difference_of(changes),
    }
