# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Dataclasses from plain data, as JSON contains it, and back; their type hints are the only description.

The types are text, numbers, truth values, `Optional`, ``tuple[X, ...]``, ``tuple[X, Y]`` and ``list[X]`` from lists,
``dict[str, X]`` and ``Mapping[str, X]`` from mappings, other dataclasses, classes with a ``from_dict`` of their own,
and `Any`, which is taken as it is. Fields with a default may be missing. Hosts have Python 3.9, which cannot evaluate
``X | None``: files that define such dataclasses do without ``from __future__ import annotations``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from typing import Any, TypeVar, Union, get_args, get_origin

from ..values.errors import CoreError, show

T = TypeVar("T")


class Problems(list[tuple[str, str]]):
    """Places, and what is wrong there. forgiving: unknown keys are not a problem, wherever they are."""

    def __init__(self, forgiving: bool) -> None:
        super().__init__()
        self.forgiving = forgiving


Reader = Callable[[Any, str, Problems], Any]
"""Gets a value, its place and the problems so far, to which it adds; what it returns is valid only without problems."""

_NOTHING = type(None)
_UNKNOWN = ", which is unknown"
_WANTED = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


class Malformed(CoreError):
    """Data does not fit a dataclass. problems: one for each place, without a full stop.

    is_newer: whether unknown keys are the only problem, as in data of a newer release.
    """

    def __init__(self, problems: list[str], is_newer: bool = False) -> None:
        self.problems = tuple(problems)
        self.is_newer = is_newer
        super().__init__(f"{'; '.join(problems)}.")


def decode(kind: type[T], data: object, name: str, forgiving: bool = False) -> T:
    """Return *data* as an instance of the dataclass *kind*, with no key missing and none unknown.

    name: what it is, as the beginning of a sentence. forgiving: ignore unknown keys. Raises Malformed.
    """
    problems = Problems(forgiving)
    read: Reader = _reader(kind)  # type: ignore[arg-type]
    found = read(data, "", problems)
    if problems:
        raise Malformed(
            [f"{name}'s {place.lstrip('.')} {what}" if place else f"{name} {what}" for place, what in problems],
            is_newer=all(what.endswith(_UNKNOWN) for _place, what in problems),
        )
    return found  # type: ignore[no-any-return]


def decode_known(kind: type[T], data: object, name: str) -> T:
    """Decode like `decode`, but ignore unknown keys: a newer release may have added some."""
    if isinstance(data, Mapping):
        known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
        data = {key: value for key, value in data.items() if key in known}
    return decode(kind, data, name)


OPTIONAL = {"optional": True}
"""Metadata of a field that is left out if it is empty: earlier releases do not know its key."""
PAIRS = {"pairs": True}
"""Metadata of a field of (key, value) pairs, whose plain form is a mapping."""
_PLAIN = frozenset([str, int, float, bool, type(None)])
"""Types of most values, which are their own plain data."""
NEWER = {"newer": True}
"""Metadata of a field that stores the values of unknown keys, as written by a newer release."""
READ = "read"
"""Key of a field's metadata: a function that reads the innermost values from their plain form, as a class of its own
with a ``from_dict`` does."""


def encode(value: Any) -> Any:
    """Return the plain data of a dataclass, or of anything that dataclasses consist of."""
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return [encode(inner) for inner in value]
    if _has_own_form(kind):
        return value.to_dict()
    names = _names(kind)
    if names is None:
        return _encode_items(value) if isinstance(value, (dict, Mapping)) else value
    found = {name: encode(getattr(value, name)) for name in names}
    for name in _with(kind, "pairs"):
        found[name] = dict(found[name])
    for name in _with(kind, "optional"):
        if not found[name]:
            del found[name]
    for name in _with(kind, "newer"):
        found.update(found.pop(name))
    return found


def _encode_items(value: Mapping[str, Any]) -> Any:
    return {key: encode(inner) for key, inner in value.items()}


@cache
def _names(kind: Any) -> tuple[str, ...] | None:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


@cache
def _has_own_form(kind: Any) -> bool:
    return is_dataclass(kind) and hasattr(kind, "to_dict") and hasattr(kind, "from_dict")


@cache
def _with(kind: Any, mark: str) -> tuple[str, ...]:
    """Return the fields whose metadata has this key."""
    return tuple(field.name for field in fields(kind) if mark in field.metadata)


