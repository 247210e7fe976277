# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Conflicts between sockets of a host."""

from __future__ import annotations

from .deferred import dataclass

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a port that names no address is published on all, as by Docker


@dataclass(frozen=True)
class SitePorts:
    """Ports of every host that the site needs itself. variable: sets them. purpose: what uses them."""

    first: int
    last: int
    protocol: str
    variable: str
    purpose: str

    def contains(self, port: int, protocol: str) -> bool:
        """Tell whether a port is one of them."""
        return self.first <= port <= self.last and protocol == self.protocol


def ports_collide(
    address: str, port: int, protocol: str, other_address: str, other_port: int, other_protocol: str
) -> bool:
    """Tell whether two sockets cannot both be bound: same protocol and port, and one address that covers the other."""
    if port != other_port or protocol != other_protocol:
        return False
    everywhere = ("", "*", EVERY_ADDRESS, "::", "[::]")
    return address == other_address or address in everywhere or other_address in everywhere
