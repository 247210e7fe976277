# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hosts' side against one real engine, on hosts of each engine generation: no SSH, no Ansible, in one process.

pytest is started on this machine, where it makes the hosts (`hosts`), and runs a second time on each of them
(`on_host`), by the host's own Python. The hosts of a generation share the files of tests, as most of a test is to wait
for an engine. What the tests say there is told here as if they had run here.
"""

from __future__ import annotations

import os

import pytest

HERE = "ansible_collections.cluster_compute.session.tests.support.contract"

pytest_plugins = [f"{HERE}.on_host" if "CLUSTER_COMPUTE_CONTRACT" in os.environ else f"{HERE}.hosts"]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of tests that run on every generation in each check."""
    config.addinivalue_line("markers", "every_engine: is of what engines do in ways of their own, so each runs it")
