# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host that collects metrics finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    Allocatable,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.record import (
    PENDING,
    RUNNING,
    QueueTicket,
    Record,
    advance,
    new_record,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.metrics import (
    ContainerLook,
    HostLook,
)

ID = "3614fdf3-6a1e-4f0e-9d4c-0f9d1f3c6a52"
MACHINE = Allocatable(4000, 2**30, (("gpu", ("/dev/nvidia0", "/dev/nvidia1")),), 8)


def running(name: str = "train", **changes: Any) -> Record:
    """Return the record of a session that runs with two replicas here and one elsewhere."""
    replicas = [{"name": key, "host": host} for key, host in (("main1", "h1"), ("sub1", "h1"), ("sub2", "h2"))]
    record = new_record(ID, "alice", {"name": name})
    return advance(record, RUNNING, "It runs.", hosts=("h1", "h2"), plan={"replicas": replicas}, **changes)


def waiting(number: int, priority: int, session_id: str) -> Record:
    """Return the record of a session that waits."""
    record = new_record(session_id, "bob", {"name": f"w{number}", "priority": priority})
    return advance(record, PENDING, "It waits.", queue=QueueTicket(number))


def look(**changes: Any) -> HostLook:
    """Return what a host found on which one of two replicas runs."""
    found = HostLook(MACHINE, [running()], {ID: "h1"}, [ContainerLook(ID, "train", "main1", "running")])
    return replace(found, **changes)
