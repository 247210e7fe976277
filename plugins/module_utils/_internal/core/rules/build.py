# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan, made from the request, the placement and what the hosts report."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from ..model.facts import HostFacts
from ..model.fields import MULTI_NODE
from ..model.host_parts import Underlay
from ..model.plan import (
    BRIDGE,
    VXLAN,
    Egress,
    Network,
    PinnedImage,
    Plan,
    PlannedHost,
    PlannedSession,
    PublishedPort,
    Replica,
    Share,
    Tunnel,
)
from ..model.request import Request
from ..values.cpus import Pinned, give_out
from ..values.deferred import dataclass
from ..values.errors import InvalidInput, Problem
from ..values.ports import EVERY_ADDRESS
from ..values.resources import PINNED, Devices, Resources
from .addressing import (
    addresses,
    choose_port,
    choose_ssh_port,
    choose_subnets,
    choose_vni,
    is_free,
    mac_of,
    outside,
    prefix_for,
)
from .admission import own_ports
from .data import Inventory, data_of_hosts
from .endpoints import why_no_endpoint
from .environment import LOGIN_PORT
from .images import Need
from .placement import Placement
from .site import Settings

SCHEMA = 1
"""Version of the plan's form. A plan of a newer schema is rejected, not guessed at."""
VXLAN_OVERHEAD_IPV4 = 50
VXLAN_OVERHEAD_IPV6 = 70
WIREGUARD_OVERHEAD_IPV4 = 60
"""Bytes that a tunnel adds to a packet: IP 20, UDP 8, type, receiver and counter 16, tag 16. A packet of the full size
is not padded (J. A. Donenfeld, WireGuard: Next Generation Kernel Network Tunnel, section 5.4.6)."""
WIREGUARD_OVERHEAD_IPV6 = 80
LEAST_MTU = 576
"""An underlay that leaves less than this for the session's network is rejected."""
LEAST_TUNNEL_MTU = 1280
"""A tunnel carries IPv6, for which a link needs this much (RFC 8200, section 5)."""
INTERFACE = "eth1"
"""Name of the session's interface in every replica that has one; eth0 is the default network's."""


@dataclass(frozen=True)
class PlanInputs:
    """The inputs of a plan besides the request and the placement.

    facts: of every usable host of the resource group. free_devices: by host, the accelerators and CPUs that the session
    may have for itself; the first of each class go to the first ranks. inventory: variables of each host,
    `HOST_VARIABLES`.
    """

    facts: Mapping[str, HostFacts]
    settings: Settings
    free_devices: Mapping[str, Devices] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """The places of a session's replicas.

    host_of: by replica, in rank order. node_rank: by host. local_rank: by replica, None if it follows from the order of
    the ranks.
    """

    host_of: Mapping[str, str]
    node_rank: Mapping[str, int]
    local_rank: Mapping[str, int] | None = None


def build_plan(
    request: Request, placement: Placement, session_id: str, inputs: PlanInputs, current: Plan | None = None
) -> Plan:
    """Return the plan of a session.

    session_id: a UUID in its usual form, new for a new session. Subnets and identifiers in use on any host of *inputs*
    are avoided. current: the plan of the same session, or of the session that it replaces, if there is one. If it is
    the same session, its subnets and identifier are kept as far as the new plan needs the same. In both cases the ports
    it has published are not in the way.
    Raises ValueError for an id that is not a UUID, InvalidInput and PoolExhausted.
    """
    if str(uuid.UUID(session_id)) != session_id:
        raise ValueError(f"The session id {session_id} is not written in the usual form of a UUID.")
    network, egress = _networks(request, placement, session_id, inputs, current)
    main_host = placement.assignments[0][1]
    ssh_port = _ssh_port(request, session_id, main_host, inputs.facts[main_host], inputs.settings, current)
    layout = Layout(dict(placement.assignments), {host: rank for rank, host in enumerate(placement.node_order)})
    pinned = pin(request, layout.host_of, inputs.facts, inputs.free_devices)
    entries = entries_of(request, session_id, layout, network, inputs.free_devices, pinned, ssh_port)
    return Plan(
        schema=SCHEMA,
        session=PlannedSession(
            session_id, request.name, placement.mode, request.mode, request.size, request.resource_group
        ),
        request=request.to_dict(),
        network=network,
        egress=Egress(f"cc-{session_id[:8]}-egress", egress),
        ssh_port=ssh_port,
        hosts=planned_hosts(request, placement.hosts, layout.node_rank, network, entries, inputs),
        images={reference: PinnedImage(None, dict.fromkeys(names)) for reference, names in images_of(entries).items()},
        replicas=entries,
    )


