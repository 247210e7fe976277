# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Drive the kernel's WireGuard: one link a host and encrypted session, through which the session's VXLAN goes.

Each host makes a Curve25519 key pair for the session; the private key never leaves it, and only hosts with a known
public key get through. The kernels agree on keys for the packets by themselves and change them every two minutes, so a
host that was rebooted joins again without help.

Links are made by iproute2. Keys and peers are passed to the kernel by generic netlink (linux/wireguard.h,
linux/genetlink.h), so that no key appears on a command line and hosts need no further package.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import socket
import struct
import traceback
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from ..core.values.deferred import dataclass
from . import link
from .link import LinkError
from .netlink import ACK, DUMP, NESTED, attribute, attributes, exchange
from .state import write_file

try:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
except ImportError:
    CRYPTOGRAPHY_IMPORT_ERROR: str | None = traceback.format_exc()
else:
    CRYPTOGRAPHY_IMPORT_ERROR = None

KEY_SIZE = 32

KEEPALIVE = 25
"""Least seconds between two packets to a peer. The first is sent at once: after a reboot the others would otherwise use
keys that are lost here for some 15 seconds more (wg(8), PersistentKeepalive)."""

PROBE = (
    "link add name cc-tunnel type wireguard\n"
    "link set dev cc-tunnel up\n"
    "address add fe80::1/64 dev cc-tunnel nodad\n"
    "link add name cc-vxlan type vxlan id 1 local fe80::1 dev cc-tunnel dstport 4789 nolearning proxy\n"
)
"""Links of an encrypted session on a host, for iproute2; tested in a network namespace that ends with it."""


@dataclass(frozen=True)
class Peer:
    """Another host of the session: its public key, its address inside the tunnel, and where it is reached."""

    public_key: str
    address: str
    endpoint: str


@dataclass(frozen=True)
class Tunnel:
    """One WireGuard link of the plan.

    address: the host's inside the tunnel. port: UDP, on all hosts of the session. mtu: in bytes. alias marks the owner.
    public_key: None if the link has none. peers: (public key, address inside the tunnel), sorted; their addresses
    outside are not included, since the kernel follows a peer whose address changes.
    """

    name: str
    address: str
    port: int
    mtu: int
    alias: str
    public_key: str | None
    peers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Traffic:
    """The kernel's counters of one peer: seconds since the epoch of the last handshake (0 for none), bytes."""

    handshake: int
    received: int
    sent: int


def problem(local: str | None = None) -> str:
    """Return why this host cannot have encrypted sessions, in full sentences; empty if it can.

    local: its underlay address, None if that is not known.
    """
    if vrf := link.vrf_of(local):
        return (
            f"Its address {local} is in the VRF {vrf}, which WireGuard does not use. Set "
            "cluster_compute_underlay_address to an address outside of every VRF."
        )
    if CRYPTOGRAPHY_IMPORT_ERROR is not None:
        return "The Python library cryptography is not installed. Run the prepare_hosts playbook."
    try:
        link.run(["unshare", "--net", "ip", "-batch", "-"], PROBE)
    except LinkError as error:
        reason = (
            "; ".join(str(error).rpartition(": ")[2].splitlines()) if "Unknown device type" not in str(error) else ""
        )
        if reason:
            return f"Its kernel cannot make a VXLAN over IPv6 in a WireGuard link ({reason})."
        return (
            "Its kernel has no WireGuard ('ip link add type wireguard': Unknown device type). Boot one that has "
            "(CONFIG_WIREGUARD, since Linux 5.6), with the module at hand."
        )
    return ""


def read_public_key(path: Path) -> str | None:
    """Return the public key that belongs to the private key in *path*, or None if there is no such file.

    Raises LinkError if the file does not contain such a key.
    """
    private = _read_private_key(path)
    return None if private is None else _public_text(X25519PrivateKey.from_private_bytes(private))


def create_key(path: Path) -> str:
    """Make a new private key in *path* (0600) and return its public key."""
    key = X25519PrivateKey.generate()
    private = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    write_file(path, base64.b64encode(private).decode("ascii") + "\n", mode=0o600)
    return _public_text(key)


def _read_private_key(path: Path) -> bytes | None:
    try:
        key = decode_key(path.read_text(encoding="ascii").strip())
    except FileNotFoundError:
        return None
    except ValueError:
        raise LinkError(
            f"The key file {path} holds no WireGuard key. Launch again with session_regenerate_keys=true to replace "
            "the keys of this session."
        ) from None
    return key


