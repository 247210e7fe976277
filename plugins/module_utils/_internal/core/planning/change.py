# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The decision of a launch for a running session: it grows, shrinks, or continues in other places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model.claims import COMMITTED, Claim
from ..model.decode import encode
from ..model.fields import REPLACE
from ..model.plan import Plan
from ..model.record import MOVE, RESIZE, RUNNING, Change, Growth, Record, advance, read_record
from ..model.request import Request, counts_of, diff_requests, with_counts
from ..rules.admission import check_request_against_hosts, render_shortfall
from ..rules.build import PlanInputs, images_of, with_images
from ..rules.capacity import allocatable_of, hosts_from_facts
from ..rules.change import changed_plan, claim_beyond, find_places, refuse_growth, target_of
from ..rules.check import validate_plan
from ..rules.data import READS, WRITES
from ..rules.durations import together
from ..rules.images import needs_again
from ..rules.ledger import CHANGE, claims_of
from ..rules.obstacles import obstacles, render_obstacles
from ..rules.placement import Shortfall
from ..rules.queue import next_number
from ..values.errors import InvalidInput
from .launch import Planner, difference_of


class ChangePlanner(Planner):
    """A planner that knows how sessions change while they run."""

    def _changed(self, current: Record, before: Request, request: Request) -> dict[str, Any]:
        """Return the decision for a session that is to continue: as it is, or with other replicas or places."""
        plan = validate_plan(current.plan)
        if self.wish.restores is not None:
            return self._restored(current, plan, read_record(self.wish.restores))
        undecided = self.cluster.undecided.get(current.id)
        if undecided is not None and undecided.before is not None:
            return self._taken_back(current, plan, undecided.before, undecided.agreed)
        lost_hosts = [host for host in plan.hosts if host not in self.facts]
        unplaced = self._unplaced(current, plan)
        old = {entry.name: entry.host for entry in plan.replicas}
        # Replicas that have already left the host that they were to leave stay where they are.
        displaced = [name for name, host in self.wish.displaced.items() if old.get(name) == host]
        evicted = {*displaced, *unplaced, *(name for name, host in old.items() if host in lost_hosts)}
        given_up = dict.fromkeys(self.wish.given_up)
        target = target_of(plan, _without(request, given_up), evicted)
        shared_with = self._shared_with(current)
        changes = diff_requests(before, request)
        if not target.homeless and not target.gone:
            refuse_growth(plan, request.max_size or 0)
            missing = self.group.unfinished(current)
            if not changes and (missing or undecided is not None) and current.change is not None:
                # The same again: hosts that have their part of it already do nothing.
                decided = self._placed_already(current)
                places = {name: current.change.places[name] for name in missing}
                known = self._electors(current) if current.change.kind == REPLACE else current.witnesses
                parts = self._parts_of_change(plan, plan, replace(current.change, places=places), known)
                return {**decided, "claims": parts.pop("claims"), "change": {**parts, "before": encode(current)}}
            others = self.group.other_witnesses(current)
            if not changes and self.wish.changes and others:
                why = "It has other witnesses."
                return self._as_before(current, plan, replace(current, witnesses=others), why)
            growth = current.growth if self.wish.changes else None  # the size that was requested last is right
            if not changes and (shared_with, growth) == (current.shared_with, current.growth):
                return self._placed_already(current)
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
                shared_with=shared_with,
                growth=growth,
                witnesses=self._witnesses(request, current),
            )
            decided = self._placed_already(renewed)
            return {**decided, "diff": difference_of(changes)} if changes else decided
        refuse_growth(plan, max(request.size, request.max_size or 0))
        if {*target.names} - {entry.name for entry in plan.replicas}:
            self.settings.limits.check(
                request, current.owner, self.group.used_by(current.owner, self.cluster, self.request.name)
            )
        hosts = hosts_from_facts(self.facts, self.group.inventory)
        candidates = [host for host in hosts if host.name not in self.wish.avoid]
        homes: dict[str, str] = {}
        if target.homeless:
            check_request_against_hosts(request, self.facts, current=plan, inventory=self.group.inventory)
            keys = self.settings.topology_keys
            found = find_places(plan, request, target, candidates, self.facts, keys, self.group.known)
            if isinstance(found, Shortfall):
                names = [host.name for host in candidates]
                blocked = obstacles(plan, request, target.homeless, names, self.facts)
                return self._no_room(current, before, request, plan, evicted, found, blocked)
            homes = found
        free = {host.name: host.free_devices for host in hosts}
        fenced = [address for host in lost_hosts if (address := plan.hosts[host].underlay_address)]
        request = Request.from_dict(_without(request, given_up).to_dict())
        after = changed_plan(
            plan, request, target, homes, PlanInputs(self.facts, self.settings, free, self.group.inventory), fenced
        )
        needs = needs_again(images_of(after.replicas), self.facts, self.request.image_pull, after.images)
        if any(need.fetches for need in needs):
            archive = self._archive()
            needs = needs_again(images_of(after.replicas), self.facts, self.request.image_pull, after.images, archive)
        after = with_images(after, needs)
        # A change that was begun is finished as it began: hosts that may still run what comes are let go of first.
        is_begun = bool({*self.group.unfinished(current)} & {*target.homeless})
        began = current.change.kind if current.change and is_begun else RESIZE
        kind = REPLACE if lost_hosts or began == REPLACE else MOVE if self.wish.displaced else began
        # Replicas that never came to their new place come from where they were before, or are still new.
        origin = {**old, **{name: current.change.places[name] for name in unplaced if current.change}}
        places = {name: origin.get(name) for name in target.homeless}
        change = Change(kind, places)
        why = _why_changed(len(plan.replicas), len(after.replicas), lost_hosts)
        record = advance(
            current,
            RUNNING,
            why,
            request=after.request,
            plan=encode(after),
            hosts=tuple(after.hosts),
            shared_with=shared_with,
            change=change,
            growth=None if changes else current.growth,
            witnesses=self._witnesses(request, current),
        )
        decided = self._placed(record, after, needs, fresh=False, replaces=False)
        # A replica that starts on this side of a broken network may be started on the other side as well.
        known = self._electors(current) if kind == REPLACE else current.witnesses if places else ()
        parts = self._parts_of_change(plan, after, change, known)
        parts["is_new"] = kind == REPLACE and not self.group.unfinished(current)
        return {
            **decided,
            "claims": parts.pop("claims"),
            "change": {**parts, "before": encode(current)},
            "diff": difference_of([*changes, *((name, host or "-", homes[name]) for name, host in places.items())]),
            "report": [
                *self._partly(request),
                f"Session {record.name} ({record.id}): {why}",
                *_moves_report(change, homes),
            ],
        }

    def _restored(self, current: Record, plan: Plan, before: Record) -> dict[str, Any]:
        """Return the decision that gives a session back the hosts that it had, because others could not take over.

        The lost host is one of them again: the session waits for it, and the next run gives its part to others. Raises
        InvalidInput if a host that may have started what others were to take over cannot be reached.
        """
        away = [host for host in plan.hosts if host not in self.facts]
        if away:
            raise InvalidInput.single(
                "session_name", current.name, f"{', '.join(away)} may have started replicas and cannot be reached."
            )
        why = "Its lost replicas could not be started elsewhere; it has its earlier places again."
        return self._as_before(current, plan, before, why)

    def _taken_back(self, current: Record, plan: Plan, before: Record, voted: Sequence[str]) -> dict[str, Any]:
        """Return the decision that gives a session back the hosts that it had, one of which was only cut off.

        A run that ended has begun to replace it. So that this run cannot continue with that, most witnesses have to
        agree that have not agreed to the replacement. voted: those that have.
        """
        why = "The host that was taken for lost is reachable; it has its earlier places again."
        decided = self._as_before(current, plan, before, why)
        staying = [host for host in before.hosts if host in self.facts]
        base = {"revision": before.revision, "hosts": list(before.hosts)}
        change = {**decided["change"], "staying": staying, "voted": list(voted), "base": base}
        return {**decided, "hosts": staying, "change": change}

    def _as_before(self, current: Record, plan: Plan, before: Record, why: str) -> dict[str, Any]:
        record = advance(
            replace(before, revision=current.revision, history=current.history),
            RUNNING,
            why,
            change=None,
            growth=current.growth,
            shared_with=current.shared_with,
        )
        after, change = validate_plan(before.plan), Change(MOVE, {})
        parts = self._parts_of_change(plan, after, change, self._electors(current))
        return self._answer(
            "SCHEDULED",
            fresh=False,
            hosts=[host for host in after.hosts if host in plan.hosts],
            record=record,
            claims=parts.pop("claims"),
            change={**parts, "before": encode(current)},
            report=[f"Session {record.name} ({record.id}): {why}"],
        )

    def _electors(self, current: Record) -> tuple[str, ...]:
        return self.group.electors(current, self.wish.without_retired)

    def _partly(self, request: Request) -> list[str]:
        missing = self.request.size - request.size
        return [] if missing <= 0 else [f"There is room for {request.size} of {self.request.size} replicas."]

    def _unplaced(self, current: Record, plan: Plan) -> list[str]:
        """Return the replicas whose host according to the last change neither has them nor holds a place for them.

        This happens if a controller ended between the leases and the hosts' taking over the replicas.
        """
        missing = self.group.unfinished(current)
        found: list[str] = []
        for host in plan.hosts:
            if host not in self.facts:
                continue
            held = [
                reservation.claim.replicas
                for reservation in self.facts[host].reservations
                if reservation.claim.session_id == current.id and reservation.stage == COMMITTED
            ]
            here = [entry.name for entry in plan.on(host)]
            if sum(held) < len(here):
                found += [name for name in here if name in missing]
        return found

    def _no_room(
        self,
        current: Record,
        before: Request,
        request: Request,
        plan: Plan,
        evicted: set[str],
        short: Shortfall,
        blocked: Mapping[str, str],
    ) -> dict[str, Any]:
        """Return the decision if not all replicas that need a host find one. blocked: `obstacles`."""
        new = request.size - len(plan.replicas)
        there = len([entry for entry in plan.replicas if entry.name not in evicted])
        if new > 0 and self.wish.min_size is not None and short.largest_size > 0:
            # Replicas that have lost their host come first in rank order.
            size = max(self.wish.min_size, min(there + short.largest_size, request.size - 1))
            if there + short.largest_size >= size > before.size:
                return self._changed(current, before, _shortened(request, plan, size))
        places = current.change.places if current.change else {}
        wanted = {name for name, _role, _index in request.replicas()}
        unplaced = [name for name in self._unplaced(current, plan) if places[name] is None and name in wanted]
        if unplaced:
            # If new replicas never came to be, the change is undone from the first of them on, as they came together
            # and the highest ranks go. Replicas that only lost their host have run, and wait for another.
            first = min(entry.rank for entry in plan.replicas if entry.name in unplaced)
            keep = {**counts_of(before)}
            for entry in plan.replicas[first:]:
                keep[entry.role] -= 1
            decided = self._changed(current, before, with_counts(before, keep))
            return {**decided, "report": [*render_shortfall(short), *decided["report"]]}
        stored = request.to_dict()
        is_known = current.growth is not None and current.growth.request == stored
        if new > 0 and not evicted and (self.wish.waits or is_known):
            report = [
                f"Session {self.request.name} runs on as it is, and waits for room to grow by {new}.",
                *render_shortfall(short),
                *render_obstacles(blocked),
                "The schedule_pending playbook lets it grow when there is room; a launch with its present size cancels "
                "that.",
            ]
            if is_known:
                return self._answer("PENDING", record=current, report=report, grows_later=True)
            growth = Growth(stored, next_number(self.cluster.pending()))
            renewed = advance(current, RUNNING, "It is to grow when there is room.", growth=growth)
            return {**self._placed_already(renewed), "report": report, "grows_later": True}
        homeless = ", ".join(sorted(evicted)) or "more replicas"
        report = [
            f"Session {self.request.name} stays as it is: there is no room for {homeless}.",
            *render_shortfall(short),
            *render_obstacles(blocked),
            "Launch it again when there is room.",
        ]
        return self._answer("PENDING", report=report)

    def _parts_of_change(self, plan: Plan, after: Plan, change: Change, known: Sequence[str] = ()) -> dict[str, Any]:
        """Return the hosts' parts in a change, and what each has to hold for it.

        known: the hosts of which most have to agree to it (`rules.quorum`), none if nothing starts.
        """
        change_id = self.draw()
        claims = claims_of(after)
        allocatable = {host.name: allocatable_of(host).to_dict() for host in self._hosts(with_tentative=True)}
        held = {
            host: reservation.claim
            for host, facts in self.facts.items()
            for reservation in facts.reservations
            if reservation.claim.session_id == plan.session.id and reservation.stage == COMMITTED
        }
        receiving = [host for host in after.hosts if any(after_on.name in change.places for after_on in after.on(host))]
        staying = [host for host in after.hosts if host in plan.hosts and host in self.facts]
        # Two concurrent changes meet at the first host of the session, whichever hosts they concern. While that host
        # leaves, the first that stays keeps others out.
        first = [host for host in plan.hosts if host in self.facts][:1]
        agreeing = [host for host in known if host in self.facts]
        holding = list(dict.fromkeys([*receiving, *first, *staying[:1], *_writers(after, receiving), *agreeing]))
        nothing = Claim(change_id, f"{plan.session.name}{CHANGE}")
        return {
            "id": change_id,
            "kind": change.kind,
            "places": dict(change.places),
            "receiving": receiving,
            "staying": staying,
            "leaving": [host for host in plan.hosts if host not in after.hosts and host in self.facts],
            "holding": holding,
            "electors": list(known),
            "main": plan.replicas[0].host,
            "ran": together(facts.times.get(plan.session.id) for facts in self.facts.values()).ran or 0,
            "claims": {
                host: {
                    "claim": (claim_beyond(claims.get(host, nothing), held.get(host), change_id) or nothing).to_dict(),
                    "allocatable": allocatable[host],
                }
                for host in holding
            },
            "allocatable": {host: allocatable[host] for host in after.hosts if host in allocatable},
        }


def _without(request: Request, names: Mapping[str, Any]) -> Request:
    """Return the request without some of its replicas, the last of their roles."""
    counts = counts_of(request)
    for name, role, _index in request.replicas():
        counts[role.name] -= name in names
    return with_counts(request, counts) if names else request


def _shortened(request: Request, plan: Plan, size: int) -> Request:
    """Return the request with only *size* replicas: all of the plan, and the first of the new ones."""
    old = {entry.name for entry in plan.replicas}
    new = [name for name, _role, _index in request.replicas() if name not in old]
    return _without(request, dict.fromkeys(new[size - len(old) :]))


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
