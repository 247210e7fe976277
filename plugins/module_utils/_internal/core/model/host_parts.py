# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Parts of a host's facts that the code on hosts works with as well."""

from typing import Optional

from ..values.deferred import dataclass


@dataclass(frozen=True)
class Underlay:
    """The interface and address by which tunnels of a host reach the others."""

    address: str
    interface: str
    mtu: int


@dataclass(frozen=True)
class Volume:
    """A volume of an engine. maker: who made it for sessions, by its label; None if it is not for sessions."""

    driver: str
    options: dict[str, str]
    maker: Optional[str]


@dataclass(frozen=True)
class KnownSession:
    """A session that a host knows in any way; hosts, owner and shared_with as far as its record contains them."""

    id: str
    name: str
    hosts: tuple[str, ...] = ()
    owner: str = ""
    shared_with: tuple[str, ...] = ()
