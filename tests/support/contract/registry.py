# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Registries of this host that give no image that it can run, for one reason or another."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"


class _Registry(BaseHTTPRequestHandler):
    """What registries have in common."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        """Answer."""
        raise NotImplementedError

    def answer(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        """Answer so."""
        self.send_response(status)
        sent = {"Docker-Distribution-Api-Version": "registry/2.0", "Content-Type": kind, **headers}
        for name, value in {**sent, "Content-Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def _running(kind: type[_Registry]) -> Iterator[str]:
    """Run a registry, and yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def refusing(
    status: int, code: str = "", challenge: str = "", everywhere: bool = False, token_status: int = 401
) -> Iterator[str]:
    """Run a registry that answers each request for a manifest so, and yield its address.

    code: of the error, as registries name it (OCI Distribution Specification, error codes); a page without. challenge:
    how who asks has to make himself known, which nobody can. everywhere: whether it answers all else so, too.
    token_status: what it answers who wants a token.
    """

    class Refusing(_Registry):
        def do_GET(self) -> None:
            if self.path == "/v2/" and not (challenge or everywhere):
                self.answer(200, "application/json", b"{}")
                return
            page = ("text/html", b"<html>An error</html>")
            error = ("application/json", json.dumps({"errors": [{"code": code, "message": "not now"}]}).encode())
            asks = {"WWW_Authenticate": challenge.replace("HERE", self.headers["Host"])} if challenge else {}
            kind, body = error if code else page
            self.answer(token_status if self.path.startswith("/token") else status, kind, body, **asks)

    with _running(Refusing) as address:
        yield address


@contextmanager
def having(architecture: str) -> Iterator[tuple[str, str]]:
    """Run a registry that has each image for machines of one kind alone; yield its address and the images' digest."""
    platform = {"architecture": architecture, "os": "linux"}
    manifest = {"mediaType": INDEX.replace(".list", ""), "size": 2, "digest": f"sha256:{'2' * 64}"}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**manifest, "platform": platform}]}
    body = json.dumps(index).encode()
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"

    class Having(_Registry):
        def do_GET(self) -> None:
            if self.path == "/v2/":
                self.answer(200, "application/json", b"{}")
            else:
                self.answer(200, INDEX, body, Docker_Content_Digest=digest)

    with _running(Having) as address:
        yield address, digest
