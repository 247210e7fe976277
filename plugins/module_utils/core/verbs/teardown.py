# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Teardown: remove a session from every host, and remember those that could not take part.

| step | what hosts do | what follows |
|---|---|---|
| remove | every host removes what it has of the session | remember, or the end |
| remember | those that answered set and forget tombstones | the end |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.answers import (
    SessionAnswer,
    read_answers,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.verbs.verb import (
    Answers,
    Call,
    Outside,
    State,
    call,
    step,
)

REFUSED = "The session cannot be torn down."
VARIABLES = {"state_directory": "teardown_state_directory"}
SAY = "Say what could not be removed"


@dataclass(frozen=True)
class Tombstones:
    """What has to be remembered of a removal.

    tombstones: to set. forget: ids whose tombstones have done their work. done: hosts that removed what they had.
    unreachable, failed: those that did not. report: what people are told of those.
    """

    tombstones: list[dict[str, Any]]
    forget: list[str]
    done: list[str]
    unreachable: list[str]
    failed: list[str]
    report: list[str]

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to write down."""
        return bool(self.tombstones or self.forget)

    def calls(self, variables: dict[str, str]) -> list[Call]:
        """Return what the hosts that answer write down."""
        arguments = {"tombstones": self.tombstones, "forget": self.forget}
        return [call("session_record", [*self.done, *self.failed], arguments, variables=variables)]


def tombstones_for(answers: Mapping[str, SessionAnswer]) -> Tombstones:
    """Tell from the hosts' answers to a removal what has to be remembered of it."""
    done = {name: answer.sessions for name, answer in answers.items() if answer.sessions is not None}
    unreachable = [name for name, answer in answers.items() if answer.unreachable]
    failed = [name for name in answers if name not in done and name not in unreachable]
    known = {session.id: session.name for sessions in done.values() for session in sessions}
    existing = {tombstone.id: tombstone.hosts for name in done for tombstone in answers[name].tombstones}
    later = unreachable + failed
    tombstones = [{"id": key, "name": known[key], "hosts": later} for key in sorted(known)] if later else []
    reasons: dict[str, list[str]] = {}
    for name in failed:
        reasons.setdefault(answers[name].why_not, []).append(name)
    report = [f"{', '.join(names)}: {why}" for why, names in reasons.items()]
    if any(answers[name].refused for name in failed):
        # A tombstone has the session removed by whatever runs next, whoever runs it.
        return Tombstones([], [], list(done), unreachable, failed, report)
    if failed:
        report.append("Correct this and tear the session down again.")
    if unreachable:
        names = ", ".join(unreachable)
        report.append(
            f"{names} could not be reached and will be cleaned when back, by whatever runs next."
            if known or existing
            else f"{names} could not be reached, and no other host knows of the session."
        )
    forget = sorted(key for key, hosts in existing.items() if not set(hosts) - set(done))
    return Tombstones(tombstones, forget, list(done), unreachable, failed, report)


def begin(session_name: str, hosts: Sequence[str], fails: bool = True, hands_on: bool = False) -> State:
    """Return the first state.

    fails: whether it is a failure where a host could not be reached or cleaned. hands_on: whether what follows in a
    workflow is told.
    """
    return {
        "verb": "teardown",
        "session_name": session_name,
        "fails": fails,
        "hands_on": hands_on,
        "report": [],
        "tombstones": [],
        "forget": [],
        **step("remove", "Remove what the session has on this host", "See which hosts have to be cleaned later"),
        "calls": [call("session_host", hosts)],
    }


def advance(state: State, answers: Answers, outside: Outside) -> State:
    """Return what follows from the answers to the state's step."""
    if state["step"] == "remove":
        found = tombstones_for(read_answers(SessionAnswer, answers))
        state = {**state, "report": found.report, "tombstones": found.tombstones, "forget": found.forget}
        if found.is_needed:
            return {**state, **step("remember", "Remember them where it is known", SAY, found.calls(VARIABLES))}
    over = {**state, **step("", "", "")}
    if state["fails"] and state["report"]:
        outcome = f"The session {state['session_name']} is not removed from every host."
        return {**over, "failure": "\n".join([outcome, *state["report"]])}
    return over


def handed_on(state: State) -> dict[str, Any] | None:
    """Return what follows in a workflow is told, once the session is removed; None before."""
    if state["step"] or "failure" in state or not state["hands_on"]:
        return None
    return {"name": state["session_name"], "status": "TERMINATED", "report": list(state["report"])}


def closing_lines(_state: State) -> list[str]:
    """Return what people are told at the end: nothing, as removing says what it removes."""
    return []
