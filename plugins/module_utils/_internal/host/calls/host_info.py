# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Collect the facts of this host."""

from __future__ import annotations

from dataclasses import replace

from ...adapters.state import StateDirectory
from ...core.model.call.base import Answer, States
from ...core.model.call.host_info import LookAtHost, answer_with
from ...core.model.facts import HostFacts
from ..facts import host_facts, image_names


def call(request: LookAtHost, _check_mode: bool) -> Answer:
    """Return the facts. Raises EngineError if images are requested and the engine does not list them."""
    host = host_facts(StateDirectory(request.state_directory), request)
    if request.usage and isinstance(host, HostFacts):
        from ..usage import measure

        usage = measure([container.name for container in host.containers if container.state == "running"])
        containers = tuple(replace(container, usage=usage.get(container.name)) for container in host.containers)
        host = replace(host, containers=containers)
    if request.image_names and isinstance(host, HostFacts):
        host = replace(host, image_names=tuple(image_names()))
    return answer_with(host)


STATES: States = {LookAtHost: call}
