# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Facts that a host reports about itself: the result ``host`` of host_info, which `host.facts` makes."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Optional

from ..values.cpus import Topology
from ..values.deferred import dataclass
from .claims import Reservation
from .decode import OPTIONAL, decode
from .health import Drain, Suspicion
from .host_parts import Underlay, Volume
from .output import JobOutcome
from .overlays import Overlays
from .record import PublicKeys, Record, Tombstone
from .times import PartTimes


@dataclass(frozen=True)
class EngineFacts:
    """The host's Docker Engine.

    cdi: whether it supports CDI devices. image_store: the kind of store, on which the ids depend. remaps_users: whether
    users of containers are others on the host (``userns-remap``).
    no_rules: where it was configured to write no firewall rules for containers; empty if it writes them.
    stale_runtime: why replicas would start by another runtime than the engine's default; empty if they would not. root:
    where it keeps images and containers.
    """

    version: str = ""
    api_version: str = ""
    architecture: str = ""
    limits_swap: bool = True
    cdi: bool = False
    image_store: str = "docker"
    remaps_users: bool = False
    no_rules: str = ""
    stale_runtime: str = ""
    root: str = ""


@dataclass(frozen=True)
class EngineCapacity:
    """The size of the machine as the engine sees it: CPUs in thousandths, bytes of memory."""

    cpus: int = 0
    memory: int = 0


@dataclass(frozen=True)
class ContainerFailure:
    """How a replica failed, in the form of `failure.Failure`."""

    exit_code: int
    oom_killed: bool
    finished: str
    restarts: int
    stopped: str = ""


@dataclass(frozen=True)
class Corrections:
    """How often the host's timer has corrected what a replica's programs wrote over names of the session.

    since: when that replica was started, according to its engine.
    """

    since: str
    count: int


@dataclass(frozen=True)
class Usage:
    """The usage of a container: CPUs in thousandths, bytes of memory."""

    cpus: int
    memory: int


@dataclass(frozen=True)
class Container:
    """The container of a replica. devices: names by class. usage: what it uses now, if that was requested."""

    name: str
    session_id: str
    session_name: str
    replica: str
    cpus: int
    memory: int
    devices: dict[str, tuple[str, ...]]
    state: str
    exit_code: Optional[int] = None
    failure: Optional[ContainerFailure] = None
    usage: Optional[Usage] = None
    corrections: Optional[Corrections] = None


@dataclass(frozen=True)
class Parts:
    """The parts of one session besides its record. kinds: of `cluster_state`."""

    name: str
    kinds: tuple[str, ...]


@dataclass(frozen=True, order=True)
class Port:
    """A port that something listens on, publishes or holds."""

    address: str
    port: int
    protocol: str


@dataclass(frozen=True)
class ImageFacts:
    """An image that the engine has. digests: as ``repository@sha256:…``. content: of `images.content_of`."""

    id: str
    digests: tuple[str, ...]
    architecture: str
    content: str = ""


@dataclass(frozen=True)
class PathFacts:
    """The facts of a path that a session is to mount.

    kind: directory, file or missing. real: its real path. ancestors: the real path of each folder above it, and of
    itself. parent: whether it could be made. origin, inode: show whether two hosts have the same part of a file system.
    """

    kind: str
    real: str
    ancestors: dict[str, str]
    parent: bool
    owner: Optional[str]
    mode: Optional[str]
    filesystem: str
    origin: str
    inode: Optional[int]
    read_only: bool


@dataclass(frozen=True)
class Unusable:
    """The facts of a host that cannot run sessions; as of HostFacts."""

    problem: str
    hangs: bool = False
    usable: bool = False


@dataclass(frozen=True)
class HostFacts:
    """The facts of one host; what was not requested is empty.

    problem: why it is not usable. hangs: whether that is because something there did not answer. identity: its own,
    empty if it has none. names: those under which it was prepared.
    drained: why it takes no new sessions; None if it does. suspect: why other hosts are preferred. containers: of
    sessions; foreign_containers: names of others that conflict with the requested session. objects: by session.
    overlays: those that containers here are kept out of. images: by the requested reference, volumes by name, as the
    engine describes them. encryption: why encrypted sessions are not possible; None if that was not checked.
    accelerators: by class, as they were detected. batches: what is known of batch commands, by session. times: of the
    parts here of sessions with time limits, by session. use: what was counted here recently, by owner and kind, in
    seconds. public_keys, users: by session and replica. host_names: by session, this host's name in its plan.
    silent_peers: for each requested session that runs here and has other hosts, the hosts that do not answer in any
    way. not_waiting: ids of sessions that run here and do not wait for a lost host, but are replaced or ended. clock:
    seconds since its boot, by which reservations expire. signature: shows whether anything has changed that a session
    may wait for. private: places that are not for sessions, and what is there.
    """

    usable: bool = True
    problem: str = ""
    hangs: bool = field(default=False, metadata=OPTIONAL)
    identity: str = ""
    names: tuple[str, ...] = ()
    drained: Optional[Drain] = None
    suspect: Optional[Suspicion] = None
    engine: EngineFacts = field(default_factory=EngineFacts)
    topology: Topology = field(default_factory=Topology)
    capacity: EngineCapacity = field(default_factory=EngineCapacity)
    containers: tuple[Container, ...] = ()
    foreign_containers: tuple[str, ...] = ()
    objects: dict[str, Parts] = field(default_factory=dict)
    overlays: Optional[Overlays] = None
    no_overlay: str = ""
    underlay: Optional[Underlay] = None
    addresses: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    vnis: tuple[int, ...] = ()
    ports: tuple[Port, ...] = ()
    images: dict[str, Optional[ImageFacts]] = field(default_factory=dict)
    image_names: tuple[str, ...] = ()
    paths: dict[str, PathFacts] = field(default_factory=dict)
    volumes: dict[str, Optional[Volume]] = field(default_factory=dict)
    encryption: Optional[str] = None
    accelerators: dict[str, dict[str, Any]] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    batches: dict[str, JobOutcome] = field(default_factory=dict)
    times: dict[str, PartTimes] = field(default_factory=dict)
    use: dict[str, dict[str, float]] = field(default_factory=dict)
    records: tuple[Record, ...] = ()
    public_keys: dict[str, PublicKeys] = field(default_factory=dict)
    users: dict[str, dict[str, str]] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()
    ledger_is_damaged: bool = False
    tombstones: tuple[Tombstone, ...] = ()
    host_names: dict[str, str] = field(default_factory=dict)
    silent_peers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    not_waiting: tuple[str, ...] = ()
    clock: float = 0.0
    signature: str = ""
    private: dict[str, str] = field(default_factory=dict)


def read_facts(data: Mapping[str, Any], host: str = "The host") -> HostFacts:
    """Return the facts of a host from their plain form. host: its name, for a message. Raises Malformed."""
    return decode(HostFacts, data, host)
