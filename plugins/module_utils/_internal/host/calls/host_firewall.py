# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keep all containers of this host out of the overlays of the site and open ports for other hosts, or undo this."""

from __future__ import annotations

from ...adapters import link
from ...adapters.engine import Engine
from ...core.model.call.base import Answer, States
from ...core.model.call.host_firewall import FirewallAnswer, KeepOutOfOverlays, LetIntoOverlays
from ...core.model.overlays import Overlays
from ...core.rules.addressing import parse_vni_pool
from .. import firewall_rules, open_ports, steps


def _present(request: KeepOutOfOverlays, check_mode: bool) -> FirewallAnswer:
    """Create the rules."""
    first, last = parse_vni_pool(request.vni_pool)
    underlay = link.underlay(request.underlay_address, link.details())
    ways = link.arrivals(underlay.address, ())
    overlays = Overlays(request.vxlan_port, first, last, ways[0] if len(ways) == 1 else None)
    return _applied(overlays, open_ports.stages(request.peers, request.ports), check_mode)


def _absent(_request: LetIntoOverlays, check_mode: bool) -> FirewallAnswer:
    """Remove the rules."""
    return _applied(None, open_ports.stages((), ()), check_mode)


def _applied(overlays: Overlays | None, ports: list[steps.Stage], check_mode: bool) -> FirewallAnswer:
    stages = [*firewall_rules.overlay_stages(overlays, Engine.connect().uses_nftables()), *ports]
    if not check_mode:
        steps.perform(stages)
    return steps.result(stages, FirewallAnswer(overlays=overlays))


STATES: States = {KeepOutOfOverlays: _present, LetIntoOverlays: _absent}


def call(request: KeepOutOfOverlays | LetIntoOverlays, check_mode: bool) -> Answer:
    """Return what changed. Raises CoreError for an invalid pool, and SessionError."""
    return STATES[type(request)](request, check_mode)
