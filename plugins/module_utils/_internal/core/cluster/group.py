# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The facts that the hosts of a resource group reported, and what follows from all of them together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from ..model.answers import FactsAnswer
from ..model.claims import COMMITTED, Reservation
from ..model.facts import HostFacts
from ..model.fields import END
from ..model.output import JobOutcome
from ..model.record import (
    ENDED,
    ERROR,
    PENDING,
    REPLACE,
    RUNNING,
    TERMINATED,
    QueueTicket,
    Record,
    advance,
    is_stub,
    kept_by,
    latest,
    require_known,
    stub_of,
)
from ..model.request import Request
from ..model.times import PartTimes
from ..rules.change import growth_of
from ..rules.durations import why_over
from ..rules.job import ENDED as ENDED_JOB
from ..rules.job import LOST, failure_of
from ..rules.limits import VARIABLE as LIMITS
from ..rules.limits import Amounts, amounts_of
from ..rules.obstacles import unfit_hosts
from ..rules.queue import Waiting, next_number
from ..rules.quorum import electors, is_quorum, main_host
from ..rules.rendezvous import NAME_HOSTS, name_hosts
from ..rules.scope import EVERYTHING, Scope
from ..rules.share import VARIABLE as FAIR_SHARE
from ..rules.share import FairShare, Shares
from ..rules.site import HOST_VARIABLES
from ..values.deferred import dataclass
from ..values.errors import CoreError, InvalidInput, Problem
from ..values.failure import Failure, end_of
from ..values.resources import PINNED
from .host_names import in_current_names
from .state import ClusterState, Removal, Undecided, cluster_state

NOT_STARTED = "Its batch command was not started, and begins anew."
"""Beginning of the reasons in the history of a session whose batch command no host has started."""
MOST_ROUNDS = 5
"""Number of such reasons after which a session ends; its history holds that many."""

SITE_VARIABLES = (
    "cluster_compute_subnet_pool",
    "cluster_compute_vni_pool",
    "cluster_compute_vxlan_port",
    "cluster_compute_encrypted_ports",
    "cluster_compute_topology_keys",
    "cluster_compute_ssh_ports",
    "cluster_compute_image_ports",
    "cluster_compute_workdir_size",
    "cluster_compute_root_users",
    LIMITS,
    FAIR_SHARE,
)
"""Inventory variables that apply to a whole resource group."""


