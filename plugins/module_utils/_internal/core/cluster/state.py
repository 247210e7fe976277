# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The combined state of a resource group's hosts: which sessions exist, and which parts no session owns any more.

No host knows everything. A copy of a record may be old, a launch may have been killed half-way, a host may have been
unreachable while its session was torn down. `cluster_state` combines the hosts' facts and evaluates them. Where an
unreachable host could know better, it leaves things as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from ..model import record as records
from ..model.claims import COMMITTED
from ..model.record import ENDED, PENDING, PREPARING, RUNNING, Record, group_of
from ..rules.quorum import electors, is_quorum, main_host
from ..rules.scope import EVERYTHING, Scope
from ..values.deferred import dataclass
from ..values.errors import RenamedHost, printable

if TYPE_CHECKING:
    from ..model.facts import HostFacts
CONTAINER, NETWORK, LINK, RULES, STATE, LEASE = "container", "network", "link", "rules", "state", "lease"
"""Kinds of a session's parts that a host reports in ``objects``: RULES are those of its firewall, STATE is its folder
in the state directory, LEASE an expired entry of the ledger, which holds nothing."""


@dataclass(frozen=True)
class Removal:
    """A part of a session to be removed from one host.

    keep_record: its record stays. undo: data that its launch made is removed as well, if it is empty. why: one sentence
    for people. revision: the newest on which this is based; if there is a newer record by then, nothing is removed.
    None if it is to be removed in any case.
    """

    session_id: str
    session_name: str
    keep_record: bool
    why: str
    revision: int | None = None
    undo: bool = False


@dataclass(frozen=True)
class Renamed:
    """A host with different names in the inventory and in a session that runs on it.

    host: the inventory's name. known_as: the session's, which the host has stored.
    """

    host: str
    known_as: str
    session_name: str

    @property
    def problem(self) -> str:
        """One sentence for people."""
        return (
            f"The host that the inventory calls {self.host} is {printable(self.known_as)} in session "
            f"{self.session_name}, which runs there."
        )

    @property
    def advice(self) -> str:
        """The next step for people, a sentence."""
        return f"Call it {printable(self.known_as)} in the inventory again, or tear the session down first."

    def __str__(self) -> str:
        return f"{self.problem} {self.advice}"


@dataclass(frozen=True)
class Twin:
    """A host that has the identity of another one. host, other: the inventory's names."""

    host: str
    other: str

    @property
    def problem(self) -> str:
        """One sentence for people."""
        return f"{self.other} and {self.host} are one host by their identity: the inventory has two names for it."

    @property
    def advice(self) -> str:
        """The next step for people, a sentence."""
        return (
            "Leave one of them out; if the disk of one is a copy of the other's, remove the containers of sessions and "
            "the state directory from the copy and run the prepare_hosts playbook."
        )

    def __str__(self) -> str:
        return f"{self.problem} {self.advice}"


@dataclass(frozen=True)
class Conflict:
    """A session that two runs changed without knowing of each other: one revision of its record has two contents.

    sides: hosts that have each of the contents, and hosts that carry the session by it. Which is right is not known.
    """

    session_name: str
    session_id: str
    revision: int
    sides: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

    @property
    def problem(self) -> str:
        """One sentence for people."""
        sides = [f"on {', '.join(hosts)} by the record of {', '.join(copies)}" for copies, hosts in self.sides]
        return (
            f"Session {self.session_name} ({self.session_id}) was changed in two ways at once, in revision "
            f"{self.revision}: it runs {' and '.join(sides)}."
        )

    @property
    def advice(self) -> str:
        """The next steps for people, two sentences."""
        return (
            "No verb starts or removes anything of it. Tear it down and launch it again; or, to keep one side, remove "
            f"its containers and sessions/{self.session_id} below the state directory on the hosts of the other side, "
            "and run the repair playbook."
        )

    def __str__(self) -> str:
        return f"{self.problem} {self.advice}"


