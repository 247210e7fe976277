# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The states of verbs between two steps, as `launch_state` has that of a launch. Only the controller reads them."""

from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from typing import Any, Optional, TypeVar

from ..values.deferred import dataclass
from .answers import SessionAnswer
from .calls import ProbeTask
from .decode import OPTIONAL, decode_known, encode
from .given import PreflightGiven, Wanted
from .output import JobRequest, LogsRequest
from .record import PublicKeys, Tombstone

Plain = dict[str, Any]
"""Plain data that a verb only passes on."""
AS_IS = {"as_is": True}
"""Metadata of a field that stays plain data, because it is large and most steps do not read it."""


@dataclass(frozen=True)
class StepCall:
    """One kind of call in a step. Arguments are plain data.

    module: as in `calls`. hosts: the arguments of each host. arguments: of all of them. of_role: those that the
    variables of the role give.
    """

    module: str
    hosts: dict[str, Plain]
    arguments: Plain
    of_role: list[str]

    def given_to(self, host: str) -> Plain:
        """Return the arguments of the call to one host."""
        return {**self.arguments, **self.hosts[host]}


@dataclass
class VerbState:
    """The fields of the state of every verb.

    step: what hosts do next; empty if the verb is over. title: of that. then: of the decision that follows. calls: of
    the step. failure: why the verb failed, as text for people. left_out: hosts that --limit leaves out.
    """

    verb: str = ""
    step: str = ""
    title: str = ""
    then: str = ""
    calls: list[StepCall] = field(default_factory=list)
    failure: str = field(default="", metadata=OPTIONAL)
    left_out: list[str] = field(default_factory=list, metadata=OPTIONAL)

    def follow(self, name: str, title: str, then: str, calls: Iterable[StepCall] = ()) -> Plain:
        """Return the plain state with the next step."""
        self.step, self.title, self.then, self.calls = name, title, then, list(calls)
        return self.plain()

    def over(self, failure: str = "") -> Plain:
        """Return the plain state of a verb that is over."""
        self.failure = failure
        return self.follow("", "", "")

    def plain(self) -> Plain:
        """Return the plain data."""
        found = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "calls":
                value = plain_calls(value)
            elif "as_is" not in item.metadata:
                value = encode(value)
            if value or "optional" not in item.metadata:
                found[item.name] = value
        return found


def plain_calls(calls: Iterable[StepCall]) -> list[Plain]:
    """Return the plain data of calls, which shares their arguments: these are large, and the same for many hosts."""
    return [dict(vars(step_call)) for step_call in calls]


@dataclass
class JobState(VerbState):
    """The state of run_job.

    session_name, resource_group, request: as given. problems, failures, report: for people. session_id, job, is_batch:
    which job. on: by replica its host. hosts: of these. command, announcement: for people. outcome: for programs.
    """

    verb: str = "run_job"
    session_name: str = ""
    resource_group: str = ""
    request: JobRequest = field(default_factory=JobRequest)
    problems: list[str] = field(default_factory=list)
    session_id: str = ""
    job: str = ""
    is_batch: bool = False
    on: dict[str, str] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)
    command: str = ""
    announcement: str = ""
    outcome: Optional[Plain] = field(default=None, metadata=OPTIONAL)
    report: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass
class LogsState(VerbState):
    """The state of logs.

    session_name, resource_group, request: as given. hosts: those that have anything of the session. members: by replica
    its host. notes: for people.
    """

    verb: str = "logs"
    session_name: str = ""
    resource_group: str = ""
    request: LogsRequest = field(default_factory=LogsRequest)
    hosts: list[str] = field(default_factory=list)
    members: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass
class TeardownState(VerbState):
    """The state of teardown.

    fails: whether hosts that could not be cleaned are a failure. hands_on: whether the result is passed on. report,
    elsewhere: for people. tombstones, forget: what hosts record. answers: by host to its removals.
    """

    verb: str = "teardown"
    session_name: str = ""
    fails: bool = True
    hands_on: bool = False
    report: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    tombstones: list[Tombstone] = field(default_factory=list)
    forget: list[str] = field(default_factory=list)
    answers: dict[str, SessionAnswer] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """How a launch ended. silent_registries: by host those that it waited for in vain, for the rest of a run."""

    session_name: str
    status: str
    report: list[str]
    silent_registries: dict[str, list[str]] = field(default_factory=dict, metadata=OPTIONAL)


