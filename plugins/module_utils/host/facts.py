# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tell what placement and addressing need to know of one host. Nothing here changes anything."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import engine as docker_engine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import link
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import (
    Engine,
    EngineError,
    container_name,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerError, LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.link import LinkError
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory, StateError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import Reservation


def host_facts(
    state: StateDirectory, session_name: str, images: list[str], paths: list[str], underlay_address: str | None
) -> dict[str, Any]:
    """Return the facts of this host.

    A host that cannot run sessions is described by ``usable: false`` and a ``problem``, a full sentence, instead of
    an exception: whether that is an error is for the caller to say.
    """
    if os.geteuid() != 0:
        return {
            "usable": False,
            "problem": f"Ansible works on this host as uid {os.geteuid()}, but networks and containers need root. Set "
            "ansible_become=true, or log in as root.",
        }
    try:
        engine = Engine.connect()
        return {"usable": True, "problem": "", **_facts(engine, state, session_name, images, paths, underlay_address)}
    except (EngineError, LedgerError, LinkError, StateError) as error:
        return {"usable": False, "problem": str(error)}


def _facts(
    engine: Engine,
    state: StateDirectory,
    session_name: str,
    images: list[str],
    paths: list[str],
    underlay_address: str | None,
) -> dict[str, Any]:
    description = engine.facts()
    every = engine.containers()
    entries = [entry for entry in every if docker_engine.LABEL_SESSION_ID in entry["Labels"]]
    reservations = [held for _key, held in sorted(LedgerFile(str(state.root)).read().items())]
    return {
        "engine": {key: description[key] for key in ("version", "api_version", "architecture", "limits_swap")},
        "capacity": {key: description[key] for key in ("cpus", "memory")},
        "containers": [_container(entry) for entry in entries],
        "foreign_containers": [
            name
            for entry in every
            if entry not in entries and (name := container_name(entry)).startswith(f"{session_name}-")
        ],
        "reservations": [held.to_dict() for held in reservations],
        "underlay": link.underlay(underlay_address),
        "subnets": sorted({*link.subnets(), *_network_subnets(engine)}),
        "vnis": link.vnis(),
        "ports": _ports(link.listening_ports(), entries, reservations),
        "images": {reference: _image(engine, reference) for reference in sorted(set(images))},
        "paths": {path: _path(path) for path in sorted(set(paths))},
        "records": state.records(session_name),
    }


def _container(entry: dict[str, Any]) -> dict[str, Any]:
    labels = entry["Labels"]
    return {
        "name": container_name(entry),
        "session_id": labels[docker_engine.LABEL_SESSION_ID],
        "session_name": labels.get(docker_engine.LABEL_SESSION_NAME, ""),
        "replica": labels.get(docker_engine.LABEL_REPLICA, ""),
        "cpus": int(labels.get(docker_engine.LABEL_CPUS, "0")),
        "memory": int(labels.get(docker_engine.LABEL_MEMORY, "0")),
        "state": entry["State"],
    }


def _network_subnets(engine: Engine) -> set[str]:
    return {
        entry["Subnet"]
        for network in engine.networks()
        for entry in network["IPAM"]["Config"] or []
        if entry.get("Subnet")
    }


def _ports(
    listening: list[dict[str, Any]], containers: list[dict[str, Any]], reservations: list[Reservation]
) -> list[dict[str, Any]]:
    """Add to what listens the ports that containers publish, which need no listener, and those that are reserved."""
    published = {
        (port.get("IP", ""), int(port["PublicPort"]), port["Type"])
        for entry in containers
        for port in entry.get("Ports", [])
        if "PublicPort" in port
    }
    reserved = {port for held in reservations for port in held.claim.ports}
    known = {(port["address"], port["port"], port["protocol"]) for port in listening}
    return [
        {"address": address, "port": port, "protocol": protocol}
        for address, port, protocol in sorted(published | known | reserved)
    ]


def _image(engine: Engine, reference: str) -> dict[str, Any] | None:
    found = engine.inspect_image(reference)
    if found is None:
        return None
    return {
        "id": found["Id"],
        "digests": sorted(found.get("RepoDigests") or []),
        "architecture": found["Architecture"],
    }


def _path(path: str) -> str:
    if os.path.isdir(path):
        return "directory"
    return "file" if os.path.exists(path) else "missing"
