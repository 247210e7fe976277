# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan, made from the request, the placement and what the hosts report."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model.facts import HostFacts, Underlay
from ..model.fields import MULTI_NODE
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
from ..values.errors import InvalidInput, Problem
from ..values.ports import EVERY_ADDRESS
from ..values.resources import PINNED, Devices
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
from .data import data_of_hosts
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


def build_plan(
    request: Request,
    placement: Placement,
    session_id: str,
    hosts_facts: Mapping[str, HostFacts],
    settings: Settings,
    current: Plan | None = None,
    free_devices: Mapping[str, Devices] | None = None,
    inventory: Mapping[str, Mapping[str, Any]] | None = None,
) -> Plan:
    """Return the plan of a session.

    session_id: a UUID in its usual form, new for a new session. hosts_facts: the facts of every usable host of the
    resource group; subnets and identifiers in use on any of them are avoided. current: the plan of the same session, or
    of the session that it replaces, if there is one. If it is the same session, its subnets and identifier are kept as
    far as the new plan needs the same. In both cases the ports it has published are not in the way.
    free_devices: by host, the accelerators and CPUs that the session may have for itself; the first of each class go to
    the first ranks. inventory: variables of each host, `HOST_VARIABLES`.
    Raises ValueError for an id that is not a UUID, InvalidInput and PoolExhausted.
    """
    if str(uuid.UUID(session_id)) != session_id:
        raise ValueError(f"The session id {session_id} is not written in the usual form of a UUID.")
    id8 = session_id[:8]
    host_of = dict(placement.assignments)
    per_host: dict[str, int] = {}
    for _replica, host in placement.assignments:
        per_host[host] = per_host.get(host, 0) + 1
    in_use = {subnet for facts in hosts_facts.values() for subnet in facts.subnets}
    network, egress = _networks(
        request, placement, session_id, hosts_facts, settings, in_use, max(per_host.values()), current
    )
    main_host = placement.assignments[0][1]
    ssh_port = _ssh_port(request, session_id, main_host, hosts_facts[main_host], settings, current)
    free = free_devices or {}
    pinned = pin(request, host_of, hosts_facts, free)
    node_rank = {host: rank for rank, host in enumerate(placement.node_order)}
    entries = entries_of(request, session_id, host_of, node_rank, network, free, pinned, ssh_port)
    hosts = planned_hosts(request, placement.hosts, node_rank, network, entries, hosts_facts, inventory or {})
    return Plan(
        schema=SCHEMA,
        session=PlannedSession(
            session_id, request.name, placement.mode, request.mode, request.size, request.resource_group
        ),
        request=request.to_dict(),
        network=network,
        egress=Egress(f"cc-{id8}-egress", egress),
        ssh_port=ssh_port,
        hosts=hosts,
        images={reference: PinnedImage(None, dict.fromkeys(names)) for reference, names in images_of(entries).items()},
        replicas=entries,
    )


def planned_hosts(
    request: Request,
    names: Sequence[str],
    node_rank: Mapping[str, int],
    network: Network | None,
    entries: Iterable[Replica],
    hosts_facts: Mapping[str, HostFacts],
    inventory: Mapping[str, Mapping[str, Any]],
) -> dict[str, PlannedHost]:
    """Return the part of a plan for each host that carries *entries*. names: in the order of the inventory."""
    data = data_of_hosts(request, names, hosts_facts, inventory)
    hosts = {}
    for host in names:
        underlay = hosts_facts[host].underlay
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
    """Return for each image reference of a plan's replicas the hosts that run it, both in rank order."""
    used: dict[str, dict[str, None]] = {}
    for entry in entries:
        used.setdefault(entry.image, {})[entry.host] = None
    return {reference: list(hosts) for reference, hosts in used.items()}


def with_images(plan: Plan, needs: Iterable[Need]) -> Plan:
    """Return the plan with the images that its references resolve to, as far as they are known."""
    return replace(plan, images={need.reference: need.pinned() for need in needs})


