# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the sources in small ways, one at a time, and see whether the unit tests notice.

A mutant is one swapped comparison, one `and` for `or`, one `not` less, one number off by one, or one call left out, in
`core` or `host`. The tests that import its module run first, then those that import an importer of it, and the model
tests; what none of them notices has survived. It works on a copy of the checkout.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import boot_install  # noqa: E402

PLACE = Path("plugins/module_utils/_internal")
PACKAGES = ("core", "host")
COLLECTION = "ansible_collections.cluster_compute.session."
PREFIX = f"{COLLECTION}plugins.module_utils._internal."
MODELS = tuple(
    f"tests/unit/plugins/module_utils/_internal/core/verbs/test_{name}.py" for name in ("model", "partitions")
)
"""Tests of whole sequences of events, which every decision is a part of."""
SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Mutant:
    """One change: the file, from and to which offset in its text, what stands there and what comes in its place."""

    path: Path
    begin: int
    end: int
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        """Return place and change in one line."""
        return f"{self.path}:{self.line}: {' '.join(self.before.split())} -> {' '.join(self.after.split())}"

    def apply(self, text: str) -> str:
        """Return the text of the file with the change."""
        return text[: self.begin] + self.after + text[self.end :]


def mutants_of(path: Path, text: str) -> Iterator[Mutant]:
    """Return every mutant of one source; types and documentation are left as they are."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def offset(line: int, column: int) -> int:
        """Return the place in the text of a column that counts bytes."""
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for node in _code(ast.parse(text)):
        for changed in _changes(node):
            begin = offset(node.lineno, node.col_offset)
            end = offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
            yield Mutant(path, begin, end, node.lineno, text[begin:end], changed)


def _code(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Return what runs of a tree."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, (ast.JoinedStr, ast.Import, ast.ImportFrom)):
                if isinstance(child, (ast.expr, ast.stmt)):
                    yield child
                yield from _code(child)


def _changes(node: ast.AST) -> Iterator[str]:
    """Return what can stand in place of a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        swapped = SWAPPED[type(node.ops[0])]()
        yield f"({ast.unparse(ast.Compare(node.left, [swapped], node.comparators))})"
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        yield str(node.value + 1)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "pass"


def every_mutant(root: Path) -> list[Mutant]:
    """Return all mutants of the packages, in an order that depends on the sources alone."""
    found: list[Mutant] = []
    for package in PACKAGES:
        for path in sorted((root / PLACE / package).rglob("*.py")):
            found += mutants_of(path.relative_to(root), path.read_text(encoding="utf-8"))
    return found


def _module(path: Path) -> str:
    return ".".join(path.relative_to(PLACE).with_suffix("").parts)


def imports(path: Path, root: Path) -> set[str]:
    """Return what a file imports from module_utils, by names below that."""
    module = COLLECTION + ".".join(path.relative_to(root).with_suffix("").parts)
    names = boot_install.imports(module, path.read_text(encoding="utf-8"))
    return {name[len(PREFIX) :] for name in names if name.startswith(PREFIX)}


def tests_of(path: Path, root: Path) -> list[str]:
    """Return the files of unit tests that may notice a change of a module, the nearest first."""
    name = _module(path)
    users = [other for other in (root / PLACE).rglob("*.py") if name in imports(other, root)]
    near = {_module(other.relative_to(root)) for other in users}
    known = {test: imports(test, root) for test in sorted((root / "tests/unit/plugins").rglob("test_*.py"))}
    first = [test for test, names in known.items() if name in names]
    second = [test for test, names in known.items() if names & near and test not in first]
    own = [test for test in first if test.name == f"test_{path.stem}.py"]
    ordered = [*own, *(test for test in first if test not in own), *second]
    return list(dict.fromkeys([*(test.relative_to(root).as_posix() for test in ordered), *MODELS]))


class Broken(Exception):
    """Tests fail where nothing was changed."""


def is_noticed(mutant: Mutant, root: Path, seconds: float) -> bool:
    """Tell whether a test fails, or runs for too long, when the mutant is in the tree at *root*.

    Raises Broken where the same tests fail or run for as long without the mutant, too.
    """
    path = root / mutant.path
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.apply(text), encoding="utf-8")
    tests = tests_of(mutant.path, root)
    try:
        failed, output = _run(tests, root, seconds)
    except subprocess.TimeoutExpired:
        failed, output = True, ""
    finally:
        path.write_text(text, encoding="utf-8")
    if failed:
        names = re.findall(r"^(?:FAILED|ERROR) (\S+?)(?:::| |$)", output, re.MULTILINE)
        try:
            still, why = _run(names or tests, root, seconds)
        except subprocess.TimeoutExpired:
            still, why = True, f"They take longer than {seconds:.0f} seconds: give more by --seconds."
        if still:
            raise Broken(f"{mutant.path}: the tests fail without a change.\n{why}")
    return failed


def _run(names: list[str], root: Path, seconds: float) -> tuple[bool, str]:
    """Return whether a test of these files failed, and what pytest said."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", *names],
        cwd=root,
        env={**os.environ, "TEST_FILES_SEED": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    return done.returncode != 0, done.stdout


def copy_of(root: Path, place: Path) -> Path:
    """Copy the files that git tracks or would track, and return where they are."""
    subprocess.run([root / "tools" / "sync_tree.sh", place], check=True)
    link = place / ".collections/ansible_collections/cluster_compute/session"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../..")
    return place


def main(arguments: list[str] | None = None) -> int:
    """Try some mutants; fail where fewer are noticed than should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="how many are tried")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--least", type=float, default=0.0, help="part of them that has to be noticed, such as 0.95")
    parser.add_argument("--seconds", type=float, default=600, help="after which a mutant counts as noticed")
    options = parser.parse_args(arguments)
    chosen = random.Random(options.seed).sample(every_mutant(ROOT), options.count)  # noqa: S311 - the same for the same seed
    with tempfile.TemporaryDirectory() as folder:
        place = copy_of(ROOT, Path(folder) / "tree")
        survivors = []
        for number, mutant in enumerate(chosen, 1):
            begin = time.monotonic()
            noticed = is_noticed(mutant, place, options.seconds)
            print(
                f"{number:3} {'noticed ' if noticed else 'SURVIVED'} {time.monotonic() - begin:4.0f} s {mutant}",
                flush=True,
            )
            survivors += [] if noticed else [mutant]
    noticed_part = 1 - len(survivors) / len(chosen)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} were noticed, {noticed_part:.0%}.")
    return 1 if noticed_part < options.least else 0


if __name__ == "__main__":
    sys.exit(main())
