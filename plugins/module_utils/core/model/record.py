# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The record: the durable account of one session, as plain data that JSON can carry.

Copies of it lie on hosts. A change makes a new revision; of several copies the one with the highest revision is right,
whatever the hosts' clocks say. While a session waits, every host of its resource group has the whole of it. Once it has
a place, its hosts keep the whole and every other host a *stub record*: the record without request and plan.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import CoreError, show

SCHEMA = 1
"""Version of the record's form. A record of another schema is refused, not guessed at."""

PENDING = "PENDING"
PREPARING = "PREPARING"
RUNNING = "RUNNING"
ERROR = "ERROR"
TERMINATED = "TERMINATED"
STATUSES = (PENDING, PREPARING, RUNNING, ERROR, TERMINATED)
"""Waiting for capacity; being started; started; ended by a failure, with nothing left but the record; likewise, its
batch command having succeeded."""
ENDED = (ERROR, TERMINATED)

LONGEST_HISTORY = 50
"""Entries of the history that are kept, the newest ones."""

_KEYS = (
    "schema",
    "id",
    "name",
    "owner",
    "status",
    "revision",
    "queue",
    "hosts",
    "report",
    "history",
    "tunnel",
    "request",
    "plan",
)
_SESSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Record = dict[str, Any]


def is_session_id(value: object) -> bool:
    """Tell whether *value* is the id of a session: a UUID as Python writes it."""
    return isinstance(value, str) and _SESSION_ID.fullmatch(value) is not None


class InvalidRecord(CoreError):
    """A record that was read back is malformed."""


class UnknownSchema(InvalidRecord):
    """A record was written by another release, which can read it."""


def new_record(session_id: str, owner: str, request: Mapping[str, Any]) -> Record:
    """Return the record of a session that has no status yet; `advance` gives it one.

    owner: who asked for the session, as limits count. request: the JSON form of the request.
    """
    return {
        "schema": SCHEMA,
        "id": session_id,
        "name": request["name"],
        "owner": owner,
        "status": None,
        "revision": 0,
        "queue": None,
        "hosts": [],
        "report": [],
        "history": [],
        "tunnel": None,
        "request": dict(request),
        "plan": None,
    }


def advance(record: Mapping[str, Any], status: str, reason: str, **changes: Any) -> Record:
    """Return the next revision of a record.

    reason: one sentence for the history. changes: other keys that get a new value: queue, hosts, report, plan.
    """
    revision = record["revision"] + 1
    entry = {"revision": revision, "status": status, "reason": reason}
    history = [*record["history"], entry][-LONGEST_HISTORY:]
    return {**record, **changes, "status": status, "revision": revision, "history": history}


def prepared(record: Mapping[str, Any], plan: Mapping[str, Any]) -> Record:
    """Return the revision that says that the session is being started as *plan* says."""
    hosts = list(plan["hosts"])
    reason = f"It holds its place on {', '.join(hosts)}."
    return advance(record, PREPARING, reason, plan=dict(plan), hosts=hosts, report=[])


def started(record: Mapping[str, Any]) -> Record:
    """Return the revision that says that the session of a PREPARING record runs; a running one stays as it is."""
    return dict(record) if record["status"] == RUNNING else advance(record, RUNNING, "Its replicas were started.")


def stub_of(record: Mapping[str, Any]) -> Record:
    """Return what hosts that carry no replica keep of a session that has its place.

    A stub says RUNNING from the start: nobody corrects it later, and where its hosts say otherwise they are right. Of
    the plan it has what keeps containers of the stub's host out of the session's tunnel.
    """
    status = RUNNING if record["status"] == PREPARING else record["status"]
    tunnel = tunnel_of(record["plan"]) if record["plan"] else record["tunnel"]
    return {**record, "status": status, "tunnel": tunnel, "request": None, "plan": None, "report": [], "history": []}


def is_stub(record: Mapping[str, Any]) -> bool:
    """Tell whether a copy is a stub only."""
    return record["request"] is None


def latest(records: Iterable[Mapping[str, Any]]) -> Record | None:
    """Return the copy with the highest revision, a whole one before a stub; None where there is no copy."""
    best: Mapping[str, Any] | None = None
    for record in records:
        if best is None or (record["revision"], not is_stub(record)) > (best["revision"], not is_stub(best)):
            best = record
    return None if best is None else dict(best)