@dataclass(frozen=True)
class Undecided:
    """A session with a change whose run ended before most witnesses had agreed to it.

    hosts: its hosts according to the change. witnesses: the hosts of which most have to agree. missing: unreachable
    witnesses, if the others are too few; else unreachable hosts with the record, if no other has it. agreed: witnesses
    that have agreed to it. before: the earlier record, if it is certain that too few have agreed, and a host that was
    taken for lost answers and runs its replicas.
    """

    session_name: str
    session_id: str
    hosts: tuple[str, ...]
    witnesses: tuple[str, ...]
    missing: tuple[str, ...]
    agreed: tuple[str, ...] = ()
    before: Record | None = None

    @property
    def problem(self) -> str:
        """One sentence for people."""
        return (
            f"Session {self.session_name} ({self.session_id}) was to go on with {', '.join(self.hosts)}, and most of "
            f"{', '.join(self.witnesses)} have not agreed to that."
        )

    @property
    def advice(self) -> str:
        """The next steps for people, one or two sentences."""
        away = f"Bring back {', '.join(self.missing)}; then the" if self.missing else "The"
        return (
            f"{away} schedule_pending playbook finishes it, or takes it back if a lost host is there again. Until "
            "then nothing of it is started or removed."
        )

    def __str__(self) -> str:
        return f"{self.problem} {self.advice}"


@dataclass
class ClusterState:
    """The sessions of a resource group.

    records: the right copy of every session that was not torn down, by id. orphaned: by host, remains of a killed
    launch or an unfinished teardown, which every verb may remove. leaked: by host, parts that no record explains; `gc`
    removes them. changed: new revisions that every host has to receive. stubs: by host, replacements of old copies.
    alone: ids of sessions of which only stub records are left, as far as one look shows: hosts that answered first may
    have begun with one since. cleaned: tombstones that can be removed, by id. unknown: ids that only unreachable
    hosts could explain, and why. renamed: hosts whose names are not clear. conflicts: by id, sessions that no verb
    touches, as it is not known which hosts they have. undecided: by id, sessions for which the verb finishes or takes
    back what was begun, and removes nothing before that.
    """

    records: dict[str, Record] = field(default_factory=dict)
    orphaned: dict[str, list[Removal]] = field(default_factory=dict)
    leaked: dict[str, list[Removal]] = field(default_factory=dict)
    changed: dict[str, Record] = field(default_factory=dict)
    stubs: dict[str, list[Record]] = field(default_factory=dict)
    alone: set[str] = field(default_factory=set)
    cleaned: list[str] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)
    renamed: list[Renamed | Twin] = field(default_factory=list)
    conflicts: dict[str, Conflict | Undecided] = field(default_factory=dict)
    undecided: dict[str, Undecided] = field(default_factory=dict)

    def check_names(self) -> None:
        """Raise RenamedHost if it is not clear which host of the inventory a session's record means.

        A host that merely has another name by now is not such a host (`host_names`).
        """
        if self.renamed:
            raise RenamedHost(map(str, self.renamed))

    def leave_alone(self, key: str) -> None:
        """Let nothing of a session be removed, or be sent to hosts."""
        self.changed.pop(key, None)
        self.orphaned = {
            host: [removal for removal in removals if removal.session_id != key]
            for host, removals in self.orphaned.items()
        }
        self.stubs = {host: [stub for stub in stubs if stub.id != key] for host, stubs in self.stubs.items()}

    def forget(self, session_id: str) -> None:
        """Remove stub records of a session with what every verb may remove, and free its name."""
        self.records.pop(session_id, None)
        for host, removals in self.leaked.items():
            mine = [removal for removal in removals if removal.session_id == session_id]
            self.leaked[host] = [removal for removal in removals if removal not in mine]
            self.orphaned.setdefault(host, []).extend(mine)

    def named(self, name: str) -> list[Record]:
        """Return the records of the sessions of this name, by id."""
        return [self.records[key] for key in sorted(self.records) if self.records[key].name == name]

    def pending(self) -> list[Record]:
        """Return the records of the sessions that wait, to start or to grow."""
        return [
            record
            for _key, record in sorted(self.records.items())
            if record.status == PENDING
            or (record.growth is not None and record.request is not None and record.id not in self.conflicts)
        ]


