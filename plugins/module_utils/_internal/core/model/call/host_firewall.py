# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Keep containers out of the overlays of the site, or stop doing this."""

from typing import ClassVar, Optional

from ...values.deferred import dataclass
from ..overlays import Overlays
from .base import Answer, Call


@dataclass(frozen=True)
class KeepOutOfOverlays(Call):
    """Keep all containers of the host out of the overlays of the site, and let other hosts reach it.

    vxlan_port: their UDP port. vni_pool: their network identifiers, as a range. underlay_address: as of LookAtHost.
    peers: addresses and subnets for which ports are opened, such as udp/4789.
    """

    call: ClassVar[str] = "host_firewall"
    state: ClassVar[str] = "present"
    is_default: ClassVar[bool] = True

    vxlan_port: int = 4789
    vni_pool: str = "4096-16777215"
    underlay_address: Optional[str] = None
    peers: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()


@dataclass(frozen=True)
class LetIntoOverlays(Call):
    """Remove the rules of KeepOutOfOverlays."""

    call: ClassVar[str] = "host_firewall"
    state: ClassVar[str] = "absent"


@dataclass(frozen=True)
class FirewallAnswer(Answer):
    """The answer of host_firewall. overlays: those that containers are kept out of."""

    nulls: ClassVar[tuple[str, ...]] = ("overlays",)

    overlays: Optional[Overlays] = None