def entries_of(
    request: Request,
    session_id: str,
    host_of: Mapping[str, str],
    node_rank: Mapping[str, int],
    network: Network | None,
    free_devices: Mapping[str, Devices],
    pinned: Mapping[str, Pinned],
    ssh_port: int | None,
    local_rank: Mapping[str, int] | None = None,
) -> tuple[Replica, ...]:
    """Return the plan's entry of every replica, in rank order, which is the order of *host_of*.

    node_rank: by host. local_rank: by replica, if it does not follow from the order of the ranks. Raises ValueError if
    the network does not have an address, or a host a device, for each replica.
    """
    known = {name: (role, index) for name, role, index in request.replicas()}
    given_addresses: Sequence[str | None] = [None] * len(host_of)
    if network is not None:
        given_addresses = addresses(network.subnet, len(host_of))
    there: dict[str, int] = {}
    left = {host: {kind: list(given) for kind, given in devices} for host, devices in free_devices.items()}
    mounts = tuple(mount.to_dict() for mount in request.mounts)
    ports = [PublishedPort(port.host_ip, port.host_port, port.container_port, port.protocol) for port in request.ports]
    if ssh_port is not None:
        ports.append(PublishedPort(EVERY_ADDRESS, ssh_port, LOGIN_PORT, "tcp"))
    entries = []
    for rank, ((name, host), address) in enumerate(zip(host_of.items(), given_addresses)):
        role, index = known[name]
        place = there.get(host, 0)
        there[host] = place + 1
        devices = {kind: _take(left.get(host, {}), kind, count) for kind, count in role.resources.accelerators}
        own = pinned.get(name, Pinned())
        if role.resources.pin_cpus:
            devices[PINNED] = tuple(own.cpus)
        entries.append(
            Replica(
                name=name,
                role=role.name,
                index=index,
                rank=rank,
                host=host,
                local_rank=place if local_rank is None else local_rank[name],
                node_rank=node_rank[host],
                # main1 has the session's id; the ids of the others follow from it and from the replica's name.
                kernel_id=session_id if name == "main1" else str(uuid.uuid5(uuid.UUID(session_id), name)),
                address=address,
                mac=None if address is None else mac_of(address),
                container=f"{request.name}-{name}",
                image=role.image,
                resources=Share(**role.resources.to_dict()),
                devices=devices,
                memory_nodes=tuple(own.memory_nodes),
                command=None if role.command is None else tuple(role.command),
                capabilities=tuple(role.capabilities),
                memlock=role.memlock,
                ports=tuple(ports) if rank == 0 else (),
                mounts=mounts,
                disk_size=role.disk_size,
                entrypoint=None if role.entrypoint is None else tuple(role.entrypoint),
                own_init=not role.init,
            )
        )
    return tuple(entries)


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
    request: Request,
    placement: Placement,
    session_id: str,
    hosts_facts: Mapping[str, HostFacts],
    settings: Settings,
    in_use: set[str],
    most_on_a_host: int,
    current: Plan | None,
) -> tuple[Network | None, str]:
    """Return the session's network (None for one replica) and the subnet of the egress network."""
    id8 = session_id[:8]
    kept = current if current is not None and current.session.id == session_id else None
    old = kept.network if kept is not None else None
    if kept is not None:
        # The session itself uses its own networks, so they count as free.
        in_use = outside(in_use, [kept.egress.subnet, *([old.subnet] if old else [])])
    network = None
    most = max(request.size, request.max_size or 0)
    most_on_a_host = max(most_on_a_host, request.max_size or 0)
    if most > 1:
        subnet = _kept_subnet(old.subnet if old else None, most, settings, in_use)
        if subnet is None:
            subnet = choose_subnets(settings.subnet_pool, 1, most, in_use, session_id)[0]
        in_use = in_use | {subnet}
        network = Network(BRIDGE, f"cc-{id8}", subnet, INTERFACE, None, None, None, None, None)
        # A session that may grow beyond its host has an overlay from the start: a bridge in use cannot become one.
        apart = why_no_endpoint(hosts_facts)
        knows_underlay = all(hosts_facts[host].underlay is not None and host not in apart for host in placement.hosts)
        may_grow = request.max_size is not None and request.mode == MULTI_NODE and knows_underlay
        if len(placement.hosts) > 1 or may_grow:
            vni = old.vni if old else None
            if vni is None:
                taken = {vni for facts in hosts_facts.values() for vni in facts.vnis}
                vni = choose_vni(settings.vni_pool, taken, session_id)
            underlays = {host: hosts_facts[host].underlay for host in placement.hosts}
            mtu, port, tunnel = overlay_mtu(underlays, request.encrypted), settings.vxlan_port, None
            if request.encrypted:
                tunnel = Tunnel(f"cct{id8}", mtu + VXLAN_OVERHEAD_IPV6, port)
                port = _tunnel_port(request, session_id, hosts_facts, settings, old)
            network = replace(network, driver=VXLAN, mtu=mtu, vni=vni, port=port, link=f"ccx{id8}", tunnel=tunnel)
    egress = _kept_subnet(kept.egress.subnet if kept else None, most_on_a_host, settings, in_use)
    if egress is None:
        egress = choose_subnets(settings.subnet_pool, 1, most_on_a_host, in_use, session_id)[0]
    return network, egress


def _tunnel_port(
    request: Request,
    session_id: str,
    hosts_facts: Mapping[str, HostFacts],
    settings: Settings,
    old: Network | None,
) -> int:
    """Return the UDP port of a session's tunnel: its present one, or else a port that no host has in use."""
    if old is not None and old.tunnel is not None and old.port is not None:
        return old.port
    taken = {settings.vxlan_port, *(port.host_port for port in request.ports)}
    taken.update(port.port for facts in hosts_facts.values() for port in facts.ports)
    return choose_port(settings.encrypted_ports, taken, session_id)


def _kept_subnet(subnet: str | None, replicas: int, settings: Settings, in_use: Iterable[str]) -> str | None:
    """The session's subnet, if a new choice would be of the same size and pool, and nothing else uses it."""
    if subnet is None or subnet.partition("/")[2] != str(prefix_for(replicas)):
        return None
    return subnet if is_free(settings.subnet_pool, subnet, in_use) else None


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
