# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program for hosts is put in its place as a whole, and those of earlier releases go when nobody uses them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import install


def test_programs_that_were_not_used_for_a_month_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    days = {"today": 0.0, "recent": 29.9, "old": 30.1}
    for name, age in days.items():
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (time.time() - age * 86400,) * 2)
    assert install.keep(str(folder / "new"), b"content") == ""
    assert sorted(path.name for path in folder.iterdir()) == ["new", "recent", "today"]
    assert (folder / "new").read_bytes() == b"content"
    assert (folder / "new").stat().st_mode & 0o7777 == 0o644


def test_a_program_that_cannot_be_kept_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    assert "directory" in install.keep(str(tmp_path / "new"), b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    (tmp_path / "file").write_bytes(b"x")
    assert install.keep(str(tmp_path / "file" / "new"), b"content")
