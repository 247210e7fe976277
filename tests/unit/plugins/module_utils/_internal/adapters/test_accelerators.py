# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Accelerators of this host: what is read, and what is said where there is nothing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import accelerators, bounded

SPECIFICATION = {
    "kind": "vendor.com/x",
    "devices": [{"name": "a", "containerEdits": {"deviceNodes": [{"path": "/dev/a"}]}}],
}


@pytest.fixture(autouse=True)
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where it is remembered that the tool has hung."""
    path = tmp_path / "nvidia-smi-hangs"
    monkeypatch.setattr(accelerators, "HANGS", str(path))
    return path


def _tool(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def _problem(declared: dict[str, Any]) -> str:
    accelerator = next(iter(accelerators.detect(declared).values()))
    assert (accelerator["names"], accelerator["paths"]) == ([], {})
    return str(accelerator["problem"])


def test_the_tool_is_asked_for_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _tool(tmp_path, monkeypatch, '[ "$*" = -L ] && echo "GPU 0: NVIDIA L4 (UUID: GPU-1-2)"')
    assert accelerators.detect({"gpu": "nvidia", "card": ["/dev/a"]}) == {
        "gpu": {"names": ["GPU-1-2"], "paths": {}, "links": {}, "problem": ""}
    }


def test_why_the_tool_found_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(accelerators, "PROGRAM", "no-such-program")
        assert _problem({"gpu": "nvidia"}) == "no-such-program is not installed; it comes with NVIDIA's driver."
    _tool(tmp_path, monkeypatch, "echo No devices found.")
    assert _problem({"gpu": "nvidia"}) == "'nvidia-smi -L' lists no GPU: No devices found."
    _tool(tmp_path, monkeypatch, "echo Failed to initialize NVML: Driver/library version mismatch; exit 18")
    assert _problem({"gpu": "nvidia"}) == (
        "'nvidia-smi -L' failed with status 18: Failed to initialize NVML: Driver/library version mismatch"
    )
    assert not note.exists(), "it did not hang"


def test_a_tool_that_hung_gets_less_time_until_it_answers_or_half_an_hour_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: Path
) -> None:
    monkeypatch.setattr(accelerators, "PATIENCE", 2)
    monkeypatch.setattr(bounded, "AGAIN", 1)
    _tool(tmp_path, monkeypatch, "exec sleep 20")
    for seconds in (2, 1, 1):
        assert _problem({"gpu": "nvidia"}) == f"'nvidia-smi -L' did not end within {seconds} seconds."
    long_ago = note.stat().st_mtime - 1801
    os.utime(note, (long_ago, long_ago))
    assert _problem({"gpu": "nvidia"}) == "'nvidia-smi -L' did not end within 2 seconds."
    assert note.stat().st_mtime > long_ago + 1800, "it counts anew"
    _tool(tmp_path, monkeypatch, 'echo "GPU 0: NVIDIA L4 (UUID: GPU-1-2)"')
    assert accelerators.nvidia() == ["GPU-1-2"]
    assert not note.exists()


def test_specifications_are_read_from_both_folders(tmp_path: Path) -> None:
    folders = (str(tmp_path / "etc"), str(tmp_path / "run"), str(tmp_path / "none"))
    for folder, name, text in (
        ("etc", "x.json", json.dumps(SPECIFICATION)),
        (
            "run",
            "y.yaml",
            "kind: vendor.com/x\ndevices:\n- {name: b, containerEdits: {deviceNodes: [{path: /dev/b}]}}\n",
        ),
        ("run", "notes.txt", "not a specification"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(text, encoding="utf-8")
    found = accelerators.cdi("vendor.com/x", folders)
    assert [(device.name, sorted(device.paths)) for device in found] == [
        ("vendor.com/x=a", ["/dev/a"]),
        ("vendor.com/x=b", ["/dev/b"]),
    ]
    with pytest.raises(accelerators.AcceleratorError, match=r"has devices of the kind vendor\.com/z"):
        accelerators.cdi("vendor.com/z", folders)


@pytest.mark.parametrize(
    ("name", "text"), [("x.json", "{"), ("x.yaml", "a: ["), ("x.yml", "[]"), ("x.json", '{"kind": 1}')]
)
def test_a_specification_that_cannot_be_read_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(accelerators.AcceleratorError, match=f"The CDI specification {tmp_path}/{name} cannot be read"):
        accelerators.cdi("vendor.com/x", (str(tmp_path),))


def test_yaml_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "x.json").write_text(json.dumps(SPECIFICATION), encoding="utf-8")
    assert [device.name for device in accelerators.cdi("vendor.com/x", (str(tmp_path),))] == ["vendor.com/x=a"]
    (tmp_path / "y.yaml").write_text("kind: vendor.com/x\n", encoding="utf-8")
    with pytest.raises(
        accelerators.AcceleratorError, match=r"y.yaml is YAML, and the host lacks the package python3-yaml"
    ):
        accelerators.cdi("vendor.com/x", (str(tmp_path),))


def test_links_to_device_files_are_followed() -> None:
    known = {"card": ["/dev/null", "/dev/zero+/dev/fd"], "plain": ["/dev/full"], "other": "wrong", "named": ["GPU-1"]}
    links = {"/dev/fd": f"/proc/{os.getpid()}/fd"}
    assert accelerators.detect(known) == {"card": {"names": [], "paths": {}, "links": links, "problem": ""}}
