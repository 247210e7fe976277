# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""TCP sockets that listen in the network of a process.

The kernel is asked only for listening sockets (sock_diag(7)), by a socket that was made in that network. To make a file
of /proc/PID/net it would walk through the table of all connections of the machine, which has half a million places if
the machine has much memory: 9 milliseconds instead of 0.2, for each check of each replica.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from . import netlink

_SOCK_DIAG, _BY_FAMILY = 4, 20
"""From linux/netlink.h and linux/sock_diag.h: protocol and kind of a request."""
_NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of sched.h."""
_LISTEN = 10
"""TCP_LISTEN of the kernel's states."""


class Listener(NamedTuple):
    """A socket that listens. inode: its name in the files of its process (proc(5))."""

    address: str
    port: int
    inode: int


def listens(pid: int, address: str, port: int) -> bool:
    """Tell whether anything listens on TCP *address* and *port* in the network of process *pid*."""
    return address in listening_addresses(pid, port)


def listening_addresses(pid: int, port: int) -> set[str]:
    """Return the addresses on which anything listens on TCP *port* in the network of process *pid*.

    An IPv4 address is one however the socket has it: Java and others have it as one of IPv6, ``::ffff:`` and the rest.
    """
    return {listener.address for listener in listeners(pid) if listener.port == port}


def listening_sockets(pid: int) -> set[str]:
    """Return the TCP sockets that listen in the network of process *pid*, as its open files name them (proc(5))."""
    return {f"socket:[{listener.inode}]" for listener in listeners(pid)}


def taken_ports(pid: int) -> set[int]:
    """Return the TCP ports on which anything listens, on whatever address, in the network of process *pid*."""
    return {listener.port for listener in listeners(pid)}


def listeners(pid: int) -> list[Listener]:
    """Return the listening sockets in the network of process *pid*; none if it has just ended."""
    from concurrent.futures import ThreadPoolExecutor  # not needed for the facts of a host

    try:
        # A thread of its own is in another network until it ends; the process stays where it is (setns(2)).
        with ThreadPoolExecutor(1) as pool, pool.submit(_socket_in_network_of, pid).result() as asking:
            return [found for family in (socket.AF_INET, socket.AF_INET6) for found in _listening(asking, family)]
    except OSError:  # not root, or a kernel without it
        return list(_in_tables(pid))


def _socket_in_network_of(pid: int) -> socket.socket:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{pid}/ns/net", "rb") as namespace:
        if libc.setns(namespace.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "setns")
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG)


def _listening(asking: socket.socket, family: int) -> Iterator[Listener]:
    """Yield the listening sockets of a family that the kernel reports. Raises OSError."""
    wanted = struct.pack("=BBHI48x", family, socket.IPPROTO_TCP, 0, 1 << _LISTEN)
    for answer in netlink.exchange(asking, _BY_FAMILY, netlink.DUMP, wanted):
        # struct inet_diag_msg of linux/inet_diag.h
        (port,), (inode,) = struct.unpack_from(">H", answer, 4), struct.unpack_from("=I", answer, 68)
        yield Listener(_text_of(answer[8:24] if family == socket.AF_INET6 else answer[8:12]), port, inode)


def _in_tables(pid: int) -> Iterator[Listener]:
    # A line for each socket (proc_pid_net(5)): the address in words of the machine's byte order, and 0A for one that
    # listens.
    for table in ("tcp", "tcp6"):
        with suppress(OSError):  # it is just ending, or the kernel has no IPv6
            for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                address, _colon, port = fields[1].partition(":")
                words = (int(address[place : place + 8], 16) for place in range(0, len(address), 8))
                packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
                if fields[3] == "0A":
                    yield Listener(_text_of(packed), int(port, 16), int(fields[9]))


def _text_of(packed: bytes) -> str:
    text = socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
    return text.removeprefix("::ffff:") if "." in text else text
