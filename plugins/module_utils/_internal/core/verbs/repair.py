# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Repair: remove what no session owns any more, and restore on every host exactly what is missing there.

| step | what hosts do | what follows |
|---|---|---|
| look | every host reports its facts | look, takeover, requeue, cleanup, repair, or the end |
| takeover | hosts release what a launch holds there that has certainly ended | look |
| requeue | hosts of main1 stop batch commands that are to start again elsewhere | look |
| cleanup | each records what became of sessions, and removes what no session owns | look |
| repair | each restores what is missing of its sessions; replacements of lost replicas wait | share, or the end |
| share | each takes over the public keys that others had to make again, and starts what waited | the end |

The playbook gc is a repair that restores nothing, audit one in check mode.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..cluster.group import CleanupWork, GroupFacts, cleanup_work
from ..cluster.state import ClusterState
from ..model.answers import Answer, FactsAnswer, RepairAnswer, read_answers
from ..model.calls import LookAtHost, Release, Repair, StopJob
from ..model.decode import decode
from ..model.given import RepairGiven, read_given
from ..model.record import ENDED, REPLACE, RUNNING, Record, is_stub, kept_by, stub_of
from ..model.verb_state import RepairState, StepCall, Waiting, read_state
from ..rules.capacity import allocatable_of, hosts_from_facts
from ..rules.data import drivers_of, roots_of
from ..rules.isolation import is_kept_out
from ..rules.ledger import CHANGE
from ..rules.output import batch_job
from ..rules.rendezvous import name_hosts
from ..show.overview import findings
from ..values.errors import CoreError
from . import cleanup
from .verb import PLACE, Answers, Outside, State, call

REFUSED = "The hosts cannot be judged."
REPORT = "Put the report together"
GRANTED = ("allocatable", "mount_roots", "volume_drivers")
"""Variables by which each call informs a host what the site grants there."""


def begin(given: Mapping[str, Any], hosts: Sequence[str], _outside: Outside) -> State:
    """Return the first state. given: of `RepairGiven`. Raises InvalidInput.

    The last state has ``findings``, the problems found at first; ``lines``, those and what was done; ``missing``, the
    hosts whose facts could not be collected; ``unremoved``, what could not be cleaned up; and ``problems``, everything
    that went wrong; each a list of sentences.
    """
    wanted = read_given(RepairGiven, given, "repair")
    return _look(RepairState(known=list(hosts), **vars(wanted)))


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return the state that follows from the answers to the state's step."""
    found = read_state(RepairState, state)
    return {
        "look": _after_look,
        "takeover": _after_takeover,
        "requeue": _after_requeue,
        "cleanup": _after_cleanup,
        "repair": _after_repair,
        "share": _after_share,
    }[found.step](found, answers, outside)


def _look(state: RepairState) -> State:
    calls = [call(dict.fromkeys(state.known, LookAtHost(whole_records=True)), ("accelerators", *PLACE))]
    return state.follow("look", "Collect facts of the hosts", "Evaluate the facts", calls)


def _after_look(state: RepairState, answers: Answers, outside: Outside) -> State:
    try:
        group = GroupFacts.read(read_answers(FactsAnswer, answers), outside.inventory, scope=outside.scope)
        cluster = group.cluster_state(finishes=False)
        cluster.check_names()
        granted = _granted(state, group, cluster)
    except CoreError as error:
        return state.over(f"{REFUSED}\n{error}")
    if state.leaks and cluster.alone - {*state.alone}:
        # Their sessions may have begun on hosts that had answered before; collecting the facts again shows that.
        state.alone = sorted(cluster.alone)
        return _look(state)
    state.looked, state.host_names = group.looked, group.host_names
    if calls := _take_over(state, group, cluster, outside):
        return state.follow("takeover", "Take over from launches that were ended", "Look again", calls)
    leaving = group.to_requeue(cluster, state.requeue_from) if state.requeue_from else {}
    if state.requeue_from and (calls := _requeue(state, group, cluster, leaving)):
        return state.follow("requeue", "Stop batch commands that are to start again elsewhere", "Look again", calls)
    if not state.cleaned_up and (work := _cleanup(state, group, cluster)):
        return state.follow(*cleanup.STEP, "Look again", cleanup.calls_for(work))
    state.missing = [f"{host}: {group.why_missing[host]}" for host in group.missing]
    conflicts = [str(conflict) for conflict in cluster.conflicts.values()]
    state.problems = [*state.missing, *conflicts, *state.unremoved]
    return _restore(state, group, cluster, granted) if state.puts_back else state.over()


