# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Do this host's part of preflight."""

from __future__ import annotations

import time
from typing import Any, Callable

from ansible_collections.cluster_compute.session.plugins.module_utils.core.probe_plan import ProbePlan
from ansible_collections.cluster_compute.session.plugins.module_utils.host import preflight

BEGIN = time.time()
"""When this call began; importing what it needs is over by then."""


def _examined(asked: dict[str, Any]) -> dict[str, Any]:
    """Look at this host."""
    observed = preflight.examine(
        asked["state_directory"],
        images=asked["images"],
        paths=asked["paths"],
        volumes=asked["volumes"],
        roots=asked["roots"],
        underlay_address=asked["underlay_address"],
        encryption=asked["encryption"],
        declared=asked["accelerators"],
    )
    return {"observed": observed, "times": [BEGIN, time.time()]}


def _places(asked: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return this host's place in the probe plan, and those of all that it tries."""
    probe_plan = ProbePlan(**asked["plan"]["probe"])
    ports = asked["ports"]
    udp = asked["udp_ports"]
    others = [
        {**one, "tcp": ports.get(one["name"]) or 0, "udp": udp.get(one["name"]) or 0}
        for one in probe_plan.places(asked["host"])
    ]
    return probe_plan.place(asked["host"]), others


def _listening(asked: dict[str, Any]) -> dict[str, Any]:
    """Start what the others speak to."""
    own, peers = _places(asked)
    plan, host = asked["plan"], asked["host"]
    return preflight.listen(
        own,
        peers,
        settings={**plan["settings"], "vni": plan["probe"]["vni"], "mtu": plan["probe"]["hosts"][host]["session_mtu"]},
        token=asked["token"],
        storage=plan["storage"].get(host, {}),
        roots=asked["roots"],
    )


def _reached(asked: dict[str, Any]) -> dict[str, Any]:
    """Speak to the others."""
    own, peers = _places(asked)
    return preflight.reach(
        own,
        peers,
        settings=asked["plan"]["settings"],
        server=asked["server"],
        token=asked["token"],
        storage=asked["plan"]["storage"].get(asked["host"], {}),
        roots=asked["roots"],
    )


def _measured(asked: dict[str, Any]) -> dict[str, Any]:
    """Measure the way to one of them."""
    probe_plan = ProbePlan(**asked["plan"]["probe"])
    target = {**probe_plan.place(asked["target"]), "tcp": asked["ports"][asked["target"]]}
    settings = asked["plan"]["settings"]
    found = preflight.measure(
        probe_plan.place(asked["host"]),
        target,
        token=asked["token"],
        seconds=settings["seconds"],
        size=settings["size"],
    )
    return {"measured": {"from": asked["host"], "to": asked["target"], **found}}


def _ended(asked: dict[str, Any]) -> dict[str, Any]:
    """End what was started."""
    return {"heard": preflight.stop(asked["server"], asked["token"])}


STATES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "examined": _examined,
    "listening": _listening,
    "reached": _reached,
    "measured": _measured,
    "ended": _ended,
}


def call(asked: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
    """Do the step that is asked for, which changes nothing that lasts. Raises SessionError, OSError."""
    return {"changed": False, **STATES[asked["state"]](asked)}
