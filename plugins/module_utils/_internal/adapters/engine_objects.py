# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The engine's objects as its API describes them: the labels of sessions, and one reader for each kind of answer.

A reader takes the JSON of Docker Engine API and keeps what this collection uses. It is written out, as a host may have
hundreds of containers, and a program that runs for one call lists them all. They are named tuples, as nothing
changes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..core.model.host_parts import Volume
from ..core.model.record import is_session_id
from ..core.rules.images import content_of
from ..core.values.places import DIRECTORY

LABEL_SESSION_ID = "cluster-compute.session-id"
LABEL_SESSION_NAME = "cluster-compute.session-name"
LABEL_REPLICA = "cluster-compute.replica"
LABEL_SPEC = "cluster-compute.spec"
LABEL_CPUS = "cluster-compute.millicpus"
LABEL_MEMORY = "cluster-compute.memory"
LABEL_DEVICES = "cluster-compute.devices"
LABEL_DISK = "cluster-compute.disk-size"
"""Label of a replica that has a limit of its own for what it may write outside its mounts: bytes."""
LABEL_VOLUME = "cluster-compute.volume"
"""Label of a volume that sessions may mount: the id of the session that made it, or another text of its maker."""
LABEL_RECORD = "cluster-compute.record"
"""Label of the default network of a session: its record, from which a lost state directory is made again."""
LABEL_CODE = "cluster-compute.record-code"
"""Label beside a record: the code by this host's key without which the record is not trusted (`host.labels`)."""
NO_LABELS = dict.fromkeys(
    (
        LABEL_SESSION_ID,
        LABEL_SESSION_NAME,
        LABEL_REPLICA,
        LABEL_SPEC,
        LABEL_CPUS,
        LABEL_MEMORY,
        LABEL_DEVICES,
        LABEL_DISK,
        LABEL_VOLUME,
        LABEL_RECORD,
        LABEL_CODE,
    ),
    "",
)
"""All our labels, empty. The engine adds an image's labels that a container does not set, so each is set on it."""

OPTION_IFNAME = "com.docker.network.endpoint.ifname"

RUNNING = "running"
HostPort = tuple[str, int, str]
"""Address, port and protocol of what is published, or listens, on a host."""


class Labels(NamedTuple):
    """The labels of an object. Any program may have written them."""

    values: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return the text of a label; empty if there is none."""
        return self.values.get(name, "")

    def number(self, name: str) -> int:
        """Return the whole number in a label; 0 if there is none."""
        text = self.text(name)
        return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0

    @property
    def session_id(self) -> str:
        """The session that labels name; empty if they name none, or if it is not a UUID."""
        session_id = self.text(LABEL_SESSION_ID)
        return session_id if is_session_id(session_id) else ""

    @property
    def session_name(self) -> str:
        """The name of that session."""
        return self.text(LABEL_SESSION_NAME)

    @property
    def devices(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The named devices of a container: (class, names); nothing if the label is malformed."""
        try:
            held = json.loads(self.values.get(LABEL_DEVICES, "{}"))
            return tuple(sorted((str(kind), tuple(map(str, names))) for kind, names in held.items()))
        except (ValueError, TypeError, AttributeError, RecursionError):
            return ()


class Endpoint(NamedTuple):
    """A container's interface in a network. address: empty for a container that does not run.

    interface: its name, where that was asked for (`OPTION_IFNAME`); lists of containers do not tell it.
    """

    network_id: str
    address: str
    mac: str
    gateway: str
    interface: str = ""


class Container(NamedTuple):
    """A container in a list. status: its state for people. ports: those of the host that it publishes.

    is_replica: whether it is a replica of a session. Labels alone do not prove it: an image can have them, and a volume
    in the place of the replica's files as well. It cannot have a bind mount, so what is mounted there has to be the
    host's folder of this session and replica.
    """

    id: str
    name: str
    image: str
    state: str
    status: str
    created: int
    labels: Labels
    ports: tuple[HostPort, ...]
    endpoints: Mapping[str, Endpoint]
    is_replica: bool

    @property
    def replica(self) -> str:
        """The name of the replica that it is, by its label."""
        return self.labels.text(LABEL_REPLICA)

    @property
    def runs(self) -> bool:
        """Whether its program runs."""
        return self.state == RUNNING


class Health(NamedTuple):
    """The health of a container by its image's check. outputs: of the last tries. failures: of them in a row."""

    status: str
    failures: int
    outputs: tuple[str, ...]


