# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Teardown: remove a session from every host, and remember hosts that could not take part.

| step | what hosts do | what follows |
|---|---|---|
| remove | every host removes what it has of the session | clean, look, remember, or the end |
| others | sessions of another group that cannot end them are removed by their id | look, remember, or the end |
| clean | hosts unreachable at an earlier teardown of the name finish that, then this | look, remember, or the end |
| look | hosts of a session that others know only by a stub report whether they have it | remember, or the end |
| remember | hosts that answered set and forget tombstones | the end |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model.answers import FactsAnswer, SessionAnswer, SessionElsewhere, read_answers, read_parts
from ..model.calls import KeepRecords, LookAtHost, Remove
from ..model.given import TeardownGiven, read_given
from ..model.record import ENDED, PENDING, TERMINATED, Tombstone
from ..model.verb_state import StepCall, TeardownState, read_state
from ..rules.scope import VARIABLE as GROUP
from ..rules.scope import Scope
from ..values.deferred import dataclass
from ..values.errors import printable
from .cleanup import UNOWNED
from .verb import REMOVAL, Answers, Outside, State, call

REFUSED = "The session cannot be torn down."
BY_ID = (*REMOVAL, "keep_record", "undo")
BY_NAME = (*BY_ID, "session_id")
SEE = "Find the hosts to clean later"
SAY = "Report what could not be removed"


@dataclass(frozen=True)
class Tombstones:
    """The tombstones that a removal requires.

    tombstones: to set. forget: ids whose tombstones can be removed. done: hosts that removed what they had.
    unreachable, failed: hosts that did not. report: lines for people about those.
    """

    tombstones: list[Tombstone]
    forget: list[str]
    done: list[str]
    unreachable: list[str]
    failed: list[str]
    report: list[str]

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to record."""
        return bool(self.tombstones or self.forget)

    def calls(self) -> list[StepCall]:
        """Return the calls by which hosts that answer record them."""
        request = KeepRecords(tombstones=tuple(self.tombstones), forget=tuple(self.forget))
        return [call(dict.fromkeys([*self.done, *self.failed], request))]


def tombstones_for(answers: Mapping[str, SessionAnswer], alive: Collection[str] = ()) -> Tombstones:
    """Return the tombstones that follow from the hosts' answers to a removal.

    alive: ids of sessions that were launched during the removal: a tombstone would remove them.
    """
    done, unreachable, failed = _sorted(answers)
    known = {session.id: session.name for answer in answers.values() for session in answer.sessions or ()}
    existing = _existing(answers[name] for name in done)
    later = unreachable + failed
    tombstones = [Tombstone(key, known[key], tuple(later)) for key in sorted(known) if later and key not in alive]
    report = _reasons({name: answers[name].why_not for name in failed})
    if _is_refused(answers[name] for name in failed):
        # Because of a tombstone the next run removes the session, whichever user runs it.
        return Tombstones([], [], done, unreachable, failed, report)
    if failed:
        report.append("Correct this and tear the session down again.")
    left = {(name, session.id) for name in done for session in answers[name].elsewhere or ()}
    if unreachable:
        report.append(_unreached(unreachable, bool(known or existing), bool(left)))
    forget = _cleaned(existing, done, left)
    return Tombstones(tombstones, forget, done, unreachable, failed, report)


def _sorted(answers: Mapping[str, SessionAnswer]) -> tuple[list[str], list[str], list[str]]:
    """Return three lists of hosts: done, unreachable and failed."""
    done = [name for name, answer in answers.items() if answer.sessions is not None]
    unreachable = [name for name, answer in answers.items() if answer.unreachable]
    return done, unreachable, [name for name in answers if name not in done and name not in unreachable]


def _is_refused(answers: Iterable[SessionAnswer]) -> bool:
    return any(answer.refused for answer in answers)


def _existing(answers: Iterable[SessionAnswer]) -> dict[str, tuple[str, ...]]:
    """Return the hosts of the tombstones that hosts have, by id."""
    return {tombstone.id: tombstone.hosts for answer in answers for tombstone in answer.tombstones or ()}


def _cleaned(
    existing: Mapping[str, Collection[str]], done: Collection[str], left: Collection[tuple[str, str]]
) -> list[str]:
    """Return the ids whose tombstones are not needed any more: all their hosts are clean.

    A host that left it to another group still has a part of it.
    """
    clean = {(host, key) for host in done for key in existing} - {*left}
    return sorted(key for key, hosts in existing.items() if all((host, key) in clean for host in hosts))


def _unreached(hosts: Iterable[str], is_known: bool, is_left: bool) -> str:
    """Return what becomes of unreachable hosts. is_known: whether others know the session, or left it to a group."""
    names = ", ".join(hosts)
    if is_known:
        return f"{names} could not be reached and will be cleaned when back, by whatever runs next."
    nothing_known = "" if is_left else ", and no other host knows of the session"
    return f"{names} could not be reached{nothing_known}."


def _reasons(why: Mapping[str, str]) -> list[str]:
    """Return one line for each reason, with the hosts that give it."""
    hosts: dict[str, list[str]] = {}
    for host, reason in why.items():
        hosts.setdefault(reason, []).append(host)
    return [f"{', '.join(names)}: {reason}" for reason, names in hosts.items()]


def _known_by_stubs(answers: Mapping[str, SessionAnswer]) -> dict[str, list[str]]:
    """Return the sessions that no host but others than their own knows, and their hosts, all of which have answered.

    They may have been launched on these hosts after the answer, or they are remains of a session that is gone.
    """
    done = {name: answer.sessions for name, answer in answers.items() if answer.sessions is not None}
    found: dict[str, set[str]] = {}
    for sessions in done.values():
        for session in sessions:
            found.setdefault(session.id, set()).update(session.hosts)
    knows = {(host, session.id) for host, sessions in done.items() for session in sessions}
    return {
        key: sorted(hosts)
        for key, hosts in sorted(found.items())
        if hosts and all(host in done and (host, key) not in knows for host in hosts)
    }


def begin(given: Mapping[str, Any], hosts: Sequence[str], outside: Outside) -> State:
    """Return the first state. given: of `TeardownGiven`. Raises InvalidInput."""
    wanted = read_given(TeardownGiven, given, "teardown")
    state = TeardownState(**{**vars(wanted), "hands_on": wanted.hands_on and not outside.check_mode})
    remove = call(dict.fromkeys(hosts, Remove(wanted.session_name)))
    return state.follow("remove", "Remove the session's parts on this host", SEE, [remove])


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return the state that follows from the answers to the state's step."""
    return _advance(read_state(TeardownState, state), answers, outside)


