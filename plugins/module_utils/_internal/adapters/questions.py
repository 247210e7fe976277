# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Ask other hosts, many at once and in bounded time: for this host's membership in a session, or a sign of life."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import random
import select
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack
from typing import Generic, TypeVar, Union

from ..core.rules.membership import NONCE_SIZE, QUESTION, question, read_answer
from ..core.values.deferred import dataclass
from . import link

SECONDS = 1.0
"""Seconds without any answer after which no more are expected."""
MORE_SECONDS = 1.6
"""The same after an answer has come: a kernel sends a host six ICMP errors at once and one a second from then on
(Linux, icmp_ratelimit), and each session has its own question to each peer."""
MOST_SECONDS = 20.0
"""Most seconds of all attempts."""
AGAIN_SECONDS = 0.3
"""Seconds after which unanswered questions are sent again."""

_CLONE_NEWNET = 0x40000000
_ERRORS = {4: (socket.IPPROTO_IP, 11), 6: (socket.IPPROTO_IPV6, 25)}
"""Level and number of IP_RECVERR and IPV6_RECVERR, which have ICMP messages queued for the socket (ip(7), ipv6(7))."""
_ERROR = struct.Struct("=IBBBxII")
"""struct sock_extended_err, followed by the address of the sender of the message."""
_BY_ICMP = {4: 2, 6: 3}
"""Origins of errors: SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6."""
_FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
_ICMP = {4: socket.IPPROTO_ICMP, 6: socket.IPPROTO_ICMPV6}
_ECHO_REQUEST, _ECHO_REPLY = {4: 8, 6: 128}, {4: 0, 6: 129}
"""ICMP types (RFC 792, RFC 4443)."""

_Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
_Answer = tuple[bytes, _Address, bool]
"""An answer: data that ends with what was sent, its sender, and yes or no."""


@dataclass(frozen=True)
class Question:
    """A question for this host's membership: from its own underlay address to a peer's, to the port of a tunnel.

    flags: with WAITING the question is whether the peer has given up starting the session.
    """

    local: str
    address: str
    port: int
    vni: int
    flags: int = QUESTION


@dataclass(frozen=True)
class Echo:
    """A request for a sign of life, from the network of process *pid*, 0 for the host's own.

    local: this host's underlay address, if *address* is a peer's.
    """

    address: str
    pid: int = 0
    local: str = ""


def ask(questions: Iterable[Question], most_seconds: float = MOST_SECONDS) -> dict[Question, bool]:
    """Return the answers, yes or no, by question; unanswered questions are missing."""
    return _Questions(questions).run(most_seconds)


def echo(requests: Iterable[Echo]) -> set[Echo]:
    """Return the answered *requests*."""
    return set(_Echoes(requests).run(SECONDS))


_Wanted = TypeVar("_Wanted", Question, Echo)


class _Exchange(ABC, Generic[_Wanted]):
    """Sends to all at once and repeatedly, and collects answers, until all have come or no more do."""

    def __init__(self, wanted: Iterable[_Wanted]) -> None:
        self.pending: dict[bytes, _Wanted] = {os.urandom(NONCE_SIZE): request for request in wanted}
        self.found: dict[_Wanted, bool] = {}

    @abstractmethod
    def source(self, wanted: _Wanted) -> Hashable:
        """Return a key of the socket; questions with the same key share one."""

    @abstractmethod
    def open(self, wanted: _Wanted) -> socket.socket:
        """Return that socket. Raises OSError."""

    @abstractmethod
    def message(self, wanted: _Wanted, nonce: bytes) -> tuple[bytes, tuple[str, int]]:
        """Return the data to send, and its destination."""

    @abstractmethod
    def read(self, channel: socket.socket) -> _Answer | None:
        """Return the next answer; None if it is not one. Raises OSError if there is nothing."""

    def run(self, most_seconds: float) -> dict[_Wanted, bool]:
        """Return the answers that came within this time, or until no more did."""
        with ExitStack() as stack:
            channels = self._open_all(stack)
            poll = select.poll()
            for channel in channels.values():
                poll.register(channel, select.POLLIN)
            by_number = {channel.fileno(): channel for channel in channels.values()}
            first = last = time.monotonic()
            while channels and self.pending:
                patience = MORE_SECONDS if self.found else SECONDS
                if time.monotonic() >= min(last + patience, first + most_seconds):
                    break
                self._send(channels)
                last = self._collect(poll, by_number) or last
        return self.found

    def _open_all(self, stack: ExitStack) -> dict[Hashable, socket.socket]:
        """Open the sockets that are needed, by their keys; they are closed with *stack*."""
        channels: dict[Hashable, socket.socket] = {}
        for wanted in {self.source(wanted): wanted for wanted in self.pending.values()}.values():
            with contextlib.suppress(OSError):  # this host has lost the address, or the process has just ended
                channels[self.source(wanted)] = stack.enter_context(self.open(wanted))
        return channels

    def _collect(self, poll: select.poll, by_number: dict[int, socket.socket]) -> float | None:
        """Collect answers until it is time to send again, or all have come. Return when the last one came."""
        last = None
        again = time.monotonic() + AGAIN_SECONDS
        while self.pending and (left := again - time.monotonic()) > 0:
            for number, _event in poll.poll(left * 1000):
                if self._receive(by_number[number]):
                    last = time.monotonic()
        return last

    def _send(self, channels: dict[Hashable, socket.socket]) -> None:
        # In another order each time: if a peer answers only a few, they are not always the same few.
        for nonce, wanted in random.sample(list(self.pending.items()), len(self.pending)):
            if (channel := channels.get(self.source(wanted))) is None:
                continue
            for _attempt in range(3):
                try:
                    channel.sendto(*self.message(wanted, nonce))
                    break
                except OSError:
                    continue  # an earlier error, which the kernel reports with the next call, or no route

    def _receive(self, channel: socket.socket) -> bool:
        """Read everything that has arrived and tell whether any of it is an answer."""
        heard = False
        while True:
            try:
                answer = self.read(channel)
            except OSError:  # there is nothing more, or it is an error of an earlier packet
                return heard
            if answer is None:
                continue
            data, sender, says = answer
            wanted = self.pending.get(data[-NONCE_SIZE:])
            if wanted is not None and sender == ipaddress.ip_address(wanted.address):
                self.found[wanted] = says
                del self.pending[data[-NONCE_SIZE:]]
                heard = True


