# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Select from the overview of a group by JMESPath expressions (https://jmespath.org/specification.html)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..module_utils._internal.core.values.errors import InvalidInput, MissingLibrary
from .plain import plain


def check(variable: str, expression: str) -> None:
    """Check an expression without any data. Raises InvalidInput with its place, MissingLibrary."""
    _compiled(variable, expression)


def select(variable: str, expression: str, data: object) -> Any:
    """Return what an expression selects from data, which may have Ansible's types; None if that is nothing.

    variable: whose value the expression is, for messages. Raises InvalidInput with the place of an error in it, or with
    the function that cannot be applied to the data; MissingLibrary.
    """
    compiled = _compiled(variable, expression)
    try:
        return compiled.search(plain(data))
    except _library(variable).exceptions.JMESPathError as error:
        raise InvalidInput.single(variable, expression, f"It does not fit the data: {error}") from error


def _library(variable: str) -> Any:
    """Return the library, which only queries need; other runs do not spend time to load it. Raises MissingLibrary."""
    try:
        import jmespath
    except ImportError as error:
        raise MissingLibrary(
            f"{variable} needs the Python library jmespath on the controller, which is not installed there. "
            "Install it with: pip install jmespath"
        ) from error
    return jmespath


def _compiled(variable: str, expression: str) -> Any:
    jmespath = _library(variable)
    try:
        compiled = jmespath.compile(expression)
    except jmespath.exceptions.IncompleteExpressionError as error:
        raise InvalidInput.single(variable, expression, "It ends too early, or a quote is not closed.") from error
    except jmespath.exceptions.ParseError as error:
        raise InvalidInput.single(variable, expression, _place(error, expression)) from error
    known = set(jmespath.functions.Functions.FUNCTION_TABLE)
    unknown = sorted(set(_functions(compiled.parsed)) - known)
    if unknown:
        message = f"JMESPath has no function {unknown[0]}. It has: {', '.join(sorted(known))}."
        raise InvalidInput.single(variable, expression, message)
    return compiled


def _place(error: Any, expression: str) -> str:
    """Return what is wrong with an expression, with the character at which that was noticed, from 1."""
    position = int(error.lex_position)
    reason = str(getattr(error, "message", "")).rstrip(".") or f"{error.token_value!r} cannot stand here"
    rest = expression[position:][:20]
    return f"It is not a JMESPath expression: character {position + 1}, before {rest!r}: {reason}."


def _functions(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the functions that a parsed expression calls."""
    if node["type"] == "function_expression":
        yield node["value"]
    for child in node["children"]:
        if isinstance(child, Mapping):
            yield from _functions(child)
