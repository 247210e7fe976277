# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host that has lost its records looks at before it goes by those of others."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import bounded, folders
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.bounded import Hung
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import facts
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls.session_repair import (
    shown_by_roots,
)


def test_a_mount_root_that_hangs_keeps_only_sessions_that_use_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sound, dead = tmp_path / "sound", tmp_path / "dead"
    sound.symlink_to("/etc")
    dead.mkdir()
    realpath = os.path.realpath

    def answers(path: str, **more: bool) -> str:
        if path == str(dead):
            time.sleep(60)
        return realpath(path, **more)

    monkeypatch.setattr(os.path, "realpath", answers)
    monkeypatch.setattr(folders, "SECONDS", 0.5)
    monkeypatch.setattr(facts, "bounded", bounded.bounded)
    roots, private = [str(sound), str(dead)], {"/etc": "the host's settings"}
    begin = time.monotonic()
    assert shown_by_roots(roots, [str(sound)], private) == {str(sound): "/etc (the host's settings)", str(dead): ""}
    with pytest.raises(Hung, match=f"the file system of {re.escape(str(dead))} "):
        shown_by_roots(roots, [str(dead)], private)
    assert time.monotonic() - begin < 30
