# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import command
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import SessionError


def test_what_is_no_text_of_this_encoding_is_read_all_the_same() -> None:
    assert command.run_command(["printf", r"B\374ro"], error=SessionError) == "B\N{REPLACEMENT CHARACTER}ro"


def test_nobody_waits_for_a_command_that_not_even_the_kernel_can_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess.Popen, "kill", lambda _process: None)
    monkeypatch.setattr(command, "LAST_SECONDS", 0.1)
    begun = time.monotonic()
    with pytest.raises(SessionError, match=r"'sleep 1' did not end within 0 seconds"):
        command.run_command(["sleep", "1"], error=SessionError, seconds=0.1)
    assert time.monotonic() - begun < 0.8
    time.sleep(1)  # it goes before whatever else runs here


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(SessionError):
        command.run_command(["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 30"], error=SessionError, seconds=0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text(encoding="ascii")), 0)
