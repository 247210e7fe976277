# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests that cannot be: one of each kind, through a whole playbook, on hosts that nobody touches.

All that is judged before hosts are asked is tried in tests/unit/plugins/action/test_session_request.py, all that is
judged by what they answer in test_launch_decisions.py beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    HOSTS,
    STATE,
    Run,
    Snapshot,
    differences,
    launch,
    on,
    play,
    replicas,
    script,
    snapshot,
    try_on,
)

CANARY = "/tmp/cluster-compute-canary"
BASE = {"session_name": "bad", "session_image": BUSYBOX, "session_memory": "64m", "session_command": "sleep 8888"}

# Refused by the controller alone: what is asked, and what the message has to say.
REQUESTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "several faults of the request": (
        {
            "session_name": f"$(touch {CANARY})",
            "session_image": f"a; touch {CANARY}",
            "session_size": 0,
            "session_mode": "x",
            "session_authorized_keys": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n",
            "session_mounts": "./data:/data",
            "session_sizes": 2,
        },
        [
            "session_name is",
            "session_image is",
            "session_size is 0: It must be a whole number from 1 to 4096",
            "session_mode is 'x'",
            "session_authorized_keys is '(value not shown)'",
            "session_mounts[0].source is './data'",
            "Did you mean session_size?",
        ],
    ),
}

# Refused when the hosts have been looked at.
HOST_REQUESTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "folders that hosts do not have": (
        {
            "session_mounts": [
                {"source": "/srv/nowhere", "target": "/a"},
                {"source": "/srv/not-on-n3", "target": "/b"},
                {"source": f"/srv/$(touch {CANARY})", "target": "/c"},
            ],
            "session_size": 3,
            "session_max_replicas_per_host": 1,
        },
        [
            "session_mounts is '/srv/nowhere': This source does not exist on n1, n2, n3.",
            "session_mounts is '/srv/not-on-n3': This source does not exist on n3.",
            f"session_mounts is '/srv/$(touch {CANARY})'",
        ],
    ),
    "a port and a container's name that are taken": (
        {"session_name": "taken", "session_ports": "22:22"},
        [
            "session_ports is '0.0.0.0:22/tcp': This port is taken on n1",
            "taken-main1, which somebody else has on n1",
        ],
    ),
    "an image that is nowhere": (
        {"session_image": "cluster-compute/nowhere:1", "session_size": 3, "session_max_replicas_per_host": 1},
        ["session_image", "cluster-compute/nowhere:1"],
    ),
    "unreachable hosts only": ({"session_resource_group": "lost_pool"}, ["session_resource_group", "gone", "reached"]),
}


@pytest.fixture(scope="module")
def runs(untouched_lab: Snapshot) -> Iterator[dict[str, Run]]:
    """Run all bad requests, some side by side: none of them may do anything."""
    foreign = "--label=cluster-compute.session-id=5c7a1f0e-0000-4000-8000-000000000000"
    for host in HOSTS:
        name = "--label=cluster-compute.session-name=somebody"
        on(host, "docker", "create", "--name=taken-main1", foreign, name, BUSYBOX, "true")
    for host in ("n1", "n2"):
        on(host, "mkdir", "-p", "/srv/not-on-n3")
    everything = {**REQUESTS, **HOST_REQUESTS}
    try:
        before = snapshot()
        with ThreadPoolExecutor(2) as pool:
            done = pool.map(lambda case: launch({**BASE, **everything[case][0]}), everything)
            yield {**dict(zip(everything, done)), "differences": Run(0, "\n".join(differences(before, snapshot())))}
    finally:
        for host in HOSTS:
            script(host, "docker rm -f taken-main1 >/dev/null; rm -rf /srv/not-on-n3")


@pytest.mark.parametrize("case", [*REQUESTS, *HOST_REQUESTS])
def test_it_is_refused_in_sentences_with_variable_value_and_what_is_allowed(case: str, runs: dict[str, Run]) -> None:
    wanted = {**REQUESTS, **HOST_REQUESTS}[case][1]
    run = runs[case]
    assert run.code != 0, run.output
    assert [text for text in wanted if text not in run.failures] == [], run.failures
    assert run.changed_hosts == set()
    if case in REQUESTS:
        # Nobody but the controller had a part in it.
        assert set(run.recap) == {"localhost"}
    lines = run.failures.splitlines()
    assert len(lines) > 1
    assert [line for line in lines if not line.endswith((".", ":", "?"))] == []
    assert not re.search(r"Traceback|<class|Error\(|\{'|is None\b", run.output), run.output


