# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The call that installs the program at boot removes files that earlier settings asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.host_settings import (
    HostSettings,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import metrics
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import host_boot


@pytest.mark.parametrize(
    ("had", "wanted", "left"),
    [
        ({"metrics_directory": "/m", "job_mapping_directory": "/j"}, {"metrics_directory": "/m"}, [(None, "/j")]),
        (
            {"metrics_directory": "/m", "job_mapping_directory": "/j"},
            {"job_mapping_directory": "/j"},
            [("/m", None)],
        ),
        ({"metrics_directory": "/m"}, {"metrics_directory": "/other"}, [("/m", None)]),
        ({}, {"metrics_directory": "/m"}, []),
    ],
)
def test_files_go_where_nothing_is_written_any_more_and_stay_elsewhere(
    had: dict[str, Any], wanted: dict[str, Any], left: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Any] = []
    monkeypatch.setattr(metrics, "remove", lambda _state, *folders: removed.append(folders))
    host_boot._leave(StateDirectory(str(tmp_path)), HostSettings(**had), HostSettings(**wanted))
    assert removed == left
