# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The possible overlays of a site."""

from typing import Optional

from ..values.deferred import dataclass
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
    interface: Optional[str] = None

    def cover(self, tunnel: Optional[OverlayTunnel]) -> bool:
        """Tell whether a session's overlay is among them; a session without an overlay always counts as covered."""
        return tunnel is None or (tunnel.port == self.port and self.first <= tunnel.vni <= self.last)