def planned_hosts(
    request: Request,
    names: Sequence[str],
    node_rank: Mapping[str, int],
    network: Network | None,
    entries: Iterable[Replica],
    inputs: PlanInputs,
) -> dict[str, PlannedHost]:
    """Return the part of a plan for each host that carries *entries*. names: in the order of the inventory."""
    data = data_of_hosts(request, names, inputs.facts, inputs.inventory)
    hosts = {}
    for host in names:
        underlay = inputs.facts[host].underlay
        roots, folders = data[host]
        hosts[host] = PlannedHost(
            underlay_address=underlay.address if underlay else None,
            underlay_interface=underlay.interface if underlay else None,
            tunnel_address=_tunnel_address(network, node_rank[host]),
            replicas=tuple(entry.name for entry in entries if entry.host == host),
            mount_roots=roots,
            data=folders,
        )
    return hosts


def _tunnel_address(network: Network | None, node_rank: int) -> str | None:
    """Return a host's address inside the tunnel of an encrypted session, a link-local one (RFC 4291, section 2.5.6).

    The kernel accepts packets for a VXLAN device with such an address only from the link that it was made for.
    """
    return f"fe80::{node_rank + 1:x}" if network is not None and network.tunnel is not None else None


def images_of(entries: Iterable[Replica]) -> dict[str, list[str]]:
    """Return for each image and pack of a plan's replicas the hosts that need it, both in rank order."""
    used: dict[str, dict[str, None]] = {}
    for entry in entries:
        for reference in (entry.image, *entry.packs):
            used.setdefault(reference, {})[entry.host] = None
    return {reference: list(hosts) for reference, hosts in used.items()}


def with_images(plan: Plan, needs: Iterable[Need]) -> Plan:
    """Return the plan with the images that its references resolve to, as far as they are known."""
    return replace(plan, images={need.reference: need.pinned() for need in needs})


def entries_of(
    request: Request,
    session_id: str,
    layout: Layout,
    network: Network | None,
    free_devices: Mapping[str, Devices],
    pinned: Mapping[str, Pinned],
    ssh_port: int | None,
) -> tuple[Replica, ...]:
    """Return the plan's entry of every replica, in rank order.

    Raises ValueError if the network does not have an address, or a host a device, for each replica.
    """
    known = {name: (role, index) for name, role, index in request.replicas()}
    local_rank = _by_order(layout.host_of) if layout.local_rank is None else layout.local_rank
    left = {host: {kind: list(given) for kind, given in devices} for host, devices in free_devices.items()}
    ports = _published_ports(request, ssh_port)
    entries = []
    given_addresses = _addresses(network, len(layout.host_of))
    for rank, ((name, host), address) in enumerate(zip(layout.host_of.items(), given_addresses)):
        role, index = known[name]
        own = pinned.get(name, Pinned())
        entries.append(
            Replica(
                name=name,
                role=role.name,
                index=index,
                rank=rank,
                host=host,
                local_rank=local_rank[name],
                node_rank=layout.node_rank[host],
                kernel_id=_kernel_id(session_id, name),
                address=address,
                mac=None if address is None else mac_of(address),
                container=f"{request.name}-{name}",
                image=role.image,
                resources=Share(**vars(role.resources) | {"accelerators": dict(role.resources.accelerators)}),
                devices=_devices_of(role.resources, left.get(host, {}), own),
                memory_nodes=tuple(own.memory_nodes),
                command=None if role.command is None else tuple(role.command),
                capabilities=tuple(role.capabilities),
                memlock=role.memlock,
                ports=ports if rank == 0 else (),
                mounts=request.mounts,
                disk_size=role.disk_size,
                entrypoint=None if role.entrypoint is None else tuple(role.entrypoint),
                own_init=not role.init,
                user=role.user,
                groups=role.groups,
                directory=request.directory_of(role),
                packs=request.packs,
            )
        )
    return tuple(entries)


def _addresses(network: Network | None, number: int) -> Sequence[str | None]:
    return [None] * number if network is None else addresses(network.subnet, number)


def _by_order(host_of: Mapping[str, str]) -> dict[str, int]:
    """Return the number of each replica on its host, if those on a host are numbered in rank order."""
    there: dict[str, int] = {}
    found = {}
    for name, host in host_of.items():
        found[name] = there.get(host, 0)
        there[host] = found[name] + 1
    return found


