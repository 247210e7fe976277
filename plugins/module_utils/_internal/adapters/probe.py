# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Test the network between hosts in the form in which sessions use it, and leave nothing behind.

A process in the background holds a network namespace with a VXLAN link in it. The link's tunnel endpoint stays in the
namespace in which it was made (linux/drivers/net/vxlan, newlink), so its packets take the same way as those of
sessions, through the host's firewall, and whatever ends the process, a kill included, removes the namespace and the
link. The sockets of sessions and their rules, which name other identifiers, are not touched.

The process receives what other hosts send through the link and answers it, and accepts TCP connections only from the
other hosts, with a token. It ends when it has reported what arrived, or when no host has connected for a while.
"""

from __future__ import annotations

import contextlib
import ctypes
import hmac
import json
import os
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from ..core.values.deferred import dataclass
from ..core.values.errors import SessionError
from . import background, image_stream, link

IDLE = 900
"""Seconds without contact after which a process ends: if Ansible has few forks, turns come late."""
PAUSE = 5.0
"""Seconds after which it checks whether its time is up."""
LONGEST = 4 * 3600
"""Seconds after which it ends in any case."""
PROCESS_NAME = "cc-preflight"
"""Name of the process in ps(1); at most 15 characters (proc(5), comm)."""
LINK = "cc-preflight"
PORT = 7
"""UDP port inside the namespace, in which there is nothing else."""
TUNNEL, PLAIN = "tunnel", "plain"
SMALL = 128
"""Bytes of a packet that any network carries."""
HEADERS = 28
"""Bytes of IP and UDP headers before what is sent (RFC 791, RFC 768)."""
TRIES = 3
WAIT = 0.5
"""Seconds for answers to one try."""
CONNECT = 3.0
"""Seconds for a TCP connection."""
PARALLEL = 32
DRAIN = 30.0
"""Additional seconds for packets that are still on their way when the time of a measurement is over."""
BULK = 65536
"""Bytes that a test connection carries: more than fit into any one packet."""
ROUND_TRIPS = 40
TUNNEL_SIZES = (526, 1230, 1350, 1400, 1422, 1442)
"""Sizes inside the link that are tested if no answer shows what arrives: those of usual networks minus the overhead."""

_CLONE_NEWNET = 0x40000000
_IP_MTU_DISCOVER, _IP_PMTUDISC_DO, _IP_MTU = 10, 2, 14
_HEAD = struct.Struct("!16scIH")
"""Token, kind, number of the sender, size of the packet with its headers."""
_TRY, _ANSWER = b"T", b"A"
_CHECK, _DELAY, _THERE, _BACK = b"c", b"d", b"t", b"b"
_PLAN = struct.Struct("!dQ")
_COUNT = struct.Struct("!Qd")


class ProbeError(SessionError):
    """The network cannot be tested from this host; the message is a full sentence."""


@dataclass(frozen=True)
class Peer:
    """Another host: its number, its address in the link with the MAC, and its tunnel endpoint."""

    number: int
    address: str
    mac: str
    endpoint: str


@dataclass(frozen=True)
class Tunnel:
    """The link between the hosts: its identifier, the UDP port of its packets, and its MTU."""

    vni: int
    port: int
    mtu: int


@dataclass(frozen=True)
class Attempt:
    """A connection to another host. problem: empty if it worked. mtu: of the path, where the kernel reports it."""

    problem: str
    mtu: int | None = None


@dataclass(frozen=True)
class Started:
    """The process in the background, and the ports that it listens on: port (TCP) and udp (0 for none)."""

    server: dict[str, int]
    port: int
    udp: int


@dataclass(frozen=True)
class _Channels:
    """The sockets of the process in the host's network: for other hosts, for the host's root, and for plain packets."""

    listener: socket.socket
    control: socket.socket
    plain: socket.socket | None


# ---- the process in the background ----------------------------------------------------------------------------------


def start(
    own: Peer,
    peers: Iterable[Peer],
    tunnel: Tunnel,
    *,
    ports: tuple[int, int],
    encrypted: tuple[int, int] | None,
    token: str,
    at_end: Callable[[], object],
) -> Started:
    """Start the process.

    own: this host. ports: the first and the last TCP port to try. encrypted: the UDP ports of encrypted sessions, if
    these are to be tested. at_end: what the process does last, in the network of the host. Raises ProbeError, and
    leaves nothing behind then.
    """
    others = list(peers)
    vrf = link.vrf_of(own.endpoint)
    listener = image_stream.listen(own.endpoint, *ports)
    plain = _plain(own.endpoint, *encrypted, vrf) if encrypted else None
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.bind(_door(token))
    control.listen(4)
    to_child, to_parent = socket.socketpair()
    pid = os.fork()
    if not pid:
        _become_the_process(_Channels(listener, control, plain), to_parent, own, others, tunnel.mtu, token, at_end)
    control.close()
    to_parent.close()
    server = {"pid": pid, "start": background.start_of(pid) or 0}
    tcp = int(listener.getsockname()[1])
    udp = int(plain.getsockname()[1]) if plain is not None else 0
    for channel in (listener, plain):
        if channel is not None:
            channel.close()
    try:
        to_child.settimeout(30)
        _expect(to_child)
        vxlan = ["type", "vxlan", "id", str(tunnel.vni), "local", own.endpoint, "dstport", str(tunnel.port)]
        where = ["dev", vrf] if vrf else []
        link.run(["ip", "link", "add", "name", LINK, "netns", str(pid), *vxlan, "nolearning", "proxy", *where])
        to_child.sendall(b"\n")
        _expect(to_child, tunnel.port, own.endpoint)
    except (OSError, SessionError) as error:
        image_stream.end_server(**server)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise ProbeError(str(error)) from error
    finally:
        to_child.close()
    return Started(server, tcp, udp)


def _plain(address: str, first: int, last: int, vrf: str = "") -> socket.socket:
    """Return a socket at the first UDP port that is free. Raises ProbeError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    problem = ""
    for port in range(first, last + 1):
        channel = socket.socket(family, socket.SOCK_DGRAM)
        try:
            link.enter_vrf(channel, vrf)
            channel.bind((address, port))
            return channel
        except OSError as error:
            channel.close()
            problem = f"{error.strerror} at {address} port {port}"
    raise ProbeError(f"It cannot listen: {problem}.")


