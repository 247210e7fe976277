# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan: everything that must be true on the hosts for one session, as plain data that JSON can carry.

`build_plan` makes it from the request, the placement and the hosts' facts; `validate_plan` judges one that was read
back. The functions on facts turn what hosts report into what placement needs, and refuse what can only be judged by
looking at hosts.
"""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, cast

from ansible_collections.cluster_compute.session.plugins.module_utils.core.addressing import (
    addresses,
    choose_port,
    choose_ssh_port,
    choose_subnets,
    choose_vni,
    is_free,
    mac_of,
    outside,
    parse_port_pool,
    parse_ssh_ports,
    parse_subnet_pool,
    parse_vni_pool,
    prefix_for,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.cpus import Pinned, Topology, give_out
from ansible_collections.cluster_compute.session.plugins.module_utils.core.data import (
    DRIVERS,
    READS,
    ROOTS,
    WRITES,
    data_of_hosts,
    mount_problems,
    sharing_problems,
    some_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.detection import parse_site_devices
from ansible_collections.cluster_compute.session.plugins.module_utils.core.environment import LOGIN_PORT
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import (
    InvalidInput,
    InvalidPlan,
    Problem,
    show,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.images import (
    Need,
    is_image_id,
    repository_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import (
    LEASED,
    Claim,
    Reservation,
    Room,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.limits import NO_LIMITS, Limits
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.fields import MULTI_NODE, SINGLE_NODE
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.request import Request
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.values import (
    is_given,
    is_plain,
    parse_whole,
    split_list,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.paths import is_below
from ansible_collections.cluster_compute.session.plugins.module_utils.core.placement import (
    Capacity,
    Host,
    Placement,
    Shortfall,
    format_amount,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ports import EVERY_ADDRESS, ports_collide
from ansible_collections.cluster_compute.session.plugins.module_utils.core.record import is_session_id
from ansible_collections.cluster_compute.session.plugins.module_utils.core.resources import (
    PINNED,
    Devices,
    count_devices,
    format_cpus,
    format_memory,
    parse_cpus,
    parse_devices,
    parse_memory,
    same_device,
)

SCHEMA = 1
"""Version of the plan's form. A plan of a newer schema is refused, not guessed at."""

VXLAN_OVERHEAD_IPV4 = 50
VXLAN_OVERHEAD_IPV6 = 70
WIREGUARD_OVERHEAD_IPV4 = 60
"""Bytes that a tunnel puts around a packet: IP 20, UDP 8, type, receiver and counter 16, tag 16. A packet of the full
size is not padded (J. A. Donenfeld, WireGuard: Next Generation Kernel Network Tunnel, section 5.4.6)."""
WIREGUARD_OVERHEAD_IPV6 = 80
LEAST_MTU = 576
"""An underlay that leaves less than this for the session's network is refused."""
LEAST_TUNNEL_MTU = 1280
"""A tunnel carries IPv6, for which a link needs this much (RFC 8200, section 5)."""

BRIDGE = "bridge"
VXLAN = "vxlan"
SHOWN_HOSTS = 100
"""Hosts in the table of a shortfall; the totals count them all."""
INTERFACE = "eth1"
"""Name of the session's interface in every replica that has one; eth0 is the default network's."""

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
    """What a site sets for all sessions."""

    subnet_pool: str = "10.213.0.0/16"
    vni_pool: str = "4096-16777215"
    vxlan_port: int = 4789
    encrypted_ports: str = "61000-61999"
    topology_keys: tuple[str, ...] = ("zone", "rack")
    ssh_ports: str = "22000-22999"
    limits: Limits = NO_LIMITS
    image_ports: tuple[int, int] = (8480, 8489)

    @classmethod
    def from_variables(cls, variables: Mapping[str, Any]) -> Settings:
        """Read the ``cluster_compute_*`` variables, all problems together (InvalidInput); blank means the default."""
        problems: list[Problem] = []
        values: dict[str, Any] = {}

        def read(key: str, make: Callable[[str, Any], Any]) -> None:
            variable = "cluster_compute_" + key
            value = variables.get(variable)
            if is_given(value):
                try:
                    values[key] = make(variable, value)
                except InvalidInput as error:
                    problems.extend(error.problems)

        read("subnet_pool", lambda variable, value: str(parse_subnet_pool(value)))
        read("vni_pool", lambda variable, value: "{}-{}".format(*parse_vni_pool(value)))
        read("vxlan_port", lambda variable, value: parse_whole(variable, value, 1, 65535))
        read("encrypted_ports", lambda variable, value: "{}-{}".format(*parse_port_pool(value)))
        read("topology_keys", _topology_keys)
        read("ssh_ports", lambda variable, value: "{}-{}".format(*parse_ssh_ports(value)))
        read("limits", lambda _variable, value: Limits.from_variable(value))
        read("image_ports", _port_range)
        if problems:
            raise InvalidInput(problems)
        return cls(**values)


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


def hosts_from_facts(
    facts_by_host: Mapping[str, Mapping[str, Any]],
    inventory_vars_by_host: Mapping[str, Mapping[str, Any]],
    ignore_session: str | None = None,
    with_undecided: bool = True,
) -> list[Host]:
    """Return the usable hosts, in the order of *facts_by_host*, which is the inventory's.

    Allocatable is what ``cluster_compute_cpus`` and ``cluster_compute_memory`` say; where they say nothing, what was
    detected less ``cluster_compute_reserved_*``. Free is that less what the host's ledger holds and less what
    labelled containers hold that the ledger does not know, running or not.
    ignore_session: name of the session being placed, whose own share does not count against it. with_undecided:
    whether leases count, whose sessions do not know yet whether they start.
    Raises InvalidInput naming host, variable and value.
    """
    hosts = []
    problems: list[Problem] = []
    for name, facts in facts_by_host.items():
        if not facts.get("usable"):
            continue
        try:
            hosts.append(_host(name, facts, inventory_vars_by_host.get(name, {}), ignore_session, with_undecided))
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return hosts