class _Session:
    """The reports of all hosts of one session."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.name = ""
        self.copies: dict[str, Record] = {}
        self.objects: dict[str, set[str]] = {}
        self.stages: dict[str, str] = {}
        self.host_names: dict[str, str] = {}

    @property
    def hosts(self) -> list[str]:
        """Hosts that have any part of it."""
        return sorted({*self.copies, *self.objects, *self.stages})

    @property
    def is_being_launched(self) -> bool:
        """Whether a launch that may still be at work holds a reservation for it."""
        return any(stage != COMMITTED for stage in self.stages.values())

    def parts(self, host: str) -> set[str]:
        """Return a host's parts of it beyond the rules that keep others out, which every host of the group has."""
        return self.objects.get(host, set()) - {RULES}

    def has(self, *kinds: str) -> bool:
        """Whether any host has any of these kinds."""
        return any(kind in found for found in self.objects.values() for kind in kinds)


def cluster_state(
    facts_by_host: Mapping[str, HostFacts], unreachable: Collection[str] = (), scope: Scope = EVERYTHING
) -> ClusterState:
    """Evaluate the reports of the hosts.

    facts_by_host: of the usable hosts. unreachable: hosts of the group that did not answer. scope: of the run; sessions
    outside it may be at work on hosts outside the group, so nothing is concluded for them.
    """
    result = ClusterState(renamed=[*_twins(facts_by_host)])
    tombstones = {tombstone.id: tombstone for facts in facts_by_host.values() for tombstone in facts.tombstones}
    # A host whose ledger cannot be read does not report which runs are at work there.
    unheard = {*unreachable, *(host for host, facts in facts_by_host.items() if facts.ledger_is_damaged)}
    sound = set(facts_by_host) - unheard
    sessions = _sessions(facts_by_host)
    for session in sessions:
        if session.id in tombstones:
            _remove_torn_down(result, session)
            continue
        best = _right_copy(session.copies)
        if best is None or scope.is_own(best):
            _judge(result, session, set(facts_by_host), unheard)
        else:
            result.records[session.id] = best
            _judge_left_over(result, session, best, sound, scope)
        _judge_names(result, session)
    here = {session.id for session in sessions}
    # A host that left the group may come back, so its tombstone stays.
    result.cleaned += [
        key for key, tombstone in sorted(tombstones.items()) if key not in here and set(tombstone.hosts) <= sound
    ]
    return result


def _twins(facts_by_host: Mapping[str, HostFacts]) -> Iterator[Twin]:
    """Return the hosts that have the identity of another one."""
    first: dict[str, str] = {}
    for host, facts in facts_by_host.items():
        if facts.identity and first.setdefault(facts.identity, host) != host:
            yield Twin(host, first[facts.identity])


def _remove_torn_down(result: ClusterState, session: _Session) -> None:
    for host in session.hosts:
        why = "It was torn down while this host could not be reached."
        _add(result.orphaned, host, Removal(session.id, session.name, False, why))


def _sessions(facts_by_host: Mapping[str, HostFacts]) -> list[_Session]:
    found: dict[str, _Session] = {}
    for host, facts in facts_by_host.items():
        for record in facts.records:
            session = found.setdefault(record.id, _Session(record.id))
            session.copies[host] = record
            session.name = record.name
        for key, parts in facts.objects.items():
            session = found.setdefault(key, _Session(key))
            session.objects[host] = set(parts.kinds)
            session.name = session.name or parts.name
        for held in facts.reservations:
            claim = held.claim
            session = found.setdefault(claim.session_id, _Session(claim.session_id))
            session.stages[host] = held.stage
            session.name = session.name or claim.session_name
        for key, name in facts.host_names.items():
            if key in found:
                found[key].host_names[host] = name
    return [found[key] for key in sorted(found)]


def _right_copy(copies: Mapping[str, Record]) -> Record | None:
    """Return the right one of the copies that hosts have.

    A host that was cut off and replaced still measures time, and may end its part in the revision in which the others
    continue.
    """
    at_work = records.latest(copy for copy in copies.values() if copy.status not in ENDED)

    def is_replaced(host: str, copy: Record) -> bool:
        if at_work is None or copy.status not in ENDED or copy.revision > at_work.revision:
            return False
        return host in copy.hosts and host not in at_work.hosts

    return records.latest(copy for host, copy in copies.items() if not is_replaced(host, copy))


