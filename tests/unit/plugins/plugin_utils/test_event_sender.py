# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events on their way to a real receiver, which is not always there."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import syslog
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.events import (
    cloud_event,
    happened,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils import event_sender

EVENT = {"type": "cluster_compute.session.launch.succeeded", "data": {"session": "train"}}


class Receiver(HTTPServer):
    """Notes what comes, and refuses the first of it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[tuple[dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/events"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, Receiver)
        self.server.received.append((dict(self.headers), body))
        self.send_response(302 if self.path.startswith("/moved") else 503 if len(self.server.received) == 1 else 202)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        assert isinstance(self.server, Receiver)
        self.server.received.append((dict(self.headers), self.path))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_told: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_what_was_refused_is_sent_again_and_nobody_waits_for_it(receiver: Receiver) -> None:
    begun = time.monotonic()
    event_sender.send(receiver.url, "s3cret", EVENT)
    assert time.monotonic() - begun < 0.5
    while len(receiver.received) < 2 and time.monotonic() < begun + 20:
        time.sleep(0.05)
    first, second = receiver.received
    assert first[1] == second[1] == EVENT
    assert second[0]["Content-Type"] == "application/cloudevents+json"
    assert second[0]["Authorization"] == "Bearer s3cret"


def test_the_process_ends_as_soon_as_it_was_received(receiver: Receiver) -> None:
    receiver.received.append(({}, None))
    question = json.dumps({"url": receiver.url, "token": "", "event": EVENT})
    done = subprocess.run([sys.executable, event_sender.__file__], input=question, text=True, check=False, timeout=30)
    assert done.returncode == 0
    assert "Authorization" not in receiver.received[1][0]


def test_an_event_in_any_script_takes_less_than_a_pipe_holds_and_arrives(receiver: Receiver) -> None:
    found = happened("teardown", {"session_name": "train", "report": ["\U0001f600" * 999] * 99})
    assert found is not None
    event = encode(cloud_event(found, "i", "t", "g"))
    question = event_sender.packed(receiver.url, "", event)
    assert len(question) < 2**16
    receiver.received.append(({}, None))
    done = subprocess.run([sys.executable, event_sender.__file__], input=question, check=False, timeout=30)
    assert done.returncode == 0
    assert receiver.received[1][1] == event


def test_whoever_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    monkeypatch.setattr(event_sender, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(syslog, "syslog", lambda _level, text: logged.append(text))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
    monkeypatch.setattr(json, "load", lambda _file: {"url": url, "token": "s3cret", "event": EVENT})
    assert event_sender.main() == 1
    assert "launch.succeeded was not received" in logged[0]
    assert "s3cret" not in logged[0]


def test_where_a_receiver_sends_on_is_no_place_for_the_token(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(event_sender, "PAUSES", ())
    monkeypatch.setattr(syslog, "syslog", lambda _level, text: logged.append(text))
    url = receiver.url.replace("/events", "/moved?key=s3cret")
    monkeypatch.setattr(json, "load", lambda _file: {"url": url, "token": "s3cret", "event": EVENT})
    assert event_sender.main() == 1
    assert [body for _headers, body in receiver.received] == [EVENT]
    assert "was not received by 127.0.0.1: HTTP Error 302" in logged[0]
    assert "s3cret" not in logged[0]


def test_no_password_of_the_controllers_user_is_sent(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login alice password hers\n", encoding="utf-8")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    receiver.received.append(({}, None))
    monkeypatch.setattr(json, "load", lambda _file: {"url": receiver.url, "token": "", "event": EVENT})
    assert event_sender.main() == 0
    assert "Authorization" not in receiver.received[1][0]


def test_all_tries_together_have_a_bound() -> None:
    assert sum(event_sender.PAUSES) + event_sender.SECONDS * (len(event_sender.PAUSES) + 1) <= 65


def test_where_no_process_can_be_started_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    event_sender.send("http://127.0.0.1:1/", "", EVENT)
