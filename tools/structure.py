# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count what makes the sources hard to read and to change, and fail where there is more of it than before.

Untyped mappings, keys that are text in the verbs and calls, functions of more than seven parameters, functions of a
cognitive complexity of more than fifteen, and public definitions without documentation.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_PARAMETERS = 7
MOST_COMPLEXITY = 15
LIMITS = {
    "untyped mappings": 113,
    "keys in verbs and calls": 57,
    "functions of many parameters": 0,
    "complex functions": 0,
    "undocumented": 0,
}
"""What there may be of each. Lower a number when there is less."""

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Match, ast.IfExp)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def complexity(function: ast.AST) -> int:
    """Return the cognitive complexity of a function (G. Ann Campbell, 2018).

    Each branch counts one, and one more for each that it is in; so do conditional expressions and comprehensions, as
    they are read in the same way. A row of `and` or `or` counts one.
    """

    def count(node: ast.AST, depth: int) -> int:
        total = 0
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST):
                    continue
                # What follows an `if` as `elif` is no deeper than it.
                is_else_if = field == "orelse" and isinstance(child, ast.If)
                if is_else_if and isinstance(node, ast.If) and len(node.orelse) == 1:
                    total += 1 + count(child, depth)
                elif isinstance(child, (*_BRANCHES, *_COMPREHENSIONS)):
                    total += 1 + depth + count(child, depth + 1)
                elif isinstance(child, (*Function, ast.Lambda)):
                    total += count(child, depth + 1)
                else:
                    total += isinstance(child, ast.BoolOp) + count(child, depth)
        return total

    return count(function, 0)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many parameters a function has, less `self` and `cls`."""
    given = function.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def find(path: Path, root: Path) -> Iterator[tuple[str, str]]:
    """Return kind and place of all that counts in one file."""
    name = path.relative_to(root).as_posix()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    in_verbs = "/core/verbs/" in name or "/host/calls/" in name
    for node in ast.walk(tree):
        place = f"{name}:{getattr(node, 'lineno', 1)}"
        if isinstance(node, ast.Subscript):
            if ast.unparse(node) == "dict[str, Any]":
                yield "untyped mappings", place
            if in_verbs and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                yield "keys in verbs and calls", place
        elif isinstance(node, Function):
            if parameters(node) > MOST_PARAMETERS:
                yield "functions of many parameters", f"{place}: {node.name}, {parameters(node)}"
            if complexity(node) > MOST_COMPLEXITY:
                yield "complex functions", f"{place}: {node.name}, {complexity(node)}"
        if isinstance(node, (ast.Module, ast.ClassDef, *Function)) and _is_public(node, tree) and not _text(node):
            yield "undocumented", place


def _is_public(node: ast.AST, tree: ast.Module) -> bool:
    """Tell whether others use a definition: it is the file's or a class's, and its name says so."""
    if isinstance(node, ast.Module):
        return bool(node.body)
    owners: list[ast.Module | ast.ClassDef] = [tree, *(owner for owner in tree.body if isinstance(owner, ast.ClassDef))]
    return any(node in owner.body for owner in owners) and not str(getattr(node, "name", "_")).startswith("_")


def _text(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return what documents a definition; a module of Ansible says it in a variable."""
    if isinstance(node, ast.Module):
        given = {
            target.id
            for part in node.body
            if isinstance(part, ast.Assign)
            for target in part.targets
            if isinstance(target, ast.Name)
        }
        if "DOCUMENTATION" in given:
            return "DOCUMENTATION"
    return ast.get_docstring(node) or ""


def count(root: Path) -> dict[str, list[str]]:
    """Return the places of each kind in the plugins of the tree at *root*."""
    found: dict[str, list[str]] = {kind: [] for kind in LIMITS}
    for path in sorted((root / "plugins").rglob("*.py")):
        for kind, place in find(path, root):
            found[kind].append(place)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print how many there are of each kind; fail where there are more than may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", metavar="KIND", choices=list(LIMITS), help="print the places of one kind")
    options = parser.parse_args(arguments)
    found = count(ROOT)
    if options.show:
        print("\n".join(found[options.show]))
    for kind, limit in LIMITS.items():
        print(f"{kind}: {len(found[kind])}, and {limit} are allowed")
    over = [kind for kind, limit in LIMITS.items() if len(found[kind]) > limit]
    if over:
        print(f"More than before: {', '.join(over)}. See them with tools/structure.py --show KIND.")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
