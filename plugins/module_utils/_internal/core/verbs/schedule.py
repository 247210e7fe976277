# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Schedule: replace what lost hosts carried, go through the queue of a resource group once, and launch what can start.

| step | what hosts do | what follows |
|---|---|---|
| look | every host reports its facts | losses, cleanup, launch, or the end |
| losses | if hosts are missing or lack the last change, hosts report everything, and silent peers | the same |
| cleanup | each records what became of sessions, and removes what no session owns | look |
| launch | the next session that has lost hosts or can start is launched by the verb of that name | launch, or look |

The playbook replace_lost does only the first part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..cluster.group import GroupFacts, cleanup_work, waiting_of
from ..cluster.state import ClusterState
from ..model import record as records
from ..model.answers import Answer, FactsAnswer, read_answers
from ..model.calls import LookAtHost
from ..model.decode import decode_known, encode
from ..model.fields import REPLACE
from ..model.given import ScheduleGiven, Wanted, read_given
from ..model.record import PENDING, RUNNING, QueueTicket, Record
from ..model.request import Request
from ..model.verb_state import Outcome, ScheduleState, read_state
from ..rules.access import shown_lines
from ..rules.capacity import hosts_from_facts
from ..rules.images import joined
from ..rules.queue import QueueEntry, schedule_queue
from ..rules.site import Settings
from ..show.overview import entry_elsewhere, queue_entry
from ..values.errors import CoreError
from . import cleanup
from .launch import launch_request
from .launch_flow.images import IMAGE_AWAY
from .verb import OF_HOST, Answers, Outside, State, call, with_unreachable

REFUSED = "The queue cannot be read."


def begin(given: Mapping[str, Any], hosts: Sequence[str], _outside: Outside) -> State:
    """Return the first state. given: of `ScheduleGiven`. Raises InvalidInput."""
    wanted = read_given(ScheduleGiven, given, "schedule")
    state = ScheduleState(
        known=list(hosts),
        session_name=wanted.session_name,
        only_lost=wanted.only_lost,
        moves_from=wanted.moves_from,
        known_unreachable=wanted.unreachable,
    )
    return _look(state, wanted.losses)


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return the state that follows from the answers to the state's step; those of ``launch`` are its outcome."""
    after = {"look": _after_look, "losses": _after_look, cleanup.NAME: _after_cleanup, "launch": _after_launch}
    return after[state["step"]](read_state(ScheduleState, state), answers, outside)


def _after_cleanup(state: ScheduleState, answers: Answers, _outside: Outside) -> State:
    state.cleaned_up, state.warnings = True, cleanup.problems_of(read_answers(Answer, answers))
    return _look(state)


def _after_launch(state: ScheduleState, answers: Answers, outside: Outside) -> State:
    launched = state.launchable[len(state.outcomes)]
    outcome = decode_known(Outcome, answers["launch"], "The outcome of the launch")
    is_readable = outside.asker.may_read(launched.owner, launched.shared_with)
    state.silent_registries = joined(state.silent_registries, outcome.silent_registries)
    state.outcomes.append(replace(outcome, report=shown_lines(outcome.report, is_readable), silent_registries={}))
    if len(state.outcomes) < len(state.launchable):
        return _launch(state)
    return state.over() if state.only_lost else _look(state)


def _look(state: ScheduleState, peers_of: Sequence[str] = (), in_full: bool = False, name: str = "look") -> State:
    """Return the state in which hosts report their facts. in_full: everything that is recorded."""
    state.in_full = bool(peers_of) or in_full
    title = "Ask for all that is recorded" if in_full else "Collect facts of the hosts"
    if peers_of:
        title = "Ask which other hosts cannot reach the missing ones"
    look = LookAtHost(underlay_address="", whole_records=state.in_full, peers_of=tuple(peers_of))
    in_reach = [host for host in state.known if host not in state.known_unreachable]
    return state.follow(name, title, "Go through the queue", [call(dict.fromkeys(in_reach, look), OF_HOST)])


def _launch(state: ScheduleState) -> State:
    return state.follow("launch", "Launch the sessions that fit", "Store the outcome")


