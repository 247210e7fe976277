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
from dataclasses import dataclass, field
from typing import Any

from ..cluster.host_names import renamed
from ..rules.access import ADMIN, Asker
from ..rules.scope import EVERYTHING, Scope

State = dict[str, Any]
Answers = Mapping[str, Mapping[str, Any]]
"""The answer of each host that was called in a step; empty for a host that did not answer."""
Call = dict[str, Any]
PLACE = ("state_directory",)
"""What every call to a host gets of its role (`call`)."""
OF_HOST = ("underlay_address", "accelerators", *PLACE)
"""What a host needs of its role to report its facts."""
REMOVAL = (*PLACE, "output_size", "output_days", "output_sessions")
"""What a removal gets of its role: also how much output is kept."""


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
    read_archive: Callable[[Any], Mapping[str, Mapping[str, str]]] = lambda _request: {}
    run: str = ""
    has_ended: Callable[[str], bool] = lambda _lease_owner: False
    asker: Asker = ADMIN
    scope: Scope = EVERYTHING


def call(
    module: str,
    hosts: Mapping[str, Mapping[str, Any]] | Iterable[str],
    arguments: Mapping[str, Any] | None = None,
    of_state: Sequence[str] = (),
    of_role: Sequence[str] = (),
) -> Call:
    """Return one call of a module on some hosts.

    hosts: by name the arguments for that host alone. arguments: the same for all. of_state: keys of the state that are
    arguments as well, so that large values are stored once. of_role: arguments that the role's variables give,
    which may differ from host to host; empty ones are left out.
    """
    own = {name: dict(hosts[name]) if isinstance(hosts, Mapping) else {} for name in hosts}
    return {
        "module": module,
        "hosts": own,
        "arguments": dict(arguments or {}),
        "of_state": list(of_state),
        "of_role": list(of_role),
    }


def step(name: str, title: str, then: str, calls: Sequence[Call] = ()) -> State:
    """Return the part of a state that names the next step."""
    return {"step": name, "title": title, "then": then, "calls": list(calls)}


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


def calls_of(state: Mapping[str, Any], host: str) -> list[tuple[str, dict[str, Any], list[str]]]:
    """Return the calls for a host, in order: module, arguments, and the other arguments, which the role gives."""
    return [
        (
            step_call["module"],
            _overtaken_by(
                state,
                host,
                _in_recorded_names(
                    state,
                    host,
                    step_call["module"],
                    {
                        **{key: state[key] for key in step_call["of_state"]},
                        **step_call["arguments"],
                        **step_call["hosts"][host],
                    },
                ),
            ),
            step_call["of_role"],
        )
        for step_call in state["calls"]
        if host in step_call["hosts"]
    ]


def _in_recorded_names(state: Mapping[str, Any], host: str, module: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with sessions' records, and the host, by the names that the hosts keep (cluster.host_names)."""
    names = state.get("host_names") or {}
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


def _overtaken_by(state: Mapping[str, Any], host: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments by which a host detects that a teardown was faster: what it had, and when by its clock."""
    if "recorded" in arguments and host in state.get("looked", {}):
        arguments["looked"] = state["looked"][host]
        if not arguments["recorded"]:
            del arguments["recorded"]
    return arguments


def combined(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the results of a host's calls in one step as one result; the last of them is one that failed, or none."""
    if len(results) == 1:
        return dict(results[0])
    found: dict[str, Any] = {"changed": any(result.get("changed") for result in results), "results": list(results)}
    found["actions"] = [action for result in results for action in result.get("actions") or ()]
    differences = [result["diff"] for result in results if result.get("diff")]
    if differences:
        found["diff"] = differences
    if warnings := [warning for result in results for warning in result.get("warnings") or ()]:
        found["warnings"] = warnings
    for result in results[-1:]:
        found.update({key: result[key] for key in ("failed", "msg", "sick", "unreachable") if key in result})
    return found
