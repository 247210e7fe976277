# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes that go on in the background, and all that came of one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.background import (
    family,
    run_in_background,
    send,
    start_of,
)


def test_work_goes_on_by_itself_and_is_told_from_others(tmp_path: Path) -> None:
    done = tmp_path / "done"

    def work() -> None:
        time.sleep(0.2)
        done.touch()

    process = run_in_background("cc-test", work)
    assert start_of(process["pid"]) == process["start"]
    os.waitpid(process["pid"], 0)
    assert done.exists()
    assert start_of(process["pid"]) is None


def test_a_family_is_found_wherever_its_members_went() -> None:
    mark = f"CLUSTER_COMPUTE_TEST={os.getpid()}"
    # One without its parent and in a session of its own, one in such a session and without the mark.
    text = "(setsid sleep 66 &); setsid env -i sleep 67 & sleep 68"
    with subprocess.Popen(["/usr/bin/env", mark, "sh", "-c", text], start_new_session=True) as leader:
        deadline = time.monotonic() + 10
        while sorted(filter(None, map(_sleeps, family(leader.pid, mark)))) != ["66", "67", "68"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert os.getpid() not in family(leader.pid, mark)
        send(family(leader.pid, mark), signal.SIGKILL)
        leader.wait()
        while family(leader.pid, mark):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _sleeps(pid: int) -> str:
    """Return for how many seconds a process sleeps; nothing for one that does something else."""
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return ""
    return argv[1] if argv[0] == "sleep" else ""
