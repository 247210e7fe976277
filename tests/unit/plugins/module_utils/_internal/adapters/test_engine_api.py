# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the engine is asked: as much of HTTP as its API uses, tried with a server that answers well and badly."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_api import (
    Api,
    ApiError,
    Event,
    in_path,
)
from ansible_collections.cluster_compute.session.tests.support.adapters.engine_server import (
    EngineServer,
    Handler,
    Received,
    engine_server,
)

FRAMES = b"\x01\0\0\0\0\0\0\x03out" + b"\x02\0\0\0\0\0\0\x03err" + b"\x01\0\0\0\0\0\0\0" + b"\x01\0\0\0\0\0\0\x01!"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EngineServer]:
    with engine_server(tmp_path) as made:
        yield made


@pytest.fixture
def api(server: EngineServer) -> Iterator[Api]:
    made = Api(str(server.path), timeout=60)
    made.prefix = "/v1.41"
    yield made
    made.close()


def text(api: Api, path: str = "/x", **more: Any) -> str:
    with api.ask("GET", path, **more) as answer:
        return answer.read().decode()


def chunked(*parts: bytes, trailer: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%X;name=value\r\n%s\r\n" % (len(part), part) for part in parts)
    return head + body + b"0\r\n" + trailer + b"\r\n"


def test_what_is_sent(server: EngineServer, api: Api) -> None:
    server.answer("POST /things/a%40b:c/d/e%20%0D%0A%3F", value={})
    query = {"text": "a b&c", "all": True, "number": 3, "filters": {"label": ["a=b"]}}
    path = f"/things/{in_path('a@b:c/d')}/{in_path(chr(101) + ' ' + chr(13) + chr(10) + '?')}"
    with api.ask("POST", path, query, {"Name": "ü"}, {"X-More": "1"}) as answer:
        assert answer.json() == {}
    (request,) = server.requests
    assert request.query == {"text": "a b&c", "all": "true", "number": "3", "filters": '{"label": ["a=b"]}'}
    assert json.loads(request.body) == {"Name": "ü"}
    assert request.headers["Content-Type"] == "application/json"
    assert (request.headers["Host"], request.headers["X-More"]) == ("docker", "1")


def test_a_body_of_unknown_length_goes_in_chunks(server: EngineServer, api: Api) -> None:
    server.answer("POST /images/load", value={})
    with api.ask("POST", "/images/load", body=iter([b"a" * 100_000, b"", b"b"])) as answer:
        answer.read()
    assert server.requests[0].body == b"a" * 100_000 + b"b"


def test_what_the_pieces_of_a_body_raise_passes_through(server: EngineServer, api: Api) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"a"
        raise OSError("the disk is gone")

    server.answer("POST /images/load", value={})
    with pytest.raises(OSError, match="the disk is gone"):
        api.ask("POST", "/images/load", body=pieces())


def test_an_answer_that_comes_before_all_is_sent(server: EngineServer, api: Api) -> None:
    """The engine refuses an archive as soon as it has seen that it is none, and reads no more of it."""

    server.answer("POST /images/load", status=400, value={"message": "this is no archive"})
    server.early.add("POST /images/load")
    with pytest.raises(ApiError, match=r"^this is no archive$") as raised:
        api.ask("POST", "/images/load", body=(b"x" * 100_000 for _piece in range(100)))
    assert raised.value.status == 400


@pytest.mark.parametrize(
    ("parts", "body"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", b"lo"], "hello"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length:5\r\n\r\nhelloABC"], "hello"),
        ([b"HTTP/1.0 200 OK\r\n\r\nhel", b"lo"], "hello"),
        ([b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"], "ok"),
        ([chunked(b"hel", b"lo")], "hello"),
        ([chunked(b"hel", b"lo", trailer=b"Checksum: 1\r\n")], "hello"),
        ([chunked(b"a" * 500_000)[:400_000], chunked(b"a" * 500_000)[400_000:]], "a" * 500_000),
        ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"], "ok"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], ""),
        ([b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"], ""),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], ""),
    ],
)
def test_every_form_of_an_answer(server: EngineServer, api: Api, parts: list[bytes], body: str) -> None:
    server.raw("GET /x", *parts)
    assert text(api) == body


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "it did not answer"),
        (b"HTTP/1.1 20", "it closed the connection in the middle of its answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", "it closed the connection in the middle of its answer"),
        (chunked(b"hello")[:-12], "it closed the connection in the middle of its answer"),
        (chunked(b"hello")[:-2], "it closed the connection in the middle of its answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it does not speak HTTP"),
        (b"HTTP/1.1 all right\r\n\r\n", "its answer is not in the form of HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n", "its answer is not in the form of HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "its answer is not in the form of HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: some\r\n\r\n", "its answer is not in the form of HTTP"),
        (
            b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(200)) + b"\r\n",
            "its answer has too many headers",
        ),
    ],
)
def test_an_answer_that_is_none(server: EngineServer, api: Api, answer: bytes, reason: str) -> None:
    server.raw("GET /x", answer)
    with pytest.raises(ApiError, match=f"^{reason}$") as raised:
        text(api)
    assert raised.value.status == 0


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, '{"message": "No such container: x"}', "No such container: x"),
        (500, "out of order\n", "out of order"),
        (500, "", "500 Internal Server Error"),
        (409, '{"message": ""}', '{"message": ""}'),
        (400, '["a"]', '["a"]'),
    ],
)
def test_a_refusal(server: EngineServer, api: Api, status: int, body: str, reason: str) -> None:
    server.answer("GET /x", status=status, text=body)
    with pytest.raises(ApiError) as raised:
        text(api)
    assert (str(raised.value), raised.value.status) == (reason, status)
    server.answer("GET /x", text="fine")
    assert text(api) == "fine"
    assert server.connections == 1


