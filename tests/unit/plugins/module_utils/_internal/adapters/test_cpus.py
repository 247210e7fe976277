# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the kernel tells of cores and NUMA nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import cpus


def describe(system: Path, siblings: Sequence[str], nodes: Sequence[str] = (), packages: Sequence[int] = ()) -> None:
    """Write down a machine as the kernel does: the threads beside each CPU, the CPUs of each node."""
    for cpu, text in enumerate(siblings):
        folder = system / f"cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{text}\n", encoding="ascii")
        (folder / "physical_package_id").write_text(f"{packages[cpu] if packages else 0}\n", encoding="ascii")
    for node, text in enumerate(nodes):
        folder = system / f"node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{text}\n", encoding="ascii")
        amount = "" if text == "" else f"Node {node} MemTotal:       16738520 kB\n"
        (folder / "meminfo").write_text(f"{amount}Node {node} MemFree: 1 kB\n", encoding="ascii")


def found(system: Path, usable: Sequence[int]) -> list[tuple[int, list[int]]]:
    return [(core["node"], core["cpus"]) for core in cpus.topology(usable, str(system))["cores"]]


def test_two_sockets_with_two_threads_a_core_numbered_as_most_firmware_does(tmp_path: Path) -> None:
    siblings = ["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"] * 2
    describe(tmp_path, siblings, ["0-3,8-11", "4-7,12-15"], [0] * 4 + [1] * 4 + [0] * 4 + [1] * 4)
    assert found(tmp_path, range(16)) == [(cpu // 4, [cpu, cpu + 8]) for cpu in range(8)]
    assert cpus.topology(range(16), str(tmp_path))["memory"] == {"0": 16738520 * 1024, "1": 16738520 * 1024}


def test_nodes_and_packages_that_alternate(tmp_path: Path) -> None:
    describe(tmp_path, [str(cpu) for cpu in range(8)], ["0,2,4,6", "1,3,5,7"], [0, 1] * 4)
    assert found(tmp_path, range(8)) == [(0, [0]), (0, [2]), (0, [4]), (0, [6]), (1, [1]), (1, [3]), (1, [5]), (1, [7])]


def test_without_nodes_packages_stay_together(tmp_path: Path) -> None:
    describe(tmp_path, ["0", "1", "2", "3"], [], [0, 1, 0, 1])
    assert found(tmp_path, range(4)) == [(0, [0]), (0, [2]), (0, [1]), (0, [3])]
    assert cpus.topology(range(4), str(tmp_path))["memory"] == {}


def test_threads_that_are_offline_or_kept_from_the_engine_are_no_part_of_a_core(tmp_path: Path) -> None:
    # The kernel leaves those that are offline out of the lists; CPU 5 is there and not to be used.
    describe(tmp_path, ["0,4", "1,5", "2", "3,7", "0,4", "1,5", "", "3,7"], ["0-7", ""])
    assert found(tmp_path, [0, 1, 2, 3, 4, 7]) == [(0, [0, 4]), (0, [1]), (0, [2]), (0, [3, 7])]
    assert list(cpus.topology([0], str(tmp_path))["memory"]) == ["0"], "a node without memory is left out"


def test_what_the_kernel_does_not_tell_leaves_the_numbers(tmp_path: Path) -> None:
    assert found(tmp_path, [3, 1, 2]) == [(0, [1]), (0, [2]), (0, [3])]


@pytest.mark.parametrize(
    ("text", "wanted"), [("", []), ("3", [3]), ("0-3,8", [0, 1, 2, 3, 8]), ("1,5-6\n", [1, 5, 6]), ("10-9", [])]
)
def test_lists_of_the_kernel(text: str, wanted: list[int]) -> None:
    assert sorted(cpus.numbers(text)) == wanted


def test_this_machine_has_the_cpus_that_a_process_may_use() -> None:
    usable = cpus.usable_cpus()
    assert usable
    assert usable <= os.sched_getaffinity(1)
    assert {cpu for core in cpus.topology(usable)["cores"] for cpu in core["cpus"]} == usable


def test_what_is_kept_from_the_engine_is_not_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pid").write_text("77", encoding="ascii")
    monkeypatch.setattr(cpus, "ENGINE_PID", str(tmp_path / "pid"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3} if pid == 1 else {2, 3, 4})
    assert cpus.usable_cpus() == {2, 3}
    (tmp_path / "pid").unlink()
    assert cpus.usable_cpus() == {0, 1, 2, 3}
