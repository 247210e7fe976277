# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The CPUs of this host, as the kernel describes them.

The files are documented in Documentation/ABI/stable/sysfs-devices-system-cpu and sysfs-devices-node of the kernel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

SYSTEM = "/sys/devices/system"
FIRST_PROCESS = 1
"""A login may be limited to a few CPUs; the host may use those that the first process may use."""
ENGINE_PID = "/run/docker.pid"


def usable_cpus() -> set[int]:
    """Return the CPUs that this host's containers can use: those of the first process that its engine may use, too."""
    usable = os.sched_getaffinity(FIRST_PROCESS)
    try:
        return usable & os.sched_getaffinity(int(Path(ENGINE_PID).read_text(encoding="ascii")))
    except (OSError, ValueError):
        return usable


def topology(usable: Collection[int], system: str = SYSTEM) -> dict[str, Any]:
    """Return the cores with *usable* CPUs, and how much memory each NUMA node has: {"cores", "memory"}.

    cores: by node, package and number, each with its node and CPUs. memory: bytes by node, as text, without nodes that
    have none. If the kernel knows no nodes, everything is in node 0.
    """
    nodes = {int(path.name[4:]): path for path in Path(system).glob("node/node[0-9]*")}
    node_of = {cpu: node for node, path in nodes.items() for cpu in numbers(_text(path / "cpulist"))}
    cores: dict[tuple[int, ...], tuple[int, int]] = {}
    for cpu in sorted(usable):
        topology_folder = Path(system) / f"cpu/cpu{cpu}/topology"
        siblings = sorted(set(usable) & numbers(_text(topology_folder / "thread_siblings_list"))) or [cpu]
        package = _text(topology_folder / "physical_package_id")
        cores[tuple(siblings)] = (node_of.get(cpu, 0), int(package) if package.isdigit() else 0)
    in_order = sorted(cores, key=lambda cpus: (cores[cpus], cpus))
    return {
        "cores": [{"node": cores[cpus][0], "cpus": list(cpus)} for cpus in in_order],
        "memory": {str(node): amount for node, path in sorted(nodes.items()) if (amount := _memory(path))},
    }


def numbers(text: str) -> set[int]:
    """Return the numbers of a list as the kernel writes them, such as ``0-3,8``."""
    found: set[int] = set()
    for first, last in re.findall(r"([0-9]+)(?:-([0-9]+))?", text):
        found.update(range(int(first), int(last or first) + 1))
    return found


def _memory(node: Path) -> int:
    match = re.search(r"MemTotal:\s*([0-9]+) kB", _text(node / "meminfo"))
    return int(match.group(1)) * 1024 if match else 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