def _granted(state: RepairState, group: GroupFacts, cluster: ClusterState) -> dict[str, Repair]:
    """Return the call for each host, with what the site grants there. Raises CoreError."""
    conflicting = tuple(sorted(cluster.conflicts))
    return {
        host.name: Repair(
            host.name,
            session_name=state.session_name,
            allocatable=allocatable_of(host),
            mount_roots=tuple(roots_of(group.inventory, host.name)),
            volume_drivers=tuple(drivers_of(group.inventory, host.name)),
            conflicting=conflicting,
        )
        for host in hosts_from_facts(group.facts, group.inventory)
    }


def _cleanup(state: RepairState, group: GroupFacts, cluster: ClusterState) -> CleanupWork | None:
    """Note what was found, and return what hosts have to clean up."""
    why_missing = {name: group.why_missing[name] for name in group.missing}
    state.findings = [*state.taken_over, *findings(group.facts, why_missing, cluster, group.scope)]
    state.lines = [*state.requeued, *state.findings]
    removals = {host: list(host_removals) for host, host_removals in cluster.orphaned.items()}
    for host, host_removals in cluster.leaked.items() if state.leaks else ():
        removals.setdefault(host, []).extend(host_removals)
    if not state.puts_back:
        group.tell_name_hosts(cluster)
    return cleanup_work(group, cluster, removals, expires=state.leaks)


def _restore(state: RepairState, group: GroupFacts, cluster: ClusterState, granted: Mapping[str, Repair]) -> State:
    """Let every host restore what it lacks."""
    records = _records_by_host(group, cluster)
    state.waiting = {
        key: Waiting(record.name, list(record.hosts))
        for key, record in sorted(cluster.records.items())
        if record.change is not None and record.change.kind == REPLACE and group.unfinished(record)
    }
    keys = state.public_keys = {
        key: group.public_keys(record) for key, record in cluster.records.items() if record.plan is not None
    }
    waiting = tuple(state.waiting)
    own = {
        host: replace(
            granted[host],
            records=records[host],
            recorded=tuple(group.recorded[host]),
            looked=group.looked[host],
            apart=tuple(_apart(group, cluster, host)),
            waiting=waiting,
            public_keys=keys,
        )
        for host in group.facts
    }
    return state.follow("repair", "Restore missing parts on this host", REPORT, [call(own)])


def _take_over(state: RepairState, group: GroupFacts, cluster: ClusterState, outside: Outside) -> list[StepCall]:
    """Release leases of launches that have certainly ended; of other launches that is unknown until their time is up.

    The records stay: with them the next look finds what was made, also on hosts that answer only then, and who removes
    it. A host whose part runs goes last, and only if the part of no other host runs: it ends that part first.
    """
    others = {key for key, record in cluster.records.items() if not group.scope.is_own(record)}
    ended = [
        (host, held)
        for host, held in group.launching
        if outside.has_ended(held.lease_owner) and not {held.claim.session_id, held.claim.amends} & others
    ]
    running = _running(group)
    begun = [(host, held) for host, held in ended if (host, held.claim.session_id) not in running]
    calls, lines = [], list(state.taken_over)
    for host, held in () if outside.check_mode else begun or ended:
        record = None if begun else cluster.records.get(held.claim.session_id)
        name = held.claim.session_name.removesuffix(CHANGE)
        line = f"{host}: session {name}: give back what a launch holds that was ended"
        if line in lines or (record is not None and _runs_wholly(group, record, running)):
            continue
        calls.append(call({host: Release(held.claim, held.lease_owner)}))
        lines.append(line)
    state.taken_over = lines
    return calls


def _running(group: GroupFacts) -> set[tuple[str, str]]:
    """Return the hosts with the ids of the sessions whose part runs there, by their own records."""
    return {
        (host, record.id)
        for host, facts in group.facts.items()
        for record in facts.records
        if record.status == RUNNING and not is_stub(record)
    }