def pick(variables: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return those of *names* that are set."""
    return {name: variables[name] for name in names if name in variables}


@dataclass
class GroupFacts:
    """The hosts of a resource group and what they reported.

    facts: by usable host, in inventory order. why_missing: for each other host why it has none, a sentence. known:
    every host of the group. unreachable: those that could not be reached. inventory: variables of each host.
    host_names: by session, the names in its record of hosts that have other names in the inventory; everything here
    uses the inventory's names. scope: what belongs to the run.
    """

    facts: dict[str, HostFacts]
    why_missing: dict[str, str]
    known: list[str]
    unreachable: list[str]
    inventory: Mapping[str, Mapping[str, Any]]
    host_names: dict[str, dict[str, str]] = field(default_factory=dict)
    scope: Scope = EVERYTHING

    @classmethod
    def read(
        cls,
        answers: Mapping[str, FactsAnswer],
        hostvars: Mapping[str, Any],
        sick: Mapping[str, str] | None = None,
        scope: Scope = EVERYTHING,
    ) -> GroupFacts:
        """Combine the answers of hosts.

        sick: hosts to leave out whatever they report, and why. scope: of the run. Raises InvalidInput if no host is
        reachable.
        """
        reached = {name: answer for name, answer in answers.items() if not answer.unreachable}
        unreachable = [name for name in answers if name not in reached]
        if not reached:
            raise InvalidInput.single(
                "session_resource_group", ", ".join(unreachable), "None of its hosts can be reached."
            )
        facts = {}
        why_missing = dict.fromkeys(unreachable, "It could not be reached.")
        for name, answer in reached.items():
            host = answer.host
            if name not in (sick or {}) and host is not None and host.usable:
                facts[name] = host
            else:
                problem = host.problem if host is not None else ""
                why_missing[name] = (sick or {}).get(name) or problem or answer.why_not
        inventory = {name: pick(hostvars[name], HOST_VARIABLES) for name in reached}
        found, names = in_current_names(facts, answers)
        return cls(found, why_missing, list(answers), unreachable, inventory, names, scope)

    @property
    def missing(self) -> list[str]:
        """Hosts without facts, for whatever reason."""
        return [name for name in self.known if name not in self.facts]

    @property
    def unusable(self) -> list[str]:
        """Reachable hosts that no session can use now."""
        return [name for name in self.missing if name not in self.unreachable]

    def require(self, needed: Collection[str]) -> None:
        """Raise InvalidInput for those of *needed* that are reachable but not usable, or if no host is usable."""
        refused = [name for name in self.unusable if name in needed or not self.facts]
        if refused:
            raise InvalidInput(
                Problem(f"host {name}", "not usable", f"{self.why_missing[name]} Or take it out of the resource group.")
                for name in refused
            )

    @property
    def warnings(self) -> list[str]:
        """Which hosts are left out, and why, in full sentences."""
        found = []
        if self.unreachable:
            found.append(f"Hosts that could not be reached are left out: {', '.join(self.unreachable)}.")
        names: dict[str, list[str]] = {}
        for name in self.unusable:
            names.setdefault(self.why_missing[name], []).append(name)
        return found + [
            f"Hosts that cannot be used are left out: {', '.join(hosts)}. {why}" for why, hosts in names.items()
        ]

    @property
    def recorded(self) -> dict[str, list[str]]:
        """Ids of the sessions that each host has records of."""
        return {name: [record.id for record in facts.records] for name, facts in self.facts.items()}

    @cached_property
    def identities(self) -> dict[str, str]:
        """The own identity of each host that answers, empty if it has none."""
        return {name: facts.identity for name, facts in self.facts.items()}

    @property
    def looked(self) -> dict[str, float]:
        """When the facts of each host were collected, by its own clock."""
        return {name: facts.clock for name, facts in self.facts.items()}

    @property
    def launching(self) -> list[tuple[str, Reservation]]:
        """The reservations of runs, with their host, for sessions that they may still be launching."""
        return [
            (host, held)
            for host, facts in self.facts.items()
            for held in facts.reservations
            if held.stage != COMMITTED and held.expires is not None
        ]

    def retired(self, record: Record) -> list[str]:
        """Return the witnesses of a running session that have left the inventory; other sessions have none."""
        return [host for host in record.witnesses if host not in self.known and record.status == RUNNING]

    def other_witnesses(self, record: Record) -> tuple[str, ...]:
        """Return the hosts that are to replace a session's witnesses; empty if these stay.

        Others are added if some left the inventory, or if the site has more hosts by now. A host without a copy of the
        record cannot agree to anything, so `tell_name_hosts` sends it one first.
        """
        if record.status != RUNNING or not record.witnesses:
            return ()
        left = [host for host in record.witnesses if host in self.known]
        if len(left) == len(record.witnesses) == NAME_HOSTS:
            return ()
        able = [host for host in self._name_hosts_here(record) if self._knows(host, record)]
        found = tuple(dict.fromkeys([*left, *able]))[:NAME_HOSTS]
        return () if {*found} == {*record.witnesses} else found

    def _name_hosts_here(self, record: Record) -> list[str]:
        """Return the hosts that follow from a session's name, among those that answer."""
        return name_hosts(record.name, self.facts, self.identities)

    def electors(self, record: Record, without_retired: bool) -> tuple[str, ...]:
        """Return the hosts of which most have to agree to a change of a session that has lost a host.

        without_retired: whether witnesses that have left the inventory do not count; a user who names the
        session states that they are gone for good.
        """
        known = electors(record)
        return (tuple(host for host in known if host in self.known) or record.hosts) if without_retired else known

    def why_no_other_witnesses(self, record: Record, without_retired: bool) -> str:
        """Return why others cannot take the place of witnesses that left the inventory, a sentence; else empty.

        This needs most of the old ones, and all hosts of the session, which use the new ones from then on.
        """
        known = self.electors(record, without_retired)
        able = [host for host in known if host in self.facts and self._knows(host, record)]
        if is_quorum(able, known, main_host(record)):
            return ""
        return (
            f"Session {record.name} cannot go on without a host that it loses: of {', '.join(known)}, most of which "
            f"have to agree to that, {', '.join(self.retired(record))} left the inventory. If they are gone for good, "
            f"run the replace_lost playbook with -e session_name={record.name}."
        )

    def why_not_lost(self, record: Record, host: str, without_retired: bool = False) -> str:
        """Return why a host of a session is not known to be lost, a sentence; empty if it is.

        It is known to be lost if most of the session's other hosts report that it is silent: this controller may be the
        one that is cut off. They must have been asked (``peers_of`` of host_info). Of two halves of a session the one
        with main1's host continues, the other does not. Only in a session of two hosts, the one without main1 continues
        if no witness hears the other. Most witnesses have to be reachable, as they have to agree to the change; one
        that has lost its state may have agreed to another change. without_retired: as of `electors`.
        """
        others = [other for other in record.hosts if other != host]
        here = [other for other in others if other in self.facts]
        silent = [other for other in here if host in self._silent_to(other, record)]
        is_larger = is_quorum(silent, record.hosts, main_host(record))
        # If one of two hosts is left, it has no majority; only that of main1 needs none.
        is_left = len(others) == 1 and bool(silent) and not is_larger
        hear = [other for other in here if other not in silent]
        hear += self._witnesses_hearing(record, host) if is_left else []
        if hear:
            reason = f"{', '.join(hear)} still hear it"
        elif is_left and not record.witnesses:
            reason = f"{others[0]} does not decide alone about the host of main1"
        elif host in self.facts or 2 * len(silent) <= len(others) or not (is_larger or is_left):
            reason = "too few other hosts of the session can be asked"
        else:
            reason = self._why_no_quorum(record, without_retired)
        return f"{host} does not count as lost, as {reason}." if reason else ""

    def _why_no_quorum(self, record: Record, without_retired: bool) -> str:
        """Return why not enough hosts can agree to a change of a session; empty if enough can."""
        known = self.electors(record, without_retired)
        unable = [name for name in known if name not in self.facts or not self._knows(name, record)]
        if is_quorum({*known} - {*unable}, known, main_host(record)):
            return ""
        reason = f"most of {', '.join(known)} have to agree to that, and {', '.join(unable)} cannot be asked"
        return f"{reason}, or lost its record" if {*unable} & self.facts.keys() else reason

    @cached_property
    def _copies(self) -> dict[str, dict[str, Record]]:
        """The copies of each session's record, by id and host."""
        found: dict[str, dict[str, Record]] = {}
        for host, facts in self.facts.items():
            for copy in facts.records:
                found.setdefault(copy.id, {})[host] = copy
        return found

    def _copies_of(self, session_id: str) -> Mapping[str, Record]:
        return self._copies.get(session_id, {})

    def _knows(self, host: str, record: Record) -> bool:
        """Tell whether a host that answers has a copy of a session's record."""
        return host in self._copies_of(record.id)

    def may_tell(self, host: str, record: Record) -> bool:
        """Tell whether a host that may have forgotten a session may receive it again.

        A witness may have agreed to one change, and must not agree to another. So it receives only decided revisions,
        and only when all hosts of the session answer and have them. From then on no host uses what was before.
        """
        return host not in record.witnesses or self._is_known_to_all(record)

    def _is_known_to_all(self, record: Record) -> bool:
        copies = self._copies_of(record.id)
        return all(host in copies and copies[host].revision == record.revision for host in record.hosts)

    def own(self, cluster: ClusterState) -> list[Record]:
        """Return the records of the run's own sessions, by id, except those that cannot be evaluated."""
        return [
            record
            for key, record in sorted(cluster.records.items())
            if self.scope.is_own(record) and key not in cluster.conflicts
        ]

    def pending(self, cluster: ClusterState) -> list[Record]:
        """Return the sessions of the run that wait, to start or to grow."""
        return [record for record in cluster.pending() if self.scope.is_own(record)]

    def waiting_elsewhere(self, cluster: ClusterState) -> list[Record]:
        """Return the sessions that wait and are left to runs for other groups."""
        return [record for record in cluster.pending() if not self.scope.is_own(record)]

    def _silent_to(self, host: str, record: Record) -> tuple[str, ...]:
        """Return the hosts of a session that a host does not hear."""
        return self.facts[host].silent_peers.get(record.id, ())

    def _witnesses_hearing(self, record: Record, host: str) -> list[str]:
        """Return the witnesses without a replica that hear a host of a session."""
        return [
            name
            for name in record.witnesses
            if name in self.facts
            and name not in record.hosts
            and record.id in self.facts[name].silent_peers
            and host not in self._silent_to(name, record)
        ]

    def with_missing_hosts(self, cluster: ClusterState) -> list[Record]:
        """Return the running sessions that have a host which has not answered."""
        return [
            record
            for record in self.own(cluster)
            if record.status == RUNNING and any(host not in self.facts for host in record.hosts)
        ]

    def losses(self, cluster: ClusterState, but: str) -> list[str]:
        """Return the ids of sessions that may have lost a host and do not wait for it. but: a name to leave out."""
        not_waiting = {key for facts in self.facts.values() for key in facts.not_waiting}
        missing = self.with_missing_hosts(cluster)
        return [record.id for record in missing if record.id in not_waiting and record.name != but]

    def unfinished(self, record: Record) -> list[str]:
        """Return the replicas that are not where the last change of a running session has placed them."""
        if record.status != RUNNING or record.plan is None or record.change is None:
            return []
        there = {
            (host, container.replica)
            for host in record.hosts
            if host in self.facts
            for container in self.facts[host].containers
            if container.session_id == record.id
        }
        return [
            replica.name
            for replica in record.replicas
            if replica.name in record.change.places
            and replica.host in self.facts
            and (replica.host, replica.name) not in there
        ]

    def public_keys(self, record: Record) -> dict[str, Any]:
        """Return the public keys of a session's replicas that hosts know; each host is right about its own."""
        known = {host: facts.public_keys.get(record.id, {}) for host, facts in self.facts.items()}
        found = {name: keys for of_host in known.values() for name, keys in of_host.items()}
        homes = {replica.name: replica.host for replica in record.replicas}
        found.update({name: known[host][name] for name, host in homes.items() if name in known.get(host, ())})
        return {name: found[name] for name in homes if name in found}

    def half_told(self, cluster: ClusterState) -> list[Record]:
        """Return the running sessions whose newest revision is missing on a host that has, or had, replicas of theirs.

        Stubs are enough to see that.
        """
        found = []
        for record in self.own(cluster):
            copies = self._copies_of(record.id)
            behind = any(host in copy.hosts and copy.revision < record.revision for host, copy in copies.items())
            lacking = any(
                host in self.facts and (host not in copies or copies[host].revision != record.revision)
                for host in record.hosts
            )
            if record.status == RUNNING and (behind or lacking):
                found.append(record)
        return found

    def tell_name_hosts(self, cluster: ClusterState) -> None:
        """Send names again to hosts that forgot them: hosts that gave up their part, or lost their state."""
        in_group = {*self.known}
        for key, record in sorted(cluster.records.items()):
            if record.status != RUNNING or key in cluster.conflicts or key in cluster.undecided:
                continue
            if not self._is_known_to_all(record):
                continue
            for host in dict.fromkeys([*record.witnesses, *self._knowing_name(record, in_group)]):
                if host in self.facts and host not in record.hosts and not self._knows(host, record):
                    cluster.stubs.setdefault(host, []).append(stub_of(record))

    def _knowing_name(self, record: Record, in_group: set[str]) -> list[str]:
        """Return the hosts that are to know the name of one of the run's own sessions, and can become witnesses."""
        if not self.scope.is_own(record):
            return []
        found = name_hosts(record.name, self.known, self.identities)
        if record.witnesses and len({*record.witnesses} & in_group) < NAME_HOSTS:
            found += self._name_hosts_here(record)  # they can be witnesses then
        return found

    def half_changed(self, cluster: ClusterState) -> list[Record]:
        """Return the sessions whose last change was not finished, and whose hosts are all reachable.

        This includes sessions that get back what they had.
        """
        undecided = cluster.undecided
        return [
            record
            for record in self.own(cluster)
            if (record.id in undecided and undecided[record.id].before is not None)
            or (
                (record.id in undecided or self.unfinished(record)) and all(host in self.facts for host in record.hosts)
            )
        ]

    def _leave_undecided(self, cluster: ClusterState, finishes: bool) -> None:
        """Leave alone sessions with a change that was begun and to which most witnesses have not agreed.

        finishes: whether the verb finishes or takes back such a change if the witnesses can be asked.
        """
        for key, record in sorted(cluster.records.items()):
            if record.status != RUNNING or not record.witnesses or key in cluster.conflicts:
                continue
            undecided, can_finish = self._undecided(record)
            if undecided is None:
                continue
            cluster.leave_alone(key)
            if not finishes or not can_finish:
                cluster.conflicts[key] = undecided
                continue
            cluster.undecided[key] = undecided
            before = undecided.before
            if before is not None and is_stub(record):
                # Only the hosts of what was begun are known, and taking it back needs nothing else.
                cluster.records[key] = replace(
                    before, revision=record.revision, shared_with=record.shared_with, witnesses=record.witnesses
                )

    def _undecided(self, record: Record) -> tuple[Undecided | None, bool]:
        """Return a session as one with a change that was begun and is not decided, None if it has none.

        Second: whether the change can be finished or taken back now.
        """
        copies = self._copies_of(record.id)
        main = main_host(record)
        agreed = [
            host
            for host, copy in copies.items()
            if copy.revision >= record.revision or {*copy.hosts} == {*record.hosts}
        ]
        if not self._is_begun(record, copies) or is_quorum(agreed, record.witnesses, main):
            return None, False
        missing = tuple(host for host in record.witnesses if host not in copies)
        can_agree = is_quorum({*record.witnesses} - {*missing}, record.witnesses, main)
        is_open = not is_quorum([*agreed, *missing], record.witnesses, main)
        before = self._running_before(record, copies) if is_open else None
        is_known = before is not None or not is_stub(record)
        if can_agree:  # if it is a stub, one of these has the whole record
            missing = tuple(host for host in record.hosts if host not in self.facts and not is_known)
        agreed_witnesses = tuple(host for host in record.witnesses if host in agreed)
        undecided = Undecided(record.name, record.id, record.hosts, record.witnesses, missing, agreed_witnesses, before)
        return undecided, can_agree and is_known

    def _running_before(self, record: Record, copies: Mapping[str, Record]) -> Record | None:
        """Return the record by which hosts run replicas that a newer one has given to others; None if none does."""
        return latest(
            copy
            for host, copy in copies.items()
            if copy.plan is not None and copy.status == RUNNING and copy.revision < record.revision
            if host in copy.hosts and host not in record.hosts
            if any(container.session_id == record.id for container in self.facts[host].containers)
        )

    def _is_begun(self, record: Record, copies: Mapping[str, Record]) -> bool:
        """Tell whether the record may be that of a change which was not finished; a stub that of a replacement."""
        if is_stub(record):
            return any(
                host in copy.hosts and host not in record.hosts and not is_stub(copy) and copy.status == RUNNING
                for host, copy in copies.items()
            )
        if record.change is None:
            return False
        if record.change.kind != REPLACE:
            return bool(self.unfinished(record))
        # Whether an unreachable host has begun is not known.
        homes = {replica.host for replica in record.replicas if replica.name in record.change.places}
        return not homes or bool(self.unfinished(record)) or not homes <= self.facts.keys()

    def cluster_state(self, finishes: bool = True) -> ClusterState:
        """Return the combined state of the hosts; in it, sessions that are done or have failed are ended.

        finishes: whether the verb lets witnesses agree to a replacement that was begun.
        """
        cluster = cluster_state(self.facts, self.missing, self.scope)
        self._leave_undecided(cluster, finishes)
        failures = self._failures()
        for record in self.own(cluster):
            if record.status == RUNNING and record.request is not None and record.id not in cluster.undecided:
                self._end_if_over(cluster, record, failures.get(record.id, []))
        return cluster

    def _end_if_over(self, cluster: ClusterState, record: Record, failures: list[Failure]) -> None:
        """End a running session that is done, has failed or has lost a host that it cannot do without."""
        lost = [host for host in record.hosts if host not in self.facts and not self.why_not_lost(record, host)]
        if lost and record.request.get("on_host_loss") == END:
            self._end(cluster, record, ERROR, f"{', '.join(lost)} was lost, and session_on_host_loss is {END}.")
            return
        batch, main_host = self._batch(record)
        policy = record.request["failure_policy"]
        last = end_of(policy, record.request["restart_limit"], failures)
        # Failures of replicas after the end of the batch command do not count; those that caused its end do.
        if batch and batch.requeue:
            self._requeue(cluster, record, batch, main_host)
        elif batch and batch.status == ENDED_JOB and not (last and last.stopped):
            why = failure_of(batch, main_host)
            self._end(cluster, record, ERROR if why else TERMINATED, f"Its batch command has ended. {why}".strip())
        elif last is not None:
            self._end(cluster, record, ERROR, f"{last.describe()} Its failure policy is {policy}.")
        elif batch and batch.status == LOST:
            self._end(cluster, record, ERROR, f"Its batch command has ended. {failure_of(batch, main_host)}")
        elif why := why_over(record.request, self._times(record)):
            self._end(cluster, record, TERMINATED, why)

    def _requeue(self, cluster: ClusterState, record: Record, batch: JobOutcome, main_host: str) -> None:
        """Let a session wait again whose batch command is to start again; end it if that was tried too often."""
        if batch.problem and _rounds(record) >= MOST_ROUNDS - 1:
            why = f"Its batch command was not started in {MOST_ROUNDS} rounds."
            last_one = f"The last was {batch.replica} on {main_host}, with exit code {batch.exit_code}."
            self._end(cluster, record, ERROR, f"{why} {last_one} {batch.problem}")
            return
        why = "Its batch command was stopped, to start again without a drained host."
        if batch.problem:
            why = f"{NOT_STARTED} {batch.problem}"
        ticket = record.queue or QueueTicket(next_number(cluster.pending()))
        self._end(cluster, record, PENDING, why, plan=None, hosts=(), queue=ticket)

    def _times(self, record: Record) -> list[PartTimes | None]:
        """Return the times that each host of a session reports; None for a host that reports none."""
        return [self.facts[host].times.get(record.id) if host in self.facts else None for host in record.hosts]

    def to_requeue(self, cluster: ClusterState, hosts: Collection[str]) -> dict[str, str]:
        """Return the ids of the batch sessions on *hosts* that run, and the host of the command of each."""
        found = {}
        for session_id, record in sorted(cluster.records.items()):
            if record.status != RUNNING or record.request is None or not {*record.hosts} & {*hosts}:
                continue
            if session_id in cluster.conflicts:
                continue
            if record.request["batch_command"]:
                found[session_id] = record.replicas[0].host
        return found

    def _end(self, cluster: ClusterState, record: Record, status: str, why: str, **changes: Any) -> None:
        """End a running session, or let it wait again, with only its record left."""
        session_id = record.id
        ended = advance(record, status, why, report=(why,), **changes)
        cluster.records[session_id] = cluster.changed[session_id] = ended
        for host, facts in self.facts.items():
            others = [removal for removal in cluster.orphaned.get(host, []) if removal.session_id != session_id]
            # Hosts without a part of it have the rules that kept others out.
            if host in record.hosts or session_id in facts.objects:
                removal = Removal(session_id, record.name, True, f"The session is {status}: {why}", ended.revision)
                cluster.orphaned[host] = [*others, removal]

    def settled(self, cluster: ClusterState) -> list[str]:
        """Return the ids of sessions that have ended for good: all hosts that could know them as running know the end.

        For a session that ran these are its hosts, for one that waited all hosts of the group: each had all of it.
        While one of them is unreachable the short record stays, because that host would otherwise bring the session
        back.
        """
        copies: dict[str, list[Record]] = {}
        for facts in self.facts.values():
            for record in facts.records:
                copies.setdefault(record.id, []).append(record)
        busy = {key for facts in self.facts.values() for key in facts.objects}
        busy |= {held.claim.session_id for facts in self.facts.values() for held in facts.reservations}
        sound = {host for host, facts in self.facts.items() if not facts.damaged and not facts.ledger_is_damaged}
        return [
            key
            for key, known in sorted(copies.items())
            if key in cluster.records
            and self.scope.is_own(cluster.records[key])
            and key not in busy
            and all(record.status in ENDED for record in known)
            and {*cluster.records[key].hosts, *(self.known if cluster.records[key].queue else ())} <= sound
        ]

    def _batch(self, record: Record) -> tuple[JobOutcome | None, str]:
        """Return the outcome of a running session's batch command from main1's host, None if none; and that host."""
        if not record.request["batch_command"]:
            return None, ""
        host = record.replicas[0].host
        return self.facts[host].batches.get(record.id) if host in self.facts else None, host

    def _failures(self) -> dict[str, list[Failure]]:
        found: dict[str, list[Failure]] = {}
        for host, facts in self.facts.items():
            for container in facts.containers:
                if container.failure:
                    failure = Failure(container.replica, host, **vars(container.failure))
                    found.setdefault(container.session_id, []).append(failure)
        return found

    def shares(self, policy: FairShare) -> Shares:
        """Return the shares of owners by what the hosts have counted."""
        return Shares.of(policy, [facts.use for facts in self.facts.values()])

    def used_by(self, owner: str, cluster: ClusterState, without_name: str) -> Amounts:
        """Return the amounts of the sessions of *owner*, waiting ones included, without the one of this name."""
        held: dict[str, Amounts] = {}
        for facts in self.facts.values():
            for reservation in facts.reservations:
                claim = reservation.claim
                accelerators = ((kind, len(names)) for kind, names in claim.devices if kind != PINNED)
                amounts = Amounts(0, claim.replicas, claim.cpus, claim.memory, tuple(sorted(accelerators)))
                held[claim.session_id] = held.get(claim.session_id, Amounts()).plus(amounts)
        used = Amounts()
        for session_id, record in cluster.records.items():
            if record.owner == owner and record.name != without_name and record.status not in ENDED:
                used = used.plus(Amounts(1))
                if session_id in held:
                    used = used.plus(held[session_id])
                elif record.request is not None:
                    with suppress(InvalidInput):  # a newer release's values: only the session itself is counted
                        requested = amounts_of(Request.from_dict(record.request, newer_too=True))
                        used = used.plus(replace(requested, sessions=0))
        return used


def _rounds(record: Record) -> int:
    """Return how often the batch command of a session was not started and was tried again, from its history."""
    return sum(entry.reason.startswith(NOT_STARTED) for entry in record.history)


def waiting_session(
    session_id: str,
    request: Request,
    number: int,
    owner: str,
    shares: Shares,
    is_head: bool = False,
    unfit: Mapping[str, str] | None = None,
) -> Waiting:
    """Return a session that wants to start in the queue's form. shares: of owners. unfit: of `unfit_hosts`."""
    use, cost, obstacles = shares.use.get(owner, 0.0), shares.cost(request), unfit or {}
    slots = dict.fromkeys(obstacles, 0)
    return Waiting(session_id, request, number, owner, use, cost, is_head, slots, obstacles)


def waiting_of(
    records: list[Record], shares: Shares, hosts_facts: Mapping[str, HostFacts]
) -> tuple[list[Waiting], list[str]]:
    """Return the pending sessions of *records*, and the problems of those that cannot be read. shares: of owners."""
    waiting, problems = [], []
    for record in records:
        try:
            require_known(record)
            growth = None if record.growth is None else growth_of(record, hosts_facts)
            request = Request.from_dict(record.request) if growth is None else growth[0]
            unfit = unfit_hosts(request, hosts_facts)
            number, owner = record.queue_number, record.owner
            session = waiting_session(record.id, request, number, owner, shares, record.is_head, unfit)
            waiting.append(session if growth is None else replace(session, slots=growth[1], obstacles=growth[2]))
        except CoreError as error:
            problems.append(f"The pending session {record.name} is left out of the queue: {error}")
    return waiting, problems


@dataclass(frozen=True)
class CleanupWork:
    """The work of hosts in a cleanup (core.verbs.cleanup).

    records: to write everywhere. stubs, removals: by host. forget: ids whose tombstones can be removed. settled:
    sessions whose short record may expire. recorded, looked: by host, the sessions that it had records of when this was
    decided, and its clock then.
    """

    records: list[Record]
    stubs: Mapping[str, list[Record]]
    removals: Mapping[str, list[Removal]]
    forget: list[str]
    settled: list[str]
    recorded: Mapping[str, list[str]]
    looked: Mapping[str, float]


def cleanup_work(
    group: GroupFacts, cluster: ClusterState, removals: Mapping[str, list[Removal]], expires: bool = False
) -> CleanupWork | None:
    """Return what hosts do in a cleanup; None if there is nothing to do.

    expires: whether short records expire also by themselves, and not only along with other work.
    """
    removed = {removal.session_id for host_removals in removals.values() for removal in host_removals}
    work = CleanupWork(
        records=[kept_by(cluster.changed[key], group.known) for key in sorted(cluster.changed)],
        stubs=cluster.stubs,
        removals={host: host_removals for host, host_removals in sorted(removals.items()) if host_removals},
        forget=cluster.cleaned,
        settled=[key for key in group.settled(cluster) if key not in removed],
        recorded=group.recorded,
        looked=group.looked,
    )
    is_needed = work.records or work.stubs or work.removals or work.forget or (expires and work.settled)
    return work if is_needed else None
