# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mounts and published ports of a session."""

from dataclasses import field
from typing import Optional

from ..values.deferred import dataclass
from .decode import PAIRS

LOCAL_DRIVER = "local"
"""The volume driver that is part of Docker Engine."""


@dataclass(frozen=True)
class Mount:
    """A folder or file of every host, or a volume, seen at the same place in every replica.

    source: the path on the hosts; None for a volume. volume: the volume's name; None for a path. driver,
    driver_options: of a volume, the options sorted. owner, mode: "uid:gid" and four octal digits, for folders that are
    made new; None for no requirement. shared: whether the hosts of a session have the same folder; None for "yes, if it
    is a folder".
    """

    source: Optional[str]
    target: str
    read_only: bool
    volume: Optional[str] = None
    driver: Optional[str] = None
    driver_options: tuple[tuple[str, str], ...] = field(default=(), metadata=PAIRS)
    owner: Optional[str] = None
    mode: Optional[str] = None
    shared: Optional[bool] = None

    def describe(self) -> str:
        """Return the mount in a form for people, without its target."""
        parts = [self.source or f"volume {self.volume}", "read-only" if self.read_only else "read-write"]
        if self.driver not in (None, LOCAL_DRIVER) or self.driver_options:
            options = " ".join(f"{name}={value}" for name, value in self.driver_options)
            parts.append(f"driver {self.driver} {options}".strip())
        parts += [f"{name} {value}" for name, value in (("owner", self.owner), ("mode", self.mode)) if value]
        if self.shared is not None:
            parts.append("shared" if self.shared else "local")
        return "{} ({})".format(parts[0], ", ".join(parts[1:]))


@dataclass(frozen=True)
class Port:
    """A port of main1 published on main1's host."""

    host_ip: str
    host_port: int
    container_port: int
    protocol: str

    @property
    def socket(self) -> str:
        """The published socket, in a form for people."""
        return f"{self.host_ip}:{self.host_port}/{self.protocol}"
