# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keep all containers of this host out of the overlays of the site, or stop doing this."""

from __future__ import annotations

from typing import Any

from ...adapters import link
from ...adapters.engine import Engine
from ...core.model.overlays import Overlays
from ...core.rules.addressing import parse_vni_pool
from .. import firewall_rules, steps


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Return what changed. Raises CoreError for an invalid pool, and SessionError."""
    overlays = None
    if arguments["state"] == "present":
        first, last = parse_vni_pool(arguments["vni_pool"])
        underlay = link.underlay(arguments["underlay_address"], link.details())
        ways = link.arrivals(underlay["address"], ())
        overlays = Overlays(arguments["vxlan_port"], first, last, ways[0] if len(ways) == 1 else None)
    stages = firewall_rules.overlay_stages(overlays, Engine.connect().uses_nftables())
    if not check_mode:
        steps.perform(stages)
    return {**steps.result(stages), "overlays": overlays.to_dict() if overlays is not None else None}