def _after_look(state: ScheduleState, answers: Answers, outside: Outside) -> State:
    unanswered = {host for host, answer in answers.items() if answer.get("unreachable")}
    state.known_unreachable = [host for host in state.known if host in {*unanswered, *state.known_unreachable}]
    found = with_unreachable(answers, state.known, state.known_unreachable)
    try:
        group = GroupFacts.read(read_answers(FactsAnswer, found), outside.inventory, scope=outside.scope)
        settings = Settings.from_variables(outside.site)
        cluster = group.cluster_state()
        cluster.check_names()
        shares = group.shares(settings.fair_share)
        waiting, problems = waiting_of(group.pending(cluster), shares, group.facts)
        hosts = hosts_from_facts(group.facts, group.inventory)
        entries = schedule_queue(waiting, hosts, settings.topology_keys, group.known)
    except CoreError as error:
        return state.over(f"{REFUSED}\n{error}")
    state.warnings, state.host_names = problems + group.warnings, group.host_names
    queue = [queue_entry(entry, cluster.records[entry.waiting.session_id], shares) for entry in entries]
    elsewhere = [entry_elsewhere(record, group.scope) for record in group.waiting_elsewhere(cluster)]
    state.queue, state.elsewhere = encode(queue), encode(elsewhere)
    if state.outcomes:
        return state.over()
    missing = [record.id for record in group.with_missing_hosts(cluster)]
    others = any(map(group.other_witnesses, group.own(cluster)))
    in_full = bool(state.moves_from or group.half_told(cluster) or others)
    if (missing or in_full) and not state.in_full:
        return _look(state, missing, in_full, "losses")
    if settings.fair_share.half_life is not None:
        _mark_head(group, cluster, entries)
    return _with_launches(state, group, cluster, entries, outside)


def _with_launches(
    state: ScheduleState,
    group: GroupFacts,
    cluster: ClusterState,
    entries: Sequence[QueueEntry],
    outside: Outside,
) -> State:
    """Return the state in which sessions are launched, or hosts clean up before that."""
    launches = [*_replacements(state, group, cluster, outside), *_moves(state, group, cluster)]
    group.tell_name_hosts(cluster)
    work = cleanup_work(group, cluster, cluster.orphaned)
    if work and not state.cleaned_up:
        return state.follow(*cleanup.STEP, "Look again", cleanup.calls_for(work))
    launches += [] if state.only_lost else _waiting_launches(cluster, entries)
    state.launchable = [replace(launch, known_unreachable=state.known_unreachable) for launch in launches]
    return _launch(state) if state.launchable else state.over()


def _waiting_launches(cluster: ClusterState, entries: Sequence[QueueEntry]) -> list[Wanted]:
    """Return the launches of the sessions that have a place; those that lacked an image come last."""
    placed = [(entry, cluster.records[entry.waiting.session_id]) for entry in entries if entry.placement is not None]
    placed.sort(key=lambda found: _lacks_image(found[1]))
    return [_launch_of(entry.waiting.request, record) for entry, record in placed]


def _lacks_image(record: Record) -> bool:
    """Tell whether a session waits because its image was not available: others are not to wait for its registry."""
    return bool(record.history) and record.history[-1].reason.startswith(IMAGE_AWAY)


def _launch_of(request: Request, record: Record) -> Wanted:
    """Return the launch of a session that waits to start, or to grow."""
    if record.growth is not None:
        grown = Request.from_dict(record.growth.request)
        return launch_request(grown, record.owner, record.shared_with, changes=record.id)
    return launch_request(request, record.owner, record.shared_with, waits=record)


def _request_of(record: Record, problems: list[str]) -> Request | None:
    """Return the request of a running session; None, with the reason, if this release cannot handle it."""
    try:
        records.require_known(record)
        return Request.from_dict(record.request)
    except CoreError as error:
        problems.append(f"Session {record.name} stays as it is. {error}")
        return None


def _moves(state: ScheduleState, group: GroupFacts, cluster: ClusterState) -> list[Wanted]:
    """Return the launches that move replicas from hosts that are to become empty, one replica after another."""
    leaving = [
        record
        for _key, record in sorted(cluster.records.items())
        if record.status == RUNNING and {*record.hosts} & {*state.moves_from}
    ]
    problems = state.warnings
    problems += [
        f"Session {record.name} stays as it is. {group.scope.left_alone(record)}"
        for record in leaving
        if not group.scope.is_own(record)
    ]
    return [
        launch_request(request, record.owner, record.shared_with, displaced={replica.name: replica.host})
        for record in leaving
        if group.scope.is_own(record) and record.request is not None
        if record.request.get("on_host_loss") == REPLACE and record.request["batch_command"] is None
        if record.id not in cluster.conflicts
        if all(host in group.facts for host in record.hosts)
        if any(replica.host in state.moves_from for replica in record.replicas)
        if (request := _request_of(record, problems)) is not None
        for replica in record.replicas
        if replica.host in state.moves_from
    ]


