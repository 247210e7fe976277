# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Events for automation about a finished verb: what happened, and the form in which it is sent (CloudEvents 1.0)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from ..model.answers import DrainAnswer
from ..model.decode import OPTIONAL
from ..model.record import ERROR, PENDING, RUNNING
from ..rules.access import shown_lines
from ..values.deferred import dataclass
from ..values.errors import InvalidInput, printable
from ..values.parse import is_given

VARIABLE = "cluster_compute_events"
SUCCEEDED, FAILED, WAITING = "succeeded", "failed", "waiting"
CANCELLED = "CANCELLED"
"""Outcome of a launch that was cancelled while it waited; no record has it."""
MOST_LINES, LONGEST_LINE, MOST_SESSIONS = 20, 300, 200
"""Most lines of the report in an event, and most sessions or hosts that it names."""
VERBS = ("launch", "teardown", "repair", "schedule", "run_job")
"""Verbs that change something, and have a state."""
DRAIN, UNDRAIN = "drain", "undrain"
"""Verbs that have no state."""
TYPE = "cluster_compute.session"


@dataclass(frozen=True)
class Receiver:
    """The receiver of events. token: sent as a bearer token, empty for none."""

    url: str
    token: str = field(default="", repr=False)


def parse_receiver(value: object) -> Receiver | None:
    """Read ``cluster_compute_events``; None without a receiver. Raises InvalidInput, which never shows the token."""
    if not is_given(value):
        return None
    if not isinstance(value, Mapping):
        raise InvalidInput.single(VARIABLE, value, "It must be a mapping of url and, where that is needed, token.")
    for key in sorted(set(value) - {"url", "token"}, key=str):
        raise InvalidInput.single(f"{VARIABLE}.{key}", "...", "Known are url, token.")
    url = str(value.get("url") or "")
    if not url.startswith(("http://", "https://")) or not url.isprintable() or " " in url or not _host_of(url):
        raise InvalidInput.single(
            f"{VARIABLE}.url", url, "It must be an address, such as https://eda.example.com/events."
        )
    token = str(value.get("token") or "")
    if not token.isprintable() or " " in token:
        raise InvalidInput.single(f"{VARIABLE}.token", "...", "It must be one word without blanks.")
    return Receiver(url, token)


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


@dataclass(frozen=True)
class Event:
    """The outcome of a finished verb.

    verb, outcome: which verb it was and how it ended. session: its name, empty if there were several. status: of the
    session after a launch, of the job after run_job. sessions: outcomes of those that were launched from the queue, by
    name. report: lines, without commands and output of sessions' programs: both can contain secrets.
    """

    verb: str
    outcome: str
    session: str
    status: str
    sessions: Mapping[str, str]
    report: Sequence[str]


@dataclass(frozen=True)
class DrainEvent(Event):
    """The outcome of `DRAIN` or `UNDRAIN`. hosts: the names of the sessions that hold a place on each that answered."""

    hosts: Mapping[str, Sequence[str]]


def happened(verb: str, state: Mapping[str, Any]) -> Event | None:
    """Return what a finished verb has done; None if nothing happened that anybody would act on."""
    if verb not in VERBS:
        return None  # it changes nothing
    found = _End(FAILED, [state["failure"]]) if "failure" in state else _ENDS[verb](state)
    if found is None:
        return None
    session = str(state.get("session_name") or "")
    return Event(verb, found.outcome, session, found.status, found.sessions, _lines(found.report))


@dataclass(frozen=True)
class _End:
    """How a verb ended, as `happened` reads it."""

    outcome: str
    report: Sequence[object]
    status: str = ""
    sessions: Mapping[str, str] = field(default_factory=dict)


def _end_of_launch(state: Mapping[str, Any]) -> _End:
    status = str(state["outcome"]["status"])
    outcome = {ERROR: FAILED, CANCELLED: FAILED, PENDING: WAITING}.get(status, SUCCEEDED)
    return _End(outcome, list(state["outcome"]["report"]), status)


def _end_of_teardown(state: Mapping[str, Any]) -> _End:
    return _End(SUCCEEDED, list(state.get("report") or ()))


