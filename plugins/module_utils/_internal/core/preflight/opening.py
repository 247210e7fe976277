# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The commands that open a host's firewall for the other hosts of its group."""

from __future__ import annotations

UFW, FIREWALLD = "ufw", "firewalld"
"""Programs that manage a host's firewall, and drop by default what they do not know."""
PEER = "PEER"
"""Stands in commands for the underlay address of another host, or a subnet of them."""


def commands(manager: str, protocol: str, ports: str) -> str:
    """Return the commands that let other hosts reach ports, such as 4789 or 8480-8489; empty without a manager.

    For the address of each other host, or their subnet, in place of `PEER` (ufw(8), firewalld.richlanguage(5)).
    """
    if manager == UFW:
        return f"ufw allow proto {protocol} from {PEER} to any port {ports.replace('-', ':')}"
    if manager == FIREWALLD:
        rule = f'rule family="ipv4" source address="{PEER}" port port="{ports}" protocol="{protocol}" accept'
        return f"firewall-cmd --permanent --add-rich-rule='{rule}' && firewall-cmd --reload"
    return ""


def advice(manager: str, protocol: str, ports: str) -> str:
    """Return what opens ports of a host for another one, as sentences. manager: of that host's firewall."""
    plain = "Open it in the firewall of the second host, of the first, and between them."
    found = commands(manager, protocol, ports)
    return f"{plain} On the second host: {found} (with the first host's address for {PEER})." if found else plain
