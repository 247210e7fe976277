# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logins of registries reach the module hidden, and hide nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import remove_values
from ansible_collections.cluster_compute.session.plugins.action import session_images as action
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS

PULL = {"reference": "registry.example/train:1", "digest": "registry.example/train@sha256:" + "d" * 64}


def given_to_the_module(monkeypatch: pytest.MonkeyPatch, logins: dict[str, Any]) -> dict[str, Any]:
    monkeypatch.setattr(action.HostAction, "run", lambda self, _tmp, _task_vars: self._task.args)
    module: Any = object.__new__(action.ActionModule)
    module._task = SimpleNamespace(args={"state": "pulled", "pulls": [PULL]}, check_mode=False)
    module._templar = SimpleNamespace(template=lambda value: value)
    found: dict[str, Any] = module.run(task_vars={action.REGISTRIES: logins})
    return found


def test_a_login_is_hidden_and_takes_nothing_out_of_what_the_module_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    given = given_to_the_module(monkeypatch, {"registry.example": {"username": "ada", "password": "12"}})
    checked = ArgumentSpecValidator(ARGUMENTS["session_images"]["argument_spec"]).validate(given)
    assert checked.error_messages == []
    result = {"pulled": {"train:1": {"id": "sha256:" + "0123ada9" * 8, "bytes": 41234, "seconds": 1.2}}}
    assert remove_values(result, checked._no_log_values) == result
    assert "ada" not in str(remove_values(given, checked._no_log_values))
