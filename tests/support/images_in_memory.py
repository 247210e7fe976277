# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images that hosts in memory have, a registry, and the servers by which they give images to each other."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    EngineError,
    ImageDenied,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    EngineInfo,
    Image,
    read_image,
    read_info,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.image_stream import (
    WAIT,
    StreamError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import images as host_images
from ansible_collections.cluster_compute.session.tests.support.small_steps import NOW, rest

NUMBERS = itertools.count(1)


def digest_of(content: str) -> str:
    """Return a digest by which a registry has an image, or the id that an engine gives to what has a digest."""
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"


@dataclass
class Server:
    """A process that waits for who names its token. secret: of the run that started it. until: when it ends itself."""

    pid: int
    fingerprint: str
    token: str
    chunks: Callable[[], Iterator[bytes]]
    secret: str
    until: float


class Images:
    """The part of a host that has images. images: their ids by each name, those of a registry's digests included.

    store: its kind. In the classic one, the id is the digest of the configuration, else that of the manifest, which has
    the configuration's digest by `configurations`.
    """

    store = "docker"
    name: str
    images: dict[str, str]
    configurations: dict[str, str]
    registry: dict[str, str]
    servers: dict[int, Server]

    def info(self) -> EngineInfo:
        return read_info({"Architecture": "x86_64"}, "1.45")

    def configuration_of(self, image: str) -> str:
        """Return what an image is in any store."""
        return self.configurations.get(image, image)

    def add_image(self, configuration: str, manifest: str = "") -> str:
        """Add an image and return its id. manifest: its digest, if it came with one."""
        image = configuration
        if self.store == "containerd":
            image = manifest or digest_of(f"manifest of {configuration}, made on {self.name}")
        self.configurations[image] = configuration
        self.images[image] = image
        return image

    def inspect_image(self, name: str) -> Image | None:
        image = self.images.get(name if ":" in name else f"{name}:latest")
        digests = [known for known, its_id in self.images.items() if its_id == image and "@" in known]
        if image is None:
            return None
        layers = {"Layers": [self.configuration_of(image)]}
        return read_image({"Id": image, "Architecture": "amd64", "RepoDigests": digests, "RootFS": layers})

    def image_names(self) -> dict[str, str]:
        return {name: image for name, image in self.images.items() if "@" not in name}

    def resolve_image(self, name: str, _login: object) -> str:
        rest()
        if name not in self.registry:
            raise ImageDenied(f"The registry has no {name}.")
        return self.registry[name]

    def pull_image(self, name: str, _login: object) -> int:
        rest()
        digest = name.partition("@")[2]
        if digest not in self.registry.values():
            raise ImageDenied(f"The registry has no {name}.")
        self.images[name] = self.add_image(digest_of(digest), digest)
        return 1

    def load_images(self, archive: Iterable[bytes]) -> list[str]:
        configuration, _blank, manifest = b"".join(archive).decode().partition(" ")
        rest()
        return [self.add_image(configuration, manifest)]

    def save_image(self, image: str) -> Iterator[bytes]:
        if image not in self.images:
            raise EngineError(f"Docker Engine has no image {image}.")
        archive = f"{self.configuration_of(image)} {image}" if self.store == "containerd" else image
        for place in range(0, len(archive), 40):
            rest()
            yield archive[place : place + 40].encode()

    def tag_image(self, image: str, repository: str, tag: str) -> None:
        rest()
        self.images[f"{repository}:{tag}"] = image

    def remove_image(self, name: str) -> None:
        raise AssertionError(f"{name} is no image of this run alone")


class Incoming:
    """What comes from a server on another host; nothing where that cannot be reached, or knows another token."""

    def __init__(self, host: Any, now: float, port: int, fingerprint: str, token: str, source: str) -> None:
        assert source == f"192.0.2.{NOW.host.number}"
        self.count, self._host, self._port = 0, host, port
        if not host.is_up or port not in host.servers or host.servers[port].until <= now:
            raise StreamError("it cannot be reached")
        self._server: Server = host.servers[port]
        if (self._server.fingerprint, self._server.token) != (fingerprint, token):
            raise StreamError("it is somebody else")

    def __iter__(self) -> Iterator[bytes]:
        """Yield the archive, which the sender's engine is asked for; its server ends with that, however it ends."""
        receiver = NOW.host
        try:
            NOW.host = self._host
            for chunk in self._server.chunks():
                NOW.host = receiver
                if not self._host.is_up:
                    raise StreamError("it ended before the image was whole")
                self.count += len(chunk)
                yield chunk
                NOW.host = self._host
        except SessionError as error:
            raise StreamError(f"it failed: {error}") from None
        finally:
            NOW.host = receiver
            self._host.servers.pop(self._port, None)

    def close(self) -> None:
        """Nothing is open."""


def serve_in_memory(patch: pytest.MonkeyPatch, group: Callable[[], Any]) -> None:
    """Let hosts serve and receive images in memory. group: returns the world that is asked."""

    def listen(_address: str, first: int, last: int) -> SimpleNamespace:
        servers = NOW.host.servers
        for port in [port for port, server in servers.items() if server.until <= group().now]:
            del servers[port]
        free = next((port for port in range(first, last + 1) if port not in servers), None)
        if free is None:
            raise StreamError("It cannot listen.")
        return SimpleNamespace(getsockname=lambda: ("", free))

    def identity() -> tuple[str, str]:
        name = f"fingerprint {next(NUMBERS)}"
        return name, name  # as the settings of the server and as what they show

    def serve(listener: Any, fingerprint: Any, token: str, chunks: Any) -> dict[str, int]:
        rest()
        server = Server(next(NUMBERS), fingerprint, token, chunks, NOW.secret, group().now + WAIT)
        NOW.host.servers[listener.getsockname()[1]] = server
        return {"pid": server.pid, "start": 1}

    def end(pid: int, _start: int) -> bool:
        rest()
        for port, server in list(NOW.host.servers.items()):
            if server.pid == pid:
                assert server.secret == NOW.secret, "it serves another run"
                del NOW.host.servers[port]
                return True
        return False

    def receive(address: str, *given: Any) -> Incoming:
        (host,) = [host for host in group().hosts.values() if address == f"192.0.2.{host.number}"]
        return Incoming(host, group().now, *given)

    for name, function in {
        "listen": listen,
        "identity": identity,
        "serve_in_background": serve,
        "end_server": end,
        "Incoming": receive,
    }.items():
        patch.setattr(host_images, name, function)
