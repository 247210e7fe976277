# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The common parts of all verbs: a state, the step that it names, and the inputs from outside.

A verb is a function `advance(state, answers, outside) -> state`. A state is plain data for JSON. It names the *step*
that hosts are to do next, with the calls of each host, or none if the verb is over; its *title* is for people, and so
is the title of the decision that *then* follows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from typing import Any, NamedTuple, Protocol, TypeVar

from ..cluster.host_names import renamed
from ..model.calls import Call
from ..model.decode import encode
from ..model.request import Request
from ..model.verb_state import Plain, StepCall
from ..rules.access import ADMIN, Asker
from ..rules.images import Archive
from ..rules.scope import EVERYTHING, Scope
from ..values.deferred import dataclass

State = Plain
Answers = Mapping[str, Mapping[str, Any]]
"""The answer of each host that was called in a step; empty for a host that did not answer."""
C = TypeVar("C", bound=Call)
PLACE = ("state_directory",)
"""Fields that each call to a host gets from its role (`call`)."""
OF_HOST = ("underlay_address", "accelerators", *PLACE)
"""Fields from the role for a call that collects facts."""
REMOVAL = (*PLACE, "output_size", "output_days", "output_sessions")
"""Fields from the role for a removal: also how much output is kept."""


class Verb(Protocol):
    """What Ansible needs of a verb. REFUSED: the first line if its request is wrong, or hosts do not allow it."""

    REFUSED: str

    def begin(self, given: Mapping[str, Any], hosts: Sequence[str], outside: Outside, /) -> State:
        """Return the first state. given: what its role gives (model.given). hosts: of the play. Raises CoreError."""

    def advance(self, state: State, answers: Answers, outside: Outside, /) -> State:
        """Return the state that follows from the answers to the state's step. Raises CoreError."""


class HandingVerb(Verb, Protocol):
    """A verb whose result is passed on in a workflow. SAY: the title under which its last lines are shown."""

    SAY: str

    def handed_on(self, state: State, /) -> object | None:
        """Return the dataclass that is passed on, as far as it is known; None while nothing is."""

    def closing_lines(self, state: State, /) -> list[str]:
        """Return the lines that people see at the end."""


@dataclass(frozen=True)
class Outside:
    """Inputs of a verb besides the answers of hosts.

    now: seconds of a clock. draw: gives a new UUID. forks: how many hosts work in parallel. check_mode: whether nothing
    may be changed. inventory: variables of each host. site: variables that apply to the whole group. read_archive:
    reads the controller's archive of images, which a request names. run: identifies this run in the leases that it
    takes. has_ended: whether the run that owns a lease has certainly ended. asker: the user who runs it. scope: the
    resource group that it is run for, and the others of the inventory.
    """

    now: float
    draw: Callable[[], str]
    forks: int = 5
    check_mode: bool = False
    inventory: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    site: Mapping[str, Any] = field(default_factory=dict)
    read_archive: Callable[[Request], Archive] = lambda _request: {}
    run: str = ""
    has_ended: Callable[[str], bool] = lambda _lease_owner: False
    asker: Asker = ADMIN
    scope: Scope = EVERYTHING


class Forms:
    """The plain forms of values that are sent to many hosts: each is made once. known: those that exist already."""

    def __init__(self, known: Iterable[tuple[object, object]] = ()) -> None:
        self._made = {id(value): (value, form) for value, form in known}

    def of(self, value: object) -> object:
        """Return the plain form of a value, the same object each time."""
        if value is None or isinstance(value, (str, int, float)):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = (value, self._make(value))
        return self._made[id(value)][1]

    def _make(self, value: object) -> object:
        if isinstance(value, (list, tuple)):
            return [self.of(inner) for inner in value]
        return {key: self.of(inner) for key, inner in value.items()} if isinstance(value, dict) else encode(value)