def _advance(state: TeardownState, answers: Answers, outside: Outside) -> State:
    if state.step in ("remove", "others", "clean"):
        for host, parts in read_parts(SessionAnswer, answers).items():
            is_later = state.step == "others"
            state.answers[host] = _with_earlier(state.answers[host], parts) if is_later else parts[-1]
        return _removed(state, outside)
    if state.step == "look":
        found = {host: answer.host for host, answer in read_answers(FactsAnswer, answers).items()}
        records = {record.id for facts in found.values() if facts is not None for record in facts.records}
        return _remember(state, records)
    return _over(state)


def _with_earlier(earlier: SessionAnswer, parts: Sequence[SessionAnswer]) -> SessionAnswer:
    """Return a host's answers to its removals by id, together with that to its earlier removal by name."""
    if parts[-1].sessions is None:
        return parts[-1]
    return replace(earlier, sessions=tuple(known for each in (earlier, *parts) for known in each.sessions or ()))


def _removed(state: TeardownState, outside: Outside) -> State:
    """Evaluate the hosts' answers to the removal."""
    answers = state.answers
    if state.step == "remove":
        ids = _judge_elsewhere(state, answers, outside.scope)
        if ids:
            title = "Remove sessions that no run for their own resource group can remove"
            return state.follow("others", title, SEE, _calls_by_id(state, ids, answers, outside))
    found = tombstones_for(answers)
    torn_down = {tombstone.id for answer in answers.values() for tombstone in answer.tombstones or ()}
    dead = {host: answers[host].theirs for host in found.failed if answers[host].theirs}
    if state.step != "clean" and (dead := {host: ids for host, ids in dead.items() if torn_down.issuperset(ids)}):
        title = "Remove what was torn down while this host was unreachable, then the session"
        return state.follow("clean", title, SEE, _clean_calls(state.session_name, dead, outside))
    stubs = {key: hosts for key, hosts in _known_by_stubs(answers).items() if found.tombstones}
    if stubs:
        carriers = list(dict.fromkeys(host for hosts in stubs.values() for host in hosts))
        calls = [call(dict.fromkeys(carriers, LookAtHost(state.session_name)))]
        title = "See whether it was launched meanwhile"
        return state.follow("look", title, SEE, calls)
    return _remember(state, ())


