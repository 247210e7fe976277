# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order in which CPUs are given away."""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import cpus


def test_threads_of_a_core_and_cores_of_a_node_are_beside_each_other(tmp_path: Path, monkeypatch) -> None:
    # Two nodes of two cores with two threads each, numbered as most firmware does.
    for cpu in range(8):
        about = tmp_path / f"cpu{cpu}"
        (about / "topology").mkdir(parents=True)
        (about / f"node{cpu % 2}").mkdir()
        (about / "topology" / "physical_package_id").write_text(f"{cpu % 2}\n", encoding="ascii")
        (about / "topology" / "core_id").write_text(f"{cpu % 4 // 2}\n", encoding="ascii")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    assert cpus.cpus_in_order(str(tmp_path)) == [0, 4, 2, 6, 1, 5, 3, 7]


def test_what_the_kernel_does_not_tell_leaves_the_numbers(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {3, 1, 2})
    assert cpus.cpus_in_order(str(tmp_path)) == [1, 2, 3]


def test_this_machine_has_the_cpus_that_a_process_may_use() -> None:
    assert sorted(cpus.cpus_in_order()) == sorted(os.sched_getaffinity(1))
