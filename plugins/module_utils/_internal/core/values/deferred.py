# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Dataclasses whose methods are generated when the first instance is created.

A call to a host imports more than a hundred classes and creates instances of a few. Generating the methods of all of
them was most of what its imports cost.
"""

from __future__ import annotations

import dataclasses
from threading import RLock
from typing import TYPE_CHECKING, Any

__all__ = ["complete", "dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(kind: type | None = None, *, frozen: bool = False, order: bool = False) -> Any:
        """Do what `dataclasses.dataclass` does, when the class is needed: at its first instance, or to read its fields.

        Until then, an attribute of the class that `dataclasses.field` defines is not its default.
        """

        def defer(kind: type) -> type:
            def __init__(self: Any, *values: Any, **named: Any) -> None:
                complete(kind)
                kind.__init__(self, *values, **named)

            _WAITING[kind] = {"frozen": frozen, "order": order}
            kind.__init__ = __init__
            kind.__dataclass_fields__ = _Fields()
            return kind

        return defer if kind is None else defer(kind)


_WAITING: dict[type, dict[str, bool]] = {}
"""Classes without methods so far, with the options of their decorator."""

_ONE_AT_A_TIME = RLock()


class _Fields:
    """Stands in for ``__dataclass_fields__``, which `dataclasses.fields` and `dataclasses.is_dataclass` read."""

    def __get__(self, _instance: object, owner: type) -> object:
        complete(owner)
        return getattr(owner, "__dataclass_fields__")  # noqa: B009 - mypy does not know it


def complete(kind: type) -> None:
    """Generate the methods of a class and of those that it is derived from. Other threads wait for it."""
    with _ONE_AT_A_TIME:
        for one in reversed(kind.__mro__):
            options = _WAITING.get(one)
            if options is not None:
                # The constructor comes last and in one step, because another thread may be about to call it: it is
                # taken from a derived class without fields of its own.
                dataclasses.dataclass(init=False, **options)(one)
                own = {"__annotations__": {}, "__doc__": "Unseen.", "__qualname__": one.__qualname__}
                derived: Any = type(one.__name__, (one,), own)
                dataclasses.dataclass(eq=False, repr=False, frozen=options["frozen"])(derived)
                setattr(one, "__init__", vars(derived)["__init__"])  # noqa: B010 - mypy rejects an assignment
                del _WAITING[one]