def _runs_wholly(group: GroupFacts, record: Record, running: Collection[tuple[str, str]]) -> bool:
    """Tell whether the parts of a session run on all of its hosts that answer."""
    asked = [host for host in record.hosts if host in group.facts]
    return bool(record.hosts) and all((host, record.id) in running for host in asked)


def _after_takeover(state: RepairState, answers: Answers, _outside: Outside) -> State:
    found = read_answers(Answer, answers)
    failed = [f"{host}: {answer.why_not}" for host, answer in found.items() if answer.changed is None]
    state.unremoved += failed
    return _look(state)


def _requeue(
    state: RepairState, group: GroupFacts, cluster: ClusterState, leaving: Mapping[str, str]
) -> list[StepCall]:
    """Stop batch commands. leaving: by session the host of its main1; only that host may report that it has ended."""
    calls, requeued, stays = [], [], []
    for session_id, host in leaving.items():
        name = cluster.records[session_id].name
        if not group.scope.is_own(cluster.records[session_id]):
            stays.append(f"Session {name} stays: {group.scope.left_alone(cluster.records[session_id])}")
        elif host in group.facts and session_id not in group.facts[host].batches:
            # Its launch is at work, or ended before that step; only the launch decides what becomes of it.
            stays.append(f"Session {name} stays: its batch command has not been started on {host}.")
        elif host in group.facts:
            requeued.append(f"{host}: session {name}: stop its batch command, to start again elsewhere")
            calls.append(call({host: StopJob(session_id, batch_job(session_id), requeue=True)}))
        else:
            why = group.why_missing.get(host, "It left the resource group.")
            stays.append(
                f"Session {name} stays: {host}, where its batch command runs, cannot be asked to stop it. {why}"
            )
    state.requeue_from, state.requeued = [], requeued
    state.unremoved += stays
    return calls


def _after_requeue(state: RepairState, answers: Answers, _outside: Outside) -> State:
    found = read_answers(Answer, answers)
    failed = [f"{host}: {answer.why_not}" for host, answer in found.items() if answer.failed or answer.changed is None]
    state.unremoved += failed
    return _look(state)


def _records_by_host(group: GroupFacts, cluster: ClusterState) -> dict[str, dict[str, Record]]:
    """Return by host the records it has to know: its own sessions and waiting ones in full, stubs of others.

    A host gets the stub of a session that runs on others only if it is one that knows the name, has a copy already, or
    has no rules that keep its containers out of all sessions. Only hosts that know a session are informed that it has
    ended. Sessions of another resource group are not sent to hosts that do not know them, as no teardown for that group
    would find them here.
    """
    known = {host: {record.id for record in facts.records} for host, facts in group.facts.items()}
    found: dict[str, dict[str, Record]] = {host: {} for host in group.facts}
    for key, record in sorted(cluster.records.items()):
        if key in cluster.conflicts:
            continue
        knowing = {host for host in group.facts if key in known[host]}
        for host, copy in _copies(group, record, knowing).items():
            found[host][key] = copy
    return found


def _copies(group: GroupFacts, record: Record, knowing: Collection[str]) -> dict[str, Record]:
    """Return the hosts that have to know a session, each with its copy. knowing: those that have one."""
    stub = record if is_stub(record) else stub_of(record)
    whole = kept_by(record, group.known)
    is_own = group.scope.is_own(record)
    knows_name = name_hosts(record.name, group.known, group.identities) if is_own else ()
    is_for_all = record.plan is None and not is_stub(record)
    of_session = {*group.facts} if is_for_all else {*record.hosts}
    may_learn = {*group.facts} if is_own else {*record.hosts}
    told = {*knowing} if record.status in ENDED else {*knowing, *may_learn}
    copies = {}
    for host in (host for host in group.facts if host in told):
        if host in of_session:
            copies[host] = whole
        elif host in knowing or _needs_stub(group, record, host, host in knows_name, stub):
            copies[host] = stub
    return copies