def _rivals(copies: Mapping[str, Record], best: Record) -> list[dict[str, Record]]:
    """Return the contents of the newest revision of a session at work, each by the hosts that have it.

    A stub belongs to the whole record with the same hosts.
    """
    newest = [
        (host, copy)
        for host, copy in sorted(copies.items())
        if copy.revision == best.revision and copy.status == RUNNING
    ]
    found: list[dict[str, Record]] = []
    for host, copy in sorted(newest, key=lambda entry: records.is_stub(entry[1])):
        for content in found:
            if not records.differs(copy, next(iter(content.values()))):
                content[host] = copy
                break
        else:
            found.append({host: copy})
    return found


def _decided(rivals: list[dict[str, Record]]) -> dict[str, Record] | None:
    """Return the content to which most of the session's witnesses have agreed, None if that is not known."""
    for content in rivals:
        first = next(iter(content.values()))
        if first.witnesses and is_quorum(content, electors(first), main_host(first)):
            return content
    return None


def _judge(result: ClusterState, session: _Session, reached: set[str], unreachable: set[str]) -> None:
    best = _right_copy(session.copies)
    if best is None:
        _judge_unrecorded(result, session, unreachable)
        return
    best = result.records[session.id] = _right_rival(result, session, best)
    if session.id in result.conflicts or session.is_being_launched:
        return
    # An unreachable host may be the new name of a host that is missing in the group.
    missing = sorted(host for host in best.hosts if host in unreachable or (unreachable and host not in reached))
    if _is_half_launched(session, best):
        if missing:
            result.unknown[session.id] = (
                f"The launch of session {session.name} was not finished, and {', '.join(missing)} cannot be asked "
                "whether a run still works on it."
            )
            return
        _undo_launch(result, session, best)
    elif best.status in (PENDING, *ENDED):
        _judge_without_replicas(result, session, best)
    if best.status == RUNNING and records.is_stub(best):
        if not missing:
            _judge_stub(result, session, best, reached)
    elif best.status == RUNNING:
        _judge_running(result, session, best, reached)


def _right_rival(result: ClusterState, session: _Session, best: Record) -> Record:
    """Return the right one of the contents that the newest revision has on hosts; note a conflict if none is decided.

    best: the right copy as far as revisions show it.
    """
    rivals = _rivals(session.copies, best) if best.status == RUNNING else []
    if len(rivals) < 2:
        return best
    decided = _decided(rivals)
    if decided is not None:
        return next(iter(decided.values()))
    if not records.is_stub(best):
        sides = tuple((tuple(content), next(iter(content.values())).hosts) for content in rivals)
        result.conflicts[session.id] = Conflict(session.name, session.id, best.revision, sides)
    return best


def _is_half_launched(session: _Session, best: Record) -> bool:
    """Tell whether a launch, on which no run works any more, began to start a session and has not finished."""
    if best.status == PREPARING:
        return COMMITTED not in session.stages.values()
    # A session from the queue has its old record until it starts.
    return best.status == RUNNING and any(
        copy.status in (PENDING, PREPARING) and host in best.hosts and session.stages.get(host) != COMMITTED
        for host, copy in session.copies.items()
    )


def _undo_launch(result: ClusterState, session: _Session, best: Record) -> None:
    """Remove what a launch has made; a session from the queue waits again."""
    why = "Its launch was not finished, and no run works on it any more."
    if best.queue is None:
        del result.records[session.id]
    else:
        # A host may have got only a stub of what the launch has started; a run still at work has sent the whole.
        whole = records.latest(copy for copy in session.copies.values() if not records.is_stub(copy)) or best
        result.records[session.id] = result.changed[session.id] = records.advance(
            replace(whole, revision=best.revision), PENDING, why, plan=None, hosts=(), report=(why,)
        )
    revision = result.changed.get(session.id, best).revision
    for host in session.hosts:
        keep = best.queue is not None
        _add(result.orphaned, host, Removal(session.id, session.name, keep, why, revision, undo=True))


def _judge_without_replicas(result: ClusterState, session: _Session, best: Record) -> None:
    """Evaluate a session that waits or has ended: everything but its record is removed."""
    at_work = [copy.revision for copy in session.copies.values() if copy.status not in ENDED]
    if best.status in ENDED and at_work:
        # One of its hosts has ended it by itself, or a host was unreachable when it was ended.
        newest = max(best.revision, *(revision + 1 for revision in at_work))
        best = result.records[session.id] = result.changed[session.id] = replace(best, revision=newest)
    for host in session.hosts:
        if session.objects.get(host, set()) - {STATE} or host in session.stages:
            why = f"The session is {best.status} and carries no replicas."
            _add(result.orphaned, host, Removal(session.id, session.name, True, why, best.revision))


