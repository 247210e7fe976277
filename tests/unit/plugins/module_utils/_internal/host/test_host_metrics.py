# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host writes for the site's monitoring, with its own files; the lab's tests have engines and Prometheus."""

from __future__ import annotations

import io
import json
import os
import resource
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import state as state_files
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Engine,
    EngineError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import Claim
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.host_settings import (
    HostSettings,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import metrics, program, timer

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


def test_a_folder_that_cannot_be_written_never_fails_a_call_and_the_timer_tells(
    state: StateDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    (state.root.parent / "node").write_text("a file", encoding="utf-8")
    metrics.after_call(state, *CALL)
    assert timer.look(state) == 1
    assert "Figures for the site's monitoring could not be written" in capsys.readouterr().out


def test_a_link_that_somebody_left_is_replaced_and_not_followed(state: StateDirectory, tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "node"
    victim.write_text("mine", encoding="utf-8")
    folder.mkdir()
    for name in (metrics.STATE_FILE, f".{metrics.STATE_FILE}.{os.getpid()}"):
        (folder / name).symlink_to(victim)
    metrics.after_call(state, *CALL)
    assert victim.read_text(encoding="utf-8") == "mine"
    assert not (folder / metrics.STATE_FILE).is_symlink()


def test_a_shorter_count_leaves_nothing_of_a_longer_one(state: StateDirectory) -> None:
    state.metrics_file.parent.mkdir(parents=True, exist_ok=True)
    state.metrics_file.write_text("x" * 9999, encoding="utf-8")
    with metrics._counted(state) as kept:
        assert kept
    assert isinstance(json.loads(state.metrics_file.read_text(encoding="utf-8")), dict)


def test_a_file_that_cannot_be_written_leaves_the_one_before_and_nothing_beside_it(tmp_path: Path) -> None:
    metrics._write(tmp_path / "one.prom", "before")
    with pytest.raises(UnicodeEncodeError):
        metrics._write(tmp_path / "one.prom", "\udcff")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"one.prom": "before"}


def test_each_card_names_its_session_until_that_goes(state: StateDirectory) -> None:
    jobs = state.root.parent / "jobs"
    ledger = LedgerFile(str(state.root))
    devices = (("gpu", ("nvidia.com/gpu=0", "/dev/nvidia3")),)
    ledger.commit(Claim(ID, "train", replicas=1, devices=devices), None)
    (jobs).mkdir()
    (jobs / "7").write_text("old", encoding="utf-8")
    (jobs / "README").write_text("kept", encoding="utf-8")
    metrics.write_cards(state)
    assert {path.name: path.read_text(encoding="utf-8") for path in jobs.iterdir()} == {
        "0": "train\n",
        "3": "train\n",
        "README": "kept",
    }
    ledger.release(ID)
    metrics.after_call(state, *CALL)
    assert [path.name for path in jobs.iterdir()] == ["README"]


UUID = "GPU-c7b57be0-94ff-d352-a59b-d0ee00aeed43"


@pytest.fixture
def asked(state: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the file in which NVIDIA's tool notes that it was asked; a session holds the card that it lists."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    text = f"#!/bin/sh\necho asked >> {tmp_path}/asked\n[ ! -e {tmp_path}/broken ] && echo 'GPU 5: X (UUID: {UUID})'\n"
    tool.write_text(text, encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    LedgerFile(str(state.root)).commit(Claim(ID, "train", replicas=1, devices=(("gpu", (UUID,)),)), None)
    return tmp_path / "asked"


def test_cards_are_asked_for_by_the_timer_once_a_boot(state: StateDirectory, asked: Path) -> None:
    metrics.after_call(state, *CALL)
    assert not asked.exists(), "no call waits for NVIDIA's tool"
    job = state.root.parent / "jobs" / "5"
    for _twice in range(2):
        timer.look(state)
        assert job.read_text(encoding="utf-8") == "train\n"
    job.unlink()
    metrics.after_call(state, *CALL)
    assert job.read_text(encoding="utf-8") == "train\n"
    assert asked.read_text(encoding="utf-8") == "asked\n"


def test_cards_that_do_not_tell_are_asked_again_after_some_time(state: StateDirectory, asked: Path) -> None:
    broken = asked.with_name("broken")
    broken.touch()
    for _twice in range(2):
        metrics.write_cards(state)
    assert asked.read_text(encoding="utf-8") == "asked\n"
    long_ago = time.time() - metrics.AGAIN_SECONDS
    os.utime(metrics.CARDS, (long_ago, long_ago))
    broken.unlink()
    metrics.after_call(state, *CALL)
    assert asked.read_text(encoding="utf-8") == "asked\n"
    metrics.write_cards(state)
    assert (state.root.parent / "jobs" / "5").read_text(encoding="utf-8") == "train\n"


def test_the_timer_asks_for_cards_when_all_else_is_done(state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def note(name: str) -> Callable[..., Any]:
        def noted(*_arguments: Any) -> tuple[dict[str, Any], list[Any]]:
            order.append(name)
            return {}, []

        return noted

    monkeypatch.setattr(Engine, "connect", lambda *_arguments: "an engine")
    for name in ("count_use", "keep_time", "enforce_limits"):
        monkeypatch.setattr(timer, name, note(name))
    for name in ("write_figures", "write_cards"):
        monkeypatch.setattr(metrics, name, note(name))
    timer.look(state)
    assert order == ["count_use", "keep_time", "write_figures", "enforce_limits", "write_cards"]


def test_what_is_odd_in_a_record_keeps_the_timer_from_nothing_else(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def odd(*_arguments: object) -> Any:
        raise KeyError("host")

    monkeypatch.setattr(Engine, "connect", lambda *_arguments: "an engine")
    for name in ("count_use", "keep_time"):
        monkeypatch.setattr(timer, name, odd)
    monkeypatch.setattr(metrics, "write_figures", odd)
    monkeypatch.setattr(timer, "enforce_limits", lambda *_arguments: ({"demo-sub1": "It fills a disk."}, []))
    assert timer.look(state) == 1
    said = capsys.readouterr().out
    assert said.count("KeyError") == 3
    assert "stop container demo-sub1: It fills a disk." in said


def test_what_was_written_goes_with_the_setting(state: StateDirectory) -> None:
    LedgerFile(str(state.root)).commit(Claim(ID, "train", replicas=1, devices=(("gpu", ("/dev/nvidia0",)),)), None)
    metrics.write_figures(state)
    metrics.write_cards(state)
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
    for name in ("write_figures", "write_cards"):
        monkeypatch.setattr(metrics, name, called.append)
    program.tell_monitoring("session_host", {"state_directory": str(state.root)}, {}, 1.0)
    timer._write_figures(state)
    timer._write_cards(state)
    assert called == []
    assert not state.metrics_file.exists()
    state.write_settings(HostSettings(metrics_directory="/x", job_mapping_directory="/y"), False)
    program.tell_monitoring("session_host", {"state_directory": str(state.root)}, {}, 1.0)
    timer._write_figures(state)
    timer._write_cards(state)
    assert len(called) == 3


def test_nothing_is_counted_or_told_where_a_newer_release_was_at_work(
    state: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (state.root / "version").write_text(f"{state_files.VERSION + 1}\n", encoding="utf-8")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    arguments = {"state_directory": str(state.root), "state": "started"}
    question = json.dumps({"call": "session_host", "arguments": arguments, "check_mode": False}).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(zlib.compress(question))))
    assert program.main() == 0
    assert "which a newer release" in capsys.readouterr().out
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_a_full_disk_takes_no_count_away(state: StateDirectory) -> None:
    metrics.after_call(state, *CALL)
    before = state.metrics_file.read_bytes()
    assert len(before) > 20
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    other_call = ("session_host", {"state": "a" * 999}, {"failed": True}, 1.0)
    for size in (0, 20):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            metrics.after_call(state, *other_call)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert state.metrics_file.read_bytes() == before
    metrics.after_call(state, *CALL)
    assert 'kind="host"} 2\n' in text(state)


def test_whoever_looked_longer_does_not_take_back_what_others_counted(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = metrics._look

    def look_meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(metrics, "_look", look)
        found = look(*arguments)
        metrics.after_call(state, *CALL)
        return found

    monkeypatch.setattr(metrics, "_look", look_meanwhile)
    metrics.after_call(state, *CALL)
    assert 'kind="host"} 2\n' in text(state)


def test_a_look_that_fails_takes_no_count_away(state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    (state.root.parent / "node").write_text("a file", encoding="utf-8")
    metrics.after_call(state, *CALL)
    (state.root.parent / "node").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(metrics, "_look", Engine.connect)
        metrics.after_call(state, *CALL)
    metrics.after_call(state, *CALL)
    assert 'kind="host"} 3\n' in text(state)
