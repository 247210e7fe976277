# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The arguments of each call to a host, as Ansible checks and converts them; the dataclasses of the calls contain them.

The controller checks them, for the module of the same name or for a verb.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field
from functools import cache
from typing import Any, Union, get_args, get_origin

from ..core.model.call.base import Call, fields_of, is_required
from ..core.model.calls import CALLS, kinds_of
from ..core.model.decode import encode

Option = dict[str, Any]
"""One option in an argument specification of Ansible."""

_TYPES = {str: "str", int: "int", float: "float", bool: "bool", Any: "raw"}


def _type_of(hint: Any) -> Option:
    """Return the type of an option, and for a list that of its elements, for values of a type."""
    if get_origin(hint) is Union:
        return _type_of(get_args(hint)[0])
    if get_origin(hint) is tuple:
        return {"type": "list", "elements": _type_of(get_args(hint)[0])["type"]}
    return {"type": _TYPES.get(hint, "dict")}


def _option(parts: Iterable[Field[Any]], is_always_needed: bool) -> Option:
    """Return the option for a field of a call. parts: the field in all states that have it."""
    part, *others = parts
    option = _type_of(part.type)
    if "type" in part.metadata:
        option["type"] = part.metadata["type"]
    if is_always_needed:
        option["required"] = True
    for other in (part, *others):
        default = other.default if other.default_factory is MISSING else other.default_factory()
        if default is not MISSING and default is not None:
            option["default"] = encode(default)
    if "secret" in part.metadata:
        option["no_log"] = part.metadata["secret"]
    return option


def _state_option(kinds: Collection[type[Call]]) -> Option:
    """Return the option that chooses one of several states."""
    option: Option = {"type": "str", "choices": [kind.state for kind in kinds]}
    default = next((kind.state for kind in kinds if kind.is_default), None)
    return {**option, "required": True} if default is None else {**option, "default": default}


def _needs(kinds: Collection[type[Call]], everywhere: Collection[str]) -> Iterator[tuple[Any, ...]]:
    """Yield what single states need, as Ansible's ``required_if``. everywhere: what all states need."""
    for kind in kinds:
        needed = [part.name for part in fields_of(kind) if is_required(part) and part.name not in everywhere]
        if needed:
            yield "state", kind.state, needed
        if kind.any_of:
            yield "state", kind.state, list(kind.any_of), True


@cache
def arguments_of_module(call: str) -> dict[str, Any]:
    """Return the arguments of AnsibleModule for a call."""
    kinds = kinds_of(call)
    found: dict[str, list[Field[Any]]] = {}
    for kind in kinds:
        for part in fields_of(kind):
            found.setdefault(part.name, []).append(part)
    everywhere = {name for name, parts in found.items() if len(parts) == len(kinds) and all(map(is_required, parts))}
    spec = {name: _option(parts, name in everywhere) for name, parts in found.items()}
    if any(kind.state for kind in kinds):
        spec = {"state": _state_option(kinds), **spec}
    arguments = {"argument_spec": spec, "supports_check_mode": all(kind.has_check_mode for kind in kinds)}
    needs = list(_needs(kinds, everywhere))
    return {**arguments, "required_if": needs} if needs else arguments


class _Arguments(Mapping[str, dict[str, Any]]):
    """The arguments by call, made when they are asked for."""

    _calls = tuple(dict.fromkeys(call for call, _state in CALLS))

    def __getitem__(self, call: str) -> dict[str, Any]:
        if call not in self._calls:
            raise KeyError(call)
        return arguments_of_module(call)

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)


ARGUMENTS = _Arguments()
"""By call: the arguments of AnsibleModule, which Ansible's argument check also accepts."""