def test_a_refusal_without_a_body(server: EngineServer, api: Api) -> None:
    server.answer("HEAD /x", status=404, value={"message": "no such file"})
    with pytest.raises(ApiError, match=r"^404 Not Found$") as raised:
        api.ask("HEAD", "/x")
    assert raised.value.status == 404


def test_connections_are_used_again(server: EngineServer, api: Api) -> None:
    server.answer("GET /x", text="fine")
    server.raw("GET /chunked", chunked(b"fine").replace(b"Connection: close\r\n", b""), end=False)
    assert [text(api) for _time in range(3)] == ["fine"] * 3
    assert text(api, "/chunked") == "fine"
    assert server.connections == 1


def test_a_connection_that_was_closed_meanwhile_is_not_used_again(server: EngineServer, api: Api) -> None:
    server.answer("GET /x", text="fine")
    closed = threading.Event()

    def close(handler: Handler, _received: Received) -> None:
        handler.say(200, b"1", "text/plain")
        handler.close_connection = True
        closed.set()

    server.answers["GET /last"] = close
    assert text(api, "/last") == "1"
    assert closed.wait(5)
    while api._kept and api._kept[-1].is_open():  # as soon as the server has closed it
        pass
    assert text(api) == "fine"
    assert server.connections == 2


def test_an_answer_that_is_not_read_to_its_end_frees_no_connection(server: EngineServer, api: Api) -> None:
    server.answer("GET /x", text="a" * 1000)
    with api.ask("GET", "/x") as answer:
        assert answer.piece(3) == b"aaa"
    assert text(api) == "a" * 1000
    assert server.connections == 2


def test_threads_do_not_wait_for_each_other(server: EngineServer, api: Api) -> None:
    all_sent = threading.Barrier(16, timeout=20)

    def respond(handler: Handler, request: Received) -> None:
        all_sent.wait()
        handler.say(200, request.query["number"].encode())

    server.answers["GET /x"] = respond
    with ThreadPoolExecutor(max_workers=16) as pool:
        found = list(pool.map(lambda number: text(api, query={"number": number}), range(64)))
    assert found == [str(number) for number in range(64)]
    assert server.connections == 16


