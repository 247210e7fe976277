# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hosts that cannot be an end of a session's overlay, by their own facts: only sessions on one host can use them."""

from __future__ import annotations

from collections.abc import Mapping

from ..model.facts import EngineFacts, HostFacts
from .data import some_of

DROPPED = (
    "Docker Engine writes nftables rules (the setting firewall-backend), but iptables drops what they accept: the "
    "policy of its chain FORWARD is DROP, as an engine sets it whose rules are those of iptables."
)
ACCEPT_FORWARDED = "If nothing else needs that policy, restart the host, or run iptables -P FORWARD ACCEPT."


def why_no_endpoint(facts_by_host: Mapping[str, HostFacts]) -> dict[str, str]:
    """Return in full sentences why hosts cannot be an end of an overlay; hosts that can are not included.

    If several hosts have the same address, it reaches none of them for certain, so none of them can.
    """
    usable = {name: facts for name, facts in facts_by_host.items() if facts.usable}
    by_address: dict[str, list[str]] = {}
    for name, facts in usable.items():
        if facts.underlay is not None:
            by_address.setdefault(facts.underlay.address, []).append(name)
    found = {name: facts.no_overlay for name, facts in usable.items() if facts.no_overlay}
    for address, names in by_address.items():
        for name in names if len(names) > 1 else ():
            found[name] = _shared_address(address, [other for other in names if other != name])
    return found


def engine_without_rules(engine: EngineFacts) -> tuple[str, str]:
    """Return the consequence of an engine that writes no firewall rules, and the remedy."""
    return (
        f"Docker Engine writes no firewall rules ({engine.no_rules}), so replicas reach nothing outside of their "
        "session except by rules of the site's own.",
        "Configure the engine to write them, or add NAT rules of your own for the addresses of "
        "cluster_compute_subnet_pool.",
    )


def _shared_address(address: str, others: list[str]) -> str:
    """Return the sentences for a host that has the underlay address of *others*."""
    verb = "has" if len(others) == 1 else "have"
    return (
        f"Its underlay address {address} is one that {some_of(others)} {verb} as well, so the hosts do not reach each "
        "other by it; the NAT of a virtual machine gives such. Set cluster_compute_underlay_address of each to an "
        "address of its own."
    )
