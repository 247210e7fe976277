# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is sent and handed on of a verb that no state has the end of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.cluster_compute.session.plugins.action import session_event as action
from ansible_collections.cluster_compute.session.plugins.plugin_utils import event_sender

RECEIVER = {"url": "https://eda.example.com/", "token": "s3cret"}
BUSY = {"h1": {"changed": True, "actions": [], "sessions": ["train"], "ansible_facts": {}}}
AWAY = {"h1": {"unreachable": True, "msg": "ssh: timed out"}}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, dict[str, Any]]]:
    """Give what was sent to receivers."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    monkeypatch.setattr(event_sender, "send", lambda *given: found.append(given))
    monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
    return found


def run(receiver: Any = None, checks: bool = False, **arguments: Any) -> dict[str, Any]:
    found: Any = object.__new__(action.ActionModule)
    found._templar = SimpleNamespace(template=lambda value: value)
    found._task = SimpleNamespace(args=arguments, check_mode=checks)
    site = {"session_resource_group": "gpu_pool", "cluster_compute_events": receiver}
    return dict(found.run(task_vars=site))


def test_it_is_handed_on_and_sent_once(sent: list[tuple[str, str, dict[str, Any]]]) -> None:
    result = run(RECEIVER, verb="drain", answers=BUSY)
    ((url, token, event),) = sent
    assert (url, token) == ("https://eda.example.com/", "s3cret")
    assert (event["type"], event["source"]) == ("cluster_compute.session.drain.waiting", "/cluster_compute/gpu_pool")
    assert event["data"]["hosts"] == {"h1": ["train"]}
    assert result["ansible_stats"]["data"] == {"cluster_compute_event": event["data"]}
    assert (result["changed"], result["failures"]) == (False, [])
    assert "s3cret" not in repr(result)


def test_without_a_receiver_it_is_handed_on_alone(sent: list[tuple[str, str, dict[str, Any]]]) -> None:
    result = run(verb="undrain", answers=AWAY, failures=["It\x1b failed."])
    assert result["ansible_stats"]["data"]["cluster_compute_event"]["outcome"] == "failed"
    assert result["failures"] == ["It\\x1b failed.", "h1 may still be drained. It could not be reached."]
    assert sent == []


def test_check_mode_tells_nobody_and_waits_for_nothing(sent: list[tuple[str, str, dict[str, Any]]]) -> None:
    assert run(RECEIVER, checks=True, verb="drain", answers=BUSY, wait_seconds=9) == {"changed": False, "failures": []}
    assert sent == []


def test_before_anything_has_happened_the_receiver_is_checked(sent: list[tuple[str, str, dict[str, Any]]]) -> None:
    assert run(RECEIVER, verb="drain") == {"changed": False, "failures": []}
    refused = run({"url": "nowhere", "token": "s3cret"}, verb="drain")
    assert refused["failed"]
    assert "cluster_compute_events.url is 'nowhere'" in refused["msg"]
    assert "s3cret" not in refused["msg"]
    assert sent == []
