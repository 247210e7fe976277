# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host gets another name in the inventory while a session runs on it: nothing of the session is harmed.

Only a lab shows that no verb gets as far as the containers and the firewall of the host.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.tests.integration_lab.driver import (
    BUSYBOX,
    INVENTORY,
    Snapshot,
    differences,
    launch,
    play,
    replicas,
    snapshot,
    teardown,
)

REQUEST: dict[str, Any] = {
    "session_name": "demo",
    "session_size": 2,
    "session_hosts": ["n1", "n2"],
    "session_max_replicas_per_host": 1,
    "session_image": BUSYBOX,
    "session_cpus": "0.2",
    "session_memory": "32m",
    "session_command": ["sleep", "8888"],
}
OTHER = {**REQUEST, "session_name": "other", "session_hosts": ["n2", "n3"]}
REFUSAL = (
    "The host that the inventory calls node1 is n1 in session demo, which runs there. Call it n1 in the inventory "
    "again, or tear the session down first."
)


def renamed(folder: Path) -> Path:
    """Return an inventory of the lab in which n1 is called node1."""
    inventory = folder / "inventory"
    shutil.copytree(INVENTORY, inventory)
    hosts = inventory / "hosts.yml"
    text, count = re.subn(r"\bn1:", "node1:", hosts.read_text(encoding="utf-8"))
    assert count >= 1
    hosts.write_text(text, encoding="utf-8")
    return inventory


def runs_since() -> dict[str, Any]:
    """Return the session's containers with the moments at which they were started."""
    return {
        name: (replica.host, replica.about["Id"], replica.about["State"]) for name, replica in replicas("demo").items()
    }


def test_a_session_survives_another_name_of_its_host(untouched_lab: Snapshot, tmp_path: Path) -> None:
    launch(REQUEST).ok()
    try:
        inventory = renamed(tmp_path)
        before, since = snapshot(), runs_since()
        assert len(since) == 2
        for playbook, given in (
            ("repair", {}),
            ("gc", {}),
            ("schedule_pending", {}),
            ("launch_cluster", {**REQUEST, "session_hosts": ["node1", "n2"], "session_recreate": True}),
            ("launch_cluster", OTHER),
        ):
            run = play(playbook, given, inventory=inventory)
            assert run.code != 0, f"{playbook} did not refuse"
            assert REFUSAL in run.failures, playbook
            assert set(run.recap) >= {"node1", "n2", "n3"}
            assert run.changed_hosts == set(), playbook
        assert differences(before, snapshot()) == []
        assert runs_since() == since
        status = play("status", {}, inventory=inventory).ok()
        assert REFUSAL in " ".join(status.output.split())
        assert launch(REQUEST).ok().changed_hosts == set()
        teardown("demo", inventory=inventory).ok()
        assert differences(untouched_lab, snapshot()) == []
    finally:
        teardown("demo").ok()
