# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server on a unix socket that answers as a test says, and parses what it is asked with the standard library."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    LABEL_REPLICA,
    LABEL_SESSION_ID,
)

ID = "5c7a1f0e-0000-4000-8000-000000000000"
FOLDER = f"/var/lib/cluster-compute/sessions/{ID}/replicas/sub1"
FILES = {"Type": "bind", "Source": FOLDER, "Destination": "/etc/cluster-compute"}
OF_REPLICA = {LABEL_SESSION_ID: ID, LABEL_REPLICA: "sub1"}
"""What the engine says of a replica's container: its labels, and the mount that proves them."""
Respond = Callable[["Handler", "Received"], None]


@dataclass(frozen=True)
class Received:
    """One request. version: that of the API, as the path begins with it. connection: a number for each."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    connection: int
    version: str


@dataclass
class EngineServer:
    """answers: by method and path without the version, or for every request that has no other.

    version, oldest: of the API. As an engine does, it rejects requests in an older or newer version.
    """

    path: Path
    answers: dict[str, Respond] = field(default_factory=dict)
    requests: list[Received] = field(default_factory=list)
    version: str = "1.45"
    oldest: str = "1.24"
    connections: int = 0
    early: set[str] = field(default_factory=set)
    """Requests that are answered, and their connection closed, before their body is read."""

    def answer(self, request: str, *, status: int = 200, value: object = None, text: str | None = None) -> None:
        """Answer a request such as ``GET /info`` with JSON, or with text."""
        content = (json.dumps(value) if text is None else text).encode()
        kind = "application/json" if text is None else "text/plain"
        self.answers[request] = lambda handler, _received: handler.say(status, content, kind)

    def rejection(self, version: str) -> str:
        """Return why a request in this version is rejected (moby/moby, daemon/server/middleware/version.go)."""
        asked, oldest, newest = (_numbers(text) for text in (version, self.oldest, self.version))
        if version and asked < oldest:
            return (
                f"client version {version[1:]} is too old. Minimum supported API version is {self.oldest}, please "
                "upgrade your client to a newer version"
            )
        if version and asked > newest:
            return f"client version {version[1:]} is too new. Maximum supported API version is {self.version}"
        return ""

    def raw(self, request: str, *parts: bytes, end: bool = True) -> None:
        """Answer a request with these bytes, and close the connection, or wait until the other side does."""

        def respond(handler: Handler, _received: Received) -> None:
            handler.close_connection = True
            for part in parts:
                handler.wfile.write(part)
                handler.wfile.flush()
            if not end:
                handler.rfile.read(1)

        self.answers[request] = respond


def _numbers(version: str) -> list[int]:
    """Return the numbers of a version, such as ``v1.41``."""
    return [int(part) for part in version.lstrip("v").split(".") if part]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    engine: EngineServer

    def setup(self) -> None:
        """Count the connection."""
        super().setup()
        self.engine.connections += 1
        self.number = self.engine.connections

    def say(self, status: int, content: bytes, kind: str = "application/json", **headers: str) -> None:
        """Answer with a body of known length."""
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _respond(self) -> None:
        parts = urlsplit(self.path)
        version, path = "", parts.path
        if path.startswith("/v1."):
            version, slash, path = path[1:].partition("/")
            path = slash + path
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.close_connection = f"{self.command} {path}" in self.engine.early
        body = b"" if self.close_connection else self._body()
        request = Received(self.command, path, query, dict(self.headers), body, self.number, version)
        if rejection := self.engine.rejection(version):
            self.say(400, json.dumps({"message": rejection}).encode(), Api_Version=self.engine.version)
            return
        if path == "/_ping" and "GET /_ping" not in self.engine.answers:
            self.say(200, b"OK", "text/plain", Api_Version=self.engine.version)
            return
        self.engine.requests.append(request)
        respond = self.engine.answers.get(f"{self.command} {path}")
        if respond is None:
            self.say(404, b'{"message": "page not found"}')
        else:
            respond(self, request)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _respond

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            assert self.rfile.readline() == b"\r\n"
        assert self.rfile.readline() == b"\r\n"
        return found

    def log_message(self, *_values: Any) -> None:
        """Write nothing."""


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_more: Any) -> None:
        """Say nothing of connections that the other side closes in the middle."""


@contextmanager
def engine_server(folder: Path) -> Iterator[EngineServer]:
    """Run a server for the time of the block."""
    engine = EngineServer(folder / "docker.sock")
    handler = type("Bound", (Handler,), {"engine": engine})
    with _Server(str(engine.path), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield engine
        finally:
            server.shutdown()
            thread.join()
