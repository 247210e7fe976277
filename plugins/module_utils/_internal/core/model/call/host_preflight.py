# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""A host's part of preflight."""

from dataclasses import field
from typing import Any, ClassVar, Optional

from ...values.deferred import dataclass
from ..decode import OPTIONAL
from .base import PATH, SECRET, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class Examine(Call):
    """Check a host for preflight.

    images, paths, volumes: those whose facts are needed. roots: the directories below which sessions may mount.
    underlay_address, encryption, accelerators: as of LookAtHost.
    """

    call: ClassVar[str] = "host_preflight"
    state: ClassVar[str] = "examined"

    images: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    underlay_address: Optional[str] = None
    encryption: bool = False
    accelerators: Any = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class ProbeTask:
    """The tests of hosts with each other.

    probe: the plain form of `preflight.probe_plan.ProbePlan`. settings: of the link and the measurement. storage: by
    host its parts in the test of shared directories, by path.
    """

    probe: dict[str, Any]
    settings: dict[str, Any]
    storage: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Listen(Call):
    """Start the process to which other hosts connect. token: by which they authenticate. roots: as of Examine."""

    call: ClassVar[str] = "host_preflight"
    state: ClassVar[str] = "listening"

    plan: ProbeTask
    token: str = field(metadata=SECRET)
    host: str = ""
    roots: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reach(Call):
    """Connect to the other hosts.

    token, roots: as of Listen. ports, udp_ports: by host where it listens; None or 0 if it does not. server: the
    process of Listen on this host.
    """

    call: ClassVar[str] = "host_preflight"
    state: ClassVar[str] = "reached"

    plan: ProbeTask
    token: str = field(metadata=SECRET)
    host: str = ""
    roots: tuple[str, ...] = ()
    ports: dict[str, Optional[int]] = field(default_factory=dict)
    udp_ports: dict[str, Optional[int]] = field(default_factory=dict)
    server: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Measure(Call):
    """Measure the connection to another host. token, ports: as of Reach. target: the other host."""

    call: ClassVar[str] = "host_preflight"
    state: ClassVar[str] = "measured"

    plan: ProbeTask
    token: str = field(metadata=SECRET)
    host: str = ""
    target: str = ""
    ports: dict[str, Optional[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class EndListening(Call):
    """End the process of Listen, and return what it received. token, server: as of Reach."""

    call: ClassVar[str] = "host_preflight"
    state: ClassVar[str] = "ended"

    token: str = field(metadata=SECRET)
    server: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TcpOutcome:
    """Why a host does not answer, empty if it does, and the largest packet on the way to it, as far as it is known."""

    problem: str
    mtu: Optional[int]


@dataclass(frozen=True)
class Heard:
    """The largest packet that arrived, in bytes, by the number of its host: through the link, and outside it."""

    tunnel: dict[str, int]
    plain: dict[str, int]


@dataclass(frozen=True)
class PreflightAnswer(Answer):
    """The answer of host_preflight, one part for each state.

    examined: the observations, and the times between which they were made, by the clocks of the host and of the
    controller. listening: the process, its ports, the folders in which it wrote, and by folder why nothing could be
    written there. reached: by a host's number the outcome of TCP, and by folder whether what was written is visible.
    measured: of one pair.
    """

    observed: Optional[dict[str, Any]] = None
    times: tuple[float, ...] = field(default=(), metadata=OPTIONAL)
    controller: tuple[float, ...] = field(default=(), metadata=OPTIONAL)
    server: Optional[dict[str, int]] = None
    port: Optional[int] = None
    udp: Optional[int] = None
    wrote: Optional[tuple[str, ...]] = None
    problems: Optional[dict[str, str]] = None
    peers: Optional[dict[str, TcpOutcome]] = None
    shared: Optional[dict[str, bool]] = None
    measured: Optional[dict[str, Any]] = None
    heard: Optional[Heard] = None


@dataclass(frozen=True)
class EndedAnswer(PreflightAnswer):
    """The answer of the state ended. heard: None if the process was gone already."""

    nulls: ClassVar[tuple[str, ...]] = ("heard",)
