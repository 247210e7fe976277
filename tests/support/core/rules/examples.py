# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests, facts and plans that the tests of the rules are about."""

from __future__ import annotations

import copy

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.build import (
    PlanInputs,
    build_plan,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.capacity import (
    hosts_from_facts,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import Settings
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed
from ansible_collections.cluster_compute.session.tests.support.plans import placed

GIB = 1024**3
SESSION = "3614fdf3-0e04-4a3c-8f3e-2b1d6c7a9e10"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID0D3s8E9JWn04xEIs9iqqoeVlWJbCLHvqIY+zMlCfIT"


def make_request(**given_values) -> Request:
    values = {"name": "demo", "image": "debian:12", **given_values}
    return parse_request({f"session_{key}": value for key, value in values.items()})


def topology(*cores, nodes=(), memory=None):
    """Return the facts of cores with these CPUs; nodes: the NUMA node of each core."""
    return {
        "cores": [{"node": node, "cpus": list(cpus)} for cpus, node in zip(cores, nodes or [0] * len(cores))],
        "memory": {"0": 16 * GIB} if memory is None else memory,
    }


def make_facts(number=3, cpus=4, memory=16, **changes):
    return {
        f"h{i}": {
            "usable": True,
            "problem": "",
            "capacity": {"cpus": cpus * 1000, "memory": memory * GIB},
            "containers": [],
            "underlay": {"address": f"192.0.2.{i}", "interface": "eth0", "mtu": 1500},
            "subnets": ["0.0.0.0/0", "192.0.2.0/24"],
            "vnis": [],
            "ports": [],
            "images": {},
            "paths": {},
            "volumes": {},
            "records": [],
            **copy.deepcopy(changes),
        }
        for i in range(1, number + 1)
    }


ALLOWED = {f"h{i}": {"cluster_compute_mount_roots": ["/a", "/srv"]} for i in range(1, 9)}


def path_facts(path, **changes):
    """Return what a host reports of a folder that is there."""
    parts = path.split("/")
    return {
        "kind": "directory",
        "real": path,
        "ancestors": {folder: folder for folder in ["/", *("/".join(parts[:n]) for n in range(2, len(parts) + 1))]},
        "parent": True,
        "owner": "0:0",
        "mode": "0755",
        "filesystem": "ext4",
        "origin": "/dev/vda1",
        "inode": 12,
        "read_only": False,
        **changes,
    }


def make_plan(request=None, facts=None, session_id=SESSION, current=None, site=None):
    request = make_request(size=4, cpus=2) if request is None else request
    facts = make_facts(paths={m.source: path_facts(m.source) for m in request.mounts}) if facts is None else facts
    placement = placed(request, hosts_from_facts(typed(facts), {}, request.name))
    return build_plan(
        request, placement, session_id, PlanInputs(typed(facts), site or Settings(), inventory=ALLOWED), current
    )
