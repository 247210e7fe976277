# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The names of a host: in the inventory now, and in the records of sessions that it carries.

A session keeps, on its hosts and in the variables of its replicas, the names that its hosts had when it was launched,
and each host has stored its own. So a host may get another name at any time. Reports of hosts are converted to the
inventory's names as soon as they are read, and what hosts receive of a session is converted to the session's names
(`verb.calls_of`). The code between the two sees only one kind of names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ..model.facts import HostFacts
from ..model.record import ENDED, PENDING, Record, is_stub, latest

Names = Mapping[str, str]
"""From a host's name in one place to its name in another, for hosts that have two names."""
EXCLUDED = "excluded_hosts"


def in_current_names(
    facts: Mapping[str, HostFacts], known: Collection[str]
) -> tuple[dict[str, HostFacts], dict[str, dict[str, str]]]:
    """Return the reports of hosts in the inventory's names, and by session from those to the names in its record.

    known: every name of the group. If the inventory has a host's name for another one, or if two hosts claim a name,
    that may be a mistake, and the session is left as it is (`cluster_state.ClusterState.check_names`).
    """
    facts = _with_doubts(facts, known)
    former = _former_names(facts, known)
    carried = _names_by_session(facts, known)
    if not carried and not former:
        return dict(facts), {}
    carried = _with_witnesses(facts, former, carried)
    names = {**_names_of_others(facts, former), **carried}
    found = {host: _renamed_facts(own, former, names) for host, own in facts.items()}
    return found, {key: {current: recorded for recorded, current in own.items()} for key, own in carried.items()}


def _renamed_facts(own: HostFacts, former: Mapping[str, str], names: Mapping[str, Mapping[str, str]]) -> HostFacts:
    """Return the report of a host in current names. former: those by former names. names: the same by session."""

    def current(key: str, name: str) -> str:
        return names.get(key, {}).get(name, name)

    return replace(
        own,
        records=tuple(_renamed_record(record, names.get(record.id, {})) for record in own.records),
        host_names={key: current(key, name) for key, name in own.host_names.items()},
        silent_peers={key: tuple(current(key, name) for name in silent) for key, silent in own.silent_peers.items()},
        tombstones=tuple(
            replace(tombstone, hosts=tuple(former.get(name, name) for name in tombstone.hosts))
            for tombstone in own.tombstones
        ),
    )


def _with_doubts(facts: Mapping[str, HostFacts], known: Collection[str]) -> Mapping[str, HostFacts]:
    """Return the reports of hosts; a host that has lost its stored name gets the one that replicas give it.

    That is done only if another host has that name now and has nothing of the session: then it is not clear which host
    is which.
    """
    copies = _copies(facts)

    def is_doubtful(host: str, key: str, name: str) -> bool:
        other = facts.get(name)
        return name != host and other is not None and all(found.session_id != key for found in other.containers)

    found = dict(facts)
    for host, own in facts.items():
        by_replicas = _names_by_replicas(own, copies)
        doubts = {key: name for key, name in by_replicas.items() if name in known and is_doubtful(host, key, name)}
        if doubts:
            found[host] = replace(own, host_names={**own.host_names, **doubts})
    return found


def _former_names(facts: Mapping[str, HostFacts], known: Collection[str]) -> dict[str, str]:
    """Return the present inventory names of hosts by the names that they had when they were prepared."""
    claimed: dict[str, set[str]] = {}
    for host, own in facts.items():
        for name in own.names:
            claimed.setdefault(name, set()).add(host)
    return {name: next(iter(hosts)) for name, hosts in claimed.items() if len(hosts) == 1 and name not in known}


def _copies(facts: Mapping[str, HostFacts]) -> dict[str, list[Record]]:
    copies: dict[str, list[Record]] = {}
    for own in facts.values():
        for record in own.records:
            copies.setdefault(record.id, []).append(record)
    return copies


def _names_of_others(facts: Mapping[str, HostFacts], former: Names) -> dict[str, dict[str, str]]:
    """Return the same for sessions that wait or have ended: hosts carry no parts of them that contain their names."""
    found = {}
    for key, copies in _copies(facts).items() if former else ():
        best = latest(copies)
        if best is not None and best.status in (PENDING, *ENDED):
            request = best.request or {}
            mentioned = {*best.hosts, *request.get("hosts", ()), *request.get(EXCLUDED, ())}
            given = {name: former[name] for name in mentioned if name in former}
            if len({*given.values()} - mentioned) == len(given):
                found[key] = given
    return found


