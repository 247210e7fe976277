# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Put the address of a replica in its session first, so that programs find it by each of the usual methods.

The engine gives a replica two interfaces: one that leads outwards and one in the session's network. Programs use the
first address of the machine (``hostname -I``, getifaddrs(3)), whose order is that of the interfaces' numbers, or the
source of a socket that is connected to an address outside, which is that of the default route. So the session's
interface gets the lower number (IFLA_NEW_IFINDEX, Linux 5.13), the default route gets the session's address as its
source (RTA_PREFSRC, rtnetlink(7)), and packets that leave by the outward interface get that interface's own address.

This file is also a program by itself, without the rest of the collection: the engine's runtime runs it for each start
of a replica, when the network is complete and the program of the image has not begun (`host.runtime`).
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

OUTWARD = "eth0"
SESSION = "eth1"

_NEWLINK, _GETLINK, _NEWADDR, _GETADDR, _NEWROUTE, _GETROUTE = 16, 18, 20, 22, 24, 26
_ERROR, _DONE = 2, 3
_REQUEST, _ACK, _DUMP, _REPLACE, _CREATE = 0x1, 0x4, 0x300, 0x100, 0x400
_LINK, _ADDRESS, _ROUTE = struct.Struct("=BxHiII"), struct.Struct("=BBBBI"), struct.Struct("=BBBBBBBBI")
_IFLA_IFNAME, _IFLA_NET_NS_FD, _IFLA_NEW_IFINDEX = 3, 28, 49
_IFA_KEPT = {1, 2, 3, 4, 8}
"""Attributes with which an address is added again: ADDRESS, LOCAL, LABEL, BROADCAST, FLAGS (linux/if_addr.h)."""
_IFA_LOCAL = 2
_RTA_KEPT = {1, 4, 5, 6, 7, 8, 15}
"""Those of a route: DST, OIF, GATEWAY, PRIORITY, PREFSRC, METRICS, TABLE (linux/rtnetlink.h)."""
_RTA_OIF, _RTA_GATEWAY, _RTA_PREFSRC = 4, 5, 7
_IFF_UP = 1
_RT_TABLE_MAIN, _RTPROT_KERNEL, _RTPROT_BOOT, _RT_SCOPE_UNIVERSE, _RTN_UNICAST = 254, 2, 3, 0, 1
_CLONE_NEWNET = 0x40000000
_HASHED = 256
"""Older kernels list interfaces by the number's last eight bits, so only smaller numbers come in their order."""
_NO_IPV6 = "/proc/sys/net/ipv6/conf/{}/disable_ipv6"

_NAT = ("iptables", "-w", "-t", "nat")

Attributes = dict[int, bytes]


class NetworkError(OSError):
    """The kernel rejected a change of a network namespace."""


class Entry:
    """The kernel's description of a link, an address or a route: the fixed part, and its attributes.

    Not a dataclass: importing what makes them takes a quarter of the time that a start of a replica waits for this.
    """

    __slots__ = ("attributes", "head")

    def __init__(self, head: tuple[int, ...], attributes: Attributes) -> None:
        self.head = head
        self.attributes = attributes


