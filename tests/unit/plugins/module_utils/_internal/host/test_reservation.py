# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the containers of sessions hold of a host whose ledger does not know them."""

from __future__ import annotations

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import engine_objects
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    Container,
    read_container,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import (
    Allocatable,
    Claim,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.ledger import answer
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.reservation import labelled_claims

TRAIN, OTHER = "3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa", "00000000-0e04-4a3c-9d2a-53a1f7b2c8aa"
ALLOCATABLE = Allocatable(cpus=8000, memory=8 << 30, max_replicas=3)


def container(session_id: str, name: str, port: int) -> Container:
    """Return a container of a session as the engine lists it."""
    labels = {
        engine_objects.LABEL_SESSION_ID: session_id,
        engine_objects.LABEL_SESSION_NAME: name,
        engine_objects.LABEL_CPUS: "500",
        engine_objects.LABEL_MEMORY: str(1 << 30),
    }
    ports = [{"IP": "0.0.0.0", "PublicPort": port, "Type": "tcp"}, {"PrivatePort": 22}]
    return read_container({"Labels": labels, "Ports": ports})


def test_containers_that_the_ledger_does_not_know_hold_a_replica_each() -> None:
    given = ((TRAIN, "train", 1), (OTHER, "o", 2), (TRAIN, "train", 3))
    found = labelled_claims([container(*each) for each in given])
    assert found == [
        Claim(TRAIN, "train", 2, 1000, 2 << 30, ports=(("0.0.0.0", 1, "tcp"), ("0.0.0.0", 3, "tcp"))),
        Claim(OTHER, "o", 1, 500, 1 << 30, ports=(("0.0.0.0", 2, "tcp"),)),
    ]
    # Three of them are as many as the host may have.
    assert not answer(Claim("new", "new", 1, 500, 1 << 30), {}, found, ALLOCATABLE).granted
    assert answer(Claim("new", "new", 1, 500, 1 << 30), {}, found[:1], ALLOCATABLE).granted
