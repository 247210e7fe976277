# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The commands that open a host's firewall for the other hosts of its group."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_network
from itertools import product

from ..values.errors import InvalidInput

UFW, FIREWALLD = "ufw", "firewalld"
"""Programs that manage a host's firewall, and drop by default what they do not know."""
PEER = "PEER"
"""Stands in commands for the underlay address of another host, or a subnet of them."""
_PORTS = re.compile(r"(?P<protocol>udp|tcp)/\s*(?P<first>[0-9]{1,5})\s*(?:-\s*(?P<last>[0-9]{1,5})\s*)?")


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


def rules(manager: str, peers: Iterable[str], ports: Iterable[str]) -> list[str]:
    """Return the rules, as the manager lists them, that let *peers* reach ports, such as udp/4789 or tcp/8480-8489.

    peers: addresses or subnets. Without a manager there are none. Raises InvalidInput.
    """
    found = []
    for peer, port in product(map(_network, peers), ports):
        found_port = _PORTS.fullmatch(port)
        if found_port is None:
            raise InvalidInput.single("ports", port, "It must be such as udp/4789 or tcp/8480-8489.")
        protocol, first, last = found_port["protocol"], found_port["first"], found_port["last"]
        numbers = first if last in (None, first) else f"{first}-{last}"
        if manager == UFW:
            found.append(f"allow from {peer} to any port {numbers.replace('-', ':')} proto {protocol}")
        elif manager == FIREWALLD:
            family = "ipv6" if ":" in peer else "ipv4"
            port_element = f'port port="{numbers}" protocol="{protocol}"'
            found.append(f'rule family="{family}" source address="{peer}" {port_element} accept')
    return found


def _network(peer: str) -> str:
    with suppress(ValueError):
        network = ip_network(peer, strict=False)
        if network.prefixlen == network.max_prefixlen:
            return str(network.network_address)
        if network.prefixlen:
            return str(network)
    raise InvalidInput.single("peers", peer, "It must be an address or a subnet, such as 192.0.2.0/24.")
