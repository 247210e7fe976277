# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Collect the facts of this host."""

from __future__ import annotations

from ...adapters.state import StateDirectory
from ...core.model.call.base import Result, States
from ...core.model.call.host_info import LookAtHost
from ..facts import host_facts, image_names


def call(request: LookAtHost, _check_mode: bool) -> Result:
    """Return the facts. Raises EngineError if images are requested and the engine does not list them."""
    host = host_facts(StateDirectory(request.state_directory), request)
    if request.usage and host["usable"]:
        from ..usage import measure

        usage = measure([container["name"] for container in host["containers"] if container["state"] == "running"])
        for container in host["containers"]:
            container["usage"] = usage.get(container["name"])
    if request.image_names and host["usable"]:
        host["image_names"] = image_names()
    return {"changed": False, "host": host}


STATES: States = {LookAtHost: call}
