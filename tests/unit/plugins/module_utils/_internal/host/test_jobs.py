# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be said of a job whose watcher is at work, has gone, or was never there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.background import start_of
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.output import JobOutput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import jobs

WATCHER = {"pid": os.getpid(), "start": start_of(os.getpid())}
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ({"runner": WATCHER}, "RUNNING"),
        ({"runner": {**WATCHER, "start": 1}}, "LOST"),
        ({"runner": WATCHER, "boot": "another"}, "LOST"),
        ({"runner": None}, "RUNNING"),
        ({"runner": None, "started": 0.0}, "LOST"),
    ],
)
def test_a_job_runs_as_long_as_it_is_watched(state: dict[str, Any], status: str, tmp_path: Path) -> None:
    job = JobOutput(tmp_path / "session" / "jobs" / "0123456789ab")
    job.write_info({"here": ["main1"], "boot": BOOT, "started": time.time() + 3600, **state})
    (outcome,) = jobs.outcomes(job)
    assert (outcome["status"], bool(outcome["problem"])) == (status, status == "LOST")
    job.write_end("main1", {"exit_code": 3, "problem": ""})
    (outcome,) = jobs.outcomes(job)
    assert (outcome["status"], outcome["exit_code"]) == ("ENDED", 3)