def _with_witnesses(
    facts: Mapping[str, HostFacts], former: Names, carried: Mapping[str, dict[str, str]]
) -> dict[str, dict[str, str]]:
    """Return the names by session with those of witnesses, which carry no part of it that contains their names."""
    found = dict(carried)
    for key, copies in _copies(facts).items() if former else ():
        best = latest(copies)
        if best is None or best.status in (PENDING, *ENDED):
            continue
        for name in best.witnesses:
            known = found.get(key, {})
            if name in former and name not in known and former[name] not in {*known.values(), *best.hosts}:
                found[key] = {**known, name: former[name]}
    return found


def _names_by_session(facts: Mapping[str, HostFacts], known: Collection[str]) -> dict[str, dict[str, str]]:
    """Return, by session, the inventory's names of hosts that have other names in the session's record."""
    copies = _copies(facts)
    found: dict[str, dict[str, str]] = {}
    unclear = set()
    for host, own in facts.items():
        by_replicas = {key: name for key, name in _names_by_replicas(own, copies).items() if name not in known}
        for key, name in {**by_replicas, **own.host_names}.items():
            if (name != host and name in known) or name in found.get(key, {}):
                unclear.add(key)
            found.setdefault(key, {})[name] = host
    other = {key: {name: host for name, host in names.items() if name != host} for key, names in found.items()}
    return {key: names for key, names in other.items() if names and key not in unclear}


def _names_by_replicas(own: HostFacts, copies: Mapping[str, list[Record]]) -> dict[str, str]:
    """Return, by session, the name of a host that has lost its stored one: that of the replicas that it has."""
    found = {}
    for container in own.containers:
        if container.session_id in own.host_names:
            continue
        record = latest(copy for copy in copies.get(container.session_id, ()) if not is_stub(copy))
        for replica in record.replicas if record is not None else ():
            if replica.name == container.replica:
                found[container.session_id] = replica.host
    return found


def renamed(record: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return the plain form of a record with other names of its hosts."""
    growth, witnesses = record.get("growth"), record.get("witnesses")
    return {
        **record,
        "hosts": [names.get(host, host) for host in record["hosts"]],
        **({"witnesses": [names.get(host, host) for host in witnesses]} if witnesses else {}),
        "request": _renamed_request(record["request"], names),
        "plan": _renamed_plan(record["plan"], names),
        **({"growth": {**growth, "request": _renamed_request(growth["request"], names)}} if growth else {}),
    }


def _renamed_record(record: Record, names: Names) -> Record:
    if not names:
        return record
    hosts = tuple(names.get(host, host) for host in record.hosts)
    request, plan = _renamed_request(record.request, names), _renamed_plan(record.plan, names)
    growth = record.growth and replace(record.growth, request=_renamed_request(record.growth.request, names))
    witnesses = tuple(names.get(host, host) for host in record.witnesses)
    return replace(record, hosts=hosts, request=request, plan=plan, growth=growth, witnesses=witnesses)


def _renamed_request(request: Any, names: Names) -> Any:
    if not request:
        return request
    lists = {key: request[key] for key in ("hosts", EXCLUDED) if request.get(key)}
    # In the order of `parse_hosts`, by which requests are compared.
    return {**request, **{key: sorted(names.get(host, host) for host in hosts) for key, hosts in lists.items()}}


def _renamed_plan(plan: Any, names: Names) -> Any:
    """Return the plain form of a plan with other names, and with everything that a newer release added."""
    if not plan:
        return plan

    def keyed(of_hosts: Mapping[str, Any]) -> dict[str, Any]:
        return {names.get(host, host): value for host, value in of_hosts.items()}

    images = {
        reference: {**image, "ids": keyed(image["ids"])} for reference, image in (plan.get("images") or {}).items()
    }
    return {
        **plan,
        "hosts": keyed(plan["hosts"]),
        "replicas": [{**replica, "host": names.get(replica["host"], replica["host"])} for replica in plan["replicas"]],
        **({"request": _renamed_request(plan["request"], names)} if "request" in plan else {}),
        **({"images": images} if "images" in plan else {}),
    }
