# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host writes for the site's monitoring, with its own files; the lab's tests have engines and Prometheus."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import state as state_files
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine, EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.host_settings import HostSettings
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.ledger import Claim
from ansible_collections.cluster_compute.session.plugins.module_utils.host import metrics, program, timer

ID = "3614fdf3-6a1e-4f0e-9d4c-0f9d1f3c6a52"
CALL = ("session_host", {"state": "started"}, {"failed": True, "sick": True}, 1.0)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    """Give the state directory of a host whose engine is down and that writes its figures."""
    write = state_files.write_file
    own = (os.getuid(), os.getgid())
    monkeypatch.setattr(state_files, "write_file", lambda path, text, mode=0o644: write(path, text, mode, own))

    def refuse(*_arguments: object) -> Engine:
        raise EngineError("It is down.")

    monkeypatch.setattr(Engine, "connect", refuse)
    monkeypatch.setattr(metrics, "CARDS", str(tmp_path / "cards.json"))
    root = tmp_path / "state"
    root.mkdir()
    found = StateDirectory(str(root))
    found.write_settings(
        HostSettings(metrics_directory=str(tmp_path / "node"), job_mapping_directory=str(tmp_path / "jobs")), False
    )
    return found


def text(state: StateDirectory) -> str:
    return (state.root.parent / "node" / metrics.STATE_FILE).read_text(encoding="utf-8")


def test_a_call_is_counted_and_told_over_the_next_ones(state: StateDirectory) -> None:
    metrics.after_call(state, *CALL)
    metrics.after_call(state, *CALL)
    assert 'cluster_compute_call_failures_total{call="started",kind="host"} 2\n' in text(state)
    assert "cluster_compute_engine_up 0\n" in text(state)
    folder = state.root.parent / "node"
    assert sorted(path.name for path in folder.iterdir()) == [metrics.STATE_FILE]
    assert (folder / metrics.STATE_FILE).stat().st_mode & 0o777 == 0o644
    assert state.metrics_file.stat().st_mode & 0o777 == 0o600


def test_without_an_engine_the_timer_says_so(state: StateDirectory) -> None:
    assert timer.look(state) == 0
    assert "cluster_compute_engine_up 0\n" in text(state)
    assert (state.root.parent / "node" / metrics.USE_FILE).exists()


@pytest.mark.parametrize(
    "kept", ["", "{", "[]", json.dumps({"phases": {"hold": {"counts": [1], "seconds": 1.0}}}), "\x00"]
)
def test_what_cannot_be_read_of_what_was_counted_begins_anew(state: StateDirectory, kept: str) -> None:
    state.metrics_file.write_text(kept, encoding="utf-8")
    metrics.after_call(state, *CALL)
    assert 'kind="host"} 1\n' in text(state)


def test_a_folder_that_cannot_be_written_never_fails_a_call_and_the_timer_tells(state: StateDirectory) -> None:
    (state.root.parent / "node").write_text("a file", encoding="utf-8")
    metrics.after_call(state, *CALL)
    done, problems = timer._write_metrics(None, state)
    assert done == []
    assert "could not be written" in problems[0]


def test_a_link_that_somebody_left_is_replaced_and_not_followed(state: StateDirectory, tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "node"
    victim.write_text("mine", encoding="utf-8")
    folder.mkdir()
    for name in (metrics.STATE_FILE, f".{metrics.STATE_FILE}.{os.getpid()}"):
        (folder / name).symlink_to(victim)
    metrics.after_call(state, *CALL)
    assert victim.read_text(encoding="utf-8") == "mine"
    assert not (folder / metrics.STATE_FILE).is_symlink()


def test_each_card_names_its_session_until_that_goes(state: StateDirectory) -> None:
    jobs = state.root.parent / "jobs"
    ledger = LedgerFile(str(state.root))
    devices = (("gpu", ("nvidia.com/gpu=0", "/dev/nvidia3")),)
    ledger.commit(Claim(ID, "train", replicas=1, devices=devices), None)
    (jobs).mkdir()
    (jobs / "7").write_text("old", encoding="utf-8")
    (jobs / "README").write_text("kept", encoding="utf-8")
    metrics.after_call(state, *CALL)
    assert {path.name: path.read_text(encoding="utf-8") for path in jobs.iterdir()} == {
        "0": "train\n",
        "3": "train\n",
        "README": "kept",
    }
    ledger.release(ID)
    metrics.write_all(state)
    assert [path.name for path in jobs.iterdir()] == ["README"]


def test_cards_are_asked_for_once_a_boot(
    state: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    uuid = "GPU-c7b57be0-94ff-d352-a59b-d0ee00aeed43"
    tool.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\necho 'GPU 5: X (UUID: {uuid})'\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    LedgerFile(str(state.root)).commit(Claim(ID, "train", replicas=1, devices=(("gpu", (uuid,)),)), None)
    metrics.write_all(state)
    metrics.write_all(state)
    assert (state.root.parent / "jobs" / "5").read_text(encoding="utf-8") == "train\n"
    assert (tmp_path / "asked").read_text(encoding="utf-8") == "asked\n"


def test_what_was_written_goes_with_the_setting(state: StateDirectory) -> None:
    LedgerFile(str(state.root)).commit(Claim(ID, "train", replicas=1, devices=(("gpu", ("/dev/nvidia0",)),)), None)
    metrics.write_all(state)
    node, jobs = state.root.parent / "node", state.root.parent / "jobs"
    assert list(node.iterdir())
    assert list(jobs.iterdir())
    metrics.remove(state, str(node), str(jobs))
    assert [*node.iterdir(), *jobs.iterdir()] == []
    assert not state.metrics_file.exists()


def test_a_host_that_was_not_told_to_writes_and_counts_nothing(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.write_settings(HostSettings(), False)
    called: list[Any] = []
    monkeypatch.setattr(metrics, "after_call", lambda *given: called.append(given))
    monkeypatch.setattr(metrics, "write_all", called.append)
    program.tell_monitoring("session_host", {"state_directory": str(state.root)}, {}, 1.0)
    timer._write_metrics(None, state)
    assert called == []
    assert not state.metrics_file.exists()
    state.write_settings(HostSettings(metrics_directory="/x"), False)
    program.tell_monitoring("session_host", {"state_directory": str(state.root)}, {}, 1.0)
    timer._write_metrics(None, state)
    assert len(called) == 2
