# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The result of a launch: as data for other programs, and as a table for people. It contains no secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..model.plan import Plan, read_plan
from ..model.record import DEFAULT_GROUP
from ..values.table import table

PLANNED = "PLANNED"
"""Status in check mode of a replica, and of a session, that would run otherwise."""
PLACED = ("RUNNING", PLANNED)

_SHOWN = ("name", "role", "rank", "host", "address", "container", "image")
COLUMNS = ("REPLICA", "HOST", "ADDRESS", "RANK", "STATUS")


def artifact(state: Mapping[str, Any], status: str, report: Sequence[str]) -> dict[str, Any]:
    """Return the data.

    state: the decisions of the launch: session_name, hosts, record, and pending, the record of a session that waits.
    status: of the session, and of each replica if the session has its place. report: the lines for people.
    """
    placed = status in PLACED
    record = state["record"] if placed else state["pending"]
    plan = read_plan(record["plan"], forgiving=True) if placed else None
    replicas, images = (plan.replicas, plan.images) if plan is not None else ((), {})
    return {
        "name": state["session_name"],
        "id": record["id"] if record is not None else None,
        "owner": record["owner"] if record is not None else None,
        "status": status,
        "mode": plan.session.mode if plan is not None else None,
        "size": sum(role["replicas"] for role in record["request"]["roles"]) if record is not None else None,
        "hosts": list(state["hosts"]) if placed else [],
        "replicas": [
            {
                **{key: getattr(replica, key) for key in _SHOWN},
                "image_id": images[replica.image].ids[replica.host],
                "status": status,
            }
            for replica in replicas
        ],
        "ports": [
            {"replica": replica.name, "host": replica.host, **vars(port)}
            for replica in replicas
            for port in replica.ports
        ],
        "ssh_port": plan.ssh_port if plan is not None else None,
        "report": list(report),
    }


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
