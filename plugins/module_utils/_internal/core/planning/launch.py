# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The decision of a launch from the facts of its group's hosts: continue, find a place, wait, or reject."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..cluster.group import GroupFacts, cleanup_actions, waiting_of, waiting_session
from ..cluster.state import ClusterState, Removal
from ..model.answers import FactsAnswer
from ..model.claims import Claim
from ..model.decode import encode
from ..model.fields import REPLACE, SINGLE_NODE, WAIT
from ..model.plan import Plan, read_plan
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
from ..rules.access import ADMIN, Asker
from ..rules.admission import (
    check_request_against_hosts,
    check_request_against_site,
    check_request_fits_idle,
    render_shortfall,
)
from ..rules.build import PlanInputs, build_plan, images_of, with_images
from ..rules.capacity import allocatable_of, hosts_from_facts
from ..rules.check import validate_plan
from ..rules.data import drivers_of, exposed, roots_of
from ..rules.endpoints import engine_without_rules, why_no_endpoint
from ..rules.grants import check_plan
from ..rules.images import Need, needs_again, needs_of
from ..rules.ledger import claims_of
from ..rules.obstacles import render_obstacles, unfit_hosts
from ..rules.placement import Host
from ..rules.queue import QueueEntry, next_number, schedule_queue
from ..rules.rendezvous import name_hosts
from ..rules.scope import VARIABLE as GROUP
from ..rules.site import Settings
from ..values.errors import CoreError, InvalidInput, printable

Archive = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Wish:
    """The wishes of a launch for a running session, beyond its request.

    min_size: it may grow by less than requested, to no fewer replicas than this; None: by all or not at all. replaces:
    whether replicas of lost hosts move to others whatever the request sets. displaced: replicas that are to leave a
    host, with that host. avoid: hosts that get none. given_up: new replicas that could not be started. changes: the id
    of the session that this is for, so that another one of its name is not changed. waits: growth without capacity
    waits for it. restores: the record as it was before lost hosts were replaced, if that could not be finished.
    without_retired: whether witnesses that left the inventory do not count (`GroupFacts.electors`).
    """

    min_size: int | None = None
    replaces: bool = False
    displaced: Mapping[str, str] = field(default_factory=dict)
    avoid: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    changes: str = ""
    waits: bool = False
    restores: Mapping[str, Any] | None = None
    without_retired: bool = False


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


