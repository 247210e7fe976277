# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Names of everything a lab owns. All of them follow from the lab's name, so a lab can be found without any state."""

from __future__ import annotations

import hashlib
import re

from ..core.values.deferred import dataclass
from .system import LabError

_LAB = re.compile(r"[a-z][a-z0-9-]{0,11}")
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")
_DIRECTORY = re.compile(r"(/[A-Za-z0-9_.@+-]+){2,}")

LINK_PREFIX = "lv-"

KNOWN_ENTRIES = frozenset({"hosts", "ssh", "shared"})
"""Files that a lab directory may contain. Any other file means that it is not a lab's directory."""


@dataclass(frozen=True)
class Lab:
    """A lab: its name and the directory with its state."""

    name: str
    directory: str

    def __post_init__(self) -> None:
        if not _LAB.fullmatch(self.name):
            raise LabError(
                f"lab_name is '{self.name}'; it must begin with a small letter and hold at most twelve small letters, "
                "digits and hyphens, because the name of the lab's bridge is made from it."
            )
        if not _DIRECTORY.fullmatch(self.directory) or ".." in self.directory.split("/"):
            raise LabError(
                f"lab_directory is '{self.directory}'; it must be an absolute path below a top-level directory, "
                "of letters, digits and the characters _.@+- only."
            )

    @property
    def bridge(self) -> str:
        """Name of the bridge in the root network namespace (the kernel allows 15 characters)."""
        return f"br-{self.name}"

    @property
    def lock(self) -> str:
        """Path of the lab's lock, outside the directory that teardown removes."""
        return f"/run/lock/cluster-compute-lab/{self.name}.lock"

    @property
    def cgroup(self) -> str:
        """Path of the lab's control groups below each hierarchy."""
        return f"cluster-compute-lab/{self.name}"

    @property
    def namespace_prefix(self) -> str:
        """Prefix of the names of the lab's network namespaces. Neither part can contain a dot."""
        return f"cclab.{self.name}."

    @property
    def hosts_directory(self) -> str:
        """Directory with one subdirectory for each host."""
        return f"{self.directory}/hosts"

    @property
    def known_hosts(self) -> str:
        """The known_hosts file of the lab."""
        return f"{self.directory}/ssh/known_hosts"

    @property
    def key(self) -> str:
        """The private key for logging in to the lab's hosts."""
        return f"{self.directory}/ssh/id_ed25519"

    def host(self, name: str) -> HostNames:
        """Return the names of one host's objects. Raises LabError for an invalid host name."""
        if not _HOST.fullmatch(name):
            raise LabError(
                f"The lab host '{name}' has a name that cannot be used; a lab host's name holds small letters, digits "
                "and inner hyphens, at most 42 of them."
            )
        return HostNames(self, name)


@dataclass(frozen=True)
class HostNames:
    """Names of one host's objects."""

    lab: Lab
    name: str

    @property
    def directory(self) -> str:
        """The host's directory in the lab's directory."""
        return f"{self.lab.hosts_directory}/{self.name}"

    @property
    def namespace(self) -> str:
        """Name of the host's network namespace."""
        return f"{self.lab.namespace_prefix}{self.name}"

    @property
    def link(self) -> str:
        """Name of the bridge's port to the host, with a prefix that no network manager manages."""
        return LINK_PREFIX + hashlib.sha256(f"{self.lab.name}/{self.name}".encode()).hexdigest()[:12]

    @property
    def cgroup(self) -> str:
        """Path of the host's control groups below each hierarchy."""
        return f"{self.lab.cgroup}/{self.name}"

    @property
    def record(self) -> str:
        """File with the host's first process."""
        return f"{self.directory}/running.json"


def hardware_address(text: str) -> str:
    """Return a locally administered MAC address derived from a text, so that it is the same after each boot."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return "06:" + ":".join(digest[index : index + 2] for index in range(0, 10, 2))