def _door(token: str) -> str:
    """Return the name of the socket for the host's own root: one that is not a file (unix(7), abstract)."""
    return f"\0{PROCESS_NAME}-{token[:16]}"


def _expect(channel: socket.socket, port: int = 0, local: str = "") -> None:
    """Read the line in which the other side reports that it is ready, or why it is not.

    port, local: of the tunnel, and its endpoint here.
    """
    received = b""
    while not received.endswith(b"\n"):
        more = channel.recv(4096)
        if not more:
            raise ProbeError(received.decode("utf-8", "replace") or "The process that holds the link ended at once.")
        received += more
    if received != b"ready\n":
        problem = link.LinkError(received.decode("utf-8", "replace").strip())
        raise ProbeError(str(link.port_error(problem, port, local)))


def _become_the_process(
    channels: _Channels,
    parent: socket.socket,
    own: Peer,
    peers: list[Peer],
    mtu: int,
    token: str,
    at_end: Callable[[], object],
) -> None:
    """Hold the link and answer, in the process that was forked for it; never returns."""
    try:
        os.setsid()
        for number in (signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, _stop)
        signal.alarm(LONGEST)
        every = (channels.listener, channels.control, channels.plain, parent)
        kept = [channel.fileno() for channel in every if channel is not None]
        background.let_go_of_everything_but(*kept)
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(PROCESS_NAME)
        libc = ctypes.CDLL(None, use_errno=True)
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.unshare(_CLONE_NEWNET) != 0:
                raise ProbeError(f"The kernel refuses a network namespace: {os.strerror(ctypes.get_errno())}.")
            parent.sendall(b"ready\n")
            parent.recv(1)
            inside = _set_up(own, peers, mtu)
        except (OSError, SessionError) as error:
            parent.sendall(f"{error}\n".encode())
            return
        parent.sendall(b"ready\n")
        parent.close()
        try:
            endpoints = {peer.endpoint for peer in peers}
            _Process(channels.listener, channels.control, inside, channels.plain, endpoints, token).run()
        finally:
            libc.setns(home, _CLONE_NEWNET)
            at_end()
    finally:
        os._exit(0)  # the rest of the module must not run a second time


