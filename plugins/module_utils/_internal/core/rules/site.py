# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of a site for all sessions, and the variables of one host that the core reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..model.read_fields import parse_users
from ..values.deferred import dataclass
from ..values.errors import InvalidInput
from ..values.parse import Reader, Readers, converted, is_plain, parse_integer, split_list
from ..values.ports import SitePorts
from ..values.resources import parse_memory
from .addressing import ENCRYPTED_PORTS, SSH_PORTS, parse_port_pool, parse_ssh_ports, parse_subnet_pool, parse_vni_pool
from .data import DRIVERS, ROOTS
from .limits import DEFAULT_LIMITS, Limits
from .share import NO_SHARES, FairShare

HOST_VARIABLES = (
    "cluster_compute_cpus",
    "cluster_compute_memory",
    "cluster_compute_accelerators",
    "cluster_compute_reserved_cpus",
    "cluster_compute_reserved_memory",
    "cluster_compute_labels",
    "cluster_compute_max_replicas",
    "cluster_compute_underlay_address",
    ROOTS,
    DRIVERS,
)
"""Inventory variables of one host that the core reads."""


@dataclass(frozen=True)
class Settings:
    """Settings of a site for all sessions."""

    subnet_pool: str = "10.213.0.0/16"
    vni_pool: str = "4096-16777215"
    vxlan_port: int = 4789
    encrypted_ports: str = "61000-61999"
    topology_keys: tuple[str, ...] = ("zone", "rack")
    ssh_ports: str = "22000-22999"
    limits: Limits = DEFAULT_LIMITS
    fair_share: FairShare = NO_SHARES
    image_ports: tuple[int, int] = (8480, 8489)
    workdir_size: int = 256 * 1024**2
    root_users: tuple[str, ...] | None = None

    @classmethod
    def from_variables(cls, variables: Mapping[str, Any]) -> Settings:
        """Read the ``cluster_compute_*`` variables, all problems together (InvalidInput); blank means the default."""
        reader = Reader()
        return reader.finish(cls(**reader.each("cluster_compute_", _READERS, variables)))

    @property
    def ports(self) -> tuple[SitePorts, ...]:
        """The site's own ports; those of preflight are included, because it tests the ports that sessions will use."""
        return (
            SitePorts(self.vxlan_port, self.vxlan_port, "udp", "cluster_compute_vxlan_port", "overlays"),
            SitePorts(*parse_port_pool(self.encrypted_ports), "udp", ENCRYPTED_PORTS, "tunnels of encrypted sessions"),
            SitePorts(*self.image_ports, "tcp", "cluster_compute_image_ports", "images on their way between hosts"),
            SitePorts(*parse_ssh_ports(self.ssh_ports), "tcp", SSH_PORTS, "logins of owners"),
        )


def _port_range(variable: str, value: object) -> tuple[int, int]:
    """Read one port, or the first and the last of several."""
    text = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", text, re.ASCII)
    first, last = (int(match.group(1)), int(match.group(2) or match.group(1))) if match else (0, 0)
    if not 1 <= first <= last <= 65535:
        raise InvalidInput.single(
            variable, value, "It must be a port, or the first and the last of several, such as 8480-8489."
        )
    return first, last


def _topology_keys(variable: str, value: object) -> tuple[str, ...]:
    try:
        keys = split_list(value)
    except ValueError as error:
        raise InvalidInput.single(variable, value, str(error)) from None
    if not all(isinstance(key, str) and key and is_plain(key) for key in keys) or len(set(keys)) < len(keys):
        raise InvalidInput.single(variable, value, "It must be a list of different host labels, coarse to fine.")
    return tuple(keys)


_READERS: Readers = {
    "subnet_pool": lambda _variable, value: str(parse_subnet_pool(value)),
    "vni_pool": lambda _variable, value: "{}-{}".format(*parse_vni_pool(value)),
    "vxlan_port": lambda variable, value: parse_integer(variable, value, 1, 65535),
    "encrypted_ports": lambda _variable, value: "{}-{}".format(*parse_port_pool(value)),
    "topology_keys": _topology_keys,
    "ssh_ports": lambda _variable, value: "{}-{}".format(*parse_ssh_ports(value)),
    "limits": lambda _variable, value: Limits.from_variable(value),
    "fair_share": lambda _variable, value: FairShare.from_variable(value),
    "image_ports": _port_range,
    "workdir_size": converted(partial(parse_memory, minimum=1024**2)),
    "root_users": parse_users,
}
