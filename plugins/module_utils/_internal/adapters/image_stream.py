# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Send one image from one host to another: a connection that both ends can trust, and a server that ends by itself.

The server shows a certificate made for this one transfer. The receiver accepts only the certificate with the expected
fingerprint, and only then sends the token without which the server sends nothing. The archive is sent as frames: a
length of four bytes, then so many bytes. The length 0 ends it, so that a truncated archive never counts as complete.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import os
import signal
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator

from ..core.values.errors import SessionError
from . import link
from .background import run_in_background, start_of

WAIT = 1800
"""Seconds for which a server waits for its receiver, whose turn may come late if Ansible has few forks."""
LONGEST = 4 * 3600
"""Seconds after which a server ends whatever it is doing."""
CONNECT = 10
"""Seconds for a connection, and for the first message of both sides."""
PAUSE = 0.2
"""Seconds after which a waiting server checks whether it sends by now."""
MOST_STRANGERS = 100
"""Connections that a server holds before it knows who they are from; more are closed at once."""
STALL = 600
"""Seconds without a byte after which a transfer is given up: an engine packs a large image before it sends it."""
PORT_WAIT = 30
"""Seconds for which a server waits for a port that other programs use."""
FRAME = struct.Struct("!I")
FAILURE = 2**32 - 1
"""Sent instead of a length: the sender's engine failed, and the reason follows up to the end."""
LONGEST_REASON = 2000
LARGEST_FRAME = 64 * 1024**2
PROCESS_NAME = "cc-image-server"
"""Name of a server in ps(1); at most 15 characters (proc(5), comm)."""


class StreamError(SessionError):
    """A transfer failed; the message is a sentence about it without the names of the hosts."""


def listen(address: str, first: int, last: int) -> socket.socket:
    """Return a socket that listens on *address*, on the first port from *first* to *last* that is free.

    Raises StreamError if all are taken for `PORT_WAIT` seconds, or if the address is not this host's.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    vrf = link.vrf_of(address)
    deadline = time.monotonic() + PORT_WAIT
    while True:
        for port in range(first, last + 1):
            listener = socket.socket(family, socket.SOCK_STREAM)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                link.enter_vrf(listener, vrf)
                listener.bind((address, port))
                listener.listen(8)
                return listener
            except OSError as error:
                listener.close()
                problem = f"{error.strerror} at {address} port {port}"
        if time.monotonic() >= deadline:
            raise StreamError(f"It cannot listen: {problem}.")
        time.sleep(0.5)


def connect(target: tuple[str, int], seconds: float, own: str | None, vrf: str) -> socket.socket:
    """Return a connection from the address *own* of this host, None for any, and in its VRF. Raises OSError."""
    connection = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        link.enter_vrf(connection, vrf)
        if own:
            connection.bind((own, 0))
        connection.connect(target)
    except OSError:
        connection.close()
        raise
    return connection


def identity() -> tuple[ssl.SSLContext, str]:
    """Return the settings of a server with a key and a certificate of its own, and the certificate's fingerprint."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, PROCESS_NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of hosts may be wrong, and the certificate is pinned: it is valid for the one transfer it was made for.
        .not_valid_before(datetime.datetime(2000, 1, 1))
        .not_valid_after(datetime.datetime(9999, 12, 31))
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # OpenSSL reads it from a file; this one is in memory only (memfd_create(2)).
    memory = os.memfd_create(PROCESS_NAME)
    try:
        os.write(memory, pem)
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
    return context, hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def serve_in_background(
    listener: socket.socket, context: ssl.SSLContext, expected: str, chunks: Callable[[], Iterator[bytes]]
) -> dict[str, int]:
    """Start a process that sends *chunks* to the first client that sends the token *expected*, then ends.

    Returns what identifies the process: its number and when it was started (proc(5), stat).
    """

    def work() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LONGEST)
        _serve(listener, context, expected, chunks)

    process = run_in_background(PROCESS_NAME, work, listener.fileno())
    listener.close()
    return process


