# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions on virtual machines, each with the kernel, systemd and engine of its distribution (make machines-test).

Every test begins with the machines as they were prepared: disk, memory and all.
"""

from __future__ import annotations

import os

os.environ["CLUSTER_COMPUTE_TEST_MACHINES"] = "1"  # before the driver is imported, which reads it

from collections.abc import Iterator

import pytest
from ansible_collections.cluster_compute.session.tests.support.lab_lock import only_user
from ansible_collections.cluster_compute.session.tests.support.machines import machine as vm


@pytest.fixture(scope="session", autouse=True)
def machines() -> Iterator[dict[str, vm.Machine]]:
    """Give the machines by name; no other tests may use them meanwhile."""
    found = {machine.name: machine for machine in vm.machines()}
    with only_user(vm.LAB.name):
        off = [name for name, machine in found.items() if machine.process() is None]
        assert not off, f"The machines {', '.join(off)} are off. Run make machines-up first."
        yield found


@pytest.fixture(autouse=True)
def prepared(machines: dict[str, vm.Machine]) -> None:
    """Set all machines back to what they were after their preparation."""
    vm.reset(machines.values())
