# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may keep a step from being passed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.action import session_gate as action

DONE: dict[str, Any] = {"keys": {}}
AWAY: dict[str, Any] = {"unreachable": True, "msg": "No route."}
FAILED: dict[str, Any] = {"msg": "No such table."}


@pytest.mark.parametrize(
    ("one", "other", "failures", "unreachable"),
    [
        (DONE, DONE, [], []),
        (AWAY, DONE, ["h1: No route."], ["h1"]),
        (FAILED, DONE, ["h1: No such table."], []),
        (DONE, AWAY, [], []),
        (DONE, FAILED, ["h2: No such table."], []),
    ],
)
def test_a_witness_that_is_away_keeps_nobody_and_one_that_fails_does(
    monkeypatch: pytest.MonkeyPatch, one: Any, other: Any, failures: list[str], unreachable: list[str]
) -> None:
    monkeypatch.setattr(action.ActionBase, "run", lambda *_given: {})
    gate: Any = object.__new__(action.ActionModule)
    results = {"h1": one, "h2": other}
    gate._task = SimpleNamespace(args={"hosts": ["h1"], "witnesses": ["h1", "h2"], "results": results, "proof": "keys"})
    found = gate.run()
    assert (found["passed"], found["failures"], found["unreachable_hosts"]) == (not failures, failures, unreachable)
