# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans as tests write them: in their plain form, and only what matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.plan import Plan, read_plan
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    new_record,
    prepared,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.placement import (
    Host,
    Placement,
    place,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.session.context import Context

SESSION = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa"
_SESSION = {"id": "", "name": "", "mode": "", "requested_mode": "", "size": 1, "resource_group": ""}
_NETWORK: dict[str, Any] = {"driver": "vxlan", "name": "", "subnet": "", "interface": "eth1"}
_NETWORK |= dict.fromkeys(("mtu", "vni", "port", "link", "tunnel"))
_TUNNEL = {"link": "", "mtu": 1370, "vxlan_port": 4789}
_HOST: dict[str, Any] = dict.fromkeys(("underlay_address", "underlay_interface", "tunnel_address"))
_HOST |= {"replicas": [], "mount_roots": [], "data": {}}
_SHARE = {"cpus": 1000, "memory": 2**20, "shm_size": 0, "accelerators": {}, "pin_cpus": False}
_REPLICA: dict[str, Any] = dict.fromkeys(("name", "role", "host", "kernel_id", "container", "image"), "")
_REPLICA |= dict.fromkeys(("index", "rank", "local_rank", "node_rank"), 0)
_REPLICA |= dict.fromkeys(("address", "mac", "command", "memlock"))
_REPLICA |= dict.fromkeys(("memory_nodes", "capabilities", "ports", "mounts"), ())
_REPLICA |= {"resources": _SHARE, "devices": {}}


def plain_plan(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a whole plan of which a test wrote some."""
    network = plain.get("network")
    if network is not None:
        tunnel = network.get("tunnel")
        network = {**_NETWORK, **network, "tunnel": tunnel and {**_TUNNEL, **tunnel}}
    return {
        "schema": 1,
        "request": {},
        "egress": {"name": "", "subnet": ""},
        "ssh_port": None,
        "images": {},
        **plain,
        "session": {**_SESSION, **plain.get("session", {})},
        "network": network,
        "hosts": {name: {**_HOST, **host} for name, host in plain.get("hosts", {}).items()},
        "replicas": [{**_REPLICA, **replica} for replica in plain.get("replicas", ())],
    }


def typed_plan(plain: Mapping[str, Any]) -> Plan:
    """Return the same as the plan that it is read to."""
    return read_plan(plain_plan(plain))


def context_of(folder: Path, engine: object, plain: Mapping[str, Any], host: str = "h1") -> Context:
    """Return one host's part of a session that is being started by such a plan, with its state in *folder*."""
    request = {"mounts": [], **plain.get("request", {})}
    plan = plain_plan({**plain, "request": request, "session": {"id": SESSION, "name": "train"}})
    record = prepared(new_record(SESSION, "alice", {"name": "train"}), plan)
    return Context(cast(Engine, engine), StateDirectory(str(folder)), LedgerFile(str(folder)), record, host, "run")


def placed(request: Request, hosts: Sequence[Host], topology_keys: Sequence[str] = ()) -> Placement:
    """Return where a request goes that fits."""
    found = place(request, hosts, topology_keys)
    assert isinstance(found, Placement)
    return found