def _judge_elsewhere(state: TeardownState, answers: Mapping[str, SessionAnswer], scope: Scope) -> list[str]:
    """Note why sessions were left alone, and return the ids of those to remove nevertheless."""
    found: dict[str, SessionElsewhere] = {}
    own = {key.id for answer in answers.values() for key in answer.sessions or () if key.hosts or key.owner}
    for host, session in [(host, session) for host, answer in answers.items() for session in answer.elsewhere or ()]:
        known = found.get(session.id, session)
        # Without a record it is not known which hosts carry a session, or have a copy of one that waits.
        holders = [host] if session.status in ("", PENDING) else []
        found[session.id] = replace(
            session,
            hosts=tuple(dict.fromkeys([*known.hosts, *session.hosts, *holders])),
            resource_group=known.resource_group or session.resource_group,
            # A session at work somewhere counts as such; containers without a record do not belong to an ended one.
            status=max(known.status, session.status, key=lambda status: (status not in ENDED, status != "")),
        )
    mine = [
        key
        for key, session in sorted(found.items())
        if (scope.may_end(session.resource_group, session.hosts) if session.status else key in own)
    ]
    # The short record that is left of an ended session does no harm.
    alive = {key: session for key, session in sorted(found.items()) if session.status not in ENDED}
    lines = [_line_of(session, scope) for key, session in alive.items() if key not in mine]
    state.elsewhere = lines
    return mine


def _line_of(session: SessionElsewhere, scope: Scope) -> str:
    """Return why a session was left alone, and with which group it is torn down."""
    if not session.status:
        return (
            f"Session {printable(session.name)} ({session.id}) has containers on {', '.join(session.hosts)}, and no "
            "host says to which resource group it belongs, as its record is lost: it is left alone. Run the repair "
            f"playbook; or tear it down with teardown_session_id={session.id}, if it is not needed."
        )
    group = scope.group_for(session.resource_group, session.hosts)
    outside = scope.elsewhere(session.hosts)
    has = "is known on" if session.status == PENDING else "has replicas on"
    where = f"{has} {', '.join(outside)}, outside resource group {scope.group}" if outside else ""
    whose = f"belongs to resource group {printable(session.resource_group)}" if session.resource_group else ""
    advice = f"Tear it down with {GROUP}={group}." if group else "Tear it down with a group that has all of its hosts."
    return (
        f"Session {printable(session.name)} ({session.id}) {' and '.join(filter(None, (whose, where)))}: it is left "
        f"alone. {advice}"
    )


def _calls_by_id(
    state: TeardownState, ids: Sequence[str], answers: Mapping[str, SessionAnswer], outside: Outside
) -> list[StepCall]:
    """Return the calls by which hosts that have answered remove sessions by their ids."""
    asker = None if outside.asker.is_admin else outside.asker.name
    hosts = [host for host, answer in answers.items() if answer.sessions is not None]
    return [call(dict.fromkeys(hosts, Remove(state.session_name, key, asker)), BY_ID) for key in ids]


def _clean_calls(session_name: str, dead: Mapping[str, Sequence[str]], outside: Outside) -> list[StepCall]:
    """Return the calls by which hosts first remove sessions with a tombstone, and then the session itself.

    dead: the ids of the former by host. Because of their tombstones the next run removes them, whichever user runs it.
    """
    calls = []
    for number in range(max(map(len, dead.values()))):
        own = {host: replace(UNOWNED, session_id=ids[number]) for host, ids in dead.items() if number < len(ids)}
        calls.append(call(own))
    asker = None if outside.asker.is_admin else outside.asker.name
    again = Remove(session_name, asker=asker, scope=outside.scope.told)
    return [*calls, call(dict.fromkeys(dead, again), BY_NAME)]


def _remember(state: TeardownState, alive: Collection[str]) -> State:
    """Set and forget tombstones. alive: as in `tombstones_for`."""
    found = tombstones_for(state.answers, alive)
    state.report = [*found.report, *state.elsewhere]
    state.tombstones, state.forget, state.answers = found.tombstones, found.forget, {}
    if found.is_needed:
        return state.follow("remember", "Record the hosts to clean later", SAY, found.calls())
    return _over(state)


def _over(state: TeardownState) -> State:
    failure = f"The session {state.session_name} is not removed from every host."
    return state.over("\n".join([failure, *state.report]) if state.fails and state.report else "")


@dataclass(frozen=True)
class Removed:
    """The data about a session that was torn down, for later jobs. report: lines for people."""

    name: str
    status: str
    report: Sequence[str]


def handed_on(state: State) -> Removed | None:
    """Return the data that is passed on in a workflow, once the session is removed; None before."""
    if state["step"] or "failure" in state or not state["hands_on"]:
        return None
    return Removed(state["session_name"], TERMINATED, list(state["report"]))


def closing_lines(_state: State) -> list[str]:
    """Return the lines that people see at the end: none, because the removal reports what it removes."""
    return []