def test_an_engine_that_says_nothing(server: EngineServer, api: Api) -> None:
    api.timeout = 0.1
    server.raw("GET /x", end=False)
    server.raw("GET /half", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", end=False)
    with pytest.raises(ApiError, match=r"^it did not answer in time$"):
        text(api)
    with pytest.raises(ApiError, match=r"^it did not answer in time$"):
        text(api, "/half")


def test_an_engine_that_may_take_longer(server: EngineServer, api: Api) -> None:
    def late(handler: Handler, _received: Received) -> None:
        threading.Event().wait(0.4)
        handler.say(200, b"late")

    server.answers["GET /x"] = late
    api.timeout = 0.1
    assert text(api, seconds=10) == "late"
    with pytest.raises(ApiError, match=r"^it did not answer in time$"):
        text(api)


def test_events_come_line_by_line(server: EngineServer, api: Api) -> None:
    server.raw("GET /x", chunked(b'{"id": 1}\r\n{"i', b'd": 2}\r\n\r\n', b'{"id": 3}'))
    with api.ask("GET", "/x") as answer:
        assert list(answer.events()) == [Event(id="1"), Event(id="2"), Event(id="3")]
    server.raw("GET /x", chunked(b"[1]\r\n"))
    with api.ask("GET", "/x") as answer, pytest.raises(ApiError, match=r"^its answer is not JSON"):
        list(answer.events())


def test_an_event_is_told_when_it_comes(server: EngineServer, api: Api) -> None:
    server.raw("GET /x", chunked(b'{"id": 1}\n')[:-5], end=False)
    with api.ask("GET", "/x") as answer:
        assert next(answer.events()) == Event(id="1")


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
        b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n",
    ],
)
def test_frames_of_a_connection_that_was_taken_over(server: EngineServer, api: Api, head: bytes) -> None:
    server.raw("POST /exec/1/start", head + FRAMES[:5], FRAMES[5:12], FRAMES[12:])
    with api.ask("POST", "/exec/1/start", body={"Tty": False}) as answer:
        streams: dict[int, bytes] = {}
        for stream, data in answer.frames():
            streams[stream] = streams.get(stream, b"") + data
    assert streams == {1: b"out!", 2: b"err"}
    assert api._kept == []


def test_frames_in_chunks_do_not_end_where_they_do(server: EngineServer, api: Api) -> None:
    server.raw("GET /x", chunked(FRAMES[:13], FRAMES[13:20], FRAMES[20:]), end=False)
    with api.ask("GET", "/x") as answer:
        assert b"".join(data for _stream, data in answer.frames()) == b"outerr!"


def test_a_frame_that_is_cut_off_ends_the_stream(server: EngineServer, api: Api) -> None:
    for cut in (FRAMES[:9], FRAMES[:14]):
        server.raw("GET /x", b"HTTP/1.1 200 OK\r\n\r\n" + cut)
        with api.ask("GET", "/x") as answer:
            assert list(answer.frames()) == [(1, cut[8:11])]


def test_a_stream_may_pause_for_as_long_as_it_likes(server: EngineServer, api: Api) -> None:
    def pausing(handler: Handler, _received: Received) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n" + FRAMES[:11])
        threading.Event().wait(0.5)
        handler.wfile.write(FRAMES[11:])

    server.answers["GET /x"] = pausing
    with api.ask("GET", "/x") as answer:
        assert answer._connection is not None
        answer._connection.socket.settimeout(0.2)
        answer.wait_for(None)
        assert b"".join(data for _stream, data in answer.frames()) == b"outerr!"


@pytest.mark.parametrize(
    ("words", "is_of_host"),
    [
        ("write /var/lib/docker/tmp: no space left on device", True),
        ('failed to mount: "No space left on device": unknown.', True),
        ("unable to find user no space left on device: no matching entries in passwd file", False),
        ("No such image: debian:12", False),
    ],
)
def test_a_full_disk_is_told_by_how_the_engine_ends(words: str, is_of_host: bool) -> None:
    """What stands before may be quoted of an image, which somebody else has made."""
    assert ApiError(words).is_of_host is is_of_host