@cache
def _reader(hint: Any, own: Callable[[Any], Any] | None = None) -> Reader:
    """Return the reader for values of a type. own: reads the innermost values; None to read them by their type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Union:
        read_some = _reader(next(kind for kind in inner if kind is not _NOTHING), own)
        return lambda value, place, problems: None if value is None else read_some(value, place, problems)
    if origin is tuple:
        return _tuple_reader(inner, own)
    if origin is list:
        read_items = _list_reader(_reader(inner[0], own))
        return lambda value, place, problems: list(read_items(value, place, problems) or ())
    if origin in (dict, Mapping):
        return _mapping_reader(_reader(inner[1], own))
    if own is not None:
        return _own_reader(own)
    if hint is Any:
        return lambda value, _place, _problems: value
    if hasattr(hint, "from_dict"):
        return _own_reader(hint.from_dict)
    return _object_reader(hint) if is_dataclass(hint) else _value_reader(hint)


def _field_reader(hint: Any, metadata: Mapping[Any, Any]) -> Reader:
    own = metadata.get(READ)
    if "pairs" not in metadata:
        return _reader(hint, own)
    read_items = _mapping_reader(_reader(get_args(get_args(hint)[0])[1], own))
    return lambda value, place, problems: tuple(sorted((read_items(value, place, problems) or {}).items()))


def _tuple_reader(kinds: tuple[Any, ...], own: Callable[[Any], Any] | None) -> Reader:
    if ... in kinds:
        return _list_reader(_reader(kinds[0], own))
    readers = [_reader(kind, own) for kind in kinds]

    def read_row(value: Any, place: str, problems: Problems) -> Any:
        if isinstance(value, (list, tuple)) and len(value) == len(readers):
            return tuple(read(item, f"{place}[{n}]", problems) for n, (read, item) in enumerate(zip(readers, value)))
        return _expected(problems, place, value, f"a list of {len(readers)}")

    return read_row


def _value_reader(hint: Any) -> Reader:
    # Ansible passes subclasses of text; only truth values must not be taken for numbers.
    kinds = (int, float) if hint is float else hint

    def read(value: Any, place: str, problems: Problems) -> Any:
        kind = type(value)
        if kind is hint:
            return value
        if not isinstance(value, kinds) or (hint is not bool and isinstance(value, bool)):
            _expected(problems, place, value, _WANTED[hint])
        return value

    return read


def _expected(problems: Problems, place: str, value: object, wanted: str) -> None:
    problems.append((place, f"is {show(value)}, where {wanted} is expected"))


def _list_reader(read: Reader) -> Reader:
    def read_all(value: Any, place: str, problems: Problems) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple([read(item, f"{place}[{position}]", problems) for position, item in enumerate(value)])
        return _expected(problems, place, value, "a list")

    return read_all


def _mapping_reader(read: Reader) -> Reader:
    def read_all(value: Any, place: str, problems: Problems) -> Any:
        if isinstance(value, (dict, Mapping)) and all(isinstance(key, str) for key in value):
            return {key: read(item, f"{place}.{key}", problems) for key, item in value.items()}
        return _expected(problems, place, value, "a mapping")

    return read_all


def _own_reader(read_value: Callable[[Any], Any]) -> Reader:
    def read(value: Any, place: str, problems: Problems) -> Any:
        try:
            return read_value(value)
        except (CoreError, AttributeError, LookupError, TypeError, ValueError) as error:
            problems.append((place, f"is malformed: {str(error).rstrip('.')}"))

    return read


def _object_reader(kind: Any) -> Reader:
    own = [field for field in fields(kind) if "newer" not in field.metadata]
    hints: dict[str, Any] = {field.name: field.type for field in own}
    readers = {field.name: _field_reader(hints[field.name], field.metadata) for field in own}
    needed = [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]
    return partial(_read_object, kind, readers, needed, _with(kind, "newer"))


def _read_object(
    kind: Any,
    readers: Mapping[str, Reader],
    needed: list[str],
    keeps_newer: tuple[str, ...],
    value: Any,
    place: str,
    problems: Problems,
) -> Any:
    if not isinstance(value, (dict, Mapping)):  # dict first, which costs a tenth
        return _expected(problems, place, value, "a mapping")
    missing = [name for name in needed if name not in value]
    judged = () if problems.forgiving and not keeps_newer else value
    newer = {name: value[name] for name in judged if name not in readers}
    unknown = [] if keeps_newer else [str(name) for name in newer]
    if missing:
        problems.append((place, f"lacks {', '.join(missing)}"))
    if unknown:
        problems.append((place, f"has {show(', '.join(unknown))}{_UNKNOWN}"))
    if missing or unknown:
        return None
    found = {
        name: read_field(value[name], f"{place}.{name}", problems)
        for name, read_field in readers.items()
        if name in value
    }
    found.update(dict.fromkeys(keeps_newer, newer))
    return None if problems else kind(**found)
