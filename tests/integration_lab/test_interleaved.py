# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs that overtake each other: what one has judged may have changed before it acts.

Only a lab shows it with real playbooks and containers. A teardown between the steps of any verb is shown by tests/unit:
test_model and test_model_in_small_steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    HOSTS,
    STATE,
    Run,
    Snapshot,
    clear,
    differences,
    kill_a_launch,
    launch,
    on,
    own_playbook,
    play,
    record,
    replicas,
    script,
    snapshot,
)

LATE: dict[str, Any] = {
    "session_name": "late",
    "session_size": 2,
    "session_hosts": ["n2"],
    "session_image": BUSYBOX,
    "session_cpus": "0.7",
    "session_memory": "64m",
    "session_command": "sleep 8888",
}
FULL = {"n2": {"cluster_compute_cpus": "1"}}
"""Variables with which the session has to wait: n2 has room for one of its replicas."""


@pytest.fixture(autouse=True)
def nothing_stays(untouched_lab: Snapshot) -> Iterator[None]:
    """Compare the hosts after each test with what they were before."""
    yield
    clear("late")
    assert differences(untouched_lab, snapshot()) == []


def interleaved(name: str) -> Run:
    """Run a playbook in which one verb comes in between the steps of another."""
    return play(own_playbook(name)).ok()


def test_an_old_judgement_neither_removes_what_is_new_nor_puts_back_what_is_gone(
    untouched_lab: Snapshot, tmp_path: Path
) -> None:
    assert launch(LATE, hosts=FULL).ok().said[0] == "Session late is PENDING, position 1 in the queue."
    short = {"cluster_compute_lease_seconds": 15, "cluster_compute_deadline_seconds": 15}
    moment = {"n2": f"ls {STATE}/sessions/*/replicas/main1"}
    kill_a_launch({**LATE, **short}, moment, tmp_path)
    script("n2", "sleep 15.2")
    run = interleaved("judged_before")
    (removal,) = run.of("Say what was judged")[0]["values"]["msg"]
    # Until it starts, the record of a session from the queue stays as it is: PENDING. The others leased the name, and
    # that has run out. What is the same for all of them stands once, and what is the default does not stand there.
    assert set(removal["hosts"]) == set(HOSTS)
    asked_of_n2 = {**removal["arguments"], **removal["hosts"]["n2"]}
    assert (asked_of_n2["keep_record"], asked_of_n2.get("undo", False)) == (True, False)
    assert record("late")["status"] == "RUNNING"
    assert on("n2", "docker", "inspect", "-f", "{{.State.Running}}", "late-main1").strip() == "true"
    assert "late" in on("n2", "cat", f"{STATE}/ledger.json")
    assert launch(LATE).ok().changed_hosts == set()
    interleaved("torn_down")
    assert replicas("late") == {}
    assert differences(untouched_lab, snapshot()) == []