def call(hosts: Mapping[str, C], of_role: Sequence[str] = PLACE, forms: Forms | None = None) -> StepCall:
    """Return the part of a step by which some hosts do the same kind of thing.

    hosts: by name the call, of one class for all of them. of_role: fields that the role's variables give, which may
    differ from host to host; the call's own value stands where a variable is empty. What is the same for all hosts is
    stored once, and what is the default is not sent. forms: plain forms that exist already.
    """
    first = next(iter(hosts.values()), None)
    if first is None:
        return StepCall("", {}, {}, [])
    forms = forms or Forms()
    items = fields(first)  # type: ignore[arg-type]
    same = [item for item in items if _is_same_for_all(item.name, hosts.values())]
    other = [item for item in items if item not in same]
    state = {"state": first.state} if first.state else {}
    return StepCall(
        first.call,
        {host: _given(request, other, forms) for host, request in hosts.items()},
        {**state, **_given(first, same, forms)},
        list(of_role),
    )


def _given(request: Call, items: Iterable[Field[Any]], forms: Forms) -> Plain:
    """Return the plain forms of those fields of a call that do not have their default."""
    values = [(item, getattr(request, item.name)) for item in items]
    return {item.name: forms.of(value) for item, value in values if not _is_default(item, value)}


def _is_same_for_all(name: str, requests: Collection[Call]) -> bool:
    first, *others = [getattr(request, name) for request in requests]
    return all(_is_same(value, first) for value in others)


def _is_same(value: object, other: object) -> bool:
    return value is other or (isinstance(value, (str, int, float)) and value == other and type(value) is type(other))


def _is_default(item: Field[Any], value: object) -> bool:
    if value is None or value is item.default:
        return True
    if isinstance(value, (str, int, float, tuple)):
        return bool(value == item.default) and type(value) is type(item.default)
    return item.default_factory is not MISSING and not value


def hosts_of(state: Mapping[str, Any]) -> list[str]:
    """Return the hosts that have something to do in the state's step."""
    return list(dict.fromkeys(host for step_call in state["calls"] for host in step_call["hosts"]))


def with_unreachable(
    answers: Answers, hosts: Iterable[str], unreachable: Collection[str]
) -> dict[str, Mapping[str, Any]]:
    """Return the answers of *hosts*; hosts that this run has found to be *unreachable* are not asked a second time.

    Asking them would take as long as a connection may take.
    """
    return {host: {"unreachable": True} if host in unreachable else answers.get(host) or {} for host in hosts}


class HostCall(NamedTuple):
    """A call to one host: module, arguments as plain data, and the other arguments, which the role gives."""

    module: str
    arguments: Plain
    of_role: list[str]


def calls_of(state: Mapping[str, Any], host: str) -> list[HostCall]:
    """Return the calls for a host, in order."""
    own = [StepCall(**step_call) for step_call in state["calls"] if host in step_call["hosts"]]
    names = state.get("host_names") or {}
    return [
        HostCall(one.module, _in_recorded_names(names, host, one.module, one.given_to(host)), one.of_role)
        for one in own
    ]


def _in_recorded_names(names: Mapping[str, Mapping[str, str]], host: str, module: str, arguments: Plain) -> Plain:
    """Return arguments with sessions' records, and the host, by the names that the hosts keep (cluster.host_names)."""
    record, records = arguments.get("record"), arguments.get("records")
    if not names:
        return arguments
    if record is not None:
        own = names.get(record["id"], {})
        arguments["record"] = renamed(record, own)
        if "host" in arguments:
            arguments["host"] = own.get(host, host)
    elif module == "session_repair" and (known_as := {key: own[host] for key, own in names.items() if host in own}):
        arguments["known_as"] = known_as
    if isinstance(records, Mapping):
        arguments["records"] = {key: renamed(records[key], names.get(key, {})) for key in records}
    elif records is not None:
        arguments["records"] = [renamed(record, names.get(record["id"], {})) for record in records]
    return arguments


def combined(results: Sequence[Mapping[str, Any]]) -> Plain:
    """Return the results of a host's calls in one step as one result; the last of them is one that failed, or none."""
    if len(results) == 1:
        return dict(results[0])
    found: Plain = {"changed": any(result.get("changed") for result in results), "results": list(results)}
    found["actions"] = [action for result in results for action in result.get("actions") or ()]
    differences = [result["diff"] for result in results if result.get("diff")]
    if differences:
        found["diff"] = differences
    if warnings := [warning for result in results for warning in result.get("warnings") or ()]:
        found["warnings"] = warnings
    for result in results[-1:]:
        found.update({key: result[key] for key in ("failed", "msg", "sick", "unreachable") if key in result})
    return found