def read_record(data: object, session_id: str | None = None) -> Record:
    """Return a record from its JSON form, checked as far as everything that reads it relies on it.

    session_id: what the place it was found at says. What a plan holds is judged by `rules.check.validate_plan`.
    Raises UnknownSchema and InvalidRecord.
    """
    if not isinstance(data, Mapping):
        raise InvalidRecord(f"The record is {show(data)}, where a mapping is expected.")
    schema = data.get("schema")
    if isinstance(schema, int) and not isinstance(schema, bool) and schema > SCHEMA:
        raise UnknownSchema(
            f"The record has schema {schema}, this release of the collection reads schema {SCHEMA}. Use the release "
            "that wrote it."
        )
    if schema != SCHEMA or isinstance(schema, bool) or not isinstance(schema, int):
        raise InvalidRecord(f"The record's schema is {show(schema)}, where {SCHEMA} is expected.")
    problems = []
    for key in sorted(set(_KEYS).symmetric_difference(map(str, data))):
        problems.append(f"{show(key)} is {'missing' if key in _KEYS else 'unknown'}")
    if problems:
        raise InvalidRecord(f"The record is malformed: {', '.join(problems)}.")

    def expect(good: bool, key: str) -> None:
        if not good:
            problems.append(f"{key} is {show(data[key])}")

    found_id = data["id"]
    expect(is_session_id(found_id), "id")
    if session_id is not None and found_id != session_id:
        problems.append(f"it is that of session {show(found_id)}, found at the place of session {session_id}")
    expect(isinstance(data["name"], str) and bool(data["name"]), "name")
    expect(isinstance(data["owner"], str), "owner")
    expect(data["status"] in STATUSES, "status")
    expect(_is_whole(data["revision"]) and data["revision"] > 0, "revision")
    queue = data["queue"]
    expect(queue is None or (isinstance(queue, Mapping) and _is_whole(queue.get("number"))), "queue")
    for key in ("hosts", "report"):
        expect(isinstance(data[key], list) and all(isinstance(item, str) for item in data[key]), key)
    expect(
        isinstance(data["history"], list) and all(isinstance(entry, Mapping) for entry in data["history"]), "history"
    )
    request, plan = data["request"], data["plan"]
    expect(request is None or isinstance(request, Mapping), "request")
    if isinstance(request, Mapping) and request.get("name") != data["name"]:
        problems.append(f"its request is named {show(request.get('name'))}")
    expect(plan is None or _is_plan(plan, data), "plan")
    expect(data["tunnel"] is None or _is_tunnel(data["tunnel"]), "tunnel")
    if data["status"] == PENDING and (request is None or queue is None or plan is not None):
        problems.append("a pending session needs a request and its place in the queue, and has no plan")
    if data["status"] in (PREPARING, RUNNING) and (request is None) != (plan is None):
        problems.append("request and plan do not belong together")
    if problems:
        raise InvalidRecord(f"The record is malformed: {'; '.join(problems)}.")
    return dict(data)


def _is_plan(plan: object, record: Mapping[str, Any]) -> bool:
    if not isinstance(plan, Mapping) or not isinstance(plan.get("hosts"), Mapping):
        return False
    session = plan.get("session")
    hosts = record["hosts"]
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        return False
    same = isinstance(session, Mapping) and (session.get("id"), session.get("name")) == (record["id"], record["name"])
    return same and sorted(map(str, plan["hosts"])) == sorted(hosts) and isinstance(plan.get("replicas"), list)


def tunnel_of(plan: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what hosts without a replica have to know of a plan's overlay; None where it has none to be guarded.

    Into the overlay of an encrypted session nothing gets that its WireGuard did not let through: it takes packets from
    that link alone.

    vni: its identifier. port: the UDP port. endpoints: the underlay addresses of all its hosts.
    """
    network = plan.get("network")
    if network is None or network["vni"] is None or network["tunnel"] is not None:
        return None
    endpoints = [str(host["underlay_address"]) for host in plan["hosts"].values()]
    return {"vni": network["vni"], "port": network["port"], "endpoints": endpoints}


def _is_tunnel(tunnel: object) -> bool:
    if not isinstance(tunnel, Mapping) or set(tunnel) != {"vni", "port", "endpoints"}:
        return False
    endpoints = tunnel["endpoints"]
    return _is_whole(tunnel["vni"]) and _is_whole(tunnel["port"]) and _are_addresses(endpoints)


def _are_addresses(found: object) -> bool:
    """Tell whether *found* is a list of at least one address, all of them of one version."""
    if not isinstance(found, list) or not found:
        return False
    try:
        return len({ipaddress.ip_address(str(address)).version for address in found}) == 1
    except ValueError:
        return False


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
