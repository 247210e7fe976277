# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of a host's kernel, in a file in place of the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import machine
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.calls import SetKernel
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import kernel_settings
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import host_kernel

LIMIT = "net.ipv4.neigh.default.gc_thresh{}"


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, int]:
    """Return the settings of a kernel as it comes, without IPv6."""
    values = {LIMIT.format(1): 128, LIMIT.format(2): 512, LIMIT.format(3): 1024}
    monkeypatch.setattr(kernel_settings, "PATH", tmp_path / "sysctl.d" / "60-cluster-compute.conf")
    monkeypatch.setattr(machine, "setting", lambda name: str(values.get(name, "")))
    monkeypatch.setattr(machine, "integer", lambda name: values.get(name, 0))
    monkeypatch.setattr(machine, "change_setting", values.__setitem__)
    return values


def lines() -> list[str]:
    return kernel_settings.PATH.read_text(encoding="utf-8").splitlines()[1:]


def test_the_limits_are_set_now_and_for_the_next_boot_once(kernel: dict[str, int]) -> None:
    assert host_kernel.call(SetKernel("64"), True).changed
    assert (kernel[LIMIT.format(3)], kernel_settings.PATH.exists()) == (1024, False), "check mode changes nothing"
    assert host_kernel.call(SetKernel("64"), False).changed
    assert list(kernel.values()) == [2048, 8192, 16384]
    assert lines() == [f"{LIMIT.format(number)} = {kernel[LIMIT.format(number)]}" for number in (1, 2, 3)]
    assert not host_kernel.call(SetKernel("64"), False).changed


def test_no_limit_is_lowered(kernel: dict[str, int]) -> None:
    kernel[LIMIT.format(3)] = 10**6
    host_kernel.call(SetKernel(), False)
    assert kernel[LIMIT.format(3)] == 10**6
    assert lines() == [f"{LIMIT.format(1)} = 8192", f"{LIMIT.format(2)} = 32768"], "what others set is theirs"
    assert not host_kernel.call(SetKernel("33"), False).changed


def test_a_host_whose_kernel_has_no_such_setting_is_left_alone(kernel: dict[str, int]) -> None:
    kernel.clear()
    assert not host_kernel.call(SetKernel("64"), False).changed
    assert not kernel_settings.PATH.exists()
