# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The possible overlays of a site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..values.errors import show
from .record import OverlayTunnel


@dataclass(frozen=True)
class Overlays:
    """The possible overlays of a site: port of their tunnels, first and last identifier.

    interface: by which this host reaches the others. None if it is not known or there are several: then these rules
    apply to packets from any interface.
    """

    port: int
    first: int
    last: int
    interface: str | None = None

    def cover(self, tunnel: OverlayTunnel | None) -> bool:
        """Tell whether a session's overlay is among them; a session without an overlay always counts as covered."""
        return tunnel is None or (tunnel.port == self.port and self.first <= tunnel.vni <= self.last)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"port": self.port, "first": self.first, "last": self.last, "interface": self.interface}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Overlays:
        """Read the JSON form back. Raises ValueError."""
        port, first, last, interface = (data.get(name) for name in ("port", "first", "last", "interface"))
        if isinstance(port, int) and isinstance(first, int) and isinstance(last, int):
            return cls(port, first, last, interface if isinstance(interface, str) else None)
        raise ValueError(f"{show(data)} names no overlays")