def _serve(
    listener: socket.socket, context: ssl.SSLContext, expected: str, chunks: Callable[[], Iterator[bytes]]
) -> None:
    """Send *chunks* to the first client with the token; clients that connect and send nothing block no others."""
    deadline = time.monotonic() + WAIT
    free, first = threading.Semaphore(MOST_STRANGERS), threading.Lock()
    chosen, done = threading.Event(), threading.Event()

    def greet(plain: socket.socket) -> None:
        try:
            plain.settimeout(CONNECT)
            with context.wrap_socket(plain, server_side=True) as connection:
                received = _read(connection, len(expected))
                if hmac.compare_digest(received, expected.encode()) and first.acquire(blocking=False):
                    chosen.set()
                    try:
                        _watch(connection)
                        _send(connection, chunks)
                    finally:
                        done.set()
        except (OSError, StreamError):
            return
        finally:
            free.release()

    while not chosen.is_set() and time.monotonic() < deadline:
        listener.settimeout(PAUSE)
        try:
            plain, _peer = listener.accept()
        except socket.timeout:
            continue
        except OSError:
            return
        if free.acquire(blocking=False):
            threading.Thread(target=greet, args=(plain,), daemon=True).start()
        else:
            plain.close()
    listener.close()
    if chosen.is_set():
        done.wait()


def _send(connection: ssl.SSLSocket, chunks: Callable[[], Iterator[bytes]]) -> None:
    try:
        for chunk in chunks():
            if chunk:
                connection.sendall(FRAME.pack(len(chunk)))
                connection.sendall(chunk)
    except SessionError as error:
        connection.sendall(FRAME.pack(FAILURE) + str(error).encode()[:LONGEST_REASON])
        return
    connection.sendall(FRAME.pack(0))
    connection.unwrap()


def _watch(connection: socket.socket) -> None:
    """Detect within a minute that the other host is gone, however long it may be silent while it is there."""
    connection.settimeout(STALL)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)


class Incoming:
    """An image on its way to this host; iterating yields the archive. count: the bytes that came so far."""

    def __init__(self, address: str, port: int, fingerprint: str, secret: str, source: str | None = None) -> None:
        """Connect. Raises StreamError if nothing answers, or another program than expected.

        source: the address of this host to connect from, None for any.
        """
        self.count = 0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The other side is known only by its fingerprint, which came over Ansible's own connections.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            plain = connect((address, port), CONNECT, source, link.vrf_of(source))
        except OSError as error:
            raise StreamError(f"it cannot be reached at {address} port {port} ({error.strerror or error})") from None
        try:
            self._connection = context.wrap_socket(plain, suppress_ragged_eofs=False)
            shown = hashlib.sha256(self._connection.getpeercert(binary_form=True) or b"").hexdigest()
            if not hmac.compare_digest(shown, fingerprint):
                self._connection.close()
                raise StreamError(
                    f"what answers at {address} port {port} shows another certificate than the one made for this "
                    "transfer, so it is somebody else"
                )
            self._connection.sendall(secret.encode())
            _watch(self._connection)
        except OSError as error:
            plain.close()
            raise StreamError(f"the connection to {address} port {port} broke ({error.strerror or error})") from None

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the archive. Raises StreamError if it is not complete."""
        while True:
            (size,) = FRAME.unpack(_read(self._connection, FRAME.size))
            if size == 0:
                return
            if size == FAILURE:
                reason = b""
                while len(reason) < LONGEST_REASON and (more := self._rest()):
                    reason += more
                raise StreamError(f"it failed: {reason.decode('utf-8', 'replace')}")
            if size > LARGEST_FRAME:
                raise StreamError("it sends something that is not an image")
            chunk = _read(self._connection, size)
            self.count += size
            yield chunk

    def _rest(self) -> bytes:
        try:
            return self._connection.recv(LONGEST_REASON)
        except OSError:
            return b""


def _read(connection: ssl.SSLSocket, size: int) -> bytes:
    """Return exactly *size* bytes. Raises StreamError if fewer come."""
    found = bytearray(size)
    view, have = memoryview(found), 0
    try:
        while have < size:
            count = connection.recv_into(view[have:])
            if count == 0:
                raise StreamError("it ended before the image was whole")
            have += count
    except ssl.SSLEOFError:
        raise StreamError("it ended before the image was whole") from None
    except OSError as error:
        why = "nothing came any more" if isinstance(error, socket.timeout) else (error.strerror or str(error))
        raise StreamError(f"the connection broke before the image was whole ({why})") from None
    return bytes(found)


def end_server(pid: int, start: int) -> bool:
    """End the server that was started as process *pid* at *start*; return whether it was still there."""
    if not start or start_of(pid) != start:
        return False
    os.kill(pid, signal.SIGKILL)
    return True
