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
from typing import Any

from ..model.decode import encode
from ..model.plan import read_plan
from ..rules.durations import describe, limits_of
from ..rules.environment import environments
from .overview import replica_of


def preview(answer: Mapping[str, Any], report: Sequence[str], actions: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return what a launch would do.

    answer: the last state of the launch. report: the launch's final lines. actions: by host, what it would do there.
    """
    record = answer["record"]
    plain = record["plan"] if record is not None else None
    placed = set(answer["hosts"])
    changes = {host: list(host_actions) for host, host_actions in actions.items() if host_actions or host in placed}
    for host in answer["fetches"]:
        changes[host] = ["fetch the images that it lacks", *changes.get(host, [])]
    plan_preview: dict[str, Any] = {
        "session_name": answer["session_name"],
        "status": answer["status"],
        "report": list(report),
        "session_id": None,
        "is_new": False,
        "replaces": answer["replaces"],
        "mode": None,
        "network": None,
        "egress": None,
        "ssh_port": None,
        "ends": "",
        "replicas": [],
        "hosts": [
            {"name": host, "replicas": [], "changes": changes[host]} for host in answer["reachable"] if host in changes
        ],
    }
    if plain is None:
        return plan_preview
    plan = read_plan(plain)
    variables = {name: found for host in plan.hosts for name, found in environments(plan, host).items()}
    own = {role["name"]: role["env"] for role in plan.request["roles"]}
    for host in plan_preview["hosts"]:
        host["replicas"] = [replica.name for replica in plan.on(host["name"])]
    return {
        **plan_preview,
        "session_id": plan.session.id,
        "is_new": answer["fresh"] and record["revision"] == 1,
        "mode": plan.session.mode,
        "network": encode(plan.network),
        "egress": encode(plan.egress),
        "ssh_port": plan.ssh_port,
        "ends": describe(limits_of(plan.request)),
        "replicas": [
            {
                **replica_of(plain, replica),
                "environment": {
                    name: value
                    for name, value in variables[replica["name"]].items()
                    if name not in own[replica["role"]]
                },
                "own_variables": sorted(own[replica["role"]]),
            }
            for replica in plain["replicas"]
        ],
    }


def common(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the variables that have the same value in all of *environments*."""
    first = environments[0] if environments else {}
    return {
        name: value
        for name, value in first.items()
        if all(environment.get(name) == value for environment in environments)
    }
