# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether replicas start by the runtime that the engine gives to containers which ask for none."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import RUNTIME
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import Runtime
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import default_runtime

ENTRY = {RUNTIME: Runtime(str(default_runtime.SCRIPT))}
RUNC = {"runc": Runtime("runc"), **ENTRY}
NVIDIA = {**RUNC, "nvidia": Runtime("/usr/bin/nvidia-container-runtime", ("--mode", "a b"))}
KATA = {**RUNC, "kata": Runtime("")}


@pytest.mark.parametrize(
    ("script", "known", "default", "is_stale"),
    [
        ('#!/bin/sh\nexec runc "$@"\n', RUNC, "runc", False),
        ('#!/bin/sh\nexec runc "$@"\n', RUNC, RUNTIME, False),
        ('#!/bin/sh\nexec runc "$@"\n', KATA, "runc", False),
        ('#!/bin/sh\nexec runc "$@"\n', KATA, "kata", True),
        ('#!/bin/sh\nexec runc "$@"\n', NVIDIA, "nvidia", True),
        ("#!/bin/sh\nexec /usr/bin/nvidia-container-runtime --mode 'a b' \"$@\"\n", NVIDIA, "nvidia", False),
        ('#!/bin/sh\nexec /usr/bin/nvidia-container-runtime "$@"\n', NVIDIA, "nvidia", True),
        ('#!/bin/sh\nexec runc "$@"\n', {"kata": KATA["kata"]}, "kata", False),
        (None, KATA, "kata", False),
        ("something else\n", KATA, "kata", False),
    ],
)
def test_a_script_that_was_made_for_another_default_is_stale(
    script: str | None,
    known: dict[str, Runtime],
    default: str,
    is_stale: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(default_runtime, "SCRIPT", tmp_path / "runtime")
    if script is not None:
        (tmp_path / "runtime").write_text(script, encoding="utf-8")
    found = default_runtime.stale(known, default)
    assert bool(found) is is_stale
    assert not is_stale or f"default runtime is {default} (" in found


def test_a_program_is_the_same_by_its_name_and_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "runc"
    program.write_text("", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(default_runtime, "_PATH", str(tmp_path))
    monkeypatch.setattr(default_runtime, "SCRIPT", tmp_path / "runtime")
    (tmp_path / "runtime").write_text('exec runc "$@"\n', encoding="utf-8")
    assert default_runtime.stale({**RUNC, "runc": Runtime(str(program))}, "runc") == ""
