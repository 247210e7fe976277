# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The inputs with which verbs begin, a dataclass for each: the variables of its role without their prefix."""

from collections.abc import Mapping
from dataclasses import MISSING, field, fields, is_dataclass
from functools import partial
from typing import Any, Callable, Optional, TypeVar

from ..values.deferred import dataclass
from ..values.errors import InvalidInput
from ..values.parse import Reader, converted, is_given, numbers_as_text, parse_bool, parse_integer, split_list
from ..values.resources import parse_cpus, parse_memory
from .decode import decode_known
from .fields import QUEUE
from .output import JobRequest, LogsRequest
from .record import Record

PARSE = "parse"
"""Key of a field's metadata: a function that reads the field from the variable's name and its value."""
T = TypeVar("T")
MOST_ATTEMPTS = 10**6
LEAST_SIZE = 1024**2


def _text(value: object) -> str:
    text = numbers_as_text(value)
    if not isinstance(text, str):
        raise ValueError("It must be text.")
    return text


def _texts(value: object) -> list[str]:
    return [_text(item) for item in split_list(value)]


def _number(least: int, most: int) -> Mapping[str, Any]:
    return {PARSE: partial(parse_integer, least=least, most=most)}


def _by(make: Callable[[Any], object]) -> Mapping[str, Any]:
    return {PARSE: converted(make)}


@dataclass(frozen=True)
class PairsGiven:
    """How check_pairs begins: CPUs and memory of a replica, and size, the number of bytes that a pair sends."""

    cpus: int = field(metadata=_by(parse_cpus))
    memory: int = field(metadata=_by(parse_memory))
    size: int = field(metadata=_by(partial(parse_memory, minimum=LEAST_SIZE)))


@dataclass(frozen=True)
class Wanted:
    """The request of a launch, as `verbs.launch.launch_request` makes it.

    recreate: whether a session with another specification is replaced. on_no_capacity, wait_seconds: what it does
    without capacity, and for how long it waits. min_size: a running session may grow by less than requested, to no
    fewer replicas than this. replaces: whether replicas of lost hosts move to others whatever the request sets.
    displaced: replicas that are to leave their hosts, with these. without_retired: of `planning.planner.Wish`. waits:
    the record, if the session waits already. changes: its id, if it runs and is only to be changed. known_unreachable:
    hosts that this run has found to be unreachable. silent_registries: by host the registries that it waited for in
    vain in this run. peers_of: ids of the sessions whose other hosts are contacted.
    """

    session_name: str
    resource_group: str
    images: list[str]
    paths: list[str]
    volumes: list[str]
    request: dict[str, Any]
    encrypted: bool
    owner: str
    shared_with: list[str] = field(default_factory=list)
    only_hosts: list[str] = field(default_factory=list)
    excluded_hosts: list[str] = field(default_factory=list)
    recreate: bool = False
    on_no_capacity: str = QUEUE
    wait_seconds: int = 0
    min_size: Optional[int] = None
    replaces: bool = False
    displaced: dict[str, str] = field(default_factory=dict)
    without_retired: bool = False
    waits: Optional[Record] = None
    changes: str = ""
    known_unreachable: list[str] = field(default_factory=list)
    silent_registries: dict[str, list[str]] = field(default_factory=dict)
    peers_of: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LaunchGiven:
    """How a launch begins.

    request: as session_request returned it. attempts: how often it plans again if concurrent launches took the
    capacity. from_queue: whether a failure is an outcome like others. regenerate_keys: whether all keys are replaced.
    hands_on: whether the session is passed on to what follows in a workflow.
    """

    request: Wanted
    attempts: int = field(default=20, metadata=_number(0, MOST_ATTEMPTS))
    from_queue: bool = False
    regenerate_keys: bool = False
    hands_on: bool = False


@dataclass(frozen=True)
class LogsGiven:
    """How logs begins: which session of a name, and what of its output."""

    session_name: str
    resource_group: str
    request: LogsRequest


@dataclass(frozen=True)
class JobGiven:
    """How run_job begins: which session of a name, and the command."""

    session_name: str
    resource_group: str
    request: JobRequest


@dataclass(frozen=True)
class PreflightGiven:
    """The scope of a preflight.

    strict: whether warnings fail it. clock_seconds: largest error of a clock. disk_free: bytes that have to be free.
    peers: most hosts that each host tests. matrix_*: of the matrix, with the most bytes and seconds of one direction of
    a pair.
    """

    strict: bool = False
    matrix: bool = False
    clock_seconds: int = field(default=2, metadata=_number(1, 3600))
    disk_free: int = field(default=5 * 1024**3, metadata=_by(parse_memory))
    shared_folders: list[Any] = field(default_factory=list, metadata=_by(split_list))
    peers: int = field(default=400, metadata=_number(1, 10000))
    matrix_rounds: int = field(default=16, metadata=_number(1, 10000))
    matrix_seconds: int = field(default=1, metadata=_number(1, 60))
    matrix_bytes: int = field(default=1024**3, metadata=_by(parse_memory))
    matrix_ratio: int = field(default=2, metadata=_number(2, 1000))


@dataclass(frozen=True)
class RepairGiven:
    """How a repair begins.

    session_name: the only session to restore, empty for all. leaks: whether parts that no record explains are removed
    as well. puts_back: whether anything is restored. requeue_from: hosts that batch sessions leave for the queue.
    """

    session_name: str = ""
    leaks: bool = False
    puts_back: bool = True
    requeue_from: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ScheduleGiven:
    """How a run through the queue begins.

    session_name: if given, only the losses of this session are replaced, whatever its request sets. only_lost: whether
    the queue is left alone. moves_from: hosts from which sessions move that would be replaced if these were lost.
    losses: ids of sessions that this run has found to miss hosts; all hosts but the unreachable ones have answered
    about these, with ``peers_of`` and whole records. unreachable: hosts that it has found to be so.
    """

    session_name: str = ""
    only_lost: bool = False
    moves_from: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TeardownGiven:
    """How a teardown begins.

    fails: whether it is a failure if a host could not be reached or cleaned. hands_on: whether the result is passed on
    to what follows in a workflow.
    """

    session_name: str
    fails: bool = True
    hands_on: bool = False


_READERS: Mapping[object, Callable[[str, Any], Any]] = {
    bool: parse_bool,
    str: converted(_text),
    list[str]: converted(_texts),
}
"""By the type of a field the function that reads it from the name of a variable and its value."""


def read_given(kind: type[T], given: Mapping[str, Any], role: str, reader: Optional[Reader] = None) -> T:
    """Return what a role gives, in which empty values count as left out.

    reader: collects the problems, if no field is required. Raises InvalidInput with all problems otherwise, by the
    names of the role's variables. Raises Malformed for a request that is not as the module returned it that checks it.
    """
    problems = reader or Reader()
    items = fields(kind)  # type: ignore[arg-type]
    problems.unknown_keys("given", given, [item.name for item in items])
    found: dict[str, Any] = {}
    for item in items:
        value, variable = given.get(item.name), f"{role}_{item.name}"
        if is_dataclass(item.type):
            found[item.name] = decode_known(item.type, value, variable)  # type: ignore[arg-type]
        elif is_given(value):
            parse = item.metadata.get(PARSE) or _READERS[item.type]
            try:
                found[item.name] = parse(variable, value)
            except InvalidInput as error:
                problems.problems += error.problems
        elif item.default is MISSING and item.default_factory is MISSING:
            problems.add(variable, value, "It is required.")
    if reader is None:
        problems.finish(None)
    return kind(**found)
