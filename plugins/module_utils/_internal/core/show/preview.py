# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The preview: the changes that a launch would make now, as plain data for JSON.

It is taken from the decisions of a launch in check mode and from the changes that its hosts reported, so it always
agrees with the launch. Values that may be secret, above all those of the user's own environment variables, are left
out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model.plan import Egress, Network, Plan, read_plan
from ..rules.durations import describe, limits_of
from ..rules.environment import environments
from ..values.deferred import dataclass
from .overview import replica_of


@dataclass(frozen=True)
class PreviewedHost:
    """A host, its replicas, and what would be done there."""

    name: str
    replicas: Sequence[str]
    changes: Sequence[str]


@dataclass(frozen=True)
class Preview:
    """The changes that a launch would make. From session_id on it is known only of a session that has its place.

    ends: when its time is over, as text. replicas: from the plan as they are, with environment and own_variables.
    """

    session_name: str
    status: str
    report: Sequence[str]
    replaces: bool
    hosts: Sequence[PreviewedHost]
    session_id: str | None = None
    is_new: bool = False
    mode: str | None = None
    network: Network | None = None
    egress: Egress | None = None
    ssh_port: int | None = None
    ends: str = ""
    replicas: Sequence[Mapping[str, Any]] = ()


def preview(answer: Mapping[str, Any], report: Sequence[str], actions: Mapping[str, Sequence[str]]) -> Preview:
    """Return what a launch would do.

    answer: the last state of the launch. report: the launch's final lines. actions: by host, what it would do there.
    """
    record = answer["record"]
    plan = read_plan(record["plan"]) if record is not None and record["plan"] is not None else None
    placed = set(answer["hosts"])
    changes = {host: list(host_actions) for host, host_actions in actions.items() if host_actions or host in placed}
    for host in answer["fetches"]:
        changes[host] = ["fetch the images that it lacks", *changes.get(host, [])]
    hosts = [
        PreviewedHost(host, [replica.name for replica in plan.on(host)] if plan else [], changes[host])
        for host in answer["reachable"]
        if host in changes
    ]
    found = Preview(answer["session_name"], answer["status"], list(report), answer["replaces"], hosts)
    if plan is None:
        return found
    return replace(
        found,
        session_id=plan.session.id,
        is_new=answer["fresh"] and record["revision"] == 1,
        mode=plan.session.mode,
        network=plan.network,
        egress=plan.egress,
        ssh_port=plan.ssh_port,
        ends=describe(limits_of(plan.request)),
        replicas=_replicas(plan, record["plan"]),
    )


def _replicas(plan: Plan, plain: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    variables = {name: found for host in plan.hosts for name, found in environments(plan, host).items()}
    own = {role["name"]: role["env"] for role in plan.request["roles"]}
    return [
        {
            **replica_of(plain, replica),
            "environment": {
                name: value for name, value in variables[replica["name"]].items() if name not in own[replica["role"]]
            },
            "own_variables": sorted(own[replica["role"]]),
        }
        for replica in plain["replicas"]
    ]


def common(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the variables that have the same value in all of *environments*."""
    first = environments[0] if environments else {}
    return {
        name: value
        for name, value in first.items()
        if all(environment.get(name) == value for environment in environments)
    }
