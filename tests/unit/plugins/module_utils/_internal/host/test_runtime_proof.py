# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A runtime is proven in a root of its own, which goes afterwards, and the message is that of the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.places import RUNTIME
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import runtime_proof


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (None, ""),
        ("unshare sh failed with status 1: ssh ended with 255", "ssh ended with 255"),
        ("unshare is missing.", "unshare is missing."),
    ],
)
def test_a_proof_has_all_that_a_replica_has_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, wanted: str
) -> None:
    seen: set[str] = set()

    def run(command: list[str], **_given: Any) -> None:
        script, root, runtime = command[-3:]
        assert (script, runtime) == (f"{root}/prove", str(tmp_path / "runtime"))
        seen.update(str(path.relative_to(root)) for path in Path(root).rglob("*"))
        assert Path(root).stat().st_mode & 0o7777 == 0o755
        if said is not None:
            raise runtime_proof.ProofFailed(said)

    monkeypatch.setattr(runtime_proof, "run_command", run)
    if said is None:
        runtime_proof.prove(tmp_path / "runtime")
    else:
        with pytest.raises(runtime_proof.ProofFailed) as failed:
            runtime_proof.prove(tmp_path / "runtime")
        assert str(failed.value) == wanted
    assert seen >= {"prove", "etc/passwd", "etc/hosts", "bin/torchrun", "run/sshd", RUNTIME[1:]}
    assert list(tmp_path.iterdir()) == []
