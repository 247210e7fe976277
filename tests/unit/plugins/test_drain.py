# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a receiver is sent when hosts are drained: the playbook is run, and a stand-in answers for each host."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import facts
from ansible_collections.cluster_compute.session.tests.support.stand_in import play

BROKEN = {"failed": True, "msg": "The disk is full."}


class Receiver(HTTPServer):
    """Keeps the events that come."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[dict[str, Any]] = []
        self.has_ended = threading.Event()

    def event(self) -> dict[str, Any]:
        """Return the one of the drain, which has come or comes; verbs that it needs send their own."""
        assert self.has_ended.wait(20)
        (found,) = (event for event in self.received if event["data"]["verb"] == "drain")
        return found


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        self.server.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(202)
        self.end_headers()
        if self.server.received[-1]["data"]["verb"] == "drain":
            self.server.has_ended.set()

    def log_message(self, *_told: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def holding(*names: str) -> dict[str, Any]:
    return {"changed": True, "actions": [], "sessions": names, "host": facts()}


def drain(
    folder: Path, receiver: Receiver, answers: dict[str, Any], *options: str, later: Any = None, **given: Any
) -> tuple[int, str]:
    """Return how the playbook ended that drains h1 and h2, and what it printed. given: variables."""
    url = f"http://127.0.0.1:{receiver.server_port}/"
    variables = {"drain_hosts": "h1,h2", "drain_reason": "memory", "cluster_compute_events": {"url": url}, **given}
    return play(
        folder,
        "drain_hosts",
        answers,
        variables,
        *options,
        later=later,
        ANSIBLE_SHOW_CUSTOM_STATS="true",
        # As YAML, releases before 2.19 break long lines and double quotes.
        ANSIBLE_CALLBACK_RESULT_FORMAT="json",
    )


def test_who_waits_for_empty_hosts_is_told_what_still_runs_there(tmp_path: Path, receiver: Receiver) -> None:
    code, output = drain(tmp_path, receiver, {"h1": holding("train", "web"), "h2": holding(), "h3": BROKEN})
    event = receiver.event()
    assert code == 0, output
    assert event["type"] == "cluster_compute.session.drain.waiting"
    assert event["data"]["hosts"] == {"h1": ["train", "web"], "h2": []}
    assert "cluster_compute_event" in output, "the artifact"


def test_what_became_of_a_move_is_told_at_the_end(tmp_path: Path, receiver: Receiver) -> None:
    code, output = drain(
        tmp_path, receiver, {"h1": holding("train"), "h2": holding()}, later=holding(), drain_move=True
    )
    assert code == 0, output
    data = receiver.event()["data"]
    assert (data["outcome"], data["hosts"]) == ("succeeded", {"h1": [], "h2": []})


def test_the_event_is_sent_before_the_run_fails(tmp_path: Path, receiver: Receiver) -> None:
    code, output = drain(tmp_path, receiver, {"h1": None, "h2": holding("train")}, drain_wait_seconds=1)
    event = receiver.event()
    assert code == 2, output
    assert event["type"] == "cluster_compute.session.drain.failed"
    assert event["data"]["hosts"] == {"h2": ["train"]}
    assert event["data"]["report"] == [
        "h1 may not be drained. It could not be reached.",
        "h2 is drained, and after 1 seconds (drain_wait_seconds) sessions still hold a place there: train.",
    ]
    assert all(line in output for line in event["data"]["report"])


def test_what_fails_in_between_is_an_event_as_well_though_no_host_is_left(tmp_path: Path, receiver: Receiver) -> None:
    code, output = drain(tmp_path, receiver, {"h1": None, "h2": None}, drain_move=True)
    report = receiver.event()["data"]["report"]
    assert code == 2, output
    assert report[0] == "The queue cannot be read."
    assert report[-1] == "h2 may not be drained. It could not be reached."


def test_check_mode_sends_nothing(tmp_path: Path, receiver: Receiver) -> None:
    answers = {"h1": holding("train"), "h2": holding()}
    code, output = drain(tmp_path, receiver, answers, "--check", drain_wait_seconds=1)
    assert code == 0, output
    assert "cluster_compute_event" not in output
    assert not receiver.has_ended.wait(1)
    assert receiver.received == []


def test_a_receiver_that_is_none_is_refused_before_any_host_is_touched(tmp_path: Path, receiver: Receiver) -> None:
    code, output = drain(tmp_path, receiver, {"h1": BROKEN, "h2": BROKEN}, cluster_compute_events={"url": "nowhere"})
    assert code == 2, output
    assert "cluster_compute_events.url is 'nowhere'" in output
    assert "Drain or undrain the host" not in output