@dataclass
class ScheduleState(VerbState):
    """The state of schedule.

    known: hosts of the group. session_name, only_lost, moves_from: as given. cleaned_up: whether that was done.
    in_full: whether hosts were asked for all that is recorded. known_unreachable: the unreachable hosts. launchable:
    the launch of each session that can start. outcomes: what became of those. silent_registries: by host those that
    they waited for in vain. queue: the waiting sessions, in order, elsewhere: those that wait in other resource groups,
    for programs. warnings: for people. host_names: of the group's facts.
    """

    verb: str = "schedule"
    known: list[str] = field(default_factory=list)
    session_name: str = ""
    only_lost: bool = False
    moves_from: list[str] = field(default_factory=list)
    cleaned_up: bool = False
    in_full: bool = False
    known_unreachable: list[str] = field(default_factory=list)
    launchable: list[Wanted] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    silent_registries: dict[str, list[str]] = field(default_factory=dict)
    queue: list[Plain] = field(default_factory=list)
    elsewhere: list[Plain] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    host_names: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class MeasuredPair:
    """Two hosts, of which the source measures the connection to the target; what it found, or why there is nothing."""

    source: str
    target: str
    measured: Optional[Plain] = None
    problem: str = ""


NO_PLAN = ProbeTask({}, {}, {})


@dataclass
class PreflightState(VerbState):
    """The state of preflight.

    hosts: of the play. settings: as given. examined, listening, reached, heard: the answers of hosts to these steps.
    plan: of the tests. rounds: pairs that are still to be measured, measured: those that were. ahead: titles of the
    steps from the second on. answer: for programs. table, problems: for people.
    """

    verb: str = "preflight"
    hosts: list[str] = field(default_factory=list)
    settings: PreflightGiven = field(default_factory=PreflightGiven)
    examined: dict[str, Plain] = field(default_factory=dict, metadata={**OPTIONAL, **AS_IS})
    listening: dict[str, Plain] = field(default_factory=dict, metadata={**OPTIONAL, **AS_IS})
    reached: dict[str, Plain] = field(default_factory=dict, metadata={**OPTIONAL, **AS_IS})
    heard: dict[str, Plain] = field(default_factory=dict, metadata={**OPTIONAL, **AS_IS})
    plan: ProbeTask = NO_PLAN
    rounds: list[list[MeasuredPair]] = field(default_factory=list, metadata=OPTIONAL)
    measured: list[MeasuredPair] = field(default_factory=list, metadata=OPTIONAL)
    ahead: list[str] = field(default_factory=list)
    answer: Optional[Plain] = field(default=None, metadata={**OPTIONAL, **AS_IS})
    table: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Waiting:
    """A session whose lost replicas come back when its hosts have let go of the lost host."""

    name: str
    hosts: list[str]


@dataclass
class RepairState(VerbState):
    """The state of repair.

    known: hosts of the group. session_name: the only session; empty for all. leaks, puts_back, requeue_from: as given.
    alone: sessions that no other host knows. cleaned_up: whether that was done. taken_over, findings, requeued, lines:
    what was found and done, problems, unremoved, missing: what was not, for people. waiting: by session. public_keys:
    by session. looked, host_names: of the group's facts.
    """

    verb: str = "repair"
    known: list[str] = field(default_factory=list)
    session_name: str = ""
    leaks: bool = False
    puts_back: bool = True
    requeue_from: list[str] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    cleaned_up: bool = False
    taken_over: list[str] = field(default_factory=list)
    requeued: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unremoved: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    public_keys: dict[str, PublicKeys] = field(default_factory=dict)
    looked: dict[str, float] = field(default_factory=dict)
    host_names: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class PairTest:
    """How the test of two hosts went. took: seconds, or None with the problem."""

    pair: list[str]
    took: Optional[float]
    problem: str


@dataclass
class PairsState(VerbState):
    """The state of check_pairs.

    known: hosts of the group. cpus, memory, size: as given, in the units of `values`. chosen: hosts that take part.
    left_out_because: by host why it does not. replicas, containers: by host. pairs: of this round. rounds: the tests of
    the earlier ones. named, unclear: the tests of hosts that are slow, and those that do not show which host is. gone:
    hosts whose replica went on. table, problems: for people. answer: for programs.
    """

    verb: str = "check_pairs"
    known: list[str] = field(default_factory=list)
    cpus: int = 0
    memory: int = 0
    size: int = 0
    chosen: list[str] = field(default_factory=list)
    left_out_because: dict[str, str] = field(default_factory=dict)
    replicas: dict[str, str] = field(default_factory=dict)
    containers: dict[str, str] = field(default_factory=dict)
    pairs: list[list[str]] = field(default_factory=list)
    rounds: list[list[PairTest]] = field(default_factory=list)
    named: dict[str, list[str]] = field(default_factory=dict)
    unclear: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    table: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    answer: Optional[Plain] = field(default=None, metadata=OPTIONAL)


S = TypeVar("S", bound=VerbState)


def read_state(kind: type[S], data: Mapping[str, Any]) -> S:
    """Return the state of a verb from its plain data, to which Ansible adds keys of its own. Raises Malformed."""
    # Ansible replaces the warnings of a registered result by objects of its own.
    return decode_known(kind, {key: data[key] for key in data if key != "warnings"}, "The state")