class Inspected(NamedTuple):
    """The full description of a container.

    pid: its first process on the host, 0 if it does not run. runs: also while it is paused. exit_code: of a container
    that was never started 0 as well. interval: nanoseconds between two checks of its health, 0 for the engine's own.
    init: whether Docker's init runs before its program. hosts_file, hostname_file, resolver_file: of the engine, for
    its ``/etc``. layer, merged: where it writes, and what it sees, empty if the engine does not report it.
    image_volumes: path in the container and on the host of each volume that only its image asked for.
    """

    id: str
    status: str
    pid: int
    runs: bool
    exit_code: int | None
    out_of_memory: bool
    started: str
    finished: str
    error: str
    health: Health | None
    interval: int
    hostname: str
    user: str
    environment: tuple[str, ...]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    init: bool
    runtime: str
    endpoints: Mapping[str, Endpoint]
    hosts_file: str
    hostname_file: str
    resolver_file: str
    layer: str
    merged: str
    image_volumes: tuple[tuple[str, str], ...]


class EngineNetwork(NamedTuple):
    """A network of the engine."""

    id: str
    name: str
    driver: str
    labels: Labels
    subnets: tuple[str, ...]


class Image(NamedTuple):
    """An image of the engine. content: of `images.content_of`. ports: as in ``EXPOSE``, such as ``22/tcp``."""

    id: str
    digests: tuple[str, ...]
    architecture: str
    content: str
    labels: Labels
    environment: tuple[str, ...]
    ports: tuple[str, ...]
    volumes: tuple[str, ...]


class Runtime(NamedTuple):
    """A runtime of the engine. path: empty for one that is not a program with the OCI command line."""

    path: str
    arguments: tuple[str, ...] = ()


class EngineInfo(NamedTuple):
    """The properties of an engine and its machine. cpus: thousandths.

    cdi: whether it supports CDI devices, and that is switched on: other engines have no folders for them. options: of
    security. remaps_users: whether users of containers are others on the host (``userns-remap``). image_store: stores
    of different kinds give the same image different ids. root: where it keeps images and containers. firewall: what it
    writes its rules with.
    """

    version: str
    api_version: str
    architecture: str
    cpus: int
    memory: int
    limits_swap: bool
    cdi: bool
    options: tuple[str, ...]
    remaps_users: bool
    runtimes: Mapping[str, Runtime]
    default_runtime: str
    root: str
    image_store: str
    storage_driver: str
    backing: str
    cgroup: str
    live_restore: bool
    firewall: str

    @property
    def uses_nftables(self) -> bool:
        """Whether it writes its rules with nftables instead of iptables."""
        return self.firewall.startswith("nftables")


def _text(found: Any, key: str) -> str:
    return found.get(key) or ""


def _number(found: Any, key: str) -> int:
    return found.get(key) or 0


def _part(found: Any, key: str) -> Any:
    return found.get(key) or {}


def _list(found: Any, key: str) -> Any:
    return found.get(key) or ()


def _texts(found: Any, key: str) -> tuple[str, ...]:
    return tuple(found.get(key) or ())


def _endpoints(found: Any) -> dict[str, Endpoint]:
    networks = _part(_part(found, "NetworkSettings"), "Networks")
    return {
        name: Endpoint(
            _text(endpoint, "NetworkID"),
            _text(endpoint, "IPAddress"),
            _text(endpoint, "MacAddress"),
            _text(endpoint, "Gateway"),
            _text(_part(endpoint, "DriverOpts"), OPTION_IFNAME),
        )
        for name, endpoint in networks.items()
    }


def read_container(found: Any) -> Container:
    """Read an entry of ContainerList."""
    labels = Labels(_part(found, "Labels"))
    session_id = labels.session_id
    folder = f"/sessions/{session_id}/replicas/{labels.text(LABEL_REPLICA)}"
    return Container(
        id=_text(found, "Id"),
        # A container that is being removed has no name any more.
        name=(found.get("Names") or [""])[0].lstrip("/"),
        image=_text(found, "ImageID"),
        state=_text(found, "State"),
        status=_text(found, "Status"),
        created=_number(found, "Created"),
        labels=labels,
        ports=tuple(
            (port.get("IP", ""), port["PublicPort"], port["Type"])
            for port in _list(found, "Ports")
            if "PublicPort" in port
        ),
        endpoints=_endpoints(found),
        is_replica=session_id != ""
        and any(
            mount.get("Type") == "bind"
            and mount.get("Destination") == DIRECTORY
            and mount.get("Source", "").endswith(folder)
            for mount in _list(found, "Mounts")
        ),
    )


