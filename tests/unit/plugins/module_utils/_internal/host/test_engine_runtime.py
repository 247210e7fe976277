# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script that the engine starts replicas by ends in the engine's own runtime."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import RUNTIME
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    read_container,
    read_info,
    read_inspected,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import engine_runtime


@pytest.mark.parametrize(
    ("plain", "last"),
    [
        ({"path": "runc"}, 'exec runc "$@"'),
        ({"path": "/usr/bin/runc", "runtimeArgs": None}, 'exec /usr/bin/runc "$@"'),
        ({"path": "/opt/my runc", "runtimeArgs": ["--log", "a b"]}, "exec '/opt/my runc' --log 'a b' \"$@\""),
    ],
)
def test_the_script_runs_the_default_runtime_as_it_was(plain: dict[str, Any], last: str) -> None:
    engine: Any = SimpleNamespace(info=lambda: read_info({"Runtimes": {"runc": plain}, "DefaultRuntime": "runc"}, ""))
    assert engine_runtime._script(engine).splitlines()[-1] == last


def test_a_runtime_without_a_program_is_named() -> None:
    engine: Any = SimpleNamespace(info=lambda: read_info({"Runtimes": {"shim": {}}, "DefaultRuntime": "shim"}, ""))
    with pytest.raises(engine_runtime.RuntimeEntryError, match="'shim' is not a program"):
        engine_runtime._script(engine)


def test_containers_that_the_lost_entry_starts_are_named() -> None:
    made, runtimes = {"a": RUNTIME, "b": "runc"}, dict[str, Any]()

    def inspect(name: str) -> Any:
        return read_inspected({"HostConfig": {"Runtime": made[name]}}) if name in made else None

    engine: Any = SimpleNamespace(
        info=lambda: read_info({"Runtimes": runtimes}, ""),
        session_containers=lambda: [read_container({"Id": name, "Names": [f"/{name}"]}) for name in ("a", "b", "gone")],
        inspect=inspect,
    )
    assert engine_runtime.lost(engine).endswith("by which these are started: a.")
    runtimes[RUNTIME] = {}
    assert engine_runtime.lost(engine) == ""
    runtimes.clear()
    made["a"] = "runc"
    assert engine_runtime.lost(engine) == ""


@pytest.mark.parametrize("others", [{}, {"nvidia": {"path": "nvidia-container-runtime"}}])
def test_the_entry_goes_and_others_stay(
    others: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "daemon.json"
    monkeypatch.setattr(engine_runtime, "_settings_file", lambda engine: settings)
    monkeypatch.setattr(engine_runtime, "SCRIPT", tmp_path / "script")
    monkeypatch.setattr(engine_runtime, "PROGRAM", tmp_path / "program")
    written: list[Any] = []

    def step(_engine: Any, path: Path, found: Any) -> str:
        written.append((path, found))
        return "step"

    monkeypatch.setattr(engine_runtime, "_settings_step", step)
    engine: Any = SimpleNamespace(
        info=lambda: read_info({"Runtimes": {}}, ""), session_containers=list, process=lambda: 1
    )
    settings.write_text(json.dumps({"bip": "10.0.0.1/24", "runtimes": others}), encoding="utf-8")
    stages: list[Any] = [*engine_runtime.absent_stages(engine)]
    assert stages == [[]]
    assert written == []
    entry = {RUNTIME: {"path": str(tmp_path / "script")}}
    settings.write_text(json.dumps({"bip": "10.0.0.1/24", "runtimes": {**others, **entry}}), encoding="utf-8")
    stages = [*engine_runtime.absent_stages(engine)]
    assert stages == [["step"], []]
    assert written == [(settings, {"bip": "10.0.0.1/24", **({"runtimes": others} if others else {})})]