def _stop(_number: int, _frame: object) -> None:
    raise SystemExit


def _set_up(own: Peer, peers: list[Peer], mtu: int) -> socket.socket:
    link.run(["ip", "link", "set", "dev", "lo", "up"])
    link.run(["ip", "link", "set", "dev", LINK, "mtu", str(mtu), "address", own.mac, "up"])
    link.run(["ip", "address", "add", f"{own.address}/15", "dev", LINK])
    forwarding = {(peer.mac, peer.endpoint) for peer in peers}
    neighbours = {(peer.address, peer.mac) for peer in peers}
    link.change_peers(LINK, (set(), forwarding), (set(), neighbours))
    inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    inside.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    inside.bind((own.address, PORT))
    return inside


class _Process:
    """The work of the process until it ends."""

    def __init__(
        self,
        listener: socket.socket,
        control: socket.socket,
        inside: socket.socket,
        plain: socket.socket | None,
        peers: set[str],
        token: str,
    ) -> None:
        self.listener = listener
        self.control = control
        self.inside = inside
        self.plain = plain
        self.peers = peers
        self.token = token
        self.heard: dict[str, dict[int, int]] = {TUNNEL: {}, PLAIN: {}}
        self.last = time.monotonic()
        self.measuring = threading.Lock()

    def run(self) -> None:
        """Answer the probes of peers, until root requests the report or no probe has come for `IDLE` seconds."""
        every = [self.listener, self.control, self.inside] + ([self.plain] if self.plain is not None else [])
        for channel in every:
            channel.setblocking(False)  # what was ready may be gone by the time it is taken
        while time.monotonic() < self.last + IDLE:
            ready, _dummy, _dummy = select.select(every, [], [], PAUSE)
            if self.inside in ready:
                self._hear(self.inside, self.heard[TUNNEL])
            if self.plain is not None and self.plain in ready:
                self._hear(self.plain, self.heard[PLAIN])
            if self.listener in ready:
                self._welcome()
            if self.control in ready and self._tell():
                return

    def _hear(self, channel: socket.socket, heard: dict[int, int]) -> None:
        try:
            data, sender = channel.recvfrom(65536)
        except OSError:
            return
        if len(data) < _HEAD.size:
            return
        token, kind, number, size = _HEAD.unpack_from(data)
        if kind == _TRY and token == self.token[:16].encode() and size == len(data) + HEADERS:
            self.last = time.monotonic()
            heard[number] = max(size, heard.get(number, 0))
            with contextlib.suppress(OSError):
                channel.sendto(_HEAD.pack(token, _ANSWER, number, size), sender)

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):
            plain, (address, *_rest) = self.listener.accept()
            if address in self.peers:
                self.last = time.monotonic()
                threading.Thread(target=self._serve, args=(plain,), daemon=True).start()
            else:
                plain.close()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ProbeError), connection:
            connection.settimeout(CONNECT)
            received = _read(connection, len(self.token) + 1)
            if not hmac.compare_digest(received[:-1], self.token.encode()):
                return
            kind = received[-1:]
            if kind == _CHECK:
                _read(connection, BULK)
                connection.sendall(_CHECK)
                return
            # At most one pair at once is measured at a host.
            with self.measuring:
                if kind == _DELAY:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    for _number in range(ROUND_TRIPS):
                        connection.sendall(_read(connection, 1))
                    return
                seconds, size = _PLAN.unpack(_read(connection, _PLAN.size))
                if kind == _BACK:
                    _pour(connection, seconds, size)
                else:
                    connection.settimeout(DRAIN + seconds)
                    connection.sendall(_COUNT.pack(*_drain(connection)))
            self.last = time.monotonic()

    def _tell(self) -> bool:
        """Report what arrived; return whether root asked for it, after which the process ends."""
        with contextlib.suppress(OSError):
            channel, _dummy = self.control.accept()
            with channel:
                channel.settimeout(CONNECT)
                peer_credentials = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                if struct.unpack("3i", peer_credentials)[1] == 0:
                    channel.sendall(json.dumps(self.heard).encode())
                    return True
        return False


