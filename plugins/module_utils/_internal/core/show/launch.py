# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The result of a launch: as data for other programs, and as a table for people. It contains no secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model.plan import Plan, PublishedPort, read_plan
from ..model.record import DEFAULT_GROUP
from ..values.deferred import dataclass
from ..values.table import table

PLANNED = "PLANNED"
"""Status in check mode of a replica, and of a session, that would run otherwise."""
PLACED = ("RUNNING", PLANNED)

_SHOWN = ("name", "role", "rank", "host", "address", "container", "image")
COLUMNS = ("REPLICA", "HOST", "ADDRESS", "RANK", "STATUS")


@dataclass(frozen=True)
class ShownReplica:
    """A replica that has its place."""

    name: str
    role: str
    rank: int
    host: str
    address: str | None
    container: str
    image: str
    image_id: str | None
    status: str


@dataclass
class ShownPort(PublishedPort):
    """A port of a replica."""

    replica: str
    host: str


@dataclass(frozen=True)
class Artifact:
    """The data. None, and nothing, for what a session does not have. status: also that of each replica."""

    name: str
    status: str
    report: Sequence[str]
    id: str | None = None
    owner: str | None = None
    mode: str | None = None
    size: int | None = None
    hosts: Sequence[str] = ()
    replicas: Sequence[ShownReplica] = ()
    ports: Sequence[ShownPort] = ()
    ssh_port: int | None = None


def artifact(state: Mapping[str, Any], status: str, report: Sequence[str]) -> Artifact:
    """Return the data.

    state: the decisions of the launch: session_name, hosts, record, and pending, the record of a session that waits.
    status: of the session, and of each replica if the session has its place. report: the lines for people.
    """
    record = state["record"] if status in PLACED else state["pending"]
    found = Artifact(state["session_name"], status, list(report))
    if record is not None:
        size = sum(role["replicas"] for role in record["request"]["roles"])
        found = replace(found, id=record["id"], owner=record["owner"], size=size)
    if status not in PLACED:
        return found
    plan = read_plan(record["plan"], forgiving=True)
    return replace(
        found,
        mode=plan.session.mode,
        hosts=state["hosts"],
        replicas=[
            ShownReplica(
                **{key: getattr(replica, key) for key in _SHOWN},
                image_id=plan.images[replica.image].ids[replica.host],
                status=status,
            )
            for replica in plan.replicas
        ],
        ports=[
            ShownPort(**vars(port), replica=replica.name, host=replica.host)
            for replica in plan.replicas
            for port in replica.ports
        ],
        ssh_port=plan.ssh_port,
    )


def table_of(record: Mapping[str, Any] | None, replicas: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the table of the session of *record*, with the status from *replicas*; empty if it has no place."""
    if record is None or record["plan"] is None:
        return []
    plan = read_plan(record["plan"], forgiving=True)
    status = {replica["name"]: replica["status"] for replica in replicas}
    rows: list[tuple[str, ...]] = [COLUMNS]
    for replica in plan.replicas:
        state = status.get(replica.name, PLANNED)
        rows.append((replica.name, replica.host, replica.address or "-", str(replica.rank), state))
    main = plan.replicas[0]
    return [*table(rows), f"Log in on {main.host}: docker exec -it {main.container} /bin/sh", *_login(plan)]


def _login(plan: Plan) -> list[str]:
    """Return how the owner of a session with authorized keys gets its SSH configuration."""
    if plan.ssh_port is None:
        return []
    options = f"-e session_name={plan.session.name}"
    if plan.session.resource_group != DEFAULT_GROUP:
        options += f" -e session_resource_group={plan.session.resource_group}"
    where = f"port {plan.ssh_port} of {plan.replicas[0].host}"
    return [f"Log in with your key, {where}: ansible-playbook cluster_compute.session.login {options}"]
