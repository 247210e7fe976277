# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The common parts of all steps of a launch: its present state, and the ways in which it ends or starts again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypedDict

from ...model.answers import A, SessionAnswer, read_answers
from ...model.calls import KeepRecords, LookAtHost
from ...model.fields import FAIL
from ...model.given import Wanted
from ...model.launch_state import LaunchState, read_launch_state
from ...model.record import ERROR, RUNNING, Record, kept_by
from ...model.verb_state import Outcome, StepCall
from ...show.launch import PLANNED
from ..verb import OF_HOST, PLACE, Answers, C, Forms, Outside, State, call, hosts_of, with_unreachable

ADVICE = "Correct what is said above and launch again. With -v the answer of each host is shown in full."
DECIDE = "Decide the next step"
SAY = "Say what runs where, or why it waits"
LOOK, PLAN = ("look", "Collect facts of the hosts"), "Plan the session"
SHORTEST = 0.0
"""The shortest pause, in seconds: a random part of a moment (session_decide)."""


NOT_KEPT = ("diff", "lines", "saying", "warnings")
"""Keys of a state for one step only. In a registered result, Ansible stores the warnings as objects."""


class Knew(TypedDict):
    """Fields of calls: recorded, looked, as of `calls.Hold`."""

    recorded: tuple[str, ...]
    looked: float | None


class Launch:
    """A launch after hosts have answered. The functions of its steps change its state, a copy, and return the next.

    results: the answer of each host that had a part in the state's step.
    """

    REFUSED = "The session cannot be launched."

    def __init__(self, state: State, answers: Answers, outside: Outside) -> None:
        self.state = read_launch_state({key: state[key] for key in state if key not in NOT_KEPT})
        self.state.pause, self.state.warnings = None, []
        self.results: Answers = {host: answers.get(host) or {} for host in hosts_of(state)}
        if self.state.step == "look":
            self.results = with_unreachable(answers, self.state.known, self.state.known_unreachable)
        self.outside = outside

    @cached_property
    def answers(self) -> dict[str, SessionAnswer]:
        """The answers of hosts, with the fields of session_host and those that all calls have."""
        return read_answers(SessionAnswer, self.results)

    @property
    def record(self) -> Record:
        """The session's record with its plan."""
        return placed(self.state.record)

    @property
    def running(self) -> str:
        """The status of a session that was started."""
        return PLANNED if self.outside.check_mode else RUNNING

    @property
    def is_last(self) -> bool:
        """Whether it has been planned as often as allowed."""
        return self.state.attempt >= self.state.attempts

    @property
    def only_now(self) -> bool:
        """Whether it fails where others wait for capacity."""
        return self.state.request.on_no_capacity == FAIL and not self.state.from_queue

    def step(self, name: str, title: str, calls: Sequence[StepCall], then: str = DECIDE) -> LaunchState:
        """Return the state with the step that hosts do next."""
        self.state.step, self.state.title, self.state.then, self.state.calls = name, title, then, list(calls)
        return self.state

    def over(self, status: str, report: Sequence[str]) -> LaunchState:
        """End with an outcome."""
        silent = self.state.silent_registries if self.state.from_queue else {}
        self.state.outcome = Outcome(self.state.session_name, status, list(report), silent)
        return self._tell(status)

    def fail(self, *lines: str) -> LaunchState:
        """End with a failure."""
        self.state.failure = "\n".join(lines)
        return self._tell(None if self.state.promised is None else ERROR)

    def refuse(self, *lines: str) -> LaunchState:
        """End with a failure before anything was begun."""
        return self.fail(self.REFUSED, *lines)

    def not_held(self, reasons: Sequence[str]) -> LaunchState:
        """End with a failure if hosts did not hold their parts."""
        return self.fail(
            f"The session {self.state.session_name} could not be launched; its place could not be held on every host.",
            *reasons,
            "Nothing was started. Correct what is said above and launch again.",
        )

    def not_changed(self, *lines: str) -> LaunchState:
        """End with the problem of a session that continues to run: for the queue an outcome like others."""
        return self.over(ERROR, lines) if self.state.from_queue else self.fail(*lines)

    def _tell(self, status: str | None) -> LaunchState:
        """End at once if the result for the workflow is right, else correct it first."""
        if not self.state.hands_on or status == self.state.promised:
            return self.end()
        self.state.promised = status
        return self.step("tell", "Pass the result on to later jobs", (), SAY)

    def end(self) -> LaunchState:
        """Return the state with no step."""
        return self.step("", "", (), "")

    def look_again(self, *, pause: bool = False, peers_of: Sequence[str] = ()) -> LaunchState:
        """Start again: collect the facts of all reachable hosts. pause: whether to wait a moment before."""
        hosts = [host for host in self.state.known if host not in self.state.known_unreachable]
        if pause:
            self.state.pause = SHORTEST
        self.state.peers_heard = bool(peers_of)
        return self.step(*LOOK, [look_call(self.state.request, hosts, peers_of)], PLAN)

    def after_pause(self, following: LaunchState) -> LaunchState:
        """Return the next state, which is begun after the shortest pause."""
        following.pause = SHORTEST
        return following

    def sick_hosts(self) -> dict[str, str]:
        """Return the hosts that failed in the state's step for reasons of their own, and why; plans leave them out."""
        found = {host: answer.why_not for host, answer in self.answers.items() if answer.sick}
        self.state.sick.update(found)
        return found

    def sick_lines(self) -> list[str]:
        """Return why plans leave hosts out."""
        return [f"{host}: {why}" for host, why in self.state.sick.items()]

    def call(self, hosts: Mapping[str, C], of_role: Sequence[str] = PLACE) -> StepCall:
        """Return the part of a step by which hosts do the same kind of thing (verb.call)."""
        return call(hosts, of_role, Forms(self.state.forms()))

    def recorded(self, host: str) -> tuple[str, ...]:
        """Return the ids of the sessions that a host had records of."""
        return tuple(self.state.recorded[host])

    def knew(self, host: str) -> Knew:
        """Return what a host compares to detect that a teardown was faster: what it had, and when by its clock."""
        return {"recorded": self.recorded(host), "looked": self.state.looked.get(host)}

    def to_record(self, record: Record, lease_owner: str | None = None) -> list[StepCall]:
        """Return the calls by which all reachable hosts keep a record. lease_owner: whose lease of its name ends."""
        records = (kept_by(record, self.state.known),)
        own = {host: KeepRecords(records, lease_owner=lease_owner, **self.knew(host)) for host in self.state.reachable}
        return [self.call(own)]