class _Kernel:
    """Accesses the network of the namespace in which it was made (rtnetlink(7))."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self.number = 0

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def entries(self, kind: int, head: struct.Struct, family: int = socket.AF_INET) -> list[Entry]:
        """Return all links, addresses or routes."""
        fields = [family] + [0] * (len(head.unpack(bytes(head.size))) - 1)
        return [
            Entry(head.unpack(body[: head.size]), _attributes(body[head.size :]))
            for body in self._ask(kind, _REQUEST | _DUMP, head.pack(*fields))
        ]

    def change(self, kind: int, flags: int, head: bytes, attributes: Attributes) -> None:
        """Make or change one link, address or route. Raises NetworkError."""
        packed = b"".join(
            struct.pack("=HH", 4 + len(value), name) + value + bytes(-len(value) % 4)
            for name, value in sorted(attributes.items())
        )
        self._ask(kind, _REQUEST | _ACK | flags, head + packed)

    def _ask(self, kind: int, flags: int, body: bytes) -> list[bytes]:
        self.number += 1
        self.socket.send(struct.pack("=IHHII", 16 + len(body), kind, flags, self.number, 0) + body)
        found: list[bytes] = []
        while True:
            data = self.socket.recv(1 << 17)
            while data:
                length, answer, _flags, _number, _port = struct.unpack("=IHHII", data[:16])
                body, data = data[16:length], data[(length + 3) & ~3 :]
                if answer == _ERROR:
                    code = -struct.unpack("=i", body[:4])[0]
                    if code:
                        raise NetworkError(code, os.strerror(code))
                    return found
                if answer == _DONE:
                    return found
                found.append(body)


def _attributes(data: bytes) -> Attributes:
    found = {}
    while len(data) >= 4:
        length, name = struct.unpack("=HH", data[:4])
        if length < 4:
            break
        found[name & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def put_first(pid: int, gateway: str = "") -> bool:
    """Put the session's address first in the network namespace of the process *pid*; return whether it was not.

    gateway: where outgoing packets go if no way out is left: it is lost with the address that it has as its source.
    Nothing is done if one of the two interfaces is missing or has no address. Raises OSError.
    """
    with _namespace(pid) as target, closing(_Kernel()) as kernel:
        numbers = _numbers(kernel)
        addresses = {name: _addresses(kernel, numbers.get(name, 0)) for name in (OUTWARD, SESSION)}
        if not all(addresses.values()):
            return False
        address = addresses[SESSION][0].attributes[_IFA_LOCAL]
        wanted = in_order(numbers)
        routes = _routes(kernel)
        if gateway and not any(route.head[1] == 0 for route in routes):
            routes.append(_way_out(gateway, numbers[OUTWARD]))
        new = {
            numbers[name]: _renumber(kernel, target, name, numbers[name], number, addresses[name])
            for name, number in wanted.items()
            if number != numbers[name]
        }
        changed = bool(new)
        for route in routes:
            is_default = route.head[1] == 0
            attributes = {name: value for name, value in route.attributes.items() if name in _RTA_KEPT}
            interface = struct.unpack("=i", attributes[_RTA_OIF])[0]
            attributes[_RTA_OIF] = struct.pack("=i", new.get(interface, interface))
            if is_default:
                changed = changed or attributes.get(_RTA_PREFSRC) != address
                attributes[_RTA_PREFSRC] = address
            kernel.change(_NEWROUTE, _CREATE | _REPLACE, _ROUTE.pack(*route.head[:8], 0), attributes)
        return _translate(socket.inet_ntoa(address)) or changed


def is_first(pid: int, address: str) -> bool:
    """Tell whether programs in the network namespace of the process *pid* find the session's *address* first.

    Raises OSError.
    """
    wanted = [socket.inet_aton(address)]
    with _namespace(pid), closing(_Kernel()) as kernel:
        numbers = _numbers(kernel)
        if not numbers.keys() >= {OUTWARD, SESSION}:
            return False
        own = [entry.attributes[_IFA_LOCAL] for entry in _addresses(kernel, numbers[SESSION])]
        sources = [entry.attributes.get(_RTA_PREFSRC) for entry in _routes(kernel) if entry.head[1] == 0]
        ordered = in_order(numbers) == {name: numbers[name] for name in (OUTWARD, SESSION)}
        return ordered and own[:1] == sources == wanted


def is_translated(pid: int, address: str) -> bool:
    """Tell whether packets that leave the network namespace of *pid* outwards have that interface's own address.

    This starts a program for each rule, which `is_first` does not. Raises OSError.
    """
    with _namespace(pid):
        return not any(_run([*_NAT, "-C", *rule]) for rule in _rules(address))


def in_order(numbers: dict[str, int]) -> dict[str, int]:
    """Return the numbers that the two interfaces shall have: the session's gets the lower; one stays if possible.

    numbers: of all interfaces of the namespace, by name; some kernels make links of their own in each.
    """
    outward, session = numbers[OUTWARD], numbers[SESSION]
    if session < outward < _HASHED:
        return {OUTWARD: outward, SESSION: session}
    taken = {number for name, number in numbers.items() if name not in (OUTWARD, SESSION)}
    free = [number for number in range(2, _HASHED) if number not in taken]
    first = next(number for number in free if number != outward)
    if first < outward < _HASHED:
        return {OUTWARD: outward, SESSION: first}
    return {OUTWARD: next(number for number in free if number > first and number != session), SESSION: first}


def _numbers(kernel: _Kernel) -> dict[str, int]:
    return {
        entry.attributes[_IFLA_IFNAME].rstrip(b"\0").decode(): entry.head[2]
        for entry in kernel.entries(_GETLINK, _LINK, socket.AF_UNSPEC)
    }


def _addresses(kernel: _Kernel, number: int) -> list[Entry]:
    return [entry for entry in kernel.entries(_GETADDR, _ADDRESS) if entry.head[4] == number]


def _routes(kernel: _Kernel) -> list[Entry]:
    """Return the routes that do not follow from addresses, those to what others go through first."""
    found = [
        entry
        for entry in kernel.entries(_GETROUTE, _ROUTE)
        if entry.head[4] == _RT_TABLE_MAIN and entry.head[5] != _RTPROT_KERNEL and _RTA_OIF in entry.attributes
    ]
    return sorted(found, key=lambda entry: entry.head[1], reverse=True)


def _way_out(gateway: str, number: int) -> Entry:
    """Return the default route (rtnetlink(7)): set by an administrator, for everywhere, to one neighbour."""
    head = (socket.AF_INET, 0, 0, 0, _RT_TABLE_MAIN, _RTPROT_BOOT, _RT_SCOPE_UNIVERSE, _RTN_UNICAST, 0)
    return Entry(head, {_RTA_GATEWAY: socket.inet_aton(gateway), _RTA_OIF: struct.pack("=i", number)})


def _renumber(kernel: _Kernel, target: int, name: str, old: int, new: int, addresses: list[Entry]) -> int:
    """Give an interface another number: it gets one where it enters a namespace, so it goes out and comes back.

    Returns the number it has then, which is another than the one asked for where the kernel does not know how to.
    """
    no_ipv6 = _read(_NO_IPV6.format(name))
    with _namespace() as aside, closing(_Kernel()) as other:
        number = {_IFLA_NEW_IFINDEX: struct.pack("=i", new)}
        _move(kernel, old, aside, number)
        _move(other, _numbers(other)[name], target, number)
    new = _numbers(kernel)[name]
    if no_ipv6:
        with open(_NO_IPV6.format(name), "w", encoding="ascii") as file:
            file.write(no_ipv6)
    for entry in addresses:
        head = (*entry.head[:4], new)
        attributes = {key: value for key, value in entry.attributes.items() if key in _IFA_KEPT}
        kernel.change(_NEWADDR, _CREATE | _REPLACE, _ADDRESS.pack(*head), attributes)
    kernel.change(_NEWLINK, 0, _LINK.pack(socket.AF_UNSPEC, 0, new, _IFF_UP, _IFF_UP), {})
    return new


def _move(kernel: _Kernel, number: int, namespace: int, more: Attributes) -> None:
    attributes = {_IFLA_NET_NS_FD: struct.pack("=i", namespace), **more}
    kernel.change(_NEWLINK, 0, _LINK.pack(socket.AF_UNSPEC, 0, number, 0, 0), attributes)


def _translate(address: str) -> bool:
    """Have what goes by the outward interface bear that interface's own address; return whether that was not so.

    A server that answers datagrams takes the source for an answer from the route as well, so what comes in that way is
    given the session's address on its way up: the answer is known for one then, and leaves as it was asked for.
    """
    changed = False
    for rule in _rules(address):
        if _run([*_NAT, "-C", *rule]):
            changed = True
            if _run([*_NAT, "-A", *rule]):
                raise NetworkError(f"iptables refused the rule {' '.join(rule)}")
    return changed


def _rules(address: str) -> tuple[list[str], ...]:
    return (
        ["POSTROUTING", "-o", OUTWARD, "-s", address, "-j", "MASQUERADE"],
        ["PREROUTING", "-i", OUTWARD, "-p", "udp", "-j", "DNAT", "--to-destination", address],
    )


def _run(argv: list[str]) -> int:
    """Run a program without a word of it, in the network of this thread; return how it ended, 0 for well."""
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    child = os.posix_spawnp(argv[0], argv, os.environ, file_actions=nothing)  # pylint: disable=ansible-bad-function
    return os.waitpid(child, 0)[1]


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return ""


@contextmanager
def _namespace(pid: int = 0) -> Iterator[int]:
    """Enter the network namespace of a process, or a new one; only this thread is in it (setns(2))."""
    library = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    entered = -1
    try:
        if pid:
            entered = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            _checked(library.setns(entered, _CLONE_NEWNET))
        else:
            _checked(library.unshare(_CLONE_NEWNET))
            entered = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        yield entered
    finally:
        _checked(library.setns(own, _CLONE_NEWNET))
        os.close(own)
        if entered >= 0:
            os.close(entered)


def _checked(result: int) -> None:
    if result:
        code = ctypes.get_errno()
        raise NetworkError(code, os.strerror(code))


if __name__ == "__main__":
    put_first(int(sys.argv[1]))