def _public_text(key: X25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode("ascii")


def decode_key(text: str) -> bytes:
    """Return the bytes of a key in WireGuard's form, base64. Raises ValueError for a malformed key."""
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError) as error:
        raise ValueError("no base64") from error
    if len(key) != KEY_SIZE:
        raise ValueError(f"{len(key)} bytes where {KEY_SIZE} are expected")
    return key


def read(name: str) -> Tunnel | None:
    """Return the link *name* as it is, or None. Raises LinkError if *name* is another kind of link."""
    found = link.find(name)
    if found is None:
        return None
    if found.kind != "wireguard":
        raise LinkError(
            f"The link {name} exists and is not a WireGuard link; it is not ours to change. Rename or remove it."
        )
    device = _read_device(name)
    own = [address.local for address in found.addresses if ":" in address.local]
    return Tunnel(
        name=name,
        address=own[0] if len(own) == 1 else "",
        port=device.port,
        mtu=found.mtu if found.is_up else 0,
        alias=found.alias,
        public_key=device.public_key,
        peers=tuple(sorted((key, ",".join(sorted(peer.addresses))) for key, peer in device.peers.items())),
    )


def traffic(name: str) -> dict[str, Traffic]:
    """Return the traffic through the link *name*, by the public key of the peer."""
    return {key: peer.traffic for key, peer in _read_device(name).peers.items()}


def converge(tunnel: Tunnel, key_file: Path, peers: Iterable[Peer]) -> None:
    """Make the link, or change it in place as needed: links based on it stay.

    A link that this call had to make is removed again if a step fails.
    """
    private = _read_private_key(key_file)
    if private is None:
        raise LinkError(f"The key file {key_file} is missing. Run the repair playbook, which makes a new one.")
    found = read(tunnel.name)
    if found is None:
        link.add_link(tunnel.name, ["type", "wireguard"], tunnel.alias)
    try:
        link.run(["ip", "link", "set", "dev", tunnel.name, "alias", tunnel.alias, "mtu", str(tunnel.mtu)])
        _write_device(tunnel.name, private, tunnel.port, list(peers))
        _allow_ipv6(tunnel.name)
        link.run(["ip", "link", "set", "dev", tunnel.name, "up"])
        if found is None or found.address != tunnel.address:
            link.run(["ip", "-6", "address", "flush", "dev", tunnel.name])
            link.run(["ip", "-6", "address", "add", f"{tunnel.address}/64", "dev", tunnel.name, "nodad"])
    except (LinkError, OSError):
        if found is None:
            link.delete_link(tunnel.name)
        raise


def _allow_ipv6(name: str) -> None:
    """Enable IPv6 on the link, also on hosts that use none elsewhere."""
    switch = Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
    if switch.exists() and switch.read_text(encoding="ascii").strip() != "0":
        switch.write_text("0\n", encoding="ascii")


# ---- generic netlink ------------------------------------------------------------------------------------------------

NETLINK_GENERIC = 16
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 0x10, 3, 1, 2

_GET_DEVICE, _SET_DEVICE = 0, 1
_DEVICE_NAME, _DEVICE_PRIVATE_KEY, _DEVICE_PUBLIC_KEY, _DEVICE_FLAGS, _DEVICE_PORT, _DEVICE_PEERS = 2, 3, 4, 5, 6, 8
_REPLACE_PEERS = 1
_PEER_PUBLIC_KEY, _PEER_FLAGS, _PEER_ENDPOINT, _PEER_KEEPALIVE = 1, 3, 4, 5
_PEER_HANDSHAKE, _PEER_RECEIVED, _PEER_SENT, _PEER_ALLOWED = 6, 7, 8, 9
_REPLACE_ALLOWED = 2
_ALLOWED_FAMILY, _ALLOWED_ADDRESS, _ALLOWED_MASK = 1, 2, 3

PEERS_A_MESSAGE = 64
"""Peers that are passed at once; a nested attribute has at most 64 KiB."""


@dataclass
class _PeerFound:
    addresses: set[str]
    traffic: Traffic


@dataclass
class _DeviceFound:
    port: int
    public_key: str | None
    peers: dict[str, _PeerFound]


def _read_device(name: str) -> _DeviceFound:
    device = _DeviceFound(0, None, {})
    for payload in _talk(_GET_DEVICE, DUMP, [attribute(_DEVICE_NAME, name.encode() + b"\0")]):
        parse_device(payload, device)
    return device