def _host(
    name: str,
    facts: Mapping[str, Any],
    variables: Mapping[str, Any],
    ignore_session: str | None,
    with_undecided: bool,
) -> Host:
    problems: list[Problem] = []

    def read(key: str, make: Callable[[Any], Any], default: Any) -> Any:
        variable = "cluster_compute_" + key
        value = variables.get(variable)
        if not is_given(value):
            return default
        try:
            return make(value)
        except ValueError as error:
            problems.append(Problem(f"{variable} of host {name}", value, str(error)))
            return default

    capacity = facts.get("capacity") or {}
    cpus = read("cpus", parse_cpus, None)
    memory = read("memory", parse_memory, None)
    reserved_cpus = read("reserved_cpus", lambda value: parse_cpus(value, minimum=0), 0)
    reserved_memory = read("reserved_memory", lambda value: parse_memory(value, minimum=0), 0)
    if cpus is None:
        cpus = max(0, int(capacity.get("cpus", 0)) - reserved_cpus)
    if memory is None:
        memory = max(0, int(capacity.get("memory", 0)) - reserved_memory)
    pinnable = Topology.from_facts(facts.get("topology") or {}).last(cpus // 1000)
    engine = facts.get("engine") or {}
    parse = partial(
        parse_site_devices,
        found=facts.get("accelerators") or {},
        has_cdi=bool(engine.get("cdi")),
        engine=str(engine.get("version")),
    )
    devices = read("accelerators", parse, ()) + (((PINNED, pinnable.names),) if pinnable.cores else ())
    labels = read("labels", _labels, ())
    limit = read("max_replicas", _limit, None)
    if problems:
        raise InvalidInput(problems)
    held = held_claims(facts, ignore_session, with_undecided)
    taken = [device for claim in held for _kind, names in claim.devices for device in names]
    free_devices = tuple(
        (kind, tuple(one for one in names if not any(same_device(one, other) for other in taken)))
        for kind, names in devices
    )
    free_cores = pinnable.among(dict(free_devices).get(PINNED, ()))
    free_devices = tuple((kind, free_cores.names if kind == PINNED else names) for kind, names in free_devices)
    return Host(
        name=name,
        allocatable=Capacity(cpus, memory, _counts(devices, len(pinnable.cores) * pinnable.threads)),
        free=Capacity(
            max(0, cpus - sum(claim.cpus for claim in held)),
            max(0, memory - sum(claim.memory for claim in held)),
            _counts(free_devices, len(free_cores.cores) * pinnable.threads),
        ),
        labels=labels,
        max_replicas=None if limit is None else max(0, limit - sum(claim.replicas for claim in held)),
        replica_limit=limit,
        devices=devices,
        free_devices=free_devices,
        threads=pinnable.threads,
    )


def _counts(devices: Devices, pinnable: int) -> tuple[tuple[str, int], ...]:
    """Return how many there are of each class; of the CPUs so many as replicas can be given."""
    return tuple((kind, pinnable if kind == PINNED else count) for kind, count in count_devices(devices))


def held_claims(facts: Mapping[str, Any], ignore_session: str | None, with_undecided: bool) -> list[Claim]:
    """Return what sessions hold of a host: its ledger's claims, and containers that the ledger does not know."""
    reservations = [Reservation.from_dict(entry) for entry in facts.get("reservations") or ()]
    known = {reservation.claim.session_id for reservation in reservations}
    claims = [held.claim for held in reservations if with_undecided or held.stage != LEASED]
    for container in facts.get("containers") or ():
        if container.get("session_id") not in known:
            claims.append(
                Claim(
                    session_id=str(container.get("session_id") or "unknown"),
                    session_name=str(container.get("session_name") or ""),
                    replicas=1,
                    cpus=int(container.get("cpus") or 0),
                    memory=int(container.get("memory") or 0),
                    devices=tuple(
                        (kind, tuple(names)) for kind, names in sorted((container.get("devices") or {}).items())
                    ),
                )
            )
    return [claim for claim in claims if ignore_session is None or claim.session_name != ignore_session]


def room_of(host: Host) -> Room:
    """Return what sessions may use of a host in all, as its ledger has to know it."""
    return Room(host.allocatable.cpus, host.allocatable.memory, host.devices, host.replica_limit)


def _labels(value: Any) -> tuple[tuple[str, str], ...]:
    allowed = "It must be a mapping of labels to text, such as {rack: r1, zone: z1}."
    if not isinstance(value, Mapping):
        raise ValueError(allowed)
    labels = []
    for key, text in value.items():
        if isinstance(text, int) and not isinstance(text, bool):
            text = str(text)
        if not isinstance(key, str) or not isinstance(text, str) or not is_plain(key) or not is_plain(text):
            raise ValueError(allowed)
        labels.append((key, text))
    return tuple(sorted(labels))


def _limit(value: Any) -> int:
    try:
        return parse_whole("", value, 0, 1_000_000)
    except InvalidInput as error:
        raise ValueError(error.problems[0].message) from None


def check_request_fits_idle(request: Request, hosts: Sequence[Host]) -> None:
    """Refuse a request for a replica that is larger than every host, even an idle one.

    Raises InvalidInput naming variable, value and the most that any host offers.
    """
    allowed = [
        host
        for host in hosts
        if (not request.hosts or host.name in request.hosts) and host.name not in request.excluded_hosts
    ]
    problems = []
    for role in request.roles:
        asked = role.resources
        rooms = [host.allocatable for host in allowed]
        for variable, amount, most, form in (
            ("session_cpus", asked.cpus, max((room.cpus for room in rooms), default=0), format_cpus),
            ("session_memory", asked.memory, max((room.memory for room in rooms), default=0), format_memory),
        ):
            if allowed and amount > most:
                problems.append(
                    Problem(
                        variable,
                        form(amount),
                        f"A replica of role {role.name} is larger than every host of the group; the largest offers "
                        f"{form(most)} to sessions.",
                    )
                )
    if problems:
        raise InvalidInput(problems)


def check_request_against_hosts(
    request: Request,
    facts_by_host: Mapping[str, Mapping[str, Any]],
    placement: Placement | None = None,
    current: Mapping[str, Any] | None = None,
    inventory: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Refuse what the hosts say cannot be: mounts that the site does not allow or that are missing, ports that are
    taken, names of other containers.

    placement: with it only the used hosts are looked at, and ports on main1's host; without it mounts are looked for
    on every usable host that the request allows, addresses on any of them, and what is taken is left for later.
    current: the plan of the same session where it runs already, whose own ports are not in the way. inventory:
    variables of each host, `HOST_VARIABLES`.
    Raises InvalidInput with every problem, naming host, variable and value.
    """
    problems: list[Problem] = []
    if placement is not None:
        names = list(placement.hosts)
    else:
        names = [
            name
            for name, facts in facts_by_host.items()
            if facts.get("usable")
            and (not request.hosts or name in request.hosts)
            and name not in request.excluded_hosts
        ]
    problems += mount_problems(request, names, facts_by_host, inventory or {})
    problems += _address_problems(request, names, facts_by_host, placement)
    if placement is not None:
        problems += sharing_problems(request, names, facts_by_host)
        problems += _encryption_problems(request, placement, facts_by_host)
        main_host = placement.assignments[0][1]
        own = _own_ports(current, main_host)
        wanted = [("session_ports", port.host_ip, port.host_port, port.protocol) for port in request.ports]
        if request.ssh_port is not None:
            wanted.append(("session_ssh_port", EVERY_ADDRESS, request.ssh_port, "tcp"))
        for variable, address, number, protocol in wanted:
            for taken in facts_by_host[main_host].get("ports") or ():
                there = (str(taken.get("address", "")), int(taken["port"]), str(taken.get("protocol", "tcp")))
                if (number, protocol) not in own and ports_collide(address, number, protocol, *there):
                    another = "another host_port" if variable == "session_ports" else "another port, or none"
                    problems.append(
                        Problem(
                            variable,
                            f"{address}:{number}/{protocol}",
                            f"This port is taken on {main_host}, the host of main1. Choose {another}.",
                        )
                    )
                    break
        for replica, host in placement.assignments:
            name = f"{request.name}-{replica}"
            for owner in _owners(facts_by_host[host], name, request.name):
                problems.append(
                    Problem(
                        "session_name",
                        request.name,
                        f"The container of replica {replica} would be {name}, which {owner} has on {host} already. "
                        "Choose another name, or rename that container.",
                    )
                )
    if problems:
        raise InvalidInput(problems)


def _address_problems(
    request: Request,
    names: Sequence[str],
    facts_by_host: Mapping[str, Mapping[str, Any]],
    placement: Placement | None,
) -> list[Problem]:
    """Return which addresses to publish at main1's host does not have; without a placement, none of *names*."""
    problems = []
    for port in request.ports:
        address = ipaddress.ip_address(port.host_ip)
        if address.is_unspecified or (address.version == 4 and address.is_loopback):
            continue
        having = [name for name, facts in facts_by_host.items() if port.host_ip in (facts.get("addresses") or ())]
        main_host = placement.assignments[0][1] if placement is not None else None
        if main_host in having or (main_host is None and any(name in having for name in names)):
            continue
        why = f"None of {some_of(names)} has this address."
        if main_host is not None:
            why = f"main1 would run on {main_host}, which does not have this address."
        hint = f" Hosts that have it: {some_of(having)}; name one in session_hosts." if having else ""
        problems.append(Problem("session_ports", f"{port.host_ip}:{port.host_port}/{port.protocol}", why + hint))
    return problems


def _encryption_problems(
    request: Request, placement: Placement, facts_by_host: Mapping[str, Mapping[str, Any]]
) -> list[Problem]:
    """Return which hosts cannot do what a request for encryption needs of them; on one host nothing is needed."""
    if not request.encrypted or len(placement.hosts) == 1:
        return []
    return [
        Problem(
            "session_encrypted",
            True,
            f"Host {host} cannot do it: {why} Or leave the host out with session_excluded_hosts, or leave out "
            "session_encrypted.",
        )
        for host in placement.hosts
        if (why := facts_by_host[host].get("encryption", "Nobody looked whether it can."))
    ]


def _owners(facts: Mapping[str, Any], container: str, session: str) -> list[str]:
    """Return who else than *session* has a container of this name on a host."""
    owners = [
        f"session {one.get('session_name')}"
        for one in facts.get("containers") or ()
        if one.get("name") == container and one.get("session_name") != session
    ]
    return owners + ["somebody else" for name in facts.get("foreign_containers") or () if name == container]


def _own_ports(current: Mapping[str, Any] | None, host: str) -> set[tuple[int, str]]:
    replicas = current.get("replicas", ()) if current is not None else ()
    return {
        (port["host_port"], port["protocol"])
        for replica in replicas
        if replica["host"] == host
        for port in replica["ports"]
    }


def kernel_id(session_id: str, replica: str) -> str:
    """The id of one replica: main1's is the session's, the others follow from the session's and the name."""
    return session_id if replica == "main1" else str(uuid.uuid5(uuid.UUID(session_id), replica))


def build_plan(
    request: Request,
    placement: Placement,
    session_id: str,
    hosts_facts: Mapping[str, Mapping[str, Any]],
    settings: Settings,
    current: Mapping[str, Any] | None = None,
    free_devices: Mapping[str, Devices] | None = None,
    inventory: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the plan of a session.

    session_id: a UUID in its usual form, new for a new session. hosts_facts: what every usable host of the resource
    group reports; subnets and identifiers in use on any of them are avoided. current: the plan of the same session,
    or of the one that it replaces, where there is one already; if it is the same, its subnets and identifier are kept
    as far as the new plan needs the same, and what it has published is not in the way of either.
    free_devices: by host, the accelerators and CPUs that the session may have for itself; the first of each class go to
    the first ranks. inventory: variables of each host, `HOST_VARIABLES`.
    Raises ValueError for an id that is no UUID, InvalidInput and PoolExhausted.
    """
    if str(uuid.UUID(session_id)) != session_id:
        raise ValueError(f"The session id {session_id} is not written in the usual form of a UUID.")
    id8 = session_id[:8]
    host_of = dict(placement.assignments)
    per_host: dict[str, int] = {}
    for _replica, host in placement.assignments:
        per_host[host] = per_host.get(host, 0) + 1
    in_use = {subnet for facts in hosts_facts.values() for subnet in facts.get("subnets") or ()}
    network, egress = _networks(
        request, placement, session_id, hosts_facts, settings, in_use, max(per_host.values()), current
    )
    main_host = placement.assignments[0][1]
    ssh_port = _ssh_port(request, session_id, main_host, hosts_facts[main_host], settings, current)
    free = free_devices or {}
    pinned = _pin(request, host_of, hosts_facts, free)
    entries = _entries(request, session_id, host_of, placement.node_order, network, free, pinned, ssh_port)
    data = data_of_hosts(request, placement.hosts, hosts_facts, inventory or {})
    hosts = {}
    for host in placement.hosts:
        underlay = hosts_facts[host].get("underlay") or {}
        hosts[host] = {
            "underlay_address": underlay.get("address"),
            "underlay_interface": underlay.get("interface"),
            "tunnel_address": _tunnel_address(network, placement.node_order.index(host)),
            "replicas": [entry["name"] for entry in entries if entry["host"] == host],
            **data[host],
        }
    return {
        "schema": SCHEMA,
        "session": {
            "id": session_id,
            "name": request.name,
            "mode": placement.mode,
            "requested_mode": request.mode,
            "size": request.size,
            "resource_group": request.resource_group,
        },
        "request": request.to_dict(),
        "network": network,
        "egress": {"name": f"cc-{id8}-egress", "subnet": egress},
        "ssh_port": ssh_port,
        "hosts": hosts,
        "images": {
            reference: {"digest": None, "ids": dict.fromkeys(names)} for reference, names in images_of(entries).items()
        },
        "replicas": entries,
    }


def _tunnel_address(network: Mapping[str, Any] | None, node_rank: int) -> str | None:
    """Return a host's address inside the tunnel of an encrypted session, a link-local one (RFC 4291, section 2.5.6).

    The kernel takes packets for a VXLAN device with such an address from the link it was made for and from no other.
    """
    return f"fe80::{node_rank + 1:x}" if network is not None and network["tunnel"] is not None else None


def images_of(entries: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return for each image reference of a plan's replicas the hosts that run it, both in the order of the ranks."""
    used: dict[str, dict[str, None]] = {}
    for entry in entries:
        used.setdefault(entry["image"], {})[entry["host"]] = None
    return {reference: list(hosts) for reference, hosts in used.items()}


def with_images(plan: Mapping[str, Any], needs: Iterable[Need]) -> dict[str, Any]:
    """Return the plan with what its image references mean, as far as that is settled."""
    return {**plan, "images": {need.reference: need.pinned() for need in needs}}


def _entries(
    request: Request,
    session_id: str,
    host_of: Mapping[str, str],
    node_order: Sequence[str],
    network: Mapping[str, Any] | None,
    free_devices: Mapping[str, Devices],
    pinned: Mapping[str, Pinned],
    ssh_port: int | None,
) -> list[dict[str, Any]]:
    """Return the plan's entry of every replica, in rank order."""
    replicas = request.replicas()
    names = tuple(name for name, role, index in replicas)
    given_addresses: Sequence[str | None] = [None] * len(names)
    if network is not None:
        given_addresses = addresses(network["subnet"], len(names))
    node_rank = {host: rank for rank, host in enumerate(node_order)}
    there: dict[str, int] = {}
    left = {host: {kind: list(names) for kind, names in devices} for host, devices in free_devices.items()}
    plain = request.to_dict()
    ports = list(plain["ports"])
    if ssh_port is not None:
        ports.append({"host_ip": EVERY_ADDRESS, "host_port": ssh_port, "container_port": LOGIN_PORT, "protocol": "tcp"})
    entries = []
    for rank, ((name, role, index), address) in enumerate(zip(replicas, given_addresses)):
        host = host_of[name]
        local_rank = there.get(host, 0)
        there[host] = local_rank + 1
        kernel = kernel_id(session_id, name)
        devices = {kind: _take(left.get(host, {}), kind, count) for kind, count in role.resources.accelerators}
        own = pinned.get(name, Pinned())
        if role.resources.pin_cpus:
            devices[PINNED] = list(own.cpus)
        entries.append(
            {
                "name": name,
                "role": role.name,
                "index": index,
                "rank": rank,
                "host": host,
                "local_rank": local_rank,
                "node_rank": node_rank[host],
                "kernel_id": kernel,
                "address": address,
                "mac": None if address is None else mac_of(address),
                "container": f"{request.name}-{name}",
                "image": role.image,
                "resources": role.resources.to_dict(),
                "devices": devices,
                "memory_nodes": list(own.memory_nodes),
                "command": None if role.command is None else list(role.command),
                "capabilities": list(role.capabilities),
                "memlock": role.memlock,
                "ports": [dict(port) for port in ports] if rank == 0 else [],
                "mounts": [dict(mount) for mount in plain["mounts"]],
            }
        )
    return entries


def _ssh_port(
    request: Request,
    session_id: str,
    host: str,
    facts: Mapping[str, Any],
    settings: Settings,
    current: Mapping[str, Any] | None,
) -> int | None:
    """Return the port of main1's host at which the owner logs in; None where nobody's keys are given."""
    if not request.authorized_keys or request.ssh_port is not None:
        return request.ssh_port
    own = _own_ports(current, host)
    taken = {int(one["port"]) for one in facts.get("ports") or () if (int(one["port"]), "tcp") not in own}
    taken |= {port.host_port for port in request.ports}
    return choose_ssh_port(settings.ssh_ports, taken, session_id)


def _pin(
    request: Request,
    host_of: Mapping[str, str],
    hosts_facts: Mapping[str, Mapping[str, Any]],
    free_devices: Mapping[str, Devices],
) -> dict[str, Pinned]:
    """Return the CPUs that each replica is given for itself. Raises ValueError where a host has too few."""
    asked: dict[str, list[tuple[str, int, int]]] = {}
    for name, role, _index in request.replicas():
        if role.resources.pin_cpus:
            amount = (name, role.resources.cpus // 1000, role.resources.memory)
            asked.setdefault(host_of[name], []).append(amount)
    pinned: dict[str, Pinned] = {}
    for host, replicas in asked.items():
        topology = Topology.from_facts(hosts_facts[host].get("topology") or {})
        free = topology.among(dict(free_devices.get(host, ())).get(PINNED, ()))
        pinned.update(give_out(free, replicas))
    return pinned


def _take(left: dict[str, list[str]], kind: str, count: int) -> list[str]:
    """Return the first names of a class, which are gone from what is left. Raises ValueError where there are fewer."""
    names = left.get(kind, [])
    if len(names) < count:
        raise ValueError(f"There are {len(names)} of {kind} on the host where {count} are expected.")
    left[kind] = names[count:]
    return names[:count]


def _networks(
    request: Request,
    placement: Placement,
    session_id: str,
    hosts_facts: Mapping[str, Mapping[str, Any]],
    settings: Settings,
    in_use: set[str],
    most_on_a_host: int,
    current: Mapping[str, Any] | None,
) -> tuple[dict[str, Any] | None, str]:
    """Return the session's network (None for one replica) and the subnet of the egress network."""
    id8 = session_id[:8]
    kept = current if current is not None and current["session"]["id"] == session_id else None
    old = kept["network"] if kept is not None else None
    if kept is not None:
        # The session's own networks are in use by itself.
        own = [kept["egress"]["subnet"], *([old["subnet"]] if old else [])]
        in_use = outside(in_use, own)
    network: dict[str, Any] | None = None
    if request.size > 1:
        driver = VXLAN if len(placement.hosts) > 1 else BRIDGE
        subnet = _kept_subnet(old["subnet"] if old else None, request.size, settings, in_use)
        if subnet is None:
            subnet = choose_subnets(settings.subnet_pool, 1, request.size, in_use, session_id)[0]
        network = {
            "driver": driver,
            "name": f"cc-{id8}",
            "subnet": subnet,
            "interface": INTERFACE,
            "mtu": None,
            "vni": None,
            "port": None,
            "link": None,
            "tunnel": None,
        }
        in_use = in_use | {subnet}
        if driver == VXLAN:
            vnis = {int(vni) for facts in hosts_facts.values() for vni in facts.get("vnis") or ()}
            vni = old["vni"] if old else None
            if vni is None:
                vni = choose_vni(settings.vni_pool, vnis, session_id)
            underlays = {host: hosts_facts[host].get("underlay") or {} for host in placement.hosts}
            mtu = overlay_mtu(underlays, request.encrypted)
            network.update(mtu=mtu, vni=vni, port=settings.vxlan_port, link=f"ccx{id8}")
            if request.encrypted:
                tunnel = {
                    "link": f"cct{id8}",
                    "mtu": mtu + VXLAN_OVERHEAD_IPV6,
                    "vxlan_port": settings.vxlan_port,
                }
                network.update(port=_tunnel_port(request, session_id, hosts_facts, settings, old), tunnel=tunnel)
    egress = _kept_subnet(kept["egress"]["subnet"] if kept else None, most_on_a_host, settings, in_use)
    if egress is None:
        egress = choose_subnets(settings.subnet_pool, 1, most_on_a_host, in_use, session_id)[0]
    return network, egress


def _tunnel_port(
    request: Request,
    session_id: str,
    hosts_facts: Mapping[str, Mapping[str, Any]],
    settings: Settings,
    old: Mapping[str, Any] | None,
) -> int:
    """Return the UDP port of a session's tunnel: the one it has, else one that no host has in use."""
    if old is not None and old["tunnel"] is not None:
        return int(old["port"])
    taken = {settings.vxlan_port, *(port.host_port for port in request.ports)}
    taken.update(int(port["port"]) for facts in hosts_facts.values() for port in facts.get("ports") or ())
    return choose_port(settings.encrypted_ports, taken, session_id)


def _kept_subnet(subnet: str | None, replicas: int, settings: Settings, in_use: Iterable[str]) -> str | None:
    """The subnet the session has, if a new choice would be of the same size and pool, and nothing else uses it."""
    if subnet is None or subnet.partition("/")[2] != str(prefix_for(replicas)):
        return None
    return subnet if is_free(settings.subnet_pool, subnet, in_use) else None


def overlay_mtu(underlays: Mapping[str, Mapping[str, Any]], encrypted: bool = False) -> int:
    """Return the MTU of a VXLAN over these hosts' underlays: the least of them less the overhead of VXLAN.

    underlays: for each host its underlay's address, interface and mtu. encrypted: whether the VXLAN lies in a tunnel,
    which has an overhead of its own, and inside which it goes over IPv6.
    Raises InvalidInput where one is unknown, they mix IPv4 with IPv6, or an MTU leaves too little.
    """
    problems = []
    versions: dict[str, int] = {}
    for host, underlay in underlays.items():
        address, mtu = underlay.get("address"), underlay.get("mtu")
        if not isinstance(address, str) or isinstance(mtu, bool) or not isinstance(mtu, int):
            problems.append(
                Problem(
                    f"cluster_compute_underlay_address of host {host}",
                    address,
                    "The address by which the hosts reach each other is unknown, or no interface has it. Set it.",
                )
            )
            continue
        versions[host] = 6 if ":" in address else 4
        left = mtu - _overhead(versions[host], encrypted)
        least = LEAST_TUNNEL_MTU - VXLAN_OVERHEAD_IPV6 if encrypted else LEAST_MTU
        if left < least:
            problems.append(
                Problem(
                    f"MTU of {underlay.get('interface')} on host {host}",
                    mtu,
                    f"It leaves {left} bytes for the session's network; at least {least} are needed.",
                )
            )
    if len(set(versions.values())) > 1:
        mixed = ", ".join(f"{host} {underlays[host]['address']}" for host in versions)
        problems.append(
            Problem(
                "cluster_compute_underlay_address", mixed, "The hosts of a session must all have IPv4, or all IPv6."
            )
        )
    if problems:
        raise InvalidInput(problems)
    overhead = _overhead(max(versions.values()), encrypted)
    return min(int(underlay["mtu"]) for underlay in underlays.values()) - overhead


def _overhead(version: int, encrypted: bool) -> int:
    """Return the bytes around a packet of the session's network on an underlay of this version of IP."""
    if encrypted:
        return VXLAN_OVERHEAD_IPV6 + (WIREGUARD_OVERHEAD_IPV6 if version == 6 else WIREGUARD_OVERHEAD_IPV4)
    return VXLAN_OVERHEAD_IPV6 if version == 6 else VXLAN_OVERHEAD_IPV4


def render_shortfall(shortfall: Shortfall) -> list[str]:
    """Return why a request is pending as lines of text: a table of hosts and resources, and what would fit.

    Of very many hosts only the first are in the table.
    """
    whole = shortfall.mode == SINGLE_NODE
    what = "the whole session" if whole else "one replica"
    rows = [("host", "resource", "asked", "free", "missing", "replicas that fit")]
    for entry in shortfall.hosts[:SHOWN_HOSTS]:
        rows.extend(
            (
                entry.host,
                row.resource,
                format_amount(row.resource, row.asked),
                format_amount(row.resource, row.free),
                format_amount(row.resource, row.missing),
                str(entry.fits) if number == 0 else "",
            )
            for number, row in enumerate(entry.resources)
        )
    rows.extend(
        (
            "all hosts",
            row.resource,
            format_amount(row.resource, row.asked),
            format_amount(row.resource, row.free),
            format_amount(row.resource, row.missing),
            "",
        )
        for number, row in enumerate(shortfall.total)
    )
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = [
        f"{_replicas(shortfall.size)} asked, mode {shortfall.mode}: not enough room now. "
        f"Asked per host is {what}; the last rows compare the whole session with all hosts together."
    ]
    if len(shortfall.hosts) > SHOWN_HOSTS:
        lines.append(f"Of {len(shortfall.hosts)} hosts the first {SHOWN_HOSTS} in inventory order are shown.")
    lines.extend("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
    if shortfall.largest_size:
        lines.append(f"Largest size that fits now in mode {shortfall.mode}: {shortfall.largest_size}.")
    else:
        lines.append("Not even main1 fits now.")
    if not shortfall.when_idle:
        lines.append("It would not fit if no other session held anything either: ask for less, or add hosts.")
    if not shortfall.proven:
        lines.append(
            "The search for a placement of so many different roles was given up, so one may exist. "
            "Fewer different amounts of resources among the roles make it certain."
        )
    return lines


def _replicas(number: int) -> str:
    return "1 replica" if number == 1 else f"{number} replicas"


_PLAN_KEYS = ("schema", "session", "request", "network", "egress", "ssh_port", "hosts", "images", "replicas")
_HOST_KEYS = ("underlay_address", "underlay_interface", "tunnel_address", "replicas", "mount_roots", "data")
_NETWORK_KEYS = ("driver", "name", "subnet", "interface", "mtu", "vni", "port", "link", "tunnel")


class _Checker:
    def __init__(self) -> None:
        self.problems: list[str] = []

    def expect(self, good: bool, place: str, value: object, wanted: str) -> bool:
        if not good:
            self.problems.append(f"The plan's {place} is {show(value)}, where {wanted} is expected.")
        return good

    def equal(self, place: str, value: object, wanted: object) -> bool:
        # Ansible hands over subclasses of text, lists and mappings; only truth values must not pass for numbers.
        same = value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
        return self.expect(same, place, value, "nothing" if wanted is None else show(wanted))

    def keys(self, place: str, value: object, keys: Iterable[str]) -> bool:
        if not isinstance(value, Mapping):
            return self.expect(False, place, value, "a mapping")
        wanted = list(keys)
        missing = [key for key in wanted if key not in value]
        unknown = [str(key) for key in value if key not in wanted]
        self.expect(not missing, f"{place} without {', '.join(missing)}", "incomplete", "every key")
        self.expect(not unknown, f"{place} with {show(', '.join(unknown))}", "strange", "no other key")
        return not missing and not unknown


def validate_plan(plan: object) -> None:
    """Judge a plan that was read back from a record.

    Raises InvalidPlan: for a newer schema by its number, else with one sentence for each place that is malformed.
    """
    check = _Checker()
    if not isinstance(plan, Mapping):
        raise InvalidPlan([f"The plan is {show(plan)}, where a mapping is expected."])
    schema = plan.get("schema")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise InvalidPlan(
            [f"The plan's schema is {show(schema)}, where a whole number from 1 to {SCHEMA} is expected."]
        )
    if schema > SCHEMA:
        raise InvalidPlan(
            [
                f"The plan has schema {schema}, which a newer release of the collection wrote; this one reads up to "
                f"schema {SCHEMA}. Use the newer release for this session."
            ],
            schema,
        )
    if not check.keys("top level", plan, _PLAN_KEYS):
        raise InvalidPlan(check.problems)
    try:
        request = Request.from_dict(plan["request"])
    except InvalidInput as error:
        raise InvalidPlan(f"The plan's request is malformed: {problem}" for problem in error.problems) from None
    _check_session(check, plan, request)
    if not check.problems:
        _check_replicas(check, plan, request)
    if check.problems:
        raise InvalidPlan(check.problems)


def _check_session(check: _Checker, plan: Mapping[str, Any], request: Request) -> None:
    """Judge everything but the replicas."""
    session, network, egress, hosts = plan["session"], plan["network"], plan["egress"], plan["hosts"]
    if not check.keys("session", session, ("id", "name", "mode", "requested_mode", "size", "resource_group")):
        return
    if not check.expect(is_session_id(session["id"]), "session.id", session["id"], "a UUID"):
        return
    id8 = session["id"][:8]
    if not check.expect(isinstance(hosts, Mapping) and len(hosts) > 0, "hosts", hosts, "a mapping of the used hosts"):
        return
    multi = len(hosts) > 1
    for key, value in (
        ("name", request.name),
        ("requested_mode", request.mode),
        ("mode", MULTI_NODE if multi else SINGLE_NODE),
        ("size", request.size),
        ("resource_group", request.resource_group),
    ):
        check.equal(f"session.{key}", session[key], value)
    for name, entry in hosts.items():
        if check.keys(f"hosts.{name}", entry, _HOST_KEYS):
            _check_data(check, f"hosts.{name}", entry, request)
            for key in ("underlay_address", "underlay_interface"):
                good = _is_word(entry[key]) or (entry[key] is None and not multi)
                check.expect(good, f"hosts.{name}.{key}", entry[key], "text")
    if not check.problems:
        _check_proofs(check, hosts, request)
    if check.keys("egress", egress, ("name", "subnet")):
        check.equal("egress.name", egress["name"], f"cc-{id8}-egress")
        check.expect(_is_subnet(egress["subnet"]), "egress.subnet", egress["subnet"], "an IPv4 network")
    port = plan["ssh_port"]
    if request.ssh_port is not None or not request.authorized_keys:
        check.equal("ssh_port", port, request.ssh_port)
    else:
        check.expect(_is_whole(port, 1, 65535), "ssh_port", port, "a port")
    if network is None or request.size == 1:
        check.expect(
            network is None and request.size == 1, "network", network, "one where, and only where, there are peers"
        )
    elif check.keys("network", network, _NETWORK_KEYS):
        check.equal("network.driver", network["driver"], VXLAN if multi else BRIDGE)
        check.equal("network.name", network["name"], f"cc-{id8}")
        check.equal("network.interface", network["interface"], INTERFACE)
        check.equal("network.link", network["link"], f"ccx{id8}" if multi else None)
        check.expect(_is_subnet(network["subnet"]), "network.subnet", network["subnet"], "an IPv4 network")
        for key, most in (("mtu", 65535), ("vni", 2**24 - 1), ("port", 65535)):
            good = _is_whole(network[key], 1, most) if multi else network[key] is None
            check.expect(good, f"network.{key}", network[key], f"a number up to {most}" if multi else "none")
        _check_tunnel(check, network, hosts, id8, multi and request.encrypted)


def _check_tunnel(
    check: _Checker, network: Mapping[str, Any], hosts: Mapping[str, Any], id8: str, encrypted: bool
) -> None:
    """Judge the tunnel, which is there for encrypted sessions on several hosts and for no others."""
    tunnel = network["tunnel"]
    addresses = [entry.get("tunnel_address") for entry in hosts.values() if isinstance(entry, Mapping)]
    if not encrypted:
        check.equal("network.tunnel", tunnel, None)
        check.expect(all(one is None for one in addresses), "hosts' tunnel_address", addresses, "nothing")
    elif check.keys("network.tunnel", tunnel, ("link", "mtu", "vxlan_port")):
        check.equal("network.tunnel.link", tunnel["link"], f"cct{id8}")
        wanted = network["mtu"] + VXLAN_OVERHEAD_IPV6 if _is_whole(network["mtu"], 1, 65535) else None
        check.equal("network.tunnel.mtu", tunnel["mtu"], wanted)
        port = tunnel["vxlan_port"]
        check.expect(_is_whole(port, 1, 65535), "network.tunnel.vxlan_port", port, "a number up to 65535")
        good = all(isinstance(one, str) and re.fullmatch("fe80::[0-9a-f]{1,4}", one) for one in addresses)
        good = good and len(set(addresses)) == len(hosts)
        check.expect(good, "hosts' tunnel_address", addresses, "a link-local address for each")


def _check_data(check: _Checker, place: str, entry: Mapping[str, Any], request: Request) -> None:
    """Judge what the plan says of one host's paths."""
    roots, data = entry["mount_roots"], entry["data"]
    mounts = {mount.source: mount for mount in request.mounts if mount.source is not None}
    good = isinstance(roots, list) and all(_is_word(root) and root.startswith("/") for root in roots)
    if not check.expect(good, f"{place}.mount_roots", roots, "a list of folders"):
        return
    for root in roots:
        check.expect(any(is_below(path, root) for path in mounts), f"{place}.mount_roots", root, "one that is needed")
    if not check.keys(f"{place}.data", data, mounts):
        return
    for source in mounts:
        where = f"{place}.data.{source}"
        check.expect(any(is_below(source, root) for root in roots), where, source, "a path below one of the roots")
        if check.keys(where, data[source], ("filesystem", "proof")):
            good = _is_word(data[source]["filesystem"])
            check.expect(good, f"{where}.filesystem", data[source]["filesystem"], "a type")


def _check_proofs(check: _Checker, hosts: Mapping[str, Any], request: Request) -> None:
    """Judge who proves that a folder is shared: nobody, or one who writes and all others read."""
    for mount in request.mounts:
        if mount.source is not None:
            proofs = [entry["data"][mount.source]["proof"] for entry in hosts.values()]
            shared = len(hosts) > 1 and mount.shared is not False
            some = shared and proofs.count(WRITES) == 1 and proofs.count(READS) == len(hosts) - 1
            good = some or all(proof is None for proof in proofs)
            check.expect(good, f"proof of {mount.source}", proofs, "one host that writes, the others that read")


def _check_replicas(check: _Checker, plan: Mapping[str, Any], request: Request) -> None:
    """Make the entries anew from request, hosts and network, and compare."""
    replicas, hosts = plan["replicas"], plan["hosts"]
    names = [name for name, role, index in request.replicas()]
    if not check.expect(
        isinstance(replicas, list) and [r.get("name") if isinstance(r, Mapping) else r for r in replicas] == names,
        "replicas",
        replicas,
        f"a list of {show(', '.join(names))}",
    ):
        return
    host_of = {replica["name"]: replica.get("host") for replica in replicas}
    for name, host in host_of.items():
        if not check.expect(isinstance(host, str) and host in hosts, f"host of {name}", host, "one of its hosts"):
            return
    ranks: dict[str, str] = {show(replica.get("node_rank")): replica["host"] for replica in reversed(replicas)}
    order = [ranks.get(str(rank), "") for rank in range(len(hosts))]
    good = len(ranks) == len(hosts) and set(order) == set(hosts) and order[0] == host_of[names[0]]
    if not check.expect(good, "node_rank", sorted(ranks), "one number a host, main1's host first,"):
        return
    try:
        devices, pinned = _devices_by_host(replicas, hosts), _pinned_in(request, replicas)
        network, ssh_port = plan["network"], plan["ssh_port"]
        entries = _entries(request, plan["session"]["id"], host_of, order, network, devices, pinned, ssh_port)
    except ValueError as error:
        check.problems.append(str(error))
        return
    for replica, wanted in zip(replicas, entries):
        place = f"replica {wanted['name']}"
        if check.keys(place, replica, wanted):
            for key, value in wanted.items():
                check.equal(f"{place}.{key}", replica[key], value)
    for name, entry in hosts.items():
        check.equal(f"hosts.{name}.replicas", entry["replicas"], [n for n in names if host_of[n] == name])
    _check_images(check, plan["images"], images_of(entries))


def _check_images(check: _Checker, images: object, used: Mapping[str, Sequence[str]]) -> None:
    """Judge what is pinned: for each reference one digest or none, and an id on each host that runs it."""
    if not check.keys("images", images, used):
        return
    for reference, pinned in cast(Mapping[str, Any], images).items():
        place = f"images[{reference}]"
        if not check.keys(place, pinned, ("digest", "ids")) or not check.keys(
            f"{place}.ids", pinned["ids"], used[reference]
        ):
            continue
        digest = pinned["digest"]
        good = digest is None or (_is_word(digest) and digest.startswith(f"{repository_of(reference)}@"))
        check.expect(good, f"{place}.digest", digest, "a digest of its repository, or nothing")
        for host, image in pinned["ids"].items():
            check.expect(
                image is None or is_image_id(image), f"{place}.ids.{host}", image, "the id of an image, or nothing"
            )


def _devices_by_host(replicas: Sequence[Mapping[str, Any]], hosts: Iterable[str]) -> dict[str, Devices]:
    """Return what the replicas of a plan have by name on each host. Raises ValueError for what is malformed."""
    found: dict[str, dict[str, list[str]]] = {host: {} for host in hosts}
    for replica in replicas:
        devices = replica.get("devices")
        if not isinstance(devices, Mapping) or not all(isinstance(names, list) for names in devices.values()):
            raise ValueError(f"The devices of {replica['name']} are {show(devices)}, where names are expected.")
        for kind, names in devices.items():
            found[replica["host"]].setdefault(kind, []).extend(names)
    result = {}
    for host, devices in found.items():
        pinned = devices.pop(PINNED, [])
        if len(set(map(show, pinned))) < len(pinned) or not all(
            isinstance(cpu, str) and re.fullmatch(r"[0-9]{1,5}", cpu) for cpu in pinned
        ):
            raise ValueError(f"The pinned CPUs on {host} are {show(pinned)}, where different numbers are expected.")
        try:
            result[host] = parse_devices(devices)
        except ValueError as error:
            raise ValueError(f"The devices of the replicas on {host} are malformed: {error}") from None
    return result


def _pinned_in(request: Request, replicas: Sequence[Mapping[str, Any]]) -> dict[str, Pinned]:
    """Return the CPUs that a plan gives to replicas for themselves. Raises ValueError for what is malformed.

    How many they are at least follows from the request; whole cores may have more.
    """
    pinned = {}
    for (name, role, _index), replica in zip(request.replicas(), replicas):
        if not role.resources.pin_cpus:
            continue
        cpus, nodes = replica["devices"].get(PINNED, []), replica.get("memory_nodes")
        least = role.resources.cpus // 1000
        if len(cpus) < least:
            raise ValueError(f"There are {len(cpus)} pinned CPUs of {name} where at least {least} are expected.")
        if not isinstance(nodes, list) or not all(_is_whole(node, 0, 65535) for node in nodes):
            raise ValueError(f"The memory nodes of {name} are {show(nodes)}, where numbers are expected.")
        pinned[name] = Pinned(tuple(cpus), tuple(nodes))
    return pinned


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value) and is_plain(value)


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_subnet(value: object) -> bool:
    if not isinstance(value, str):
        return False
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", value, re.ASCII)
    return match is not None and all(int(byte) < 256 for byte in match.groups()[:4]) and int(match.group(5)) <= 32
