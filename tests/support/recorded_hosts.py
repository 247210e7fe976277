# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``host_info`` answered on the idle hosts of the integration tests' lab, and launches that decide by it.

The answers are whole and unchanged (recorded_hosts.json); the inventory is the lab's own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.cluster_compute.session.plugins.action import session_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import (
    SITE_VARIABLES,
    pick,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import launch as verb
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs.verb import Outside
from ansible_collections.cluster_compute.session.tests.support.core.verbs.begun import begun
from ansible_collections.cluster_compute.session.tests.support.in_process import run_action

_HERE = Path(__file__).resolve().parent
_INVENTORY = _HERE.parent / "integration_lab" / "inventory"
_GROUPS = yaml.safe_load((_INVENTORY / "hosts.yml").read_text(encoding="utf-8"))["all"]["children"]
_SITE = yaml.safe_load((_INVENTORY / "group_vars" / "lab.yml").read_text(encoding="utf-8"))
BUSYBOX = "cluster-compute/busybox:latest"
HOSTS = tuple(str(name) for name in _GROUPS["lab"]["hosts"])
GROUPS = {
    "cluster_compute_hosts": list(HOSTS),
    **{name: list(group.get("hosts") or ()) for name, group in _GROUPS.items() if name != "cluster_compute_hosts"},
}
RECORDED: dict[str, dict[str, Any]] = json.loads((_HERE / "recorded_hosts.json").read_text(encoding="utf-8"))
"""What each of them answered: n1 and n2 have the same generation of engine, n3 a newer one."""


def launch(
    given: Mapping[str, Any],
    inventory: Mapping[str, Mapping[str, Any]] | None = None,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return what a launch decides: the answer of session_request where it refuses, else the state that follows then.

    inventory: variables of single hosts, beside the lab's. facts: what single hosts answer otherwise.
    """
    hostvars = {
        host: {**_SITE, **_GROUPS["lab"]["hosts"][host], **((inventory or {}).get(host) or {}), **given}
        for host in HOSTS
    }
    variables = {**given, "groups": GROUPS, "hostvars": hostvars}
    request = run_action(session_request.ActionModule, {}, variables)
    if request.get("failed"):
        return request
    members = [host for host in GROUPS[request["resource_group"]] if host in HOSTS]
    answers = {host: {"host": {**RECORDED[host], **((facts or {}).get(host) or {})}} for host in members}
    state = verb.advance(begun(verb, members, request=request), answers, _outside(hostvars, members[0]))
    return {"failed": True, "msg": state["failure"], **state} if "failure" in state else dict(state)


def _outside(hostvars: Mapping[str, Any], first: str) -> Outside:
    return Outside(
        now=0.0,
        draw=lambda: str(uuid.uuid4()),
        forks=5,
        check_mode=False,
        inventory=hostvars,
        site=pick(hostvars[first], SITE_VARIABLES),
        read_archive=lambda _request: {},
    )


def placed(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return which replica a launch puts on which host."""
    return {replica["name"]: replica["host"] for replica in answer["record"]["plan"]["replicas"]}
