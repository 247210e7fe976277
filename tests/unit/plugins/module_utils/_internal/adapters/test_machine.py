# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine says of itself."""

from __future__ import annotations

import shutil
from pathlib import Path

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import machine


def test_a_folder_that_is_yet_to_be_made_has_the_room_of_the_one_above(tmp_path: Path) -> None:
    found = machine.disk(str(tmp_path / "not" / "there"))
    assert found["path"] == str(tmp_path / "not" / "there")
    assert abs(found["free"] - shutil.disk_usage(tmp_path).free) < 1024**3
    assert found["size"] == shutil.disk_usage(tmp_path).total


def test_settings_of_the_kernel_are_read() -> None:
    assert machine.integer("kernel.pid_max") == int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    assert machine.setting("net.no.such") == ""
    assert machine.integer("net.no.such") == 0
    assert machine.integer("kernel.ostype") == 0


def test_the_kernel_says_whether_its_clock_is_kept() -> None:
    assert machine.is_unsynchronized() in (True, False, None)
