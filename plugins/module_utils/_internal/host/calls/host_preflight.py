# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run this host's part of preflight."""

from __future__ import annotations

import time
from typing import Any, Callable

from ...core.preflight.probe_plan import ProbePlan
from .. import preflight

BEGIN = time.time()
"""When this call began, after its imports."""


def _examined(arguments: dict[str, Any]) -> dict[str, Any]:
    """Check this host."""
    observed = preflight.examine(
        arguments["state_directory"],
        images=arguments["images"],
        paths=arguments["paths"],
        volumes=arguments["volumes"],
        roots=arguments["roots"],
        underlay_address=arguments["underlay_address"],
        encryption=arguments["encryption"],
        declared=arguments["accelerators"],
    )
    return {"observed": observed, "times": [BEGIN, time.time()]}


def _places(arguments: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return this host's entry in the probe plan, and those of all hosts that it tests."""
    probe_plan = ProbePlan(**arguments["plan"]["probe"])
    ports = arguments["ports"]
    udp = arguments["udp_ports"]
    others = [
        {**peer, "tcp": ports.get(peer["name"]) or 0, "udp": udp.get(peer["name"]) or 0}
        for peer in probe_plan.places(arguments["host"])
    ]
    return probe_plan.place(arguments["host"]), others


def _listening(arguments: dict[str, Any]) -> dict[str, Any]:
    """Start the process to which the others connect."""
    own, peers = _places(arguments)
    probe_plan, host = ProbePlan(**arguments["plan"]["probe"]), arguments["host"]
    mtu = probe_plan.hosts[host]["session_mtu"]
    return preflight.listen(
        own,
        peers,
        settings={**arguments["plan"]["settings"], "vni": probe_plan.vni, "mtu": mtu},
        token=arguments["token"],
        storage=arguments["plan"]["storage"].get(host, {}),
        roots=arguments["roots"],
    )


def _reached(arguments: dict[str, Any]) -> dict[str, Any]:
    """Connect to the others."""
    own, peers = _places(arguments)
    return preflight.reach(
        own,
        peers,
        settings=arguments["plan"]["settings"],
        server=arguments["server"],
        token=arguments["token"],
        storage=arguments["plan"]["storage"].get(arguments["host"], {}),
        roots=arguments["roots"],
    )


def _measured(arguments: dict[str, Any]) -> dict[str, Any]:
    """Measure the connection to one of them."""
    probe_plan = ProbePlan(**arguments["plan"]["probe"])
    target = {**probe_plan.place(arguments["target"]), "tcp": arguments["ports"][arguments["target"]]}
    settings = arguments["plan"]["settings"]
    found = preflight.measure(
        probe_plan.place(arguments["host"]),
        target,
        token=arguments["token"],
        seconds=settings["seconds"],
        size=settings["size"],
    )
    return {"measured": {"from": arguments["host"], "to": arguments["target"], **found}}


def _ended(arguments: dict[str, Any]) -> dict[str, Any]:
    """End the process."""
    return {"heard": preflight.stop(arguments["server"], arguments["token"])}


STATES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "examined": _examined,
    "listening": _listening,
    "reached": _reached,
    "measured": _measured,
    "ended": _ended,
}


def call(arguments: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
    """Run the requested step, which makes no permanent changes. Raises SessionError, OSError."""
    return {"changed": False, **STATES[arguments["state"]](arguments)}
