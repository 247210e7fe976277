# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of all unit tests."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.tests.support.shuffled import SEED, by_files, seed
from hypothesis import settings

# How long an example takes depends on what else the machine does: no test judges it.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
seed()  # before the workers of xdist start, which take it over


def pytest_report_header() -> str:
    """Name the order of the files, for a run in the same one."""
    return f"files in the order of {SEED}={seed()}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files in the order that was drawn."""
    items[:] = [items[index] for index in by_files([str(item.path) for item in items], seed())]