def _replacements(state: ScheduleState, group: GroupFacts, cluster: ClusterState, outside: Outside) -> list[Wanted]:
    """Return the launches that finish changes and replace what sessions have lost; warn why others stay as they are."""
    name, problems = state.session_name, state.warnings
    named = [record for record in cluster.named(name) if record.status == RUNNING]
    if name and not any(map(group.scope.is_own, named)):
        others = [f"Session {name} stays as it is. {group.scope.left_alone(record)}" for record in named]
        problems += others or [f"No session {name} runs in {', '.join(state.known)}."]
        return []
    half_changed = group.half_changed(cluster)
    found = [launch for record in half_changed if name in ("", record.name) for launch in _again(record, problems)]
    problems += [str(conflict) for conflict in cluster.conflicts.values() if name in ("", conflict.session_name)]
    lost = [record for record in _to_replace(name, group, cluster) if record not in half_changed]
    _check(name, lost, outside)
    launches = [_replacement(record, group, bool(name), problems) for record in lost]
    known = [record for record in group.own(cluster) if name in ("", record.name) and _has_others(group, record)]
    _check(name, known, outside)
    launches += [_with_other_witnesses(record, group, bool(name), half_changed, problems) for record in known]
    return [*found, *(replace(launch, without_retired=bool(name)) for launch in launches if launch)]


def _check(name: str, records: Iterable[Record], outside: Outside) -> None:
    """Reject a user who names a session of another one. Raises InvalidInput."""
    for record in records if name else ():
        outside.asker.check(record.name, record.owner, record.shared_with)


def _has_others(group: GroupFacts, record: Record) -> bool:
    """Tell whether witnesses of a session have left the inventory, or others are to take their place."""
    return bool(group.retired(record) or group.other_witnesses(record))


def _again(record: Record, problems: list[str]) -> list[Wanted]:
    """Return the launch that finishes a change, none, with the reason, if its request cannot be read."""
    request = _request_of(record, problems)
    if request is None:
        return []
    return [launch_request(request, record.owner, record.shared_with, changes=record.id)]


def _to_replace(name: str, group: GroupFacts, cluster: ClusterState) -> list[Record]:
    """Return the sessions that have lost a host and are to get another. name: the only one that is meant."""
    missing = group.with_missing_hosts(cluster)
    if name:
        return [record for record in missing if record.name == name]
    return [record for record in missing if (record.request or {}).get("on_host_loss") == REPLACE]


def _replacement(record: Record, group: GroupFacts, is_named: bool, problems: list[str]) -> Wanted | None:
    """Return the launch that replaces what a session has lost; None, with the reason, if it stays as it is."""
    lost = [host for host in record.hosts if host not in group.facts]
    reasons = [group.why_not_lost(record, host, is_named) for host in lost]
    if record.request is None:
        reasons.append("No host that answers has its whole record.")
    if any(reasons):
        problems.append(f"Session {record.name} stays as it is. {' '.join(filter(None, reasons))}")
        return None
    request = _request_of(record, problems)
    if request is None:
        return None
    return launch_request(
        request, record.owner, record.shared_with, replaces=True, peers_of=[record.id], changes=record.id
    )


def _with_other_witnesses(
    record: Record, group: GroupFacts, is_named: bool, half_changed: Collection[Record], problems: list[str]
) -> Wanted | None:
    """Return the launch that gives a session other witnesses; None, with the reason, if it keeps those it has."""
    if why := group.why_no_other_witnesses(record, is_named):
        problems += [why] if group.retired(record) else []
        return None
    is_whole = record.request is not None and all(host in group.facts for host in record.hosts)
    if not group.other_witnesses(record) or record in half_changed or not is_whole:
        return None
    return next(iter(_again(record, problems)), None)


def _mark_head(group: GroupFacts, cluster: ClusterState, entries: Sequence[QueueEntry]) -> None:
    """Record which session is the head, so that no session passes it whose owner has used less by then."""
    changing = {held.claim.amends for _host, held in group.launching}
    for entry in entries:
        record = cluster.records[entry.waiting.session_id]
        if not entry.is_head or record.is_head or record.id in changing:
            continue
        why = "It is the first in the queue for which there is no room."
        ticket = replace(record.queue or QueueTicket(record.queue_number), is_head=True)
        marked = cluster.records[record.id] = records.advance(record, record.status, why, queue=ticket)
        if record.status == PENDING:
            cluster.changed[record.id] = marked
        for host in record.hosts:
            # Only the hosts of a running session have its whole record.
            cluster.stubs.setdefault(host, []).append(marked)
