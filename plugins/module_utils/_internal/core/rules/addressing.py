# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Subnets, addresses, MAC addresses, VXLAN network identifiers and ports, chosen from pools without asking any host.

Everything is a function of the pool, of what is known to be in use, and of a seed (the session's id). The seed decides
where in the pool the search begins, so that two concurrent launches seldom choose the same.
"""

from __future__ import annotations

import hashlib
import ipaddress
from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..values.errors import InvalidInput, MissingLibrary, PoolExhausted

if TYPE_CHECKING:
    import netaddr
else:
    try:
        import netaddr
    except ImportError as error:
        netaddr = None
        NETADDR_IMPORT_ERROR: ImportError | None = error
    else:
        NETADDR_IMPORT_ERROR = None

SUBNET_POOL = "cluster_compute_subnet_pool"
VNI_POOL = "cluster_compute_vni_pool"
ENCRYPTED_PORTS = "cluster_compute_encrypted_ports"
SSH_PORTS = "cluster_compute_ssh_ports"

LONGEST_PREFIX = 28
"""The smallest subnet that a session gets: a /28 holds 13 replicas."""
NOT_FOR_REPLICAS = 3
"""The network address, the gateway (the first one, left to Docker) and the broadcast address."""
MAXIMUM_VNI = 2**24 - 1
MAXIMUM_PORT = 65535


def _require_netaddr() -> None:
    if netaddr is None:
        raise MissingLibrary(
            "The Python library netaddr is needed on the controller and is not installed there. "
            "Install it with: pip install netaddr"
        )


def parse_subnet_pool(pool: object) -> netaddr.IPNetwork:
    """Return the IPv4 network that subnets are taken from.

    Raises InvalidInput for a value that is not an IPv4 network, has host bits set, or is smaller than one subnet.
    """
    _require_netaddr()
    allowed = f"It must be an IPv4 network of /{LONGEST_PREFIX} or larger, such as 10.213.0.0/16."
    if not isinstance(pool, str) or "/" not in pool:
        raise InvalidInput.single(SUBNET_POOL, pool, allowed)
    try:
        network = netaddr.IPNetwork(pool.strip(), version=4)
    except (netaddr.AddrFormatError, ValueError):
        raise InvalidInput.single(SUBNET_POOL, pool, allowed) from None
    if network.ip != network.network:
        raise InvalidInput.single(
            SUBNET_POOL, pool, f"The network is {network.cidr}; {allowed[0].lower()}{allowed[1:]}"
        )
    if not 8 <= network.prefixlen <= LONGEST_PREFIX:
        raise InvalidInput.single(SUBNET_POOL, pool, allowed)
    return network


def parse_vni_pool(pool: object) -> tuple[int, int]:
    """Return (first, last) of a pool such as ``4096-16777215``. Raises InvalidInput."""
    return _parse_range(VNI_POOL, pool, MAXIMUM_VNI, f"4096-{MAXIMUM_VNI}")


def parse_port_pool(pool: object) -> tuple[int, int]:
    """Return (first, last) of the ports for encrypted sessions, such as ``61000-61999``. Raises InvalidInput."""
    return _parse_range(ENCRYPTED_PORTS, pool, MAXIMUM_PORT, "61000-61999")


def parse_ssh_ports(pool: object) -> tuple[int, int]:
    """Return (first, last) of the ports for owners of sessions, such as ``22000-22999``. Raises InvalidInput."""
    return _parse_range(SSH_PORTS, pool, MAXIMUM_PORT, "22000-22999")


def _parse_range(variable: str, pool: object, most: int, example: str) -> tuple[int, int]:
    if isinstance(pool, str):
        first, sign, last = (part.strip() for part in pool.partition("-"))
        if sign and first.isascii() and last.isascii() and first.isdigit() and last.isdigit() and len(pool) < 40:
            low, high = int(first), int(last)
            if 1 <= low <= high <= most:
                return low, high
    raise InvalidInput.single(
        variable, pool, f"It must read first-last, two numbers from 1 to {most}, such as {example}."
    )


def _start(purpose_and_seed: str, number: int) -> int:
    """A position in 0..number-1 that follows from its purpose and the seed, written with a colon between."""
    return int.from_bytes(hashlib.sha256(purpose_and_seed.encode()).digest()[:8], "big") % number


def prefix_for(hosts_needed: int) -> int:
    """The longest prefix whose subnet holds so many replicas, gateway, network and broadcast address."""
    return min(LONGEST_PREFIX, 32 - (hosts_needed + NOT_FOR_REPLICAS - 1).bit_length())


def choose_subnets(pool: str, count: int, hosts_needed: int, in_use: Iterable[str], seed: str) -> list[str]:
    """Return *count* free subnets of the pool, each large enough for *hosts_needed* replicas.

    in_use: networks and addresses that no subnet may overlap, in any order and number; default routes and IPv6 are
    ignored. seed: the session's id.
    Raises InvalidInput for a bad pool, and PoolExhausted naming the networks that are in the way.
    """
    network = parse_subnet_pool(pool)
    prefix = prefix_for(hosts_needed)
    size = 1 << (32 - prefix)
    number = 1 << max(0, prefix - network.prefixlen)
    if prefix < network.prefixlen:
        raise PoolExhausted(
            SUBNET_POOL,
            pool,
            f"{hosts_needed} replicas need a /{prefix} subnet, which is larger than the whole {SUBNET_POOL} {pool}. "
            "Set a larger pool, or ask for fewer replicas.",
        )
    first = int(network.first)
    taken = _intervals(in_use, first, int(network.last))
    starts = [low for low, high in taken]
    chosen: list[str] = []
    slot = _start(f"subnet:{seed}", number)
    passed = 0
    while passed < number and len(chosen) < count:
        low = first + slot * size
        high = low + size - 1
        position = bisect_right(starts, high) - 1
        if position >= 0 and taken[position][1] >= low:
            # Continue after the network in the way (it ends within the pool); going step by step could take long.
            step = (taken[position][1] - low) // size + 1
        else:
            chosen.append(f"{netaddr.IPAddress(low, 4)}/{prefix}")
            step = 1
        passed += step
        slot = (slot + step) % number
    if len(chosen) < count:
        shown = ", ".join(_shown(low, high) for low, high in taken[:5]) + (", ..." if len(taken) > 5 else "")
        raise PoolExhausted(
            SUBNET_POOL,
            pool,
            f"{SUBNET_POOL} {pool} has no {count} free /{prefix} subnets left. In use within it: {shown}. "
            "Set another pool that no host has a route or a network in, or take sessions down.",
        )
    return chosen


def outside(in_use: Iterable[str], own: Iterable[str]) -> set[str]:
    """Return the networks and addresses that are not within one of *own*."""
    networks = [netaddr.IPNetwork(subnet) for subnet in own]
    return {text for text in in_use if not any(_network(text) in network for network in networks)}


def is_free(pool: str, subnet: str, in_use: Iterable[str]) -> bool:
    """Tell whether *subnet* is inside the pool and overlaps nothing in use. Raises InvalidInput for a bad pool."""
    network = netaddr.IPNetwork(subnet)
    return network in parse_subnet_pool(pool) and not _intervals(in_use, int(network.first), int(network.last))


def _network(text: str) -> netaddr.IPNetwork:
    try:
        return netaddr.IPNetwork(text)
    except (netaddr.AddrFormatError, ValueError, TypeError):
        raise InvalidInput.single(
            "subnets", text, "A host reports this as a network in use, and it is none. It must read address/prefix."
        ) from None


def _shown(low: int, high: int) -> str:
    span = netaddr.iprange_to_cidrs(netaddr.IPAddress(low, 4), netaddr.IPAddress(high, 4))
    return str(span[0]) if len(span) == 1 else f"{netaddr.IPAddress(low, 4)}-{netaddr.IPAddress(high, 4)}"


def _intervals(in_use: Iterable[str], first: int, last: int) -> list[tuple[int, int]]:
    """Merge the networks in use within first..last into sorted intervals that do not touch."""
    found = []
    for text in set(in_use):
        network = _network(text)
        if network.version != 4 or network.prefixlen == 0:
            continue
        low, high = max(first, int(network.first)), min(last, int(network.last))
        if low <= high:
            found.append((low, high))
    merged: list[tuple[int, int]] = []
    for low, high in sorted(found):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def addresses(subnet: str, number: int) -> list[str]:
    """Return the first *number* addresses for replicas, from the second host address on; the first is the gateway.

    Raises ValueError if the subnet is too small.
    """
    network = ipaddress.IPv4Network(subnet, strict=False)  # hosts, which have no netaddr, evaluate plans as well
    if number + NOT_FOR_REPLICAS > network.num_addresses:
        raise ValueError(f"The subnet {subnet} is too small for {number} replicas.")
    first = int(network.network_address) + 2
    return [str(ipaddress.IPv4Address(first + offset)) for offset in range(number)]


def mac_of(address: str) -> str:
    """Return the MAC address of a replica: 02:42 and the four bytes of its IPv4 address."""
    return "02:42:" + ":".join(f"{int(byte):02x}" for byte in address.split("."))


def choose_vni(pool: str, in_use: Iterable[int], seed: str) -> int:
    """Return a free VXLAN network identifier of the pool. Raises InvalidInput and PoolExhausted."""
    return _choose(VNI_POOL, pool, parse_vni_pool(pool), "identifier", in_use, f"vni:{seed}")


def choose_port(pool: str, in_use: Iterable[int], seed: str) -> int:
    """Return a free port for an encrypted session. Raises InvalidInput and PoolExhausted."""
    return _choose(ENCRYPTED_PORTS, pool, parse_port_pool(pool), "port", in_use, f"port:{seed}")


def choose_ssh_port(pool: str, in_use: Iterable[int], seed: str) -> int:
    """Return a free port for the owner of a session. Raises InvalidInput and PoolExhausted."""
    return _choose(SSH_PORTS, pool, parse_ssh_ports(pool), "port", in_use, f"ssh:{seed}")


def _choose(
    variable: str, pool: str, span: tuple[int, int], what: str, in_use: Iterable[int], purpose_and_seed: str
) -> int:
    low, high = span
    number = high - low + 1
    taken = {subnet for subnet in in_use if low <= subnet <= high}
    if len(taken) >= number:
        raise PoolExhausted(
            variable, pool, f"{variable} {pool} has no free {what} left. Set a larger pool, or take sessions down."
        )
    offset = _start(purpose_and_seed, number)
    while low + offset in taken:
        offset = (offset + 1) % number
    return low + offset