def read_inspected(found: Any) -> Inspected:
    """Read ContainerInspect."""
    state, config, host = _part(found, "State"), _part(found, "Config"), _part(found, "HostConfig")
    data = _part(_part(found, "GraphDriver"), "Data")
    requested = {mount["Target"] for mount in _list(host, "Mounts")}
    return Inspected(
        id=_text(found, "Id"),
        status=_text(state, "Status"),
        pid=_number(state, "Pid"),
        runs=bool(state.get("Running")),
        exit_code=state.get("ExitCode"),
        out_of_memory=bool(state.get("OOMKilled")),
        started=_text(state, "StartedAt"),
        finished=_text(state, "FinishedAt"),
        error=_text(state, "Error"),
        health=_read_health(state["Health"]) if state.get("Health") else None,
        interval=_number(_part(config, "Healthcheck"), "Interval"),
        hostname=_text(config, "Hostname"),
        user=_text(config, "User"),
        environment=_texts(config, "Env"),
        entrypoint=_texts(config, "Entrypoint"),
        command=_texts(config, "Cmd"),
        init=bool(host.get("Init")),
        runtime=_text(host, "Runtime"),
        endpoints=_endpoints(found),
        hosts_file=_text(found, "HostsPath"),
        hostname_file=_text(found, "HostnamePath"),
        resolver_file=_text(found, "ResolvConfPath"),
        layer=_text(data, "UpperDir"),
        merged=_text(data, "MergedDir"),
        image_volumes=tuple(
            (mount["Destination"], _text(mount, "Source"))
            for mount in _list(found, "Mounts")
            if mount.get("Type") == "volume" and mount["Destination"] not in requested
        ),
    )


def _read_health(found: Any) -> Health:
    outputs = tuple(_text(entry, "Output") for entry in _list(found, "Log"))
    return Health(_text(found, "Status"), _number(found, "FailingStreak"), outputs)


def read_network(found: Any) -> EngineNetwork:
    """Read an entry of NetworkList."""
    ranges = _list(_part(found, "IPAM"), "Config")
    return EngineNetwork(
        id=_text(found, "Id"),
        name=_text(found, "Name"),
        driver=_text(found, "Driver"),
        labels=Labels(_part(found, "Labels")),
        subnets=tuple(entry["Subnet"] for entry in ranges if entry.get("Subnet")),
    )


def read_volume(found: Any) -> Volume:
    """Read VolumeInspect."""
    labels = _part(found, "Labels")
    return Volume(found["Driver"], _part(found, "Options"), labels.get(LABEL_VOLUME))


def read_image(found: Any) -> Image:
    """Read ImageInspect."""
    config = _part(found, "Config")
    return Image(
        id=_text(found, "Id"),
        digests=tuple(sorted(_list(found, "RepoDigests"))),
        architecture=_text(found, "Architecture"),
        content=content_of(found),
        labels=Labels(_part(config, "Labels")),
        environment=_texts(config, "Env"),
        ports=_texts(config, "ExposedPorts"),
        volumes=_texts(config, "Volumes"),
    )


def read_info(found: Any, api_version: str) -> EngineInfo:
    """Read SystemInfo. api_version: that is spoken with the engine."""
    status, options = _list(found, "DriverStatus"), _texts(found, "SecurityOptions")
    return EngineInfo(
        version=_text(found, "ServerVersion"),
        api_version=api_version,
        architecture=_text(found, "Architecture"),
        cpus=1000 * _number(found, "NCPU"),
        memory=_number(found, "MemTotal"),
        limits_swap=bool(found.get("SwapLimit")),
        cdi=bool(found.get("CDISpecDirs")),
        options=options,
        remaps_users="name=userns" in options,
        runtimes={
            name: Runtime(_text(runtime, "path"), _texts(runtime, "runtimeArgs"))
            for name, runtime in _part(found, "Runtimes").items()
        },
        default_runtime=_text(found, "DefaultRuntime"),
        root=found.get("DockerRootDir") or "/var/lib/docker",
        image_store="containerd" if "containerd.snapshotter" in str(status) else "docker",
        storage_driver=_text(found, "Driver"),
        backing=dict(status).get("Backing Filesystem", ""),
        cgroup=found.get("CgroupVersion") or "1",
        live_restore=bool(found.get("LiveRestoreEnabled")),
        firewall=_text(_part(found, "FirewallBackend"), "Driver"),
    )
