# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The CPUs of this host, as the kernel describes them (Documentation/ABI/stable/sysfs-devices-system-cpu)."""

from __future__ import annotations

import os
from pathlib import Path

SYSTEM = "/sys/devices/system/cpu"
FIRST_PROCESS = 1
"""A login may be kept to a few CPUs; what the first process may use, the host may."""


def cpus_in_order(system: str = SYSTEM) -> list[int]:
    """Return the numbers of the CPUs that can be used here: of one NUMA node, package and core beside each other."""
    return sorted(os.sched_getaffinity(FIRST_PROCESS), key=lambda cpu: (*_place(Path(system) / f"cpu{cpu}"), cpu))


def _place(about: Path) -> tuple[int, int, int]:
    """Return node, package and core of a CPU; what the kernel does not tell is 0."""
    nodes = [int(path.name[4:]) for path in about.glob("node[0-9]*")]
    return (
        min(nodes, default=0),
        _number(about / "topology/physical_package_id"),
        _number(about / "topology/core_id"),
    )


def _number(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
