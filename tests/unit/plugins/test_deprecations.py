# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks print no deprecation warning. Hosts are played by a program that answers as theirs does.

Tests of the lab look for them in whatever they run; these run without one, with each core that is installed for them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import MARK
from ansible_collections.cluster_compute.session.tests.deprecations import SHOWN, deprecations
from ansible_collections.cluster_compute.session.tests.unit.plugins.module_utils.core.verbs.group import facts

CHECKOUT = Path(__file__).resolve().parents[3]
REMOVED = {"changed": True, "actions": ["remove it"], "sessions": [], "tombstones": [], "warnings": ["Not all of it."]}


def play(folder: Path, playbook: Path, answer: dict[str, Any]) -> str:
    """Return what a playbook printed that ran on two hosts which give this answer to each call."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\ncat >/dev/null\ncat {folder}/answer\n", encoding="ascii")
    python.chmod(0o755)
    (folder / "answer").write_text(f"\n{MARK}{json.dumps(answer)}\n", encoding="utf-8")
    host = {"ansible_connection": "local", "ansible_python_interpreter": str(python)}
    group = {"cluster_compute_hosts": {"hosts": {"h1": host, "h2": host}}}
    (folder / "inventory.json").write_text(json.dumps({"all": {"children": group}}), encoding="utf-8")
    name = shutil.which("ansible-playbook", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert name is not None
    done = subprocess.run(
        [name, "-i", str(folder / "inventory.json"), str(playbook), "-e", "session_name=demo"],
        env={**os.environ, **SHOWN, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_HOME": str(folder)},
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("playbook", "answer", "says"),
    [
        ("teardown_cluster", REMOVED, "Not all of it."),
        ("schedule_pending", {"changed": False, "host": facts()}, "The queue is empty."),
    ],
)
def test_a_playbook_prints_no_deprecation_warning(
    tmp_path: Path, playbook: str, answer: dict[str, Any], says: str
) -> None:
    output = play(tmp_path, CHECKOUT / "playbooks" / f"{playbook}.yml", answer)
    assert says in output
    assert deprecations(output) == []


def test_a_deprecation_warning_is_found(tmp_path: Path) -> None:
    """What follows from a module's result, which every supported core prints alike."""
    deprecated = {"msg": "It goes away.", "version": "9.0.0", "collection_name": "cluster_compute.session"}
    output = play(tmp_path, CHECKOUT / "playbooks" / "teardown_cluster.yml", {**REMOVED, "deprecations": [deprecated]})
    assert deprecations(output)
    assert deprecations(output.replace("It goes away.", "awx.awx goes away.")) == []
