# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The plan: everything that must be true on the hosts for one session.

`rules.build` makes it, `rules.check` checks one that was read back, and records carry its plain form. A plan never
changes; that its classes are not frozen halves the time that a host needs to import them.
"""

from dataclasses import field
from typing import Any, Optional

from ..values.deferred import dataclass
from ..values.errors import InvalidPlan
from .decode import OPTIONAL, Malformed, decode
from .mounts import Mount

BRIDGE = "bridge"
VXLAN = "vxlan"


@dataclass
class PlannedSession:
    """Basic properties of the session. mode: the effective one. size: replicas in all."""

    id: str
    name: str
    mode: str
    requested_mode: str
    size: int
    resource_group: str


@dataclass
class Tunnel:
    """The WireGuard link around the overlay of an encrypted session. vxlan_port: of the overlay inside it."""

    link: str
    mtu: int
    vxlan_port: int


@dataclass
class Network:
    """The network among the replicas. driver: BRIDGE or VXLAN. interface: its name in every replica.

    mtu, vni, port and link are those of the overlay, None on one host. port: the UDP port between hosts.
    """

    driver: str
    name: str
    subnet: str
    interface: str
    mtu: Optional[int]
    vni: Optional[int]
    port: Optional[int]
    link: Optional[str]
    tunnel: Optional[Tunnel]


@dataclass
class Egress:
    """The network by which replicas reach other networks, one on each host."""

    name: str
    subnet: str


@dataclass
class Folder:
    """A path of a host that is mounted. proof: what the host does to prove that it is shared, if anything."""

    filesystem: str
    proof: Optional[str]


@dataclass
class PlannedHost:
    """One host of the session. tunnel_address: in the tunnel of an encrypted one. replicas: names, in rank order.

    mount_roots: the site's folders that allow what is mounted here. data: what is mounted, by path.
    """

    underlay_address: Optional[str]
    underlay_interface: Optional[str]
    tunnel_address: Optional[str]
    replicas: tuple[str, ...]
    mount_roots: tuple[str, ...]
    data: dict[str, Folder]


@dataclass
class PinnedImage:
    """The image of a reference: the digest to pull by, and the id on each host that runs it, as far as known."""

    digest: Optional[str]
    ids: dict[str, Optional[str]]


@dataclass
class PublishedPort:
    """A port of main1 that its host publishes. host_ip: empty for every address of the host."""

    host_ip: str
    host_port: int
    container_port: int
    protocol: str


@dataclass
class Share:
    """The amounts of a replica: millicpus, bytes of memory, bytes of /dev/shm, accelerators of each class."""

    cpus: int
    memory: int
    shm_size: int
    accelerators: dict[str, int]
    pin_cpus: bool


@dataclass
class Replica:
    """One container. index: one-based in its role. rank, local_rank, node_rank: zero-based in the session, on its host,
    and of the host. devices: names by class, pinned CPUs among them. memlock: bytes, None for the engine's own limit.
    disk_size: bytes that it may write outside them, None for no limit but the host's disk.
    entrypoint: in place of the image's, None for the image's own. own_init: whether its own program is the first
    process, without the engine's init. user: a name in the image or uid:gid, directory: the working directory, None
    for those of the image. groups: names or numbers on the host. packs: references of what it has of
    the session's working directory.
    """

    name: str
    role: str
    index: int
    rank: int
    host: str
    local_rank: int
    node_rank: int
    kernel_id: str
    address: Optional[str]
    mac: Optional[str]
    container: str
    image: str
    resources: Share
    devices: dict[str, tuple[str, ...]]
    memory_nodes: tuple[int, ...]
    command: Optional[tuple[str, ...]]
    capabilities: tuple[str, ...]
    memlock: Optional[int]
    ports: tuple[PublishedPort, ...]
    mounts: tuple[Mount, ...]
    disk_size: Optional[int] = field(default=None, metadata=OPTIONAL)
    entrypoint: Optional[tuple[str, ...]] = field(default=None, metadata=OPTIONAL)
    own_init: bool = field(default=False, metadata=OPTIONAL)
    user: Optional[str] = field(default=None, metadata=OPTIONAL)
    groups: tuple[str, ...] = field(default=(), metadata=OPTIONAL)
    directory: Optional[str] = field(default=None, metadata=OPTIONAL)
    packs: tuple[str, ...] = field(default=(), metadata=OPTIONAL)


@dataclass
class Plan:
    """The plan of one session. network: None for a single replica. ssh_port: where its owner logs in, on main1's host.

    request: its plain form. images: by reference, packs among them. fenced: underlay addresses of lost hosts whose
    replicas were given to others; the session accepts nothing from them any more.
    """

    schema: int
    session: PlannedSession
    request: dict[str, Any]
    network: Optional[Network]
    egress: Egress
    ssh_port: Optional[int]
    hosts: dict[str, PlannedHost]
    images: dict[str, PinnedImage]
    replicas: tuple[Replica, ...]
    fenced: tuple[str, ...] = field(default=(), metadata=OPTIONAL)

    def on(self, host: str) -> list[Replica]:
        """Return the replicas of one host, in rank order."""
        return [replica for replica in self.replicas if replica.host == host]


def read_plan(data: object, forgiving: bool = False) -> Plan:
    """Return a plan from its plain form. Raises InvalidPlan, a sentence for each place that is malformed.

    forgiving: ignore what a newer release added, for readers that make nothing from it.
    """
    try:
        return decode(Plan, data, "The plan", forgiving)
    except Malformed as error:
        problems = [f"{problem}." for problem in error.problems]
        if error.is_newer:
            problems.append("Use the release that made it, or a newer one; this one can tear the session down.")
        raise InvalidPlan(problems) from None
