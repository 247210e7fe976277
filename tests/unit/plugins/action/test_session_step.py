# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logins of registries reach the module hidden, and hide nothing else; what is copied has a limit of time."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible import constants as C
from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import remove_values
from ansible_collections.cluster_compute.session.plugins.action import session_host
from ansible_collections.cluster_compute.session.plugins.action import session_step as action
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.images import REGISTRIES
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS

PULL = {"reference": "registry.example/train:1", "digest": "registry.example/train@sha256:" + "d" * 64}


def given_to_the_module(monkeypatch: pytest.MonkeyPatch, logins: dict[str, Any]) -> dict[str, Any]:
    monkeypatch.setattr(session_host.ActionModule, "run", lambda self, _tmp, _task_vars: self._task.args)
    module: Any = object.__new__(action.ImagesCall)
    module._task = SimpleNamespace(args={"state": "pulled", "pulls": [PULL]}, check_mode=False)
    module._templar = SimpleNamespace(template=lambda value: value)
    found: dict[str, Any] = module.run(task_vars={REGISTRIES: logins})
    return found


def test_a_login_is_hidden_and_takes_nothing_out_of_what_the_module_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    given = given_to_the_module(monkeypatch, {"registry.example": {"username": "ada", "password": "12"}})
    checked = ArgumentSpecValidator(ARGUMENTS["session_images"]["argument_spec"]).validate(given)
    assert checked.error_messages == []
    result = {"pulled": {"train:1": {"id": "sha256:" + "0123ada9" * 8, "bytes": 41234, "seconds": 1.2}}}
    assert remove_values(result, checked._no_log_values) == result
    assert "ada" not in str(remove_values(given, checked._no_log_values))


def test_an_archive_that_a_host_does_not_take_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = tmp_path / "images.tar"
    archive.touch()
    monkeypatch.setattr(action, "seconds_for", lambda _call, _arguments: 0.3)
    monkeypatch.setattr(C, "ANSIBLE_HOME", str(tmp_path))
    module: Any = object.__new__(action.ImagesCall)
    module._task = SimpleNamespace(
        args={"state": "loaded", "archive": str(archive)}, check_mode=False, delegate_to=None, action="session_images"
    )
    module._templar = SimpleNamespace(template=lambda value: value)
    shell = SimpleNamespace(tmpdir="/tmp/x", join_path=lambda *parts: "/".join(parts))
    module._connection = SimpleNamespace(_shell=shell)
    module._play_context = SimpleNamespace(remote_addr="192.0.2.1", remote_user="root", port=22)
    module._make_tmp_path = lambda: None
    module._transfer_file = lambda _path, _there: time.sleep(60)
    with pytest.raises(AnsibleConnectionFailure, match="The host hangs"):
        module.run(task_vars={"ansible_python_interpreter": "/usr/bin/python3"})
    assert shell.tmpdir is None
