# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logins of registries reach the module hidden, and hide nothing else; what is copied has a limit of time."""

from __future__ import annotations

import ast
import re
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
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.verbs import verb
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.plugin_utils.verbs import VERBS

ROLES = Path(__file__).resolve().parents[4] / "roles"
CORE = Path(verb.__file__).parent
PULL = {"reference": "registry.example/train:1", "digest": "registry.example/train@sha256:" + "d" * 64}


def value_of(node: ast.expr, known: dict[str, Any]) -> Any:
    """Return the value of constants that stand in the code, nothing if it has other names."""
    try:
        return eval(ast.unparse(node), {}, known)  # noqa: S307 - it is our own code
    except (NameError, AttributeError):
        return ()


SECOND = {"call": 1, "launch.call": 1, "self.call": 1, "claims.held": 3}
"""Where a function gets the names of what the role gives."""


def names_of_role() -> list[tuple[str, str]]:
    """Return the role and the name of each argument that a call of its verb takes from the role."""
    modules: dict[str, Any] = dict(VERBS)
    files = {name: [CORE / f"{Path(code.__file__).stem}.py"] for name, code in modules.items()}
    files["launch"] += sorted((CORE / "launch_flow").glob("*.py"))
    cleanup = ast.parse((CORE / "cleanup.py").read_text(encoding="utf-8"))
    found = set()
    for role, paths in files.items():
        trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
        if role in ("launch", "repair", "schedule"):
            trees.append(cleanup)
        known = {name: getattr(verb, name) for name in ("PLACE", "OF_HOST", "REMOVAL")}
        for node in (node for tree in trees for node in ast.walk(tree)):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                known.update(dict.fromkeys(map(ast.unparse, node.targets), value_of(node.value, known)))
            if isinstance(node, ast.Call) and (place := SECOND.get(ast.unparse(node.func))):
                given = node.args[place : place + 1]
                found |= {(role, name) for name in (value_of(given[0], known) if given else known["PLACE"])}
    return sorted(found)


def test_every_argument_that_comes_from_a_role_is_a_variable_of_it() -> None:
    found = names_of_role()
    assert len(found) > 30
    assert {("launch", "lease_seconds"), ("launch", "regenerate_keys"), ("run_job", "env")} <= {*found}
    for role, name in found:
        variable = action.variable_of(role, name)
        folder = ROLES / role
        declared = [*folder.glob("defaults/*.yml"), *folder.glob("tasks/*.yml"), *folder.glob("meta/*.yml")]
        # The specification names variables of jobs, which have no defaults, in its text.
        words = rf"^ *{variable}:|C\({variable}\)"
        assert any(re.search(words, path.read_text(encoding="utf-8"), re.M) for path in declared), variable


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
        args={"state": "loaded", "archive": str(archive), "transfer": {"reference": "train:1"}},
        check_mode=False,
        delegate_to=None,
        action="session_images",
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