def _published_ports(request: Request, ssh_port: int | None) -> tuple[PublishedPort, ...]:
    """Return the ports of main1 that are published on its host."""
    ports = [PublishedPort(port.host_ip, port.host_port, port.container_port, port.protocol) for port in request.ports]
    if ssh_port is not None:
        ports.append(PublishedPort(EVERY_ADDRESS, ssh_port, LOGIN_PORT, "tcp"))
    return tuple(ports)


def _kernel_id(session_id: str, name: str) -> str:
    """Return the id of a replica: main1 has the session's; those of the others follow from it and from the name."""
    return session_id if name == "main1" else str(uuid.uuid5(uuid.UUID(session_id), name))


def _devices_of(resources: Resources, left: dict[str, list[str]], own: Pinned) -> dict[str, tuple[str, ...]]:
    """Take what a replica requests by name out of what is left on its host. own: the CPUs that it has for itself."""
    devices = {kind: _take(left, kind, count) for kind, count in resources.accelerators}
    if resources.pin_cpus:
        devices[PINNED] = tuple(own.cpus)
    return devices


def _take(left: dict[str, list[str]], kind: str, count: int) -> tuple[str, ...]:
    """Take the first names of a class out of what is left, and return them. Raises ValueError if there are fewer."""
    names = left.get(kind, [])
    if len(names) < count:
        raise ValueError(f"There are {len(names)} of {kind} on the host where {count} are expected.")
    left[kind] = names[count:]
    return tuple(names[:count])


