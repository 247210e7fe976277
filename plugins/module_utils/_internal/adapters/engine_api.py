# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Access Docker Engine over its unix socket: as much of HTTP/1.1 as the Docker Engine API uses, and no more.

Every call to a host starts Python there, and most calls send the engine a few small requests. `http.client` brings the
parser of e-mails and TLS, which cost more than the rest of such a call; a request to an engine needs neither.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Union
from urllib.parse import quote, urlencode

SOCKET = "/var/run/docker.sock"
_CREDENTIALS = struct.Struct("=iII")
"""Process, user and group of a peer (unix(7), struct ucred)."""
PIECE = 256 * 1024
"""Most bytes of an answer that are read at once."""
LONGEST_LINE = 64 * 1024
"""Most bytes of a status line, a header or the size of a chunk."""
MOST_HEADERS = 100

_FULL = re.compile(rf"{os.strerror(errno.ENOSPC)}[\"']*(: unknown)?[\"'.\s]*$", re.IGNORECASE)
"""How a message of the engine ends if a disk is full; the text before, such as an image's user, is chosen by others."""

Body = Union[Mapping[str, Any], bytes, Iterable[bytes]]
"""The body of a request: an object as JSON, bytes as they are, or pieces whose number is not known before."""


class ApiError(Exception):
    """The engine rejected a request or failed; the text is the reason in words.

    status: that of the engine's answer (RFC 9110, section 15); 0 if there was none. is_of_host: whether the reason is
    the host's own: the engine ended or hangs, or its disk is full, which it reports only in words. hangs: whether it
    did not answer in time.
    """

    def __init__(self, reason: str, status: int = 0, is_gone: bool = False, hangs: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.hangs = hangs
        self.is_of_host = is_gone or hangs or _FULL.search(reason) is not None


def _failure(error: OSError) -> ApiError:
    if isinstance(error, (TimeoutError, socket.timeout)):  # the same from Python 3.10 on
        return ApiError("it did not answer in time", hangs=True)
    return ApiError(error.strerror or str(error), is_gone=True)


class _Connection:
    """A connection to the engine; it serves one request at a time."""

    def __init__(self, path: str, timeout: float | None) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.settimeout(timeout)
            self.socket.connect(path)
        except BaseException:
            self.socket.close()
            raise
        self.reader = self.socket.makefile("rb")

    def is_open(self) -> bool:
        """Tell whether the engine keeps this connection open, on which no answer is expected."""
        self.socket.settimeout(0)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False  # it was closed, or has sent something without a request

    def line(self) -> bytes:
        """Return the next line, without its end."""
        found = self.reader.readline(LONGEST_LINE)
        if not found.endswith(b"\n"):
            raise ApiError("it closed the connection in the middle of its answer", is_gone=True)
        return found.rstrip(b"\r\n")

    def close(self) -> None:
        """End the connection."""
        self.reader.close()
        self.socket.close()


class Event(NamedTuple):
    """A message about an image that is pulled or loaded. total: the bytes of what it is about."""

    error: str = ""
    status: str = ""
    id: str = ""
    stream: str = ""
    total: int = 0


class Response:
    """An answer of the engine. Used in a `with` block, at whose end the connection is free or closed."""

    def __init__(self, api: Api, connection: _Connection, method: str) -> None:
        self._api = api
        self._connection: _Connection | None = connection
        self.status, self.reason = 100, ""
        while 100 <= self.status < 200 and self.status != 101:  # an interim answer, with another after it
            self._read_head(connection)
        self._is_chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        self._left: int | None = None  # bytes of the chunk or of the body; None: until the connection is closed
        if method == "HEAD" or self.status in (204, 304):
            self._left, self._is_chunked = 0, False
        elif self._is_chunked:
            self._left = 0
        elif "content-length" in self.headers:
            self._left = _number(self.headers["content-length"], 10)
        if self._left == 0 and not self._is_chunked:
            self._end()

    def _read_head(self, connection: _Connection) -> None:
        if not connection.reader.peek(1):
            raise ApiError("it did not answer", is_gone=True)
        version, _blank, rest = connection.line().decode("latin-1").partition(" ")
        if not version.startswith("HTTP/1."):
            raise ApiError("it does not speak HTTP")
        status, _blank, self.reason = rest.partition(" ")
        self.status = _number(status, 10)
        self.headers: dict[str, str] = {}
        """By their names in small letters."""
        while line := connection.line():
            name, _colon, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()
            if len(self.headers) > MOST_HEADERS:
                raise ApiError("its answer has too many headers")

    def __enter__(self) -> Response:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the connection, which cannot be used again if the answer was not read to its end."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _end(self) -> None:
        """Keep the connection for another request."""
        if self._connection is not None and self.headers.get("connection", "").lower() != "close":
            self._api.keep(self._connection)
            self._connection = None
        self.close()

    def wait_for(self, seconds: float | None) -> None:
        """Wait so long for each further byte, or without end."""
        if self._connection is not None:
            self._connection.socket.settimeout(seconds)

    def piece(self, most: int = PIECE) -> bytes:
        """Return the next piece of the body, as soon as there is any; nothing at its end."""
        if self._connection is None:
            return b""
        try:
            if self._is_chunked and self._left == 0 and not self._begin_chunk(self._connection):
                return b""
            return self._read_piece(self._connection, most)
        except OSError as error:
            raise _failure(error) from error

    def _begin_chunk(self, connection: _Connection) -> bool:
        """Read the size of the next chunk and return whether there is one. If there is none, the answer ends."""
        self._left = _number(connection.line().partition(b";")[0].strip().decode("latin-1"), 16)
        if self._left:
            return True
        while connection.line():  # trailers
            pass
        self._end()
        return False

    def _read_piece(self, connection: _Connection, most: int) -> bytes:
        """Read from the chunk or the body, and what comes after its end."""
        found = connection.reader.read1(most if self._left is None else min(most, self._left))
        if self._left is None:
            if not found:
                self.close()
            return found
        if not found:
            raise ApiError("it closed the connection in the middle of its answer", is_gone=True)
        self._left -= len(found)
        if self._left == 0:
            if not self._is_chunked:
                self._end()
            elif connection.line():
                raise ApiError("its answer is not in the form of HTTP")
        return found

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes."""
        while found := self.piece():
            yield found

    def read(self) -> bytes:
        """Return the rest of the body."""
        return b"".join(self.pieces())

    def json(self) -> Any:
        """Return the body, which is JSON."""
        try:
            return json.loads(self.read())
        except ValueError as error:
            raise ApiError(f"its answer is not JSON: {error}") from error

    def events(self) -> Iterator[Event]:
        """Yield the objects of a body that is JSON line by line, as they come."""
        rest = b""
        for found in self.pieces():
            *lines, rest = (rest + found).split(b"\n")
            yield from map(_event, filter(bytes.strip, lines))
        if rest.strip():
            yield _event(rest)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield the parts of a multiplexed body: number of the stream and bytes (Docker Engine API, ContainerAttach).

        If the connection ends in the middle of a frame, nothing more is yielded.
        """
        head = b""
        while found := self.piece(8 - len(head)):
            head += found
            if len(head) < 8:
                continue
            stream, left, head = head[0], int.from_bytes(head[4:], "big"), b""
            while left and (found := self.piece(min(left, PIECE))):
                yield stream, found
                left -= len(found)


def _number(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError as error:
        raise ApiError("its answer is not in the form of HTTP") from error


def _event(line: bytes) -> Event:
    try:
        found = json.loads(line)
        total = (found.get("progressDetail") or {}).get("total") or 0
        error, status, of, stream = (str(found.get(key) or "") for key in ("error", "status", "id", "stream"))
        return Event(error, status, of, stream, int(total))
    except (ValueError, TypeError, AttributeError) as problem:
        raise ApiError(f"its answer is not JSON: {problem}") from problem


class Api:
    """The API of the engine behind a socket. Several threads can use it at once, each over a connection of its own."""

    def __init__(self, path: str = SOCKET, timeout: float = 60) -> None:
        """timeout: seconds that the engine may take to answer."""
        self._path = path
        self.timeout = timeout
        self.prefix = ""
        """Prefix of each path: the version of the API, as soon as it is chosen."""
        self._kept: list[_Connection] = []  # taken and put back by single operations, as threads may

    def keep(self, connection: _Connection) -> None:
        """Take back a connection that another request can use."""
        self._kept.append(connection)

    def close(self) -> None:
        """Close the connections that were kept."""
        while self._kept:
            self._kept.pop().close()

    def listener(self) -> int:
        """Return the process that listens on the socket, 0 for one that this host does not know. Raises ApiError.

        That is the process that called listen(2): systemd, if it opened the socket for the engine (unix(7),
        SO_PEERCRED).
        """
        connection = self._connect(self.timeout)
        try:
            credentials = connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        finally:
            self.keep(connection)
        return int(_CREDENTIALS.unpack(credentials)[0])

    def _connect(self, timeout: float) -> _Connection:
        while True:
            try:
                connection = self._kept.pop()
            except IndexError:
                return _Connection(self._path, timeout)
            if connection.is_open():
                connection.socket.settimeout(timeout)
                return connection
            connection.close()

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 0,
    ) -> Response:
        """Send a request and return the answer as soon as it begins. Raises ApiError if the engine rejects it.

        path: without the version; names in it are those of `in_path`. query: a value that is not text is sent as JSON.
        seconds: how much longer than usual the engine may take to answer. What the pieces of *body* raise passes
        through.
        """
        parameters = {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in (query or {}).items()
        }
        about_body, content, pieces = _encoded(body, method)
        head = {"Host": "docker", "User-Agent": "cluster-compute-session", **(headers or {}), **about_body}
        lines = [f"{method} {self.prefix}{path}{'?' if parameters else ''}{urlencode(parameters)} HTTP/1.1"]
        lines += [f"{key}: {value}" for key, value in head.items()]
        try:
            connection = self._connect(self.timeout + seconds)
        except OSError as error:
            raise _failure(error) from error
        try:
            _send(connection, "\r\n".join([*lines, "", ""]).encode("latin-1") + content, pieces)
            try:
                response = Response(self, connection, method)
            except OSError as error:
                raise _failure(error) from error
        except BaseException:
            connection.close()
            raise
        if response.status >= 400:
            with response:
                raise ApiError(_explanation(response), response.status)
        return response


def _encoded(body: Body | None, method: str) -> tuple[dict[str, str], bytes, Iterable[bytes] | None]:
    """Return the headers of a request's body, its bytes, and the pieces that it is sent in if it is not bytes."""
    head: dict[str, str] = {}
    content = b""
    if isinstance(body, Mapping):
        content = json.dumps(body).encode()
        head["Content-Type"] = "application/json"
    elif isinstance(body, bytes):
        content = body
    elif body is not None:
        return {"Transfer-Encoding": "chunked"}, b"", body
    if content or method in ("POST", "PUT"):
        head["Content-Length"] = str(len(content))
    return head, content, None


def _send(connection: _Connection, head: bytes, pieces: Iterable[bytes] | None) -> None:
    """Send a request. Ends early if the engine reads no more of it, because it has answered or is gone."""
    for data in _on_the_wire(head, pieces):
        try:
            connection.socket.sendall(data)
        except BrokenPipeError:
            return
        except OSError as error:
            raise _failure(error) from error


def _on_the_wire(head: bytes, pieces: Iterable[bytes] | None) -> Iterator[bytes]:
    yield head
    if pieces is not None:
        for piece in pieces:
            if piece:  # one of no bytes ends the body
                yield b"%x\r\n" % len(piece)
                yield piece
                yield b"\r\n"
        yield b"0\r\n\r\n"


def _explanation(response: Response) -> str:
    """Return the engine's reason for rejecting a request."""
    text = response.read().decode("utf-8", "replace").strip()
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    message = found.get("message") if isinstance(found, dict) else text
    return str(message or text or f"{response.status} {response.reason}")


def in_path(name: str) -> str:
    """Return a name in the form for a path."""
    return quote(name, safe="/:")
