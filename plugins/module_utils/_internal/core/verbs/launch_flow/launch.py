# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The common parts of all steps of a launch: its present state, and the ways in which it ends or starts again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from ...model.answers import A, SessionAnswer, read_answers
from ...model.record import ERROR, PENDING, RUNNING, Record, read_record
from ...show.launch import PLANNED
from ..verb import Answers, Call, Outside, State, call, hosts_of, removal_variables, step, with_unreachable

ADVICE = "Correct what is said above and launch again. With -v the answer of each host is shown in full."
DECIDE = "Decide the next step"
SAY = "Say what runs where, or why it waits"
STATE_DIRECTORY = {"state_directory": "launch_state_directory"}
REMOVAL = removal_variables("launch")


class Launch:
    """A launch after hosts have answered. The functions of its steps change its state, a copy, and return the next.

    results: the answer of each host that had a part in the state's step.
    """

    REFUSED = "The session cannot be launched."

    def __init__(self, state: State, answers: Answers, outside: Outside) -> None:
        kept = {key: value for key, value in state.items() if key not in ("diff", "lines", "saying")}
        self.state: State = {**kept, "pause": False, "warnings": []}
        self.results: Answers = {host: answers.get(host) or {} for host in hosts_of(state)}
        if state["step"] == "look":
            self.results = with_unreachable(answers, state["known"], state["known_unreachable"])
        self.outside = outside

    @cached_property
    def answers(self) -> dict[str, SessionAnswer]:
        """The answers of hosts, with the fields of session_host and those that all calls have."""
        return read_answers(SessionAnswer, self.results)

    @property
    def record(self) -> Record:
        """The session's record with its plan."""
        return read_record(self.state["record"])

    @property
    def running(self) -> str:
        """The status of a session that was started."""
        return PLANNED if self.outside.check_mode else RUNNING

    @property
    def is_last(self) -> bool:
        """Whether it has been planned as often as allowed."""
        return bool(self.state["attempt"] >= self.state["attempts"])

    def step(self, name: str, title: str, calls: Sequence[Call], then: str = DECIDE) -> State:
        """Return the state with the step that hosts do next."""
        return {**self.state, **step(name, title, then, calls)}

    def over(self, status: str, report: Sequence[str]) -> State:
        """End with an outcome."""
        outcome = {"session_name": self.state["session_name"], "status": status, "report": list(report)}
        if self.state["from_queue"] and self.state["silent_registries"]:
            outcome["silent_registries"] = self.state["silent_registries"]
        return self._tell({"outcome": outcome}, status)

    def fail(self, *lines: str) -> State:
        """End with a failure."""
        return self._tell({"failure": "\n".join(lines)}, None if self.state["promised"] is None else ERROR)

    def refuse(self, *lines: str) -> State:
        """End with a failure before anything was begun."""
        return self.fail(self.REFUSED, *lines)

    def not_held(self, reasons: Sequence[str]) -> State:
        """End with a failure if hosts did not hold their parts."""
        return self.fail(
            f"The session {self.state['session_name']} could not be launched; its place could not be held on every "
            "host.",
            *reasons,
            "Nothing was started. Correct what is said above and launch again.",
        )

    def not_changed(self, *lines: str) -> State:
        """End with the problem of a session that continues to run: for the queue an outcome like others."""
        return self.over(ERROR, lines) if self.state["from_queue"] else self.fail(*lines)

    def _tell(self, end: State, status: str | None) -> State:
        """End at once if the result for the workflow is right, else correct it first."""
        if not self.state["hands_on"] or status == self.state["promised"]:
            return {**self.end(), **end}
        return {**self.step("tell", "Pass the result on to later jobs", (), SAY), "promised": status, **end}

    def end(self) -> State:
        """Return the state with no step."""
        return {**self.state, **step("", "", "")}

    def look_again(self, *, pause: bool = False, peers_of: Sequence[str] = ()) -> State:
        """Start again: collect the facts of all reachable hosts."""
        hosts = [host for host in self.state["known"] if host not in self.state["known_unreachable"]]
        look = look_step(self.state["request"], hosts, peers_of)
        return {**self.state, "pause": pause, "peers_heard": bool(peers_of), **look}

    def sick_hosts(self) -> dict[str, str]:
        """Return the hosts that failed in the state's step for reasons of their own, and why; plans leave them out."""
        found = {host: answer.why_not for host, answer in self.answers.items() if answer.sick}
        self.state["sick"] = {**self.state["sick"], **found}
        return found

    def sick_lines(self) -> list[str]:
        """Return why plans leave hosts out."""
        return [f"{host}: {why}" for host, why in self.state["sick"].items()]

    def to_record(self, record: Mapping[str, Any], *of_state: str) -> list[Call]:
        """Return the calls by which all reachable hosts keep a record."""
        own = {host: {"recorded": self.state["recorded"][host]} for host in self.state["reachable"]}
        waits = {"witnesses": list(self.state["known"])} if record["status"] == PENDING else {}  # as `kept_by`
        return [call("session_record", own, {"records": [{**record, **waits}]}, of_state, STATE_DIRECTORY)]


def look_step(request: Mapping[str, Any], hosts: Sequence[str], peers_of: Sequence[str] = ()) -> State:
    """Return the part of a state that names the step look. peers_of: sessions whose silent peers hosts report."""
    arguments = {
        **({"peers_of": list(peers_of)} if peers_of else {}),
        "session_name": request["session_name"],
        "images": request["images"],
        "volumes": request["volumes"],
        "encryption": request["encrypted"],
        "underlay_address": "",
    }
    variables = {
        "underlay_address": "launch_underlay_address",
        "accelerators": "launch_accelerators",
        **STATE_DIRECTORY,
    }
    own = {host: {"paths": paths_on(host, request, hosts)} for host in hosts}
    return step(
        "look", "Collect facts of the hosts", "Plan the session", [call("host_info", own, arguments, (), variables)]
    )


def paths_on(host: str, request: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return the paths whose facts a host reports: none if the request leaves it out, as one of them may hang there.

    known: hosts of the group. If a session names others, hosts may have got other names, and all report them. The first
    look of a launch has the same rule (roles/launch/tasks/plan.yml).
    """
    only = request.get("only_hosts") or []
    is_left_out = host in (request.get("excluded_hosts") or []) or (only and {*only} <= {*known} and host not in only)
    return [] if is_left_out else list(request["paths"])


def failures_of(answers: Mapping[str, A], part: Callable[[A], object]) -> tuple[list[str], list[str]]:
    """Return why hosts have not done their part, and which are unreachable."""
    missing = {host: answer for host, answer in answers.items() if part(answer) is None}
    failures = [f"{host}: {answer.why_not}" for host, answer in missing.items()]
    return failures, [host for host, answer in missing.items() if answer.unreachable]
