# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Collect the facts of this host."""

from __future__ import annotations

from typing import Any

from ...adapters.state import StateDirectory
from ..facts import Wanted, host_facts, image_names


def call(arguments: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
    """Return the facts. Raises EngineError if images are requested and the engine does not list them."""
    host = host_facts(
        StateDirectory(arguments["state_directory"]),
        Wanted(
            arguments["session_name"],
            arguments["images"],
            arguments["paths"],
            arguments["volumes"],
            arguments["underlay_address"],
            arguments["whole_records"],
            arguments["encryption"],
            arguments["ways_in"],
            arguments["accelerators"],
            arguments["peers_of"],
            arguments["usage"],
        ),
    )
    if arguments["usage"] and host["usable"]:
        from ..usage import measure

        usage = measure([container["name"] for container in host["containers"] if container["state"] == "running"])
        for container in host["containers"]:
            container["usage"] = usage.get(container["name"])
    if arguments["image_names"] and host["usable"]:
        host["image_names"] = image_names()
    return {"changed": False, "host": host}
