# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a replica has removed and holds open, on files of this process."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters import folders
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import disk


def test_a_file_that_has_another_name_still_does_not_count_as_removed(tmp_path: Path) -> None:
    """The kernel calls it deleted by the name that it was opened by; du finds it by the other one."""
    replica: Any = object.__new__(disk._Replica)
    replica.description = SimpleNamespace(pid=os.getpid())
    replica.volumes = [folders.mount_of(str(tmp_path)).point]
    paths = [tmp_path / name for name in ("linked", "removed")]
    for path in paths:
        path.write_bytes(b"x" * 10_000)
    os.link(paths[0], tmp_path / "other")
    with paths[0].open("rb") as linked, paths[1].open("rb") as removed:
        for path in paths:
            path.unlink()
        known = {file.name: os.fstat(file.fileno()) for file in (linked, removed)}
        links = {
            str(path): os.readlink(f"/proc/self/fd/{number}")
            for path, number in zip(paths, (linked.fileno(), removed.fileno()))
        }
        assert all(text.endswith(disk.REMOVED) for text in links.values())
        device = known[str(paths[0])].st_dev
        found = replica._held_open([os.getpid()], [device])
    assert (device, known[str(paths[1])].st_ino) in found
    assert (device, known[str(paths[0])].st_ino) not in found


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_replica_that_cannot_be_stopped_does_not_keep_others_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check_mode: bool
) -> None:
    stopped: list[str] = []

    def replica(name: str) -> Any:
        def stop(reason: str) -> None:
            if name == "stuck":
                raise disk.DiskError("It hangs.")
            stopped.append(f"{name}: {reason}")

        return SimpleNamespace(folders=[], devices=list, stop=stop)

    running = {name: replica(name) for name in ("stuck", "large")}
    monkeypatch.setattr(disk, "_running_replicas", lambda *_given: running)
    monkeypatch.setattr(disk, "_uses", lambda *_given: ([], ["Something is not known."]))
    monkeypatch.setattr(disk, "to_stop", lambda *_given: dict.fromkeys(running, "Too much."))
    engine: Any = SimpleNamespace(info=lambda: SimpleNamespace(root=str(tmp_path)))
    state: Any = SimpleNamespace(root=tmp_path)
    space = dict.fromkeys(("size", "free", "files", "files_free"), 10**12)
    done, problems = disk.enforce_limits(engine, state, check_mode, lambda _place: space)
    assert stopped == ([] if check_mode else ["large: Too much."])
    assert done == ({"stuck": "Too much.", "large": "Too much."} if check_mode else {"large": "Too much."})
    assert problems == ["Something is not known.", "stuck was to be stopped. Too much. It hangs."][: 2 - check_mode]
