# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arguments of calls follow from their dataclasses, and are those that the documentation of the modules has.

Annotations are types here, not text, as in the files of calls.
"""

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Optional

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins import modules
from ansible_collections.cluster_compute.session.plugins.doc_fragments.attributes import ModuleDocFragment
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model import calls
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.base import (
    PATH,
    PUBLIC,
    SECRET,
    Call,
    fields_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_host import (
    Remove,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_output import (
    FindOutput,
    PruneOutput,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.claims import Claim
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host.arguments import (
    ARGUMENTS,
    _option,
    arguments_of_module,
)

MODULES = sorted(path.stem for path in Path(modules.__path__[0]).glob("*.py") if path.stem in ARGUMENTS)
REQUESTED: dict[str, tuple[type[Call], ...]] = {
    "session_host": (Remove,),
    "session_output": (FindOutput, PruneOutput),
}
"""Of a call of many states those that tasks request, which the module of its name documents."""
FACTS = ("type", "default", "choices", "elements", "required")
"""What documentation and specification both say of an option."""


def documented(module: str) -> dict[str, dict[str, Any]]:
    """Return the options of a module from its documentation, with those of its fragments."""
    loaded = import_module(f"ansible_collections.cluster_compute.session.plugins.modules.{module}")
    documentation = yaml.safe_load(loaded.DOCUMENTATION)
    options = dict(documentation.get("options") or {})
    for name in documentation["extends_documentation_fragment"]:
        part = name.removeprefix("cluster_compute.session.attributes").lstrip(".").upper() or "DOCUMENTATION"
        options.update(yaml.safe_load(getattr(ModuleDocFragment, part)).get("options") or {})
    return options


@pytest.mark.parametrize("module", MODULES)
def test_a_module_takes_what_its_documentation_says(module: str) -> None:
    def facts(option: dict[str, Any]) -> dict[str, Any]:
        return {name: option[name] for name in FACTS if option.get(name) not in (None, False)}

    spec = ARGUMENTS[module]["argument_spec"]
    if kinds := REQUESTED.get(module):
        state = {"type": "str", "choices": [kind.state for kind in kinds], "required": True}
        names = {part.name for kind in kinds for part in fields_of(kind)}
        spec = {"state": state, **{name: spec[name] for name in names}}
    assert {name: facts(option) for name, option in spec.items()} == {
        name: facts(option) for name, option in documented(module).items()
    }


def test_there_are_modules_to_compare() -> None:
    assert len(MODULES) == 12


@dataclass(frozen=True)
class Greet(Call):
    """A call with one option of each kind."""

    call: ClassVar[str] = "host_greet"
    state: ClassVar[str] = "greeted"
    any_of: ClassVar[tuple[str, ...]] = ("roles", "limit")

    name: str
    claim: Claim
    token: str = field(metadata=SECRET)
    roles: Optional[tuple[str, ...]] = None
    claims: tuple[Claim, ...] = ()
    limit: Optional[float] = None
    keys: dict[str, Any] = field(default_factory=dict, metadata=PUBLIC)
    ports: tuple[int, ...] = (1, 2)
    folder: str = field(default="/srv", metadata=PATH)
    anything: Any = None


@dataclass(frozen=True)
class Leave(Call):
    """Its other state."""

    call: ClassVar[str] = "host_greet"
    state: ClassVar[str] = "left"
    is_default: ClassVar[bool] = True
    has_check_mode: ClassVar[bool] = False

    name: str


def test_the_arguments_follow_from_the_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Greet, Leave):
        monkeypatch.setitem(calls.CALLS, (kind.call, kind.state), kind)
    assert arguments_of_module("host_greet") == {
        "argument_spec": {
            "state": {"type": "str", "choices": ["greeted", "left"], "default": "left"},
            "name": {"type": "str", "required": True},
            "claim": {"type": "dict"},
            "token": {"type": "str", "no_log": True},
            "roles": {"type": "list", "elements": "str"},
            "claims": {"type": "list", "elements": "dict", "default": []},
            "limit": {"type": "float"},
            "keys": {"type": "dict", "default": {}, "no_log": False},
            "ports": {"type": "list", "elements": "int", "default": [1, 2]},
            "folder": {"type": "path", "default": "/srv"},
            "anything": {"type": "raw"},
        },
        "required_if": [
            ("state", "greeted", ["claim", "token"]),
            ("state", "greeted", ["roles", "limit"], True),
        ],
        "supports_check_mode": False,
    }


@pytest.mark.parametrize("call", sorted(ARGUMENTS))
def test_a_field_means_the_same_in_all_states_of_a_call(call: str) -> None:
    """A state may need what another one does not, so a default may be missing."""
    found: dict[str, dict[str, Any]] = {}
    for kind in calls.kinds_of(call):
        for part in fields_of(kind):
            option = _option([part], False)
            known = found.setdefault(part.name, option)
            assert {**known, **option} == {**option, **known}, f"{part.name} of {kind.__name__}"
            known.update(option)