def _end_of_repair(state: Mapping[str, Any]) -> _End | None:
    report = [*state["lines"], *state["problems"]]
    return _End(FAILED if state["problems"] else SUCCEEDED, report) if report else None


def _end_of_schedule(state: Mapping[str, Any]) -> _End | None:
    outcomes = state["outcomes"]
    sessions = {found["session_name"]: found["status"] for found in outcomes[:MOST_SESSIONS]}
    report = [line for found in outcomes for line in found["report"]]
    outcome = FAILED if any(found["status"] == ERROR for found in outcomes) else SUCCEEDED
    return _End(outcome, report, sessions=sessions) if sessions else None


def _end_of_job(state: Mapping[str, Any]) -> _End:
    status, report = str(state["outcome"]["status"]), list(state.get("report") or ())
    report[0] = report[0].partition(": ")[0]  # what follows is the command, which may hold a password
    if state["outcome"]["succeeded"]:
        return _End(SUCCEEDED, report, status)
    return _End(WAITING if status == RUNNING and not state["failures"] else FAILED, report, status)


_ENDS: Mapping[str, Callable[[Mapping[str, Any]], _End | None]] = {
    "launch": _end_of_launch,
    "teardown": _end_of_teardown,
    "repair": _end_of_repair,
    "schedule": _end_of_schedule,
    "run_job": _end_of_job,
}
"""By verb the function that reads its last state, if it has not failed."""


def drained(
    verb: str, answers: Mapping[str, DrainAnswer], wait_seconds: int, failures: Sequence[str] = ()
) -> tuple[DrainEvent, list[str]]:
    """Return what `DRAIN` or `UNDRAIN` has done, and why it failed, if it did.

    answers: of the named hosts. wait_seconds: for which they waited to be empty. failures: other problems.
    """
    why, left = list(failures), MOST_SESSIONS
    hosts: dict[str, list[str]] = {}
    for host, answer in answers.items():
        if problem := _drain_problem(verb, host, answer, wait_seconds):
            why.append(problem)
        if answer.sessions is not None and len(hosts) < MOST_SESSIONS:
            hosts[host] = [_line(name) for name in answer.sessions[:left]]
            left -= len(hosts[host])
    is_left = verb == DRAIN and any(answer.sessions for answer in answers.values())
    outcome = FAILED if why else WAITING if is_left else SUCCEEDED
    return DrainEvent(verb, outcome, "", "", {}, _lines(why), hosts), why


def _drain_problem(verb: str, host: str, answer: DrainAnswer, wait_seconds: int) -> str:
    """Return why a host is not in the state that was requested, a sentence; empty if it is."""
    if answer.sessions is None:
        reason = "It could not be reached." if answer.unreachable else answer.why_not
        return f"{host} may {'not' if verb == DRAIN else 'still'} be drained. {reason}"
    if answer.sessions and verb == DRAIN and wait_seconds > 0:
        return (
            f"{host} is drained, and after {wait_seconds} seconds (drain_wait_seconds) sessions still hold a place "
            f"there: {', '.join(answer.sessions)}."
        )
    return ""


def _lines(report: Iterable[object]) -> list[str]:
    lines = [line for text in shown_lines(map(str, report), is_readable=False) for line in text.splitlines()]
    return [_line(line) for line in lines[:MOST_LINES]]


def _line(text: object) -> str:
    shown = printable(str(text))
    return shown if len(shown) <= LONGEST_LINE else f"{shown[: LONGEST_LINE - 1]}…"


@dataclass(frozen=True)
class CloudEvent:
    """An event to send. id: a UUID of its own. time: in the form of RFC 3339."""

    id: str
    source: str
    type: str
    time: str
    subject: str = field(metadata=OPTIONAL)
    data: Event
    specversion: str = "1.0"
    datacontenttype: str = "application/json"


def cloud_event(found: Event, event_id: str, time: str, resource_group: str) -> CloudEvent:
    """Return the event to send."""
    source, kind = f"/cluster_compute/{resource_group}", f"{TYPE}.{found.verb}.{found.outcome}"
    return CloudEvent(event_id, source, kind, time, found.session, found)