class Planner(ABC):
    """One launch: everything that is known about it, and the decision."""

    def __init__(
        self,
        request: Request,
        owner: str,
        recreate: bool,
        group: GroupFacts,
        settings: Settings,
        *,
        draw: Callable[[], str],
        read_archive: Callable[[Request], Archive],
        run: str = "",
        shared_with: Sequence[str] = (),
        asker: Asker = ADMIN,
        wish: Wish = Wish(),
        alone: Collection[str] = (),
    ) -> None:
        """Take the request and the facts of hosts.

        draw: gives a new UUID. read_archive: reads the controller's archive of images, which the request names. run:
        identifies this run. asker: the user who launches. alone: ids of sessions that were `alone` at an earlier look.
        """
        self.asker = asker
        self.wish = wish
        self.run_name = run
        self.draw = draw
        self.read_archive = read_archive
        self.request = request
        self.owner = owner
        self.shared_with = tuple(shared_with)
        self.recreate = recreate
        self.group = group
        self.facts = group.facts
        self.settings = settings
        self.cluster: ClusterState = group.cluster_state()
        named = {record.id for record in self.cluster.named(request.name)}
        # While a host is unreachable it may be one of theirs by another name.
        self.alone = sorted(named & self.cluster.alone) if not group.missing else []
        for session_id in {*self.alone} & {*alone}:
            self.cluster.forget(session_id)
        self.problems: list[str] = []
        self.archive: Archive | None = None
        self.has_waited = self.is_queued = False

    def decide(self, waits: Record | None, queued: bool, cleaned_up: bool) -> dict[str, Any]:
        """Return the decision.

        waits: the record of a waiting session as it was last seen, else None. queued: whether the launch comes from the
        queue. cleaned_up: whether unowned parts have been removed already. Raises InvalidInput if the run waits for a
        session that has left the queue, and RenamedHost.
        """
        self.has_waited, self.is_queued = queued or waits is not None, queued
        self.cluster.check_names()
        answer = self.answer_to_queued(waits) if waits is not None else None
        if answer is None:
            return self.run_queued(cleaned_up) if queued else self.run(cleaned_up)
        if answer["pending"] is None and not queued:
            raise InvalidInput.single("session_name", self.request.name, " ".join(answer["report"]))
        return answer

    def answer_to_queued(self, waits: Record) -> dict[str, Any] | None:
        """Return the decision if the session that waited is not to be launched, else None.

        waits: its record as it was last seen.
        """
        record = self.cluster.records.get(waits.id)
        has_tombstone = any(tombstone.id == waits.id for facts in self.facts.values() for tombstone in facts.tombstones)
        unsure = bool(self.group.missing) or any(facts.damaged for facts in self.facts.values())
        if unsure and not has_tombstone and (record is None or record.revision < waits.revision):
            report = [f"Session {self.request.name} waits on: no facts could be collected from hosts that know it."]
            return self._answer("PENDING", report=report, pending=waits)
        first = f"Session {self.request.name} is not launched."
        if record is None:
            return self._answer("CANCELLED", report=[first, "It was cancelled while it waited."])
        if record.status in ENDED:
            return self._answer("REFUSED", report=[first, "It has ended.", *record.report], pending=record)
        if record.status == PENDING and Request.from_dict(record.request) != self.request:
            why = "Its request was changed while it waited; the new one is launched in its turn."
            return self._answer("CANCELLED", report=[first, why])
        if waits.growth is not None and record.status == RUNNING:
            wanted = [record.request, *([] if record.growth is None else [record.growth.request])]
            if waits.growth.request not in wanted:
                why = "Its request was changed while it waited to grow."
                return self._answer("CANCELLED", report=[first, why])
        return None

    def run_queued(self, cleaned_up: bool) -> dict[str, Any]:
        """Return the decision for a session from the queue: one that cannot be launched leaves it."""
        try:
            return self.run(cleaned_up)
        except CoreError as error:
            if self.wish.changes or self.wish.displaced:
                # It continues to run, and does not leave the queue if it waits there to grow.
                first = f"Session {self.request.name} stays as it is."
                return self._answer("PENDING", report=[first, *str(error).splitlines()])
            report = [f"Session {self.request.name} cannot be launched and leaves the queue.", *str(error).splitlines()]
            others = [record for record in self.cluster.named(self.request.name) if record.status not in ENDED]
            if self.group.missing or any(map(self.group.scope.is_of_others, others)):
                # Whether an unreachable host or another group could help is not for this run to decide.
                return self._answer("PENDING", report=str(error).splitlines())
            waiting = [record for record in self.cluster.named(self.request.name) if record.status == PENDING]
            if not waiting:
                raise
            refused = advance(waiting[0], ERROR, "It could not be launched.", report=tuple(report))
            return self._answer("REFUSED", report=report, pending=refused)

    def run(self, cleaned_up: bool) -> dict[str, Any]:
        """Return the decision. cleaned_up: whether unowned parts have been removed already.

        Raises InvalidInput, also for a name whose session belongs to another user.
        """
        for record in self.cluster.named(self.request.name):
            if record.status not in ENDED:
                self._check_group(record)
                self.asker.check(record.name, record.owner, record.shared_with)
        removals = dict(self.cluster.orphaned)
        for host, ended in self._ended_before().items():
            removals[host] = removals.get(host, []) + ended
        work = cleanup_actions(self.group, self.cluster, removals)
        if work and not cleaned_up:
            return self._answer("CLEANUP", cleanup_actions=work, report=["Removing parts that no session owns."])
        for conflict in self.cluster.conflicts.values():
            if conflict.session_name == self.request.name:
                raise InvalidInput.single("session_name", self.request.name, str(conflict))
        current = self._current()
        meant = self.wish.changes
        if meant and (current is None or (current.id, current.status) != (meant, RUNNING)):
            why = "It was torn down or has ended meanwhile."
            return self._answer("CANCELLED", report=[f"Session {self.request.name} is not changed.", why])
        launchers = self._launchers()
        if launchers or (current is not None and current.status == PREPARING):
            return self._answer("WAITING", record=current, launchers=launchers, report=[self._launch_report(launchers)])
        if current is None:
            return self._new_plan(None)
        require_known(current)
        before = Request.from_dict(current.request)
        if meant and self.is_queued and self.wish.min_size is None:
            # The owner may have changed the request since this run found the loss.
            growth = [] if current.growth is None else [Request.from_dict(current.growth.request)]
            if self.request not in (before, *growth):
                why = "Its request was changed meanwhile, so it is left as it is."
                return self._answer("CANCELLED", report=[f"Session {self.request.name} is not changed.", why])
        request = in_mode_of(before, self.request)
        is_recreated = self.recreate and before.roles != request.roles
        if current.status == RUNNING and may_change_to(before, request) and not is_recreated:
            self._refuse_more_than_granted(current)
            return self._changed(current, before, request)
        changes = diff_requests(before, self.request)
        if changes and not self.recreate:
            return _refusal(current, self.owner, changes)
        if current.status == PENDING:
            stored, shared_with = self.request.to_dict(), self._shared_with(current)
            if (before.to_dict(), current.shared_with) != (stored, shared_with):  # it keeps its place in the queue
                why = "Its request was changed."
                current = advance(current, PENDING, why, request=stored, shared_with=shared_with)
            return self._new_plan(current)
        if not changes:
            self._refuse_more_than_granted(current)
            return self._placed_already(current)
        return {**self._new_plan(None, replaced=current), "diff": difference_of(changes)}

    def _check_group(self, record: Record) -> None:
        """Reject a name whose session belongs to another resource group. Raises InvalidInput."""
        if self.group.scope.is_of_others(record):
            raise InvalidInput.single(
                "session_name",
                record.name,
                f"A session of this name belongs to resource group {printable(group_of(record))}, which has some of "
                f"the same hosts. Launch it with {GROUP}={printable(group_of(record))}, or choose another name.",
            )

    @abstractmethod
    def _changed(self, current: Record, before: Request, request: Request) -> dict[str, Any]:
        """Return the decision for a session that is to continue: as it is, or with other replicas or places."""

    def _witnesses(self, request: Request, current: Record | None = None) -> tuple[str, ...]:
        """Return the hosts that decide if hosts of the session are lost: those that know its name and answer now.

        current: the record of the session if it runs already; the witnesses stay the same as long as it does. Witnesses
        that left the inventory are removed only if they do not decide this change: a host without a copy of the record
        yet could not agree to what was begun (`GroupFacts.other_witnesses`).
        """
        if current is not None and current.witnesses:
            return self.group.electors(current, self.wish.without_retired)
        if request.on_host_loss == WAIT:
            return ()
        return tuple(name_hosts(request.name, self.facts, self.group.identities))

    def _shared_with(self, current: Record) -> tuple[str, ...]:
        """Return the users with whom a session is shared by this launch.

        Other users than its owner leave that as it is, and so does a launch that has waited: its request is older.
        """
        is_owner = self.asker.is_admin or self.asker.name == current.owner
        is_new = is_owner and self.owner == current.owner and not self.has_waited
        return self.shared_with if is_new else current.shared_with

    def _launchers(self) -> dict[str, dict[str, Any]]:
        """Return, by host, the reservations of runs that may still be launching a session of this name.

        silent: seconds since the host last heard from the run, if that is known. left: seconds for which its place is
        held if nothing more is heard. expires: when that is by the host's clock.
        """
        return {
            host: {
                "claim": held.claim.to_dict(),
                "stage": held.stage,
                "lease_owner": held.lease_owner,
                "silent": None if held.since is None else max(0, round(facts.clock - held.since)),
                "left": max(0, round(held.expires - facts.clock)),
                "expires": held.expires,
            }
            for host, held, facts in ((host, held, self.facts[host]) for host, held in self.group.launching)
            if held.claim.session_name == self.request.name and held.expires is not None
        }

    def _changing(self) -> dict[str, dict[str, Any]]:
        """Return, by host, the reservations of runs that may still be changing a running session of this name."""
        running = {record.id: record for record in self.cluster.named(self.request.name) if record.status == RUNNING}
        return {
            host: {
                "claim": lease.claim.to_dict(),
                "lease_owner": lease.lease_owner,
                "record": encode(running[lease.claim.amends]),
            }
            for host, lease in self.group.launching
            if lease.claim.amends in running
        }

    def _launch_report(self, launchers: Mapping[str, Mapping[str, Any]]) -> str:
        name = self.request.name
        if not launchers:
            return f"Session {name} is being launched by another run."
        last = max(launchers.values(), key=lambda held: int(held["left"]))
        heard = "" if last["silent"] is None else f", which was last heard of {last['silent']} s ago"
        return (
            f"Session {name} is being launched by another run{heard}; its place on {', '.join(launchers)} is held for "
            f"{last['left']} s more."
        )

    def _ended_before(self) -> dict[str, list[Removal]]:
        """Return the remains of ended sessions of this name: this launch takes their place."""
        found: dict[str, list[Removal]] = {}
        named = self.cluster.named(self.request.name)
        ended = [record for record in named if record.status in ENDED and self.group.scope.is_own(record)]
        for record in ended:
            for host, facts in self.facts.items():
                if any(copy.id == record.id for copy in facts.records):
                    why = f"It has ended and is launched again. {' '.join(record.report)}"
                    found.setdefault(host, []).append(Removal(record.id, record.name, False, why, record.revision))
        return found

    def _current(self) -> Record | None:
        """Return the record of the existing session of this name."""
        name = self.request.name
        records = [record for record in self.cluster.named(name) if record.status not in ENDED]
        placed = [record for record in records if record.status != PENDING]
        at_work = {held["claim"]["session_id"] for held in self._launchers().values()}
        launched = next((record for record in placed if record.id in at_work), None)
        if len(placed) > 1 and launched is not None:
            return launched  # of concurrent launches all but one give up
        if len(placed) > 1:
            raise InvalidInput.single(
                "session_name",
                name,
                "Hosts have records of different sessions of this name: "
                + ", ".join(f"{record.id} on {', '.join(record.hosts)}" for record in placed)
                + ". Tear the name down with the teardown_cluster playbook and launch it again.",
            )
        unusable = self.group.unusable
        for record in placed:
            missing = [host for host in record.hosts if host not in self.facts]
            if missing and not self._replaces(record, missing):
                raise InvalidInput.single(
                    "session_name",
                    name,
                    f"The session has replicas on {', '.join(missing)}, which cannot be reached or left the resource "
                    "group. Bring them back, or tear the session down. "
                    + " ".join(
                        [
                            *(f"{host}: {self.group.why_missing[host]}" for host in missing if host in unusable),
                            *self._why_not_replaced(record, missing),
                        ]
                    ),
                )
            if is_stub(record):
                raise InvalidInput.single(
                    "session_name",
                    name,
                    f"The session's hosts {', '.join(record.hosts)} have lost its record. Run the repair playbook, "
                    "or tear the session down.",
                )
            if record.status == RUNNING:
                validate_plan(record.plan)
            return record
        for host, facts in self.facts.items():
            known = {record.id for record in records}
            if any(
                container.session_name == name and container.session_id not in known for container in facts.containers
            ):
                raise InvalidInput.single(
                    "session_name",
                    name,
                    f"Host {host} has containers of a session of this name, but no host has its record. Run the "
                    "repair playbook, which makes a new one, or tear the session down. " + " ".join(facts.damaged),
                )
        return min(records, key=lambda record: (record.queue_number, record.id), default=None)

    def _refuse_more_than_granted(self, record: Record) -> None:
        """Reject making on a host what only a copy of another host contains. Raises InvalidInput and InvalidPlan."""
        inventory = self.group.inventory
        reached = {name: self.facts[name] for name in record.hosts if name in self.facts}
        for host in hosts_from_facts(reached, inventory):
            own = next((copy for copy in self.facts[host.name].records if copy.id == record.id), None)
            if own is None or is_stub(own) or own.revision < record.revision:
                private = self.facts[host.name].private
                roots = {root: exposed(root, private) for root in roots_of(inventory, host.name)}
                drivers = drivers_of(inventory, host.name)
                check_plan(record.plan, host.name, roots, drivers, host.devices)

    def _wants_replacement(self, record: Record) -> bool:
        """Tell whether replicas of a session are to leave lost hosts, by its request or by the user's."""
        return record.status == RUNNING and (
            self.wish.replaces or (record.request or {}).get("on_host_loss") == REPLACE
        )

    def _replaces(self, record: Record, missing: Sequence[str]) -> bool:
        """Tell whether the replicas of *missing* hosts of a session move to others now."""
        wants = self._wants_replacement(record) and not is_stub(record)
        return wants and not self._why_not_replaced(record, missing)

    def _why_not_replaced(self, record: Record, missing: Sequence[str]) -> list[str]:
        """Return why replicas of unreachable hosts stay where they are, in full sentences."""
        if not self._wants_replacement(record):
            return []
        reasons = [why for host in missing if (why := self.group.why_not_lost(record, host, self.wish.without_retired))]
        return [f"Its replicas are not given to others: {' '.join(reasons)}"] if reasons else []

    @property
    def asks_peers(self) -> list[str]:
        """Ids of sessions of this name whose hosts have to report their silent peers, before anything else."""
        return [
            record.id
            for record in self.cluster.named(self.request.name)
            if self._wants_replacement(record) and any(host not in self.facts for host in record.hosts)
        ]

    def _new_plan(self, waiting: Record | None, replaced: Record | None = None) -> dict[str, Any]:
        """Find a place. waiting: the record, if the session waits already. replaced: that of the one it replaces."""
        before = waiting or replaced  # it keeps its owner, whichever user changes its request
        owner = self.owner if before is None else before.owner
        known = [record.request["priority"] for record in self.cluster.named(self.request.name) if record.request]
        asks_priority = not self.is_queued and not self.asker.is_admin and self.request.priority not in known
        used = self.group.used_by(owner, self.cluster, self.request.name)
        self.settings.limits.check(self.request, owner, used, asks_priority)
        check_request_against_site(self.request, self.settings)
        old = read_plan(replaced.plan) if replaced is not None else None
        inventory = self.group.inventory
        check_request_against_hosts(self.request, self.facts, current=old, inventory=inventory)
        if not self.group.missing:
            check_request_fits_idle(self.request, self._hosts(True))
        session_id = waiting.id if waiting is not None else self.draw()
        number = waiting.queue_number if waiting is not None else next_number(self.cluster.pending())
        entry = self._queue_entry(session_id, number, with_tentative=True)
        if entry.problem is not None:
            raise entry.problem
        shared_with = self.shared_with if before is None else self._shared_with(before)
        record = waiting or new_record(session_id, owner, self.request.to_dict(), shared_with)
        if entry.placement is None:
            # Resources that only tentative sessions hold may be free soon: their launches end, one way or the other.
            if self._queue_entry(session_id, number, with_tentative=False).placement is not None:
                report = [f"Session {self.request.name} waits for sessions that are being launched."]
                return self._answer("WAITING", report=report, pending=self._pending(record, number, report))
            report = self._reasons(entry)
            if replaced is not None:
                report[-1] = "The session that it was to replace runs on."
                return self._answer("PENDING", report=report)
            return self._answer("PENDING", report=report, pending=self._pending(record, number, report))
        check_request_against_hosts(self.request, self.facts, entry.placement, old, inventory)
        free = {host.name: host.free_devices for host in self._hosts(True)}
        plan = build_plan(
            self.request, entry.placement, session_id, PlanInputs(self.facts, self.settings, free, inventory), old
        )
        needs = needs_of(images_of(plan.replicas), self.facts, self.request.image_pull, self._archive())
        plan = with_images(plan, needs)
        faster = ["Concurrent launches took the capacity."]
        pending = None if replaced is not None else self._pending(record, number, faster)
        record = replace(prepared(record, encode(plan)), witnesses=self._witnesses(self.request))
        return self._placed(record, plan, needs, fresh=True, replaces=replaced is not None, pending=pending)

    def _archive(self) -> Archive:
        """Return the content of the controller's archive of images, if one is given. Raises InvalidInput."""
        if self.request.image_archive is None:
            return {}
        if self.archive is None:
            self.archive = self.read_archive(self.request)
        return self.archive

    def _queue_entry(self, session_id: str, number: int, with_tentative: bool) -> QueueEntry:
        others = [record for record in self.group.pending(self.cluster) if record.name != self.request.name]
        shares = self.group.shares(self.settings.fair_share)
        waiting, self.problems = waiting_of(others, shares, self.facts)
        own = self.cluster.records.get(session_id)
        owner, is_head = (self.owner, False) if own is None else (own.owner, own.is_head)
        unfit = unfit_hosts(self.request, self.facts)
        waiting.append(waiting_session(session_id, self.request, number, owner, shares, is_head, unfit))
        hosts = self._hosts(with_tentative)
        entries = schedule_queue(waiting, hosts, self.settings.topology_keys, self.group.known)
        return next(entry for entry in entries if entry.waiting.session_id == session_id)

    def _reasons(self, entry: QueueEntry) -> list[str]:
        lines = [f"Session {self.request.name} is PENDING, position {entry.position} in the queue."]
        if entry.blocked_by is not None:
            lines.append(
                f"Capacity reserved for session {entry.blocked_by}, the first of the queue, does not count as free."
            )
        lines += [] if entry.shortfall is None else render_shortfall(entry.shortfall)
        lines += render_obstacles(entry.waiting.obstacles)
        lines += [f"Host {name}: {facts.drained}" for name, facts in self.facts.items() if facts.drained is not None]
        if self.request.size > 1 and self.request.mode != SINGLE_NODE:
            lines += [f"Host {name}: {why}" for name, why in why_no_endpoint(self.facts).items()]
        return [*lines, "The schedule_pending playbook launches it when there is room; its teardown cancels it."]

    def _pending(self, record: Record, number: int, report: list[str]) -> Record:
        """Return the record of a session that waits; if it waits already it stays as it is."""
        if record.status == PENDING:
            return record
        return advance(record, PENDING, "There was no room for it.", queue=QueueTicket(number), report=tuple(report))

    def _hosts(self, with_tentative: bool) -> list[Host]:
        return hosts_from_facts(self.facts, self.group.inventory, self.request.name, with_tentative)

    def _placed_already(self, record: Record) -> dict[str, Any]:
        plan = read_plan(record.plan)
        used = images_of(plan.replicas)
        needs = needs_again(used, self.facts, self.request.image_pull, plan.images)
        if any(need.fetches for need in needs):  # reading a large compressed archive takes long
            needs = needs_again(used, self.facts, self.request.image_pull, plan.images, self._archive())
        return self._placed(record, plan, needs, fresh=False, replaces=False)

    def _placed(
        self,
        record: Record,
        plan: Plan,
        needs: list[Need],
        *,
        fresh: bool,
        replaces: bool,
        pending: Record | None = None,
    ) -> dict[str, Any]:
        session = plan.session
        allocatable = {host.name: allocatable_of(host) for host in self._hosts(with_tentative=True)}
        hosts = list(plan.hosts)
        return self._answer(
            "SCHEDULED",
            fresh=fresh,
            replaces=replaces,
            hosts=hosts,
            fetches=[host for host in hosts if any(host in need.fetches for need in needs)],
            images=[need.to_dict() for need in needs],
            archive=sorted({image["id"] for image in (self.archive or {}).values()}),
            claims={
                name: {"claim": claim.to_dict(), "allocatable": allocatable[name].to_dict()}
                for name, claim in claims_of(plan).items()
            },
            name_claim=Claim(session.id, session.name).to_dict(),
            record=record,
            pending=pending,
            report=[
                f"Session {session.name} ({session.id}): {session.size} replicas, {session.mode}, "
                f"on {', '.join(hosts)}."
            ],
        )

    def _answer(
        self, status: str, record: Record | None = None, pending: Record | None = None, **values: Any
    ) -> dict[str, Any]:
        """Return a decision: with every key, whatever the status."""
        return {
            "status": status,
            "session_name": self.request.name,
            "lease_owner": f"{self.draw()} {self.run_name}".strip(),
            "reachable": list(self.facts),
            "name_hosts": [
                name
                for name in name_hosts(self.request.name, self.group.known, self.group.identities)
                if name in self.facts
            ],
            "fresh": True,
            "replaces": False,
            "hosts": [],
            "fetches": [],
            "images": [],
            "archive": [],
            "claims": {},
            "change": None,
            "name_claim": None,
            "launchers": {},
            "changing": self._changing(),
            "grows_later": False,
            "record": encode(record),
            "pending": encode(pending),
            "cleanup_actions": None,
            **values,
        }


def _refusal(current: Record, owner: str, changes: list[tuple[str, str, str]]) -> dict[str, Any]:
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


def difference_of(changes: list[tuple[str, str, str]]) -> dict[str, str]:
    """Return the changes, each a field with its old and its new value, in the form of Ansible's diff mode."""
    return {
        "before": "".join(f"{field}: {old}\n" for field, old, _new in changes),
        "after": "".join(f"{field}: {new}\n" for field, _old, new in changes),
    }