def placed(record: Record | None) -> Record:
    """Return the record of a decision that has a place for the session."""
    if record is None:
        raise ValueError("This step needs a session that has a place.")
    return record


def look_call(request: Wanted, hosts: Sequence[str], peers_of: Sequence[str] = ()) -> StepCall:
    """Return the call by which hosts report their facts. peers_of: sessions whose silent peers they report."""
    look = LookAtHost(
        session_name=request.session_name,
        images=tuple(request.images),
        volumes=tuple(request.volumes),
        encryption=request.encrypted,
        underlay_address="",
        peers_of=tuple(peers_of),
    )
    own = {host: replace(look, paths=tuple(paths_on(host, request, hosts))) for host in hosts}
    return call(own, OF_HOST)


def paths_on(host: str, request: Wanted, known: Collection[str]) -> list[str]:
    """Return the paths whose facts a host reports: none if the request leaves it out, as one of them may hang there.

    known: hosts of the group. If a session names others, hosts may have got other names, and all report them. The first
    look of a launch has the same rule (roles/launch/tasks/plan.yml).
    """
    only = request.only_hosts
    is_left_out = host in request.excluded_hosts or (only and {*only} <= {*known} and host not in only)
    return [] if is_left_out else list(request.paths)


def failures_of(answers: Mapping[str, A], part: Callable[[A], object]) -> tuple[list[str], list[str]]:
    """Return why hosts have not done their part, and which are unreachable."""
    missing = {host: answer for host, answer in answers.items() if part(answer) is None}
    failures = [f"{host}: {answer.why_not}" for host, answer in missing.items()]
    return failures, [host for host, answer in missing.items() if answer.unreachable]
