# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Accelerators that hosts detect: CDI devices for real, NVIDIA GPUs from recorded output of their tool.

Why none is detected, and what a launch says of that: unit, adapters/test_accelerators.py and
action/test_launch_decisions.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    STATE,
    Snapshot,
    clear,
    differences,
    launch,
    on,
    play,
    replicas,
    script,
    snapshot,
)
from ansible_collections.cluster_compute.session.tests.support.recorded_nvidia import TWO_CARDS

KIND = "example.com/card"
CARDS = {"zero": "c 1 5", "full": "c 1 7"}
"""Devices that every machine has, by names of their own: one reads as zeros and takes all, the other takes nothing."""
SPECIFICATION = {
    "cdiVersion": "0.5.0",
    "kind": KIND,
    "devices": [{"name": name, "containerEdits": {"deviceNodes": [{"path": f"/dev/cc-{name}"}]}} for name in CARDS]
    + [{"name": "all", "containerEdits": {"deviceNodes": [{"path": f"/dev/cc-{name}"} for name in CARDS]}}],
}
CDI = {"n3": {"cluster_compute_accelerators": {"card": {"cdi": KIND}}}}
NVIDIA = {"n2": {"cluster_compute_accelerators": {"gpu": "nvidia"}}}
UUIDS = ["GPU-c7b57be0-94ff-d352-a59b-d0ee00aeed43", "GPU-d6de6afc-bdfe-75c4-5273-0544439153fc"]
REQUEST: dict[str, Any] = {
    "session_image": BUSYBOX,
    "session_cpus": "0.2",
    "session_memory": "16m",
    "session_command": "sleep 8888",
}


def _restart_engine(host: str) -> None:
    script(host, "service docker restart >/dev/null; until docker info >/dev/null 2>&1; do sleep 0.2; done")


@pytest.fixture
def cards(untouched_lab: Snapshot) -> Iterator[None]:
    """Give n3 two devices, their specification, what reads it, and an engine that hands CDI devices over."""
    settings = on("n3", "cat", "/etc/docker/daemon.json")
    wider = {**json.loads(settings), "experimental": True, "features": {"cdi": True}}
    make = "".join(f"mknod -m 666 /dev/cc-{name} {kind}\n" for name, kind in CARDS.items())
    try:
        script("n3", f"{make}mkdir -p /etc/cdi\ncat >/etc/cdi/cards.yaml <<'END'\n{yaml.safe_dump(SPECIFICATION)}END\n")
        assert play("prepare_hosts", {}, hosts=CDI).ok().changed_hosts == {"n3"}
        on("n3", "tee", "/etc/docker/daemon.json", stdin=json.dumps(wider))
        _restart_engine("n3")
        yield
    finally:
        clear("cards")
        on("n3", "tee", "/etc/docker/daemon.json", stdin=settings)
        script(
            "n3", "rm -r /dev/cc-zero /dev/cc-full /etc/cdi; apt-get purge -qq -y python3-yaml libyaml-0-2 >/dev/null"
        )
        _restart_engine("n3")
    assert differences(untouched_lab, snapshot()) == []


def test_cdi_devices_are_detected_handed_over_and_nobody_else_s(cards: None) -> None:
    two = {**REQUEST, "session_size": 2, "session_accelerators": "card=1"}
    launch({**two, "session_name": "cards"}, hosts=CDI).ok()
    found = replicas("cards")
    assert {replica.host for replica in found.values()} == {"n3"}
    seen = {name: replica.run("sh", "-c", "ls /dev/cc-*").split() for name, replica in found.items()}
    assert seen == {"main1": ["/dev/cc-zero"], "sub1": ["/dev/cc-full"]}
    assert found["main1"].run("sh", "-c", "head -c 4 /dev/cc-zero | tr '\\0' z") == "zzzz"
    assert "No space left" in found["sub1"].attempt("sh", "-c", "echo lost >/dev/cc-full").stderr
    ledger = json.loads(on("n3", "cat", f"{STATE}/ledger.json"))
    (held,) = [reservation["claim"]["devices"] for reservation in ledger["reservations"]]
    assert held == {"card": [f"{KIND}=zero", f"{KIND}=full"]}
    script("n3", "docker rm -f cards-sub1 >/dev/null")
    play("repair", hosts=CDI).ok()
    assert replicas("cards")["sub1"].run("sh", "-c", "ls /dev/cc-*").split() == ["/dev/cc-full"]
    assert launch({**two, "session_name": "cards"}, hosts=CDI).ok().changed_hosts == set()


@pytest.fixture
def tool(untouched_lab: Snapshot) -> Iterator[None]:
    """Put a program in the place of NVIDIA's tool that prints what the file beside it holds: there is no card here."""
    program = "cat /tmp/recorded"
    try:
        script(
            "n2",
            f"printf '%s\\n' '#!/bin/sh' '{program}' >/usr/local/bin/nvidia-smi; chmod 755 /usr/local/bin/nvidia-smi",
        )
        yield
    finally:
        clear("cards")
        script("n2", "rm -f /usr/local/bin/nvidia-smi /tmp/recorded")
    assert differences(untouched_lab, snapshot()) == []


def test_nvidia_cards_are_detected_reserved_and_asked_for(tool: None) -> None:
    request = {**REQUEST, "session_name": "cards", "session_accelerators": {"gpu": 1}, "session_size": 2}
    script("n2", f"cat >/tmp/recorded <<'END'\n{TWO_CARDS}END\n")
    (answer,) = play("plan_cluster", request, hosts=NVIDIA).ok().of("Combine what the launch would do")
    planned = answer["values"]["ansible_facts"]["cluster_compute_preview"]["replicas"]
    assert [replica["devices"] for replica in planned] == [{"gpu": [uuid]} for uuid in UUIDS]
    run = launch(request, hosts=NVIDIA)
    # An engine without NVIDIA's toolkit says that it was asked, and nothing is left.
    assert run.code != 0
    assert "n2" in run.failures
    assert 'could not select device driver "nvidia" with capabilities: [[gpu]]' in run.failures
    assert replicas("cards") == {}