def _needs_stub(group: GroupFacts, record: Record, host: str, knows_name: bool, stub: Record) -> bool:
    """Tell whether a host without a copy gets a stub. knows_name: whether it is one that knows the name."""
    return group.may_tell(host, record) and (knows_name or not is_kept_out(group.facts[host], stub))


def _apart(group: GroupFacts, cluster: ClusterState, host: str) -> list[str]:
    """Return the ids of a host's sessions whose other hosts are mostly out of reach of this controller.

    It may be cut off together with the host, whose part others may have by now: the host checks that by itself.
    """
    found = []
    for key, record in sorted(cluster.records.items()):
        others = [other for other in record.hosts if other != host]
        reached = [other for other in others if other in group.facts]
        if record.status == RUNNING and host in record.hosts and others and 2 * len(reached) <= len(others):
            found.append(key)
    return found


def _after_cleanup(state: RepairState, answers: Answers, _outside: Outside) -> State:
    # A host that is unreachable by now is missing when facts are collected again.
    reached = {host: answer for host, answer in read_answers(Answer, answers).items() if not answer.unreachable}
    state.cleaned_up = True
    state.unremoved += cleanup.problems_of(reached)
    return _look(state)


def _after_repair(state: RepairState, answers: Answers, _outside: Outside) -> State:
    found = read_answers(RepairAnswer, answers)
    _report(state, found)
    keys = dict(state.public_keys)
    for answer in found.values():
        for session_id, made in answer.public_keys.items():
            keys[session_id] = {**keys.get(session_id, {}), **made}
    waiting = {key: late for key, known in state.waiting.items() if (late := _late(found, key, known.hosts))}
    state.problems = state.problems + [
        f"session {state.waiting[key].name}: what comes in place of lost replicas waits for {', '.join(late)} to "
        "let go of their host."
        for key, late in waiting.items()
    ]
    if keys == state.public_keys and len(waiting) == len(state.waiting):
        return state.over()
    (earlier,) = state.calls
    own: dict[str, Repair] = {}
    for host in earlier.hosts:
        request = decode(Repair, earlier.given_to(host), "The call to repair")
        own[host] = replace(
            request, records={}, recorded=(), apart=(), looked=None, waiting=tuple(waiting), public_keys=keys
        )
    state.public_keys = keys
    title = "Distribute keys that had to be made again, and start what waited for other hosts"
    return state.follow("share", title, REPORT, [call(own)])


def _late(answers: Mapping[str, RepairAnswer], session_id: str, hosts: Sequence[str]) -> list[str]:
    """Return which of a session's hosts do not yet have it as its record describes, as far as they can."""
    found = []
    for host in hosts:
        answer = answers.get(host)
        session = answer.sessions.get(session_id) if answer else None
        if answer is None or answer.unreachable or answer.actions is None or (session and session.problem):
            found.append(host)
    return found


def _after_share(state: RepairState, answers: Answers, _outside: Outside) -> State:
    _report(state, read_answers(RepairAnswer, answers))
    return state.over()


def _report(state: RepairState, answers: Mapping[str, RepairAnswer]) -> None:
    """Note what hosts did, and what went wrong there."""
    lines, problems = list(state.lines), list(state.problems)
    for host, answer in answers.items():
        lines += [f"{host}: {line}" for line in _done_on(answer)]
        problems += [f"{host}: {fault}" for fault in _faults_of(answer)]
    state.lines, state.problems = list(dict.fromkeys(lines)), list(dict.fromkeys(problems))


def _done_on(answer: RepairAnswer) -> list[str]:
    """Return what a host did, first what concerns no session."""
    of_sessions = [(session.name, action) for session in answer.sessions.values() for action in session.actions]
    named = {action for _name, action in of_sessions}
    others = [action for action in answer.actions or () if action not in named]
    return [*others, *(f"session {name}: {action}" for name, action in of_sessions)]


def _faults_of(answer: RepairAnswer) -> list[str]:
    """Return what went wrong on a host."""
    problems = [(session.name, session.problem) for session in answer.sessions.values() if session.problem]
    own = [answer.why_not] if answer.unreachable or answer.actions is None else []
    return [*answer.faults, *(f"session {name}: {problem}" for name, problem in problems), *own]
