# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who leaves out with --limit where the request is checked is told so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("verb", ["launch_cluster", "plan_cluster", "teardown_cluster"])
def test_a_verb_that_is_limited_to_others_than_localhost_says_what_is_missing(tmp_path: Path, verb: str) -> None:
    (tmp_path / "hosts").write_text("[cluster_compute_hosts]\nh1 ansible_connection=local\n", encoding="utf-8")
    name = shutil.which("ansible-playbook", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert name is not None
    given = ["--limit", "h1", "--extra-vars", "session_name=x session_image=y"]
    done = subprocess.run(
        [name, "--inventory", str(tmp_path / "hosts"), str(CHECKOUT / "playbooks" / f"{verb}.yml"), *given],
        env={**os.environ, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_HOME": str(tmp_path)},
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Name localhost in --limit as well" in done.stdout + done.stderr