def _judge_running(result: ClusterState, session: _Session, best: Record, reached: set[str]) -> None:
    """Evaluate the hosts that have something of a running session, and no replicas of it."""
    for host in session.hosts:
        if host not in best.hosts and session.host_names.get(host) not in best.hosts:
            _judge_elsewhere(result, session, host, best, reached)


def _judge_stub(result: ClusterState, session: _Session, best: Record, reached: set[str]) -> None:
    """Evaluate a running session of which only stub records are known."""
    is_missing = not any(session.parts(host) or host in session.stages for host in best.hosts)
    if is_missing and set(best.hosts) <= reached and not session.has(CONTAINER):
        result.alone.add(session.id)
        for host in session.hosts:
            why = f"Only stub records of it are left; its hosts {', '.join(best.hosts)} have nothing of it."
            _add(result.leaked, host, Removal(session.id, session.name, False, why, best.revision))


def _judge_elsewhere(result: ClusterState, session: _Session, host: str, best: Record, reached: set[str]) -> None:
    """Evaluate a host without replicas of a running session: an old copy there becomes a stub.

    A host that has containers and has lost its name in the session may be one of the session's hosts by another name.
    """
    missing = [name for name in best.hosts if name not in reached]
    if missing and host not in session.host_names and CONTAINER in session.parts(host):
        result.unknown[session.id] = (
            f"Session {session.name} has containers on {host}, which may be what it knows as {', '.join(missing)}."
        )
        return
    if session.parts(host) or host in session.stages:
        why = f"The session runs on {', '.join(best.hosts)} by now."
        _add(result.orphaned, host, Removal(session.id, session.name, True, why, best.revision))
    copy = session.copies.get(host)
    if copy is None or records.is_stub(copy):
        return
    if copy.revision < best.revision or (copy.revision == best.revision and records.differs(copy, best)):
        result.stubs.setdefault(host, []).append(records.stub_of(best))


def _judge_left_over(result: ClusterState, session: _Session, best: Record, reached: set[str], scope: Scope) -> None:
    """Evaluate copies of a session of another group that only hosts outside that group have.

    No teardown for that group finds them. A launch stores the session's record on hosts of its group first.
    """
    meant = {*scope.groups.get(group_of(best), ()), *best.hosts}
    is_gone = scope.has_group(best) and meant <= reached and meant.isdisjoint(session.hosts)
    if is_gone and not session.is_being_launched and not session.has(CONTAINER):
        for host in session.hosts:
            why = f"No host of resource group {printable(group_of(best))}, to which it belongs, has anything of it."
            _add(result.leaked, host, Removal(session.id, session.name, False, why, best.revision))


def _judge_names(result: ClusterState, session: _Session) -> None:
    """Find hosts that carry a session at work under a name that is not clear (`host_names`).

    The name that a host stored counts if the session's record uses it as well, or if there is no record to compare
    with.
    """
    record = result.records.get(session.id)
    if record is None and not session.has(CONTAINER):
        return
    if record is not None and record.status not in (PREPARING, RUNNING):
        return
    for host, name in sorted(session.host_names.items()):
        if name != host and (record is None or name in record.hosts):
            result.renamed.append(Renamed(host, name, session.name))


def _judge_unrecorded(result: ClusterState, session: _Session, unreachable: set[str]) -> None:
    if session.is_being_launched:
        return
    if session.has(CONTAINER):
        # A state directory was lost: the record can be made again from labels, and containers may be at work.
        result.unknown[session.id] = f"Session {session.name} has containers, and no reachable host has its record."
    elif unreachable:
        result.unknown[session.id] = (
            f"Parts of session {session.name} have no record on a reachable host; {', '.join(sorted(unreachable))} "
            "cannot be reached."
        )
    else:
        for host in session.hosts:
            why = "No host has a record or a container of it."
            _add(result.leaked, host, Removal(session.id, session.name, False, why, 0))


def _add(removals: dict[str, list[Removal]], host: str, removal: Removal) -> None:
    removals.setdefault(host, []).append(removal)
