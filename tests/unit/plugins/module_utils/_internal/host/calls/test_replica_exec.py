# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program runs in a replica of a session only for who may use that session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Engine,
    EngineError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine_objects import (
    read_container,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.base import (
    plain_answer,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.replica_exec import (
    Execute,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import NotTheirs
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import owner
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.calls import replica_exec


@pytest.mark.parametrize(
    ("code", "out", "err", "why"),
    [
        (0, "out", "err", None),
        (3, "out", "err\n", "ls ended with exit code 3 in main1: err"),
        (3, "out\n", "", "ls ended with exit code 3 in main1: out"),
    ],
)
def test_the_result_says_how_the_program_ended(
    monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str, why: str | None
) -> None:
    may: list[Any] = []

    def check(_engine: object, _state: object, *asked: object) -> None:
        may.append(asked)
        if asked[1] == "mallory":
            raise NotTheirs("It is not yours.", {})

    ran: list[Any] = []

    def execute(*given: Any) -> tuple[int, str, str]:
        ran.append(given)
        return code, out, err

    engine = SimpleNamespace(
        session_containers=lambda labels: [read_container({"Id": "c1"})] if "main1" in labels.values() else [],
        execute=execute,
    )
    monkeypatch.setattr(Engine, "connect", lambda: engine)
    monkeypatch.setattr(owner, "check", check)
    request = Execute(session_name="train", command=("ls", "-l"), asker="alice")
    found = plain_answer(replica_exec.call(request, False))
    assert (found["rc"], found["stdout"], found["stderr"], found.get("msg")) == (code, out, err, why)
    assert found.get("failed", False) is (why is not None)
    assert (may, ran) == ([("train", "alice")], [("c1", ["ls", "-l"], "")])
    with pytest.raises(NotTheirs):
        replica_exec.call(Execute(session_name="train", command=("ls",), asker="mallory"), False)
    with pytest.raises(EngineError, match="no replica sub9 of a session named train"):
        replica_exec.call(Execute(session_name="train", command=("ls",), replica="sub9", asker="alice"), False)
    assert len(ran) == 1
