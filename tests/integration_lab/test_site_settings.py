# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A session's life under all that a site may set for its playbooks at once, and a teardown that a host misses.

Only real hosts show that calls take their way without pipelining, with another shell and a time limit for tasks, and
that a host that was off does not bring back what was removed meanwhile. Which play says what: unit, test_site_settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ON_EACH,
    Snapshot,
    clear,
    differences,
    launch,
    play,
    replicas,
    snapshot,
    teardown,
)

SETTINGS = {
    "STRATEGY": "free",
    "ANY_ERRORS_FATAL": "True",
    "TASK_TIMEOUT": "1",
    "ENABLE_TASK_DEBUGGER": "True",
    "HOST_PATTERN_MISMATCH": "error",
    "HASH_BEHAVIOUR": "merge",
    "INJECT_FACT_VARS": "False",
    "GATHERING": "smart",
    "CACHE_PLUGIN": "jsonfile",
    "PRIVATE_ROLE_VARS": "True",
    "FORKS": "1",
    "PIPELINING": "False",
    "SSH_TRANSFER_METHOD": "piped",
    "EXECUTABLE": "/bin/bash",
    "PYTHON_INTERPRETER": "auto_silent",
    "DIFF_ALWAYS": "True",
    "STDOUT_CALLBACK": "ansible.builtin.minimal",
}
"""Settings of Ansible, without the prefix ANSIBLE_."""
OWN = {"ansible_ssh_pipelining": False, "ansible_python_interpreter": "auto"}
"""What the inventory of the lab says otherwise, and counts for more."""
OFF = {"n3": {"ansible_port": 9}}
REQUEST: dict[str, Any] = {**ON_EACH, "session_size": 2, "session_hosts": ["n1", "n3"], "session_cpus": "1.5"}


@pytest.fixture(autouse=True)
def nothing_stays(untouched_lab: Snapshot) -> Iterator[None]:
    """Tear down, without the settings, what runs after the test; compare the hosts with what they were before."""
    yield
    clear("settings-a", "settings-b")
    assert differences(untouched_lab, snapshot()) == []


def placed(session: str) -> dict[str, str]:
    """Return the host of each replica that there is."""
    return {name: replica.host for name, replica in replicas(session).items()}


def test_a_session_lives_as_without_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(f"ANSIBLE_{name}", value)
    monkeypatch.setenv("ANSIBLE_CACHE_PLUGIN_CONNECTION", str(tmp_path))
    hosts: dict[str, dict[str, Any]] = {name: dict(OWN) for name in ("n1", "n2", "n3")}
    off = {**hosts, "n3": {**OWN, **OFF["n3"]}}

    launch({**REQUEST, "session_name": "settings-a"}, hosts=hosts).ok()
    assert placed("settings-a") == {"main1": "n1", "sub1": "n3"}
    waiting = launch({**REQUEST, "session_name": "settings-b"}, hosts=hosts).ok()
    assert waiting.said[0] == "Session settings-b is PENDING, position 1 in the queue."

    missed = teardown("settings-a", hosts=off)
    assert missed.code != 0, missed.output
    assert placed("settings-a") == {"sub1": "n3"}
    play("schedule_pending", {}, hosts=hosts).ok()
    assert placed("settings-a") == {}, "what n3 had missed"
    assert placed("settings-b") == {"main1": "n1", "sub1": "n3"}

    launch({**REQUEST, "session_name": "settings-b", "session_size": 1}, hosts=hosts).ok()
    assert placed("settings-b") == {"main1": "n1"}
    status = play("status", {}, hosts=hosts).ok()
    assert [line.split()[1] for line in status.of("Show the sessions")[0]["values"]["msg"] if "settings-" in line]