def end(server: Mapping[str, int], token: str) -> dict[str, dict[str, int]] | None:
    """End the process; return the size of the largest packet that arrived, by the number of the host that sent it.

    Those through the link are at `TUNNEL`, those to the port of encrypted sessions at `PLAIN`. None if the process had
    ended before.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(10)
            channel.connect(_door(token))
            received = b""
            while more := channel.recv(65536):
                received += more
        return dict(json.loads(received))
    except (OSError, ValueError):
        return None
    finally:
        _see_end(server.get("pid", 0), server.get("start", 0))


def _see_end(pid: int, began: int) -> None:
    """Wait while the process does what it does last; if that takes too long, kill it."""
    deadline = time.monotonic() + CONNECT
    while began and background.start_of(pid) == began and time.monotonic() < deadline:
        time.sleep(0.02)
    image_stream.end_server(pid, began)


# ---- what asks it ---------------------------------------------------------------------------------------------------


@contextmanager
def outside(address: str) -> Iterator[socket.socket]:
    """Yield a socket at an address of this host."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as channel:
        link.enter_vrf(channel, link.vrf_of(address))
        channel.bind((address, 0))
        yield channel


@contextmanager
def inside_of(pid: int, address: str) -> Iterator[socket.socket]:
    """Yield a socket in the network namespace of process *pid* whose packets are never fragmented."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            other = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ProbeError(f"The process that holds the link is gone ({error.strerror}).") from error
        try:
            if libc.setns(other, _CLONE_NEWNET) != 0:
                raise ProbeError(f"The kernel refuses to enter the namespace: {os.strerror(ctypes.get_errno())}.")
            channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        finally:
            # A socket belongs to the namespace in which it was made, wherever it is used.
            libc.setns(own, _CLONE_NEWNET)
            os.close(other)
    finally:
        os.close(own)
    with channel:
        channel.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
        channel.bind((address, 0))
        yield channel


class Tries:
    """Packets to other hosts. number: this host's. ports: by address the port there, if it is not `PORT`."""

    def __init__(self, channel: socket.socket, number: int, token: str, ports: Mapping[str, int] | None = None) -> None:
        self.channel = channel
        self.ports = ports or {}
        self.number = number
        self.token = token[:16].encode()

    def reach(self, wanted: Mapping[str, int], tries: int = TRIES, wait: float = WAIT) -> set[str]:
        """Send one packet of the size in *wanted* to each address, again to those that do not answer.

        Returns the addresses that answered. A packet that arrives counts there even if the answer is lost.
        """
        left = dict(wanted)
        for _number in range(tries):
            if not left:
                break
            for count, (address, size) in enumerate(left.items()):
                data = _HEAD.pack(self.token, _TRY, self.number, size).ljust(size - HEADERS, b"\0")
                with contextlib.suppress(OSError):
                    self.channel.sendto(data, (address, self.ports.get(address, PORT)))
                if count % PARALLEL == PARALLEL - 1:
                    time.sleep(0.001)  # a queue on the way is short
            self._hear(left, time.monotonic() + wait)
        return set(wanted) - set(left)

    def spread(self, most: Mapping[str, int]) -> None:
        """Send packets of several usual sizes to addresses that do not answer; the receiver records what arrives."""
        for size in TUNNEL_SIZES:
            self.reach({address: size for address, limit in most.items() if size < limit}, tries=2, wait=WAIT / 10)

    def _hear(self, left: dict[str, int], deadline: float) -> None:
        while left and (rest := deadline - time.monotonic()) > 0:
            self.channel.settimeout(rest)
            try:
                data, (address, *_rest) = self.channel.recvfrom(65536)
            except OSError:
                return
            if len(data) >= _HEAD.size:
                token, kind, _number, size = _HEAD.unpack_from(data)
                if (token, kind) == (self.token, _ANSWER) and left.get(address) == size:
                    del left[address]

    def largest(self, most: Mapping[str, int]) -> None:
        """Find for each address the size, below that of *most*, up to which packets arrive.

        Nothing is returned: the other hosts record what arrived.
        """
        low = dict.fromkeys(most, SMALL)
        high = dict(most)
        while open_ones := [address for address in most if high[address] - low[address] > 1]:
            middle = {address: (low[address] + high[address]) // 2 for address in open_ones}
            arrived = self.reach(middle, tries=2, wait=WAIT / 2)
            for address in open_ones:
                if address in arrived:
                    low[address] = middle[address]
                else:
                    high[address] = middle[address]


def try_ports(targets: Mapping[str, int], own: str, token: str) -> dict[str, Attempt]:
    """Connect to the TCP port of each address.

    The connection carries more than fits into one packet, so the kernel has learned what a router on the way carries.
    """
    vrf = link.vrf_of(own)

    def attempt(target: tuple[str, int]) -> Attempt:
        try:
            with _connected(target, own, vrf, token, _CHECK) as connection:
                connection.sendall(bytes(BULK))
                _read(connection, 1)
                plain = ":" not in target[0]
                mtu = connection.getsockopt(socket.IPPROTO_IP, _IP_MTU) if plain else None
                return Attempt("", mtu)
        except (OSError, ProbeError) as error:
            why = "no answer" if isinstance(error, socket.timeout) else getattr(error, "strerror", None) or str(error)
            return Attempt(str(why))

    with ThreadPoolExecutor(PARALLEL) as pool:
        return dict(zip(targets, pool.map(attempt, targets.items())))


def measure(target: tuple[str, int], own: str, token: str, seconds: float, size: int) -> dict[str, float]:
    """Measure the path to one host and back: the median round trip in seconds, bits a second there and back.

    seconds, size: the most that one direction may take. Raises ProbeError.
    """
    vrf = link.vrf_of(own)
    try:
        with _connected(target, own, vrf, token, _DELAY) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            times = []
            for _number in range(ROUND_TRIPS):
                begin = time.perf_counter()
                connection.sendall(b"\0")
                _read(connection, 1)
                times.append(time.perf_counter() - begin)
        with _connected(target, own, vrf, token, _THERE) as connection:
            connection.sendall(_PLAN.pack(seconds, size))
            _pour(connection, seconds, size)
            connection.settimeout(DRAIN + seconds)
            there = _COUNT.unpack(_read(connection, _COUNT.size))
        with _connected(target, own, vrf, token, _BACK) as connection:
            connection.sendall(_PLAN.pack(seconds, size))
            connection.settimeout(DRAIN + seconds)
            back = _drain(connection)
    except OSError as error:
        raise ProbeError(f"{target[0]} port {target[1]}: {error.strerror or error}.") from error
    return {"delay": sorted(times)[len(times) // 2], "there": _rate(there), "back": _rate(back)}


def _rate(counted: tuple[int, float]) -> float:
    count, seconds = counted
    return 8 * count / seconds if seconds > 0 else 0.0


def _connected(target: tuple[str, int], own: str, vrf: str, token: str, kind: bytes) -> socket.socket:
    connection = image_stream.connect(target, CONNECT, own, vrf)
    connection.sendall(token.encode() + kind)
    return connection


def _pour(connection: socket.socket, seconds: float, size: int) -> None:
    """Send for *seconds*, *size* bytes at most, and mark the end."""
    connection.settimeout(DRAIN + seconds)
    deadline = time.monotonic() + seconds
    block, left = bytes(1 << 18), size
    while left > 0 and time.monotonic() < deadline:
        left -= connection.send(block[: min(left, len(block))])
    connection.shutdown(socket.SHUT_WR)


def _drain(connection: socket.socket) -> tuple[int, float]:
    """Return how many bytes came, and in how many seconds."""
    block = bytearray(1 << 18)
    count = connection.recv_into(block)
    begin = time.monotonic()
    first = count
    while more := connection.recv_into(block):
        count += more
    # Bytes in the first packet took none of the time.
    return count - first, time.monotonic() - begin


def _read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise ProbeError("it closed the connection")
        found += more
    return found