def test_no_host_was_touched_by_any_of_them(runs: dict[str, Run]) -> None:
    assert len(runs) == len(REQUESTS) + len(HOST_REQUESTS) + 1
    assert runs["differences"].output == ""


def test_no_shell_saw_any_of_them(runs: dict[str, Run]) -> None:
    assert not Path(CANARY).exists()
    assert [host for host in HOSTS if try_on(host, ["test", "-e", CANARY]).returncode != 1] == []


def test_a_proof_of_a_session_that_is_not_there_says_so(untouched_lab: Snapshot) -> None:
    run = play("demo_proof", {"session_name": "nobody"})
    assert run.code != 0
    assert "nobody" in run.failures


def test_an_unreachable_host_is_left_out_with_a_warning(untouched_lab: Snapshot) -> None:
    request = {**BASE, "session_resource_group": "leaky_pool", "session_size": 3}
    try:
        run = launch(request)
        assert run.code == 0, run.output
        assert "gone" in run.output.split("WARNING", 1)[1]
        assert set(run.placed.values()) == {"n1", "n2"}
        assert {replica.host for replica in replicas("bad").values()} == {"n1", "n2"}
    finally:
        run = play("teardown_cluster", {"session_name": "bad", "session_resource_group": "leaky_pool"})
        assert "gone could not be reached and will be cleaned when back" in run.failures
        for host in ("n1", "n2"):
            script(host, f"rm -r {STATE}/tombstones")  # that host never comes


def _stop_engine() -> None:
    script("n3", "service docker stop >/dev/null 2>&1; while pgrep -x dockerd >/dev/null; do sleep 0.1; done")


def _start_engine() -> None:
    script("n3", "service docker start >/dev/null 2>&1; until docker info >/dev/null 2>&1; do sleep 0.1; done")


def _add_user() -> None:
    script(
        "n2",
        "useradd --create-home --shell /bin/sh plain; mkdir -p /home/plain/.ssh\n"
        "cp /root/.ssh/authorized_keys /home/plain/.ssh/; chown -R plain /home/plain/.ssh; usermod -p '*' plain",
    )


def _remove_user() -> None:
    script("n2", "pkill -KILL -u plain || true; userdel --remove --force plain 2>/dev/null")


OTHER_UNDERLAY = {"n1": {"cluster_compute_underlay_address": "192.0.2.77"}}
UNFIT = {"n1": {"ansible_python_interpreter": "/nowhere/python3"}, "n2": {"ansible_user": "plain"}}
WANTED = {
    "n1": ["host_info could not run to its end", "/nowhere/python3: ", "host's Python", "-vvv"],
    "n2": ["root", "ansible_become"],
    "n3": ["Docker Engine cannot be reached", "prepare_hosts"],
}
"""Texts that the refusal of each host has to hold. The engine of n3 does not run."""


def test_hosts_that_cannot_carry_sessions_are_named_with_the_reason(untouched_lab: Snapshot) -> None:
    others = ("n1", "n2")
    before = snapshot(others)
    _stop_engine()
    _add_user()
    try:
        left_out = play("plan_cluster", {**BASE, "session_size": 2}, hosts=OTHER_UNDERLAY).ok()
        run = launch({**BASE, "session_size": 6, "session_hosts": "n1,n2,n3"}, hosts=UNFIT)
        assert differences(before, snapshot(others)) == []
    finally:
        _remove_user()
        _start_engine()
    warned = " ".join(left_out.output.split())
    assert f"Hosts that cannot be used are left out: n3. {WANTED['n3'][0]}" in warned
    why = warned.partition("Hosts that cannot be used are left out: n1. ")[2]
    assert [text for text in ("192.0.2.77", ADDRESSES["n1"]) if text not in why] == [], left_out.output
    assert run.code != 0, run.output
    lines = {line.split()[1]: line for line in run.failures.splitlines() if line.startswith("host n")}
    assert set(lines) == set(WANTED), run.failures
    assert [(host, text) for host in WANTED for text in WANTED[host] if text not in lines[host]] == [], run.failures
    assert not re.search(r"Traceback|Error\(|Errno|json", run.output), run.output
    assert run.changed_hosts == set()
