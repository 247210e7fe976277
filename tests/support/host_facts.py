# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of hosts as tests write them: in their plain form, and only what matters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.facts import (
    HostFacts,
    read_facts,
)

CONTAINER = {
    "name": "train-main1",
    "session_id": "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa",
    "session_name": "train",
    "replica": "main1",
    "cpus": 0,
    "memory": 0,
    "devices": {},
    "state": "running",
}


def typed(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, HostFacts]:
    """Return the facts of hosts as GroupFacts.read would; containers are completed."""
    return {
        host: read_facts(
            {**plain, "containers": [{**CONTAINER, **container} for container in plain.get("containers", ())]}, host
        )
        for host, plain in facts.items()
    }
