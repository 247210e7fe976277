# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host gets another name in the inventory while a session runs on it: every verb goes on, and nothing is harmed.

Only a lab shows that containers, keys, variables and the firewall of the host stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    ON_EACH,
    Snapshot,
    clear,
    differences,
    launch,
    on,
    play,
    replicas,
    snapshot,
    teardown,
)
from ansible_collections.cluster_compute.session.tests.support.integration_lab.renamed_hosts import inventory_of

REQUEST: dict[str, Any] = {
    **ON_EACH,
    "session_name": "demo",
    "session_size": 2,
    "session_hosts": ["n1", "n2"],
    "session_cpus": "0.2",
    "session_memory": "32m",
}
RENAMED = {**REQUEST, "session_hosts": ["node1", "n2"]}
OTHER = {**REQUEST, "session_name": "other", "session_hosts": ["node1", "n3"]}
SWAPPED = (
    "The host that the inventory calls n2 is n1 in session demo, which runs there. Call it n1 in the inventory again, "
    "or tear the session down first."
)


@pytest.fixture(scope="module")
def demo(untouched_lab: Snapshot) -> Iterator[None]:
    """Launch a session under the first names of its hosts."""
    try:
        launch(REQUEST).ok()
        yield
    finally:
        clear("demo", "other")


def runs_since() -> dict[str, Any]:
    """Return the session's containers with the moments at which they were started, and their variables."""
    return {
        name: (replica.host, replica.inspected["Id"], replica.inspected["State"], replica.environment())
        for name, replica in replicas("demo").items()
    }


def test_every_verb_goes_on_when_a_host_has_another_name(demo: None, tmp_path: Path) -> None:
    inventory = inventory_of(tmp_path, {"n1": "node1"})
    before, since = snapshot(), runs_since()
    assert {replica[0] for replica in since.values()} == {"n1", "n2"}
    for playbook in ("repair", "gc", "schedule_pending"):
        run = play(playbook, {}, inventory=inventory).ok()
        assert set(run.recap) >= {"node1", "n2", "n3"}
        assert run.changed_hosts == set(), playbook
    again = launch(RENAMED, inventory=inventory).ok()
    assert (again.changed_hosts, set(again.placed.values())) == (set(), {"node1", "n2"})
    assert differences(before, snapshot()) == []
    job = play("run_job", {"session_name": "demo", "job_command": "hostname", "job_on": "all"}, inventory=inventory)
    assert "main1 on node1: exit code 0" in job.ok().output or "sub1 on node1: exit code 0" in job.output
    launch(OTHER, inventory=inventory).ok()
    # Its host has the first name again.
    teardown("other").ok()
    (name,) = [name for name, replica in since.items() if replica[0] == "n1"]
    on("n1", "docker", "rm", "-f", f"demo-{name}")
    repaired = play("repair", {}, inventory=inventory).ok()
    assert repaired.changed_hosts == {"node1"}
    now = runs_since()
    assert {key: replica for key, replica in now.items() if key != name} == {
        key: replica for key, replica in since.items() if key != name
    }
    assert now[name][3] == since[name][3]
    assert now[name][3]["CLUSTER_COMPUTE_HOST"] == "n1"


def test_hosts_that_cannot_be_told_apart_are_refused_by_name(demo: None, tmp_path: Path) -> None:
    """That every verb refuses both is shown by tests/unit: test_host_names, and test_model with a copied disk."""
    swapped = inventory_of(tmp_path, {"n1": "n2", "n2": "n1"})
    twice = inventory_of(tmp_path, {"n3": "n3"})
    twin = {"lab": {"hosts": {"twin": {"ansible_host": ADDRESSES["n3"], "lab_release": "trixie"}}}}
    (twice / "twin.yml").write_text(json.dumps(twin), encoding="utf-8")
    two_names = "n3 and twin are one host by their identity: the inventory has two names for it."
    before, since = snapshot(), runs_since()
    for playbook, given, inventory, why in (
        ("repair", {}, swapped, SWAPPED),
        ("launch_cluster", {**REQUEST, "session_recreate": True}, swapped, SWAPPED),
        ("gc", {}, twice, two_names),
        ("schedule_pending", {}, twice, two_names),
    ):
        run = play(playbook, given, inventory=inventory)
        assert run.code != 0, f"{playbook} did not refuse"
        assert why in run.failures, playbook
        assert run.changed_hosts == set(), playbook
    status = play("status", {}, inventory=swapped).ok()
    assert SWAPPED in " ".join(status.output.split())
    assert differences(before, snapshot()) == []
    assert runs_since() == since
    assert launch(REQUEST).ok().changed_hosts == set()
    teardown("demo", inventory=swapped).ok()
    assert play("gc", {}).ok().changed_hosts == set()
