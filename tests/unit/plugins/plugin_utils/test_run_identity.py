# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which run a lease belongs to, and whether that has ended."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.cluster_compute.session.plugins.plugin_utils import run_identity
from ansible_collections.cluster_compute.session.plugins.plugin_utils.run_identity import has_ended, this_run


def test_a_run_has_ended_when_its_process_has() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        place = this_run().split(":")[0]
        lease_owner = f"uuid {place}:{other.pid}:{run_identity._start_of(other.pid)}"
        assert not has_ended(lease_owner)
        assert has_ended(lease_owner + "1"), "another process has its number"
        other.communicate(b"\n")
    assert has_ended(lease_owner)


def test_a_process_that_is_hidden_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        lease_owner = f"uuid {run_identity.run_of(other.pid)}"
        this_run()
        monkeypatch.setattr(run_identity, "_start_of", lambda _pid: "")
        assert not has_ended(lease_owner)
        other.communicate(b"\n")
    assert has_ended(lease_owner)


def test_of_another_machine_or_container_nobody_can_tell() -> None:
    assert not has_ended("uuid")
    assert not has_ended("uuid 3f2a.4026531836:1:1")


def test_what_this_run_holds_is_held_by_no_launch_beside_it() -> None:
    assert has_ended(f"uuid {this_run()}")


def test_where_the_machine_does_not_tell_no_run_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_identity, "_place", lambda: "")
    assert run_identity.this_run.__wrapped__() == ""
    assert not has_ended("uuid ")