class _Questions(_Exchange[Question]):
    def source(self, wanted: Question) -> str:
        """Return the local address that the question is sent from."""
        return wanted.local

    def open(self, wanted: Question) -> socket.socket:
        """Open a socket that sends from that address, and receives ICMP errors. Raises OSError."""
        version = ipaddress.ip_address(wanted.local).version
        channel = socket.socket(_FAMILY[version], socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            channel.setsockopt(*_ERRORS[version], 1)
            link.enter_vrf(channel, link.vrf_of(wanted.local))
            channel.bind((wanted.local, 0))
        except OSError:
            channel.close()
            raise
        return channel

    def message(self, wanted: Question, nonce: bytes) -> tuple[bytes, tuple[str, int]]:
        """Return the packet that asks, and the address and port it is sent to."""
        return question(wanted.flags, wanted.vni, nonce), (wanted.address, wanted.port)

    def read(self, channel: socket.socket) -> _Answer | None:
        """Return the answer in the next ICMP error; None if that is not an answer. Raises OSError if there is none."""
        version = 6 if channel.family == socket.AF_INET6 else 4
        data, ancillary, _flags, _address = channel.recvmsg(2048, 512, socket.MSG_ERRQUEUE)
        for level, number, content in ancillary:
            if (level, number) == _ERRORS[version]:
                _errno, origin, icmp_type, code, _info, _data = _ERROR.unpack_from(content)
                says = read_answer(version, icmp_type, code)
                if origin == _BY_ICMP[version] and says is not None:
                    # struct sockaddr_in has the address behind family and port, sockaddr_in6 the flow before it.
                    start, length = (_ERROR.size + 4, 4) if version == 4 else (_ERROR.size + 8, 16)
                    return data, ipaddress.ip_address(content[start : start + length]), says
        return None


class _Echoes(_Exchange[Echo]):
    def source(self, wanted: Echo) -> tuple[int, int, str]:
        """Return the process whose network sends the echo request, the IP version, and the local address."""
        return wanted.pid, ipaddress.ip_address(wanted.address).version, wanted.local

    def open(self, wanted: Echo) -> socket.socket:
        """Open a raw ICMP socket in the network of that process. Raises OSError."""
        pid, version, local = self.source(wanted)
        with _network_of(pid):
            channel = socket.socket(_FAMILY[version], socket.SOCK_RAW | socket.SOCK_NONBLOCK, _ICMP[version])
        link.enter_vrf(channel, link.vrf_of(local))
        return channel

    def message(self, wanted: Echo, nonce: bytes) -> tuple[bytes, tuple[str, int]]:
        """Return the echo request, and the address it is sent to; ICMP has no ports, so the port is 0."""
        version = ipaddress.ip_address(wanted.address).version
        packet = struct.pack("!BBHI", _ECHO_REQUEST[version], 0, 0, 0) + nonce
        if version == 4:  # of ICMPv6 the kernel makes it (RFC 3542, 3.1)
            packet = packet[:2] + struct.pack("!H", _checksum(packet)) + packet[4:]
        return packet, (wanted.address, 0)

    def read(self, channel: socket.socket) -> _Answer | None:
        """Return the next echo reply; None if the packet is something else. Raises OSError if there is none."""
        data, sender = channel.recvfrom(2048)
        version = 6 if channel.family == socket.AF_INET6 else 4
        message = data if version == 6 else data[(data[0] & 15) * 4 :]
        if message[:1] != bytes([_ECHO_REPLY[version]]):
            return None
        return message, ipaddress.ip_address(sender[0].partition("%")[0]), True


def _checksum(packet: bytes) -> int:
    """Return the checksum of an ICMP message (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    total = (total >> 16) + (total & 0xFFFF)
    return 0xFFFF - ((total + (total >> 16)) & 0xFFFF)


@contextlib.contextmanager
def _network_of(pid: int) -> Iterator[None]:
    """Create sockets of this thread in the network of process *pid*, 0 for the host's own. Raises OSError."""
    if not pid:
        yield
        return
    library = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net", "rb") as own, open(f"/proc/{pid}/ns/net", "rb") as other:
        if library.setns(other.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            if library.setns(own.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
