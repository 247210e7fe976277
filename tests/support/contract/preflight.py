# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What preflight asks of two hosts of the contract tests."""

from __future__ import annotations

import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.data import READS, WRITES
from ansible_collections.cluster_compute.session.tests.support.contract.on_host import (
    HERE,
    THERE,
    Host,
    Peer,
    output_of,
)

TOKEN = uuid.uuid4().hex
FIRST, LAST = 7610, 7611
CALL = """
import json, sys
from ansible_collections.cluster_compute.session.tests.support.contract.modules import run
print(json.dumps(run("host_preflight", json.loads(sys.argv[1]), False)))
"""


def plan(addresses: dict[str, str], shared: Path, mtu: int = 1450) -> dict[str, Any]:
    """Return what two hosts try; HERE writes into the shared folder, THERE reads there."""
    hosts = {name: {"address": address, "mtu": 1500, "session_mtu": mtu} for name, address in addresses.items()}
    return {
        "probe": {"hosts": hosts, "vni": 7777, "offsets": [1], "left_out": {}},
        "settings": {
            "port": 4799,
            "ports": [FIRST, LAST],
            "encrypted": [51990, 51990],
            "probe_id": str(uuid.uuid4()),
            "seconds": 0.1,
            "size": 2**20,
        },
        "storage": {HERE: {str(shared): WRITES}, THERE: {str(shared): READS}},
    }


def ask(this: Host, state: str, **given: Any) -> dict[str, Any]:
    answer = this.call("host_preflight", state=state, token=TOKEN, roots=["/srv"], **given)
    assert answer.pop("changed") is False
    return answer


def ask_peer(peer: Peer, state: str, wanted: dict[str, Any], **given: Any) -> dict[str, Any]:
    """Ask the other host, which is THERE in the plan *wanted*."""
    arguments = {"state": state, "token": TOKEN, "roots": ["/srv"], "plan": wanted, "host": THERE, **given}
    return dict(json.loads(peer.run(sys.executable, "-c", CALL, json.dumps(arguments))))


def listening(wanted: dict[str, Any]) -> dict[str, Any]:
    """Have this host listen, by a process that ends: what it has begun is nobody's then, as in a real call."""
    arguments = {"state": "listening", "token": TOKEN, "roots": ["/srv"], "plan": wanted, "host": HERE}
    path = f"PYTHONPATH={os.pathsep.join(sys.path)}"
    return dict(json.loads(output_of("env", path, sys.executable, "-c", CALL, json.dumps(arguments))))
