# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The difference between two pieces of plain data, as small as possible, so that a host receives only what changed.

Changes are plain data as well. ``{}`` means none, and ``value`` is a replacement. For a mapping ``gone`` has the keys
that are removed, ``set`` the keys that are new, and ``in`` by key the changes of what stays. For a list ``items`` has,
in the order of the list, a number of items that stay, a negative number of items that are removed, a list of new items,
or the changes of one item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..values.errors import CoreError, show

Changes = Mapping[str, Any]


class InvalidPatch(CoreError):
    """Changes are malformed, or were made for other data."""


def digest(data: Any) -> str:
    """Return a digest of plain data, so that changes are applied only to the data that they were made for."""
    import hashlib  # most readers apply no changes

    return hashlib.sha256(_text(data).encode()).hexdigest()


def difference(old: Any, new: Any) -> dict[str, Any]:
    """Return the changes that turn *old* into *new*, both plain data as in JSON, with text as keys of mappings."""
    if type(old) is not type(new) or not isinstance(old, (dict, list)):
        return {} if _is_same(old, new) else {"value": new}
    if isinstance(old, list):
        items = _item_changes(old, new)
        return {"items": items} if _change_anything(items) else {}
    changed = {key: changes for key in old if key in new and (changes := difference(old[key], new[key]))}
    parts = {
        "gone": [key for key in old if key not in new],
        "set": {key: value for key, value in new.items() if key not in old},
        "in": changed,
    }
    return {name: part for name, part in parts.items() if part}


def _change_anything(items: list[Any]) -> bool:
    """Tell whether changes of a list do more than to keep items, of which a positive number stands for so many."""
    return any(not isinstance(item, int) or item < 0 for item in items)


def _item_changes(old: list[Any], new: list[Any]) -> list[Any]:
    import difflib  # not needed for applying changes

    before, after = ([_text(item) for item in items] for items in (old, new))
    found: list[Any] = []
    for kind, first, last, start, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            found.append(last - first)
            continue
        pairs = min(last - first, end - start)
        found += [difference(old[first + number], new[start + number]) for number in range(pairs)]
        if last - first > pairs:
            found.append(pairs - (last - first))
        elif end - start > pairs:
            found.append(new[start + pairs : end])
    return found


def patched(old: Any, changes: Changes) -> Any:
    """Return *old* with *changes* applied; *old* itself stays as it is. Raises InvalidPatch if they do not fit."""
    if not changes:
        return old
    try:
        if "value" in changes:
            return changes["value"]
        if isinstance(old, list):
            return _patched_list(old, changes["items"])
        inside, gone = changes.get("in", {}), changes.get("gone", [])
        if not isinstance(old, dict) or not {*inside, *gone} <= old.keys():
            raise InvalidPatch(f"The changes {show(changes)} were made for other data.")
        kept = {key: patched(value, inside.get(key, {})) for key, value in old.items() if key not in gone}
        return {**kept, **changes.get("set", {})}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidPatch(f"The changes {show(changes)} are malformed: {error}.") from error


def _patched_list(old: list[Any], items: list[Any]) -> list[Any]:
    found: list[Any] = []
    place = 0
    for item in items:
        if isinstance(item, int):
            found += old[place : place + max(0, item)]
            place += abs(item)
        elif isinstance(item, list):
            found += item
        elif place < len(old):
            found.append(patched(old[place], item))
            place += 1
        else:
            place = -1
            break
    if place != len(old):
        raise InvalidPatch(f"The changes were made for a list of another length than {len(old)}.")
    return found


def _is_same(value: Any, other: Any) -> bool:
    return _text(value) == _text(other)


def _text(value: Any) -> str:
    """Return a text that differs for different values, also of different types: 1, 1.0 and true are three."""
    import json

    return json.dumps(value, sort_keys=True)
