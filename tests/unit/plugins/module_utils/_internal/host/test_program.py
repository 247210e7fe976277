# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host remembers of a call that hung, and of one that was answered again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import suspicion
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.suspicion import SuspicionFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import program


@pytest.mark.parametrize("hung", [False, True])
@pytest.mark.parametrize("check_mode", [False, True])
def test_a_host_that_answers_again_hangs_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hung: bool, check_mode: bool
) -> None:
    monkeypatch.setattr(program, "run", lambda *_given: {"changed": False})
    monkeypatch.setattr(suspicion, "REMOVALS", str(tmp_path))
    note = SuspicionFile(str(tmp_path))
    note.remember("It is slow.", hangs=hung)
    arguments: dict[str, Any] = {"state_directory": str(tmp_path)}
    assert program.run_bounded("host_info", arguments, check_mode) == {"changed": False}
    assert note.hangs() is (hung and check_mode)
    assert program.run_bounded("host_kernel", {}, check_mode) == {"changed": False}