def pin(
    request: Request,
    host_of: Mapping[str, str],
    hosts_facts: Mapping[str, HostFacts],
    free_devices: Mapping[str, Devices],
) -> dict[str, Pinned]:
    """Return the CPUs that each replica of *host_of* has for itself. Raises ValueError if a host has too few."""
    wanted: dict[str, list[tuple[str, int, int]]] = {}
    for name, role, _index in request.replicas():
        if role.resources.pin_cpus and name in host_of:
            amount = (name, role.resources.cpus // 1000, role.resources.memory)
            wanted.setdefault(host_of[name], []).append(amount)
    pinned: dict[str, Pinned] = {}
    for host, replicas in wanted.items():
        free = hosts_facts[host].topology.among(dict(free_devices.get(host, ())).get(PINNED, ()))
        pinned.update(give_out(free, replicas))
    return pinned


def _ssh_port(
    request: Request,
    session_id: str,
    host: str,
    facts: HostFacts,
    settings: Settings,
    current: Plan | None,
) -> int | None:
    """Return the port of main1's host at which the owner logs in; None if no keys are given."""
    if not request.authorized_keys or request.ssh_port is not None:
        return request.ssh_port
    own = own_ports(current, host)
    taken = {port.port for port in facts.ports if (port.port, "tcp") not in own}
    taken |= {port.host_port for port in request.ports}
    return choose_ssh_port(settings.ssh_ports, taken, session_id)


def _networks(
    request: Request, placement: Placement, session_id: str, inputs: PlanInputs, current: Plan | None
) -> tuple[Network | None, str]:
    """Return the session's network (None for one replica) and the subnet of the egress network."""
    kept = current if current is not None and current.session.id == session_id else None
    old = kept.network if kept is not None else None
    in_use = _subnets_in_use(inputs.facts, kept)
    network = None
    most = max(request.size, request.max_size or 0)
    if most > 1:
        subnet = _subnet(old.subnet if old else None, most, inputs.settings, in_use, session_id)
        in_use.add(subnet)
        network = Network(BRIDGE, f"cc-{session_id[:8]}", subnet, INTERFACE, None, None, None, None, None)
        if len(placement.hosts) > 1 or _may_leave_host(request, placement, inputs.facts):
            network = _overlay(network, request, placement, session_id, inputs, old)
    on_hosts = Counter(host for _replica, host in placement.assignments)
    most_on_a_host = max([*on_hosts.values(), request.max_size or 0])
    return network, _subnet(kept.egress.subnet if kept else None, most_on_a_host, inputs.settings, in_use, session_id)


def _subnets_in_use(facts: Mapping[str, HostFacts], kept: Plan | None) -> set[str]:
    """Return the networks that hosts use. A session itself uses the networks of its plan, so they count as free."""
    in_use = {subnet for host_facts in facts.values() for subnet in host_facts.subnets}
    if kept is None:
        return in_use
    return outside(in_use, [kept.egress.subnet, *([] if kept.network is None else [kept.network.subnet])])


def _may_leave_host(request: Request, placement: Placement, facts: Mapping[str, HostFacts]) -> bool:
    """Tell whether a session may grow beyond its host.

    It has an overlay from the start then: a bridge in use cannot become one.
    """
    if request.max_size is None or request.mode != MULTI_NODE:
        return False
    apart = why_no_endpoint(facts)
    return all(facts[host].underlay is not None and host not in apart for host in placement.hosts)


def _overlay(
    network: Network,
    request: Request,
    placement: Placement,
    session_id: str,
    inputs: PlanInputs,
    old: Network | None,
) -> Network:
    """Return the network as an overlay of the hosts. old: the session's present one, whose numbers it keeps."""
    id8 = session_id[:8]
    vni = old.vni if old else None
    if vni is None:
        taken = {vni for facts in inputs.facts.values() for vni in facts.vnis}
        vni = choose_vni(inputs.settings.vni_pool, taken, session_id)
    underlays = {host: inputs.facts[host].underlay for host in placement.hosts}
    mtu, port, tunnel = overlay_mtu(underlays, request.encrypted), inputs.settings.vxlan_port, None
    if request.encrypted:
        tunnel = Tunnel(f"cct{id8}", mtu + VXLAN_OVERHEAD_IPV6, port)
        port = _tunnel_port(request, session_id, inputs, old)
    return replace(network, driver=VXLAN, mtu=mtu, vni=vni, port=port, link=f"ccx{id8}", tunnel=tunnel)


def _tunnel_port(request: Request, session_id: str, inputs: PlanInputs, old: Network | None) -> int:
    """Return the UDP port of a session's tunnel: its present one, or else a port that no host has in use."""
    if old is not None and old.tunnel is not None and old.port is not None:
        return old.port
    taken = {inputs.settings.vxlan_port, *(port.host_port for port in request.ports)}
    taken.update(port.port for facts in inputs.facts.values() for port in facts.ports)
    return choose_port(inputs.settings.encrypted_ports, taken, session_id)


def _subnet(kept: str | None, replicas: int, settings: Settings, in_use: Iterable[str], session_id: str) -> str:
    """Return a subnet for so many replicas: the one that the session has, or else a free one of the pool.

    It is kept if a new choice would be of the same size and pool, and nothing else uses it.
    """
    same_size = kept is not None and kept.partition("/")[2] == str(prefix_for(replicas))
    if kept is not None and same_size and is_free(settings.subnet_pool, kept, in_use):
        return kept
    return choose_subnets(settings.subnet_pool, 1, replicas, in_use, session_id)[0]


def overlay_mtu(underlays: Mapping[str, Underlay | None], encrypted: bool = False) -> int:
    """Return the MTU of a VXLAN over these hosts' underlays: the smallest of them minus the overhead of VXLAN.

    underlays: by host, None if it is not known. encrypted: whether the VXLAN runs in a tunnel, which has an overhead of
    its own, and inside which it uses IPv6.
    Raises InvalidInput if one is unknown, if they mix IPv4 with IPv6, or if an MTU leaves too little.
    """
    problems = []
    known: dict[str, Underlay] = {}
    versions: dict[str, int] = {}
    for host, underlay in underlays.items():
        if underlay is None:
            problems.append(
                Problem(
                    f"cluster_compute_underlay_address of host {host}",
                    None,
                    "The address by which the hosts reach each other is unknown, or no interface has it. Set it.",
                )
            )
            continue
        known[host] = underlay
        versions[host] = 6 if ":" in underlay.address else 4
        left = underlay.mtu - _overhead(versions[host], encrypted)
        least = LEAST_TUNNEL_MTU - VXLAN_OVERHEAD_IPV6 if encrypted else LEAST_MTU
        if left < least:
            problems.append(
                Problem(
                    f"MTU of {underlay.interface} on host {host}",
                    underlay.mtu,
                    f"It leaves {left} bytes for the session's network; at least {least} are needed.",
                )
            )
    if len(set(versions.values())) > 1:
        mixed = ", ".join(f"{host} {underlay.address}" for host, underlay in known.items())
        problems.append(
            Problem(
                "cluster_compute_underlay_address", mixed, "The hosts of a session must all have IPv4, or all IPv6."
            )
        )
    if problems:
        raise InvalidInput(problems)
    overhead = _overhead(max(versions.values()), encrypted)
    return min(underlay.mtu for underlay in known.values()) - overhead


def _overhead(version: int, encrypted: bool) -> int:
    """Return the bytes around a packet of the session's network on an underlay of this version of IP."""
    if encrypted:
        return VXLAN_OVERHEAD_IPV6 + (WIREGUARD_OVERHEAD_IPV6 if version == 6 else WIREGUARD_OVERHEAD_IPV4)
    return VXLAN_OVERHEAD_IPV6 if version == 6 else VXLAN_OVERHEAD_IPV4
