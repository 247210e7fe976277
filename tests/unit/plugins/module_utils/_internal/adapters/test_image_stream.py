# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transfers over real connections on the loopback."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import image_stream
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.background import start_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.image_stream import (
    Incoming,
    StreamError,
    end_server,
    identity,
    listen,
    serve_in_background,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError

SECRET = "s" * 64
LOCAL = "127.0.0.1"


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[int, str, dict[str, int]]]]:
    """Return a function that starts a server; all are ended after the test."""
    started: list[dict[str, int]] = []

    def start(chunks: Callable[[], Iterator[bytes]]) -> tuple[int, str, dict[str, int]]:
        listener = listen(LOCAL, 42180, 42189)
        port = int(listener.getsockname()[1])
        context, fingerprint = identity()
        server = serve_in_background(listener, context, SECRET, chunks)
        started.append(server)
        return port, fingerprint, server

    yield start
    for server in started:
        end_server(**server)
        os.waitpid(server["pid"], 0)


def three() -> Iterator[bytes]:
    yield b"one"
    yield b""
    yield b"2" * 3_000_000
    yield b"three"


def breaks() -> Iterator[bytes]:
    yield b"one"
    os._exit(1)


def fails() -> Iterator[bytes]:
    yield b"one"
    raise SessionError("The engine has gone.")


def wait_until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(server: dict[str, int]) -> bool:
    return start_of(server["pid"]) is None


def test_an_image_arrives_whole_and_the_server_is_gone(serve: Any) -> None:
    port, fingerprint, server = serve(three)
    with open(f"/proc/{server['pid']}/comm", encoding="ascii") as file:
        wait_until(lambda: file.seek(0) == 0 and file.read().strip() == image_stream.PROCESS_NAME)
    incoming = Incoming(LOCAL, port, fingerprint, SECRET)
    assert b"".join(incoming) == b"".join(three())
    assert incoming.count == 3_000_008
    incoming.close()
    wait_until(lambda: is_gone(server))
    assert end_server(**server) is False


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [(breaks, "before the image was whole"), (fails, "it failed: The engine has gone.")],
)
def test_half_an_image_is_none(serve: Any, chunks: Any, reason: str) -> None:
    port, fingerprint, _server = serve(chunks)
    incoming = Incoming(LOCAL, port, fingerprint, SECRET)
    with pytest.raises(StreamError, match=reason):
        b"".join(incoming)
    incoming.close()


def test_an_end_in_good_order_before_the_end_mark_is_noticed_too() -> None:
    class Closed:
        def recv_into(self, _buffer: memoryview) -> int:
            return 0

    with pytest.raises(StreamError, match="before the image was whole"):
        image_stream._read(Closed(), 4)  # type: ignore[arg-type]


def test_another_certificate_is_refused_and_told_no_token(serve: Any) -> None:
    port, _fingerprint, server = serve(three)
    with pytest.raises(StreamError, match="another certificate"):
        Incoming(LOCAL, port, identity()[1], SECRET)
    assert not is_gone(server)


def test_without_the_token_nothing_is_sent_and_the_receiver_is_still_served(serve: Any) -> None:
    port, fingerprint, _server = serve(three)
    stranger = Incoming(LOCAL, port, fingerprint, "x" * 64)
    with pytest.raises(StreamError):
        list(stranger)
    assert stranger.count == 0
    stranger.close()
    with socket.create_connection((LOCAL, port)) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
    incoming = Incoming(LOCAL, port, fingerprint, SECRET)
    assert len(b"".join(incoming)) == 3_000_008
    incoming.close()


def test_a_server_that_nobody_asks_ends_by_itself(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_stream, "WAIT", 0.2)
    _port, _fingerprint, server = serve(three)
    wait_until(lambda: is_gone(server))


def test_a_server_is_ended_by_its_number_and_its_start(serve: Any) -> None:
    _port, _fingerprint, server = serve(three)
    assert end_server(server["pid"], server["start"] + 1) is False
    assert not is_gone(server)
    assert end_server(**server) is True
    wait_until(lambda: is_gone(server))


def test_the_next_port_is_taken_where_one_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_stream, "PORT_WAIT", 0)
    with listen(LOCAL, 42190, 42191) as first, listen(LOCAL, 42190, 42191) as second:
        assert second.getsockname()[1] == first.getsockname()[1] + 1
        with pytest.raises(StreamError, match=r"Address already in use at 127\.0\.0\.1 port 42191"):
            listen(LOCAL, 42190, 42191)


def test_nobody_there_is_told_with_address_and_port() -> None:
    with pytest.raises(StreamError, match=r"cannot be reached at 127\.0\.0\.1 port 42199 \(Connection refused\)"):
        Incoming(LOCAL, 42199, "", SECRET)


def test_who_connects_and_says_nothing_keeps_nobody_waiting(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    port, fingerprint, server = serve(three)
    strangers = [socket.create_connection((LOCAL, port)) for _number in range(3)]
    monkeypatch.setattr(image_stream, "CONNECT", 3)
    incoming = Incoming(LOCAL, port, fingerprint, SECRET)
    assert len(b"".join(incoming)) == 3_000_008
    incoming.close()
    wait_until(lambda: is_gone(server))
    for stranger in strangers:
        stranger.close()