def parse_device(payload: bytes, device: _DeviceFound) -> None:
    """Add one message of the kernel's answer to *device*; a peer with many addresses comes in several."""
    for kind, value in attributes(payload):
        if kind == _DEVICE_PUBLIC_KEY:
            device.public_key = base64.b64encode(value).decode("ascii")
        elif kind == _DEVICE_PORT:
            (device.port,) = struct.unpack("=H", value)
        elif kind == _DEVICE_PEERS:
            for _number, peer in attributes(value):
                _parse_peer(dict(attributes(peer)), device)


def _parse_peer(peer: dict[int, bytes], device: _DeviceFound) -> None:
    key = base64.b64encode(peer[_PEER_PUBLIC_KEY]).decode("ascii")
    handshake, _nanoseconds = struct.unpack("=qq", peer.get(_PEER_HANDSHAKE, bytes(16)))
    (received,) = struct.unpack("=Q", peer.get(_PEER_RECEIVED, bytes(8)))
    (sent,) = struct.unpack("=Q", peer.get(_PEER_SENT, bytes(8)))
    found = device.peers.setdefault(key, _PeerFound(set(), Traffic(handshake, received, sent)))
    for _number, allowed in attributes(peer.get(_PEER_ALLOWED, b"")):
        parts = dict(attributes(allowed))
        address = ipaddress.ip_address(parts[_ALLOWED_ADDRESS])
        whole = parts[_ALLOWED_MASK][0] == address.max_prefixlen
        found.addresses.add(str(address) if whole else f"{address}/{parts[_ALLOWED_MASK][0]}")


def _write_device(name: str, private_key: bytes, port: int, peers: list[Peer]) -> None:
    first = [
        attribute(_DEVICE_PRIVATE_KEY, private_key),
        attribute(_DEVICE_PORT, struct.pack("=H", port)),
        attribute(_DEVICE_FLAGS, struct.pack("=I", _REPLACE_PEERS)),
    ]
    for start in range(0, max(1, len(peers)), PEERS_A_MESSAGE):
        peer_attributes = [_peer_attribute(peer, port) for peer in peers[start : start + PEERS_A_MESSAGE]]
        message = [
            attribute(_DEVICE_NAME, name.encode() + b"\0"),
            *first,
            attribute(_DEVICE_PEERS | NESTED, *peer_attributes),
        ]
        _talk(_SET_DEVICE, ACK, message)
        first = []


def _peer_attribute(peer: Peer, port: int) -> bytes:
    address = ipaddress.ip_address(peer.address)
    allowed = attribute(
        NESTED,
        attribute(_ALLOWED_FAMILY, struct.pack("=H", _family(address))),
        attribute(_ALLOWED_ADDRESS, address.packed),
        attribute(_ALLOWED_MASK, bytes([address.max_prefixlen])),
    )
    return attribute(
        NESTED,
        attribute(_PEER_PUBLIC_KEY, decode_key(peer.public_key)),
        attribute(_PEER_FLAGS, struct.pack("=I", _REPLACE_ALLOWED)),
        attribute(_PEER_ENDPOINT, _socket_address(peer.endpoint, port)),
        attribute(_PEER_KEEPALIVE, struct.pack("=H", KEEPALIVE)),
        attribute(_PEER_ALLOWED | NESTED, allowed),
    )


def _family(address: Any) -> int:
    return int(socket.AF_INET6 if address.version == 6 else socket.AF_INET)


def _socket_address(text: str, port: int) -> bytes:
    """Return a struct sockaddr_in or sockaddr_in6 (ip(7), ipv6(7))."""
    address = ipaddress.ip_address(text)
    begin = struct.pack("=H", _family(address)) + struct.pack("!H", port)
    return begin + (bytes(4) + address.packed + bytes(4) if address.version == 6 else address.packed + bytes(8))


def _talk(command: int, flags: int, message: list[bytes]) -> list[bytes]:
    """Send a request to the kernel's WireGuard and return its answers. Raises LinkError with the kernel's error."""
    try:
        with closing(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)) as channel:
            channel.bind((0, 0))
            name = attribute(_FAMILY_NAME, b"wireguard\0")
            (family_reply,) = _exchange(channel, _CONTROL, _GET_FAMILY, ACK, [name])
            (family,) = struct.unpack("=H", dict(attributes(family_reply))[_FAMILY_ID])
            return _exchange(channel, family, command, flags, message)
    except OSError as error:
        raise LinkError(f"The kernel's WireGuard refused: {error.strerror or error}.") from error


def _exchange(channel: socket.socket, family: int, command: int, flags: int, message: list[bytes]) -> list[bytes]:
    """Return the answers to a message of generic netlink, which has four bytes before its attributes."""
    body = struct.pack("=BBH", command, 1, 0) + b"".join(message)
    return [answer[4:] for answer in exchange(channel, family, flags, body)]
