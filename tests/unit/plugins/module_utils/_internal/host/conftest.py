# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of hosts share: their hosts are objects, which a process of its own would not change."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.tests.support.in_one_process import patch_bounded


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_bounded(monkeypatch)
