# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the sources in small ways, one at a time, and see whether the unit tests notice.

A mutant is one swapped comparison, one `and` for `or`, one `not` less, one number off by one, or one call left out, in
`core` or `host`. The tests of its module run first, then those that import it or an importer of it, and the model
tests; what none of them notices has survived. Mutants that no test can or should notice stand in `mutants_kept.json`
with the reason, and are never tried. It works on a copy of the checkout. For many mutants, measure first which test
runs which line (`--measure FILE`), and give that by `--measured FILE`.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from coverage import Coverage

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import boot_install  # noqa: E402

PLACE = Path("plugins/module_utils/_internal")
PACKAGES = ("core", "host")
COLLECTION = "ansible_collections.cluster_compute.session."
PREFIX = f"{COLLECTION}plugins.module_utils._internal."
HELPERS = f"{COLLECTION}tests.support."
KEPT = Path(__file__).with_name("mutants_kept.json")
"""For each reason, the mutants that need no test, by what they are and not by the number of their line."""
UNIT = f"tests/unit/{PLACE}"
MODELS = tuple(f"{UNIT}/core/verbs/test_{name}.py" for name in ("model", "partitions"))
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
    source: str
    before: str
    after: str

    def __str__(self) -> str:
        """Return place and change in one line."""
        return f"{self.path}:{self.line}: {self.change}"

    @property
    def change(self) -> str:
        """What is changed to what, in one line."""
        return f"{' '.join(self.before.split())} -> {' '.join(self.after.split())}"

    @property
    def name(self) -> str:
        """The file, the line's text and the change: the same wherever the line stands."""
        return f"{self.path.relative_to(PLACE).as_posix()}: {self.source}: {self.change}"

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
            yield Mutant(path, begin, end, node.lineno, lines[node.lineno - 1].strip(), text[begin:end], changed)


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


def kept() -> set[str]:
    """Return the names of the mutants that need no test."""
    reasons: dict[str, list[str]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return {name for names in reasons.values() for name in names}


def chosen(mutants: list[Mutant], seed: int, number: int) -> list[Mutant]:
    """Return so many of the mutants; a change of one file changes nothing in what is chosen of the others."""
    seen: Counter[str] = Counter()
    drawn = []
    for mutant in mutants:
        seen[mutant.name] += 1
        drawn.append((hashlib.sha256(f"{seed} {seen[mutant.name]} {mutant.name}".encode()).digest(), mutant))
    return [mutant for _digest, mutant in sorted(drawn, key=lambda pair: pair[0])[:number]]


def _module(path: Path) -> str:
    return ".".join(path.relative_to(PLACE).with_suffix("").parts)


@cache
def imports(path: Path, root: Path) -> frozenset[str]:
    """Return what a file imports from module_utils, by names below that, itself or by helpers of tests."""
    module = COLLECTION + ".".join(path.relative_to(root).with_suffix("").parts)
    names = set(boot_install.imports(module, path.read_text(encoding="utf-8")))
    found = {name[len(PREFIX) :] for name in names if name.startswith(PREFIX)}
    for name in names:
        helper = root / (name[len(COLLECTION) :].replace(".", "/") + ".py")
        if name.startswith(HELPERS) and helper.exists() and helper != path:
            found |= imports(helper, root)
    return frozenset(found)


class Stale(Exception):
    """These sources are not those that were measured."""


def sources(root: Path) -> str:
    """Return a digest of the modules in *root*, their unit tests, and what these share."""
    whole = hashlib.sha256()
    for folder in (PLACE, "tests/unit", "tests/support"):
        for path in sorted((root / folder).rglob("*.py")):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            whole.update(f"{content}  {path.relative_to(root).as_posix()}\n".encode())
    return whole.hexdigest()


@dataclass(frozen=True)
class Measured:
    """What `measure` has found: the tests that run a line, by file and number, "" for an import; their seconds."""

    tests: Mapping[Path, Mapping[int, list[str]]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path, root: Path) -> Measured:
        """Read what `measure` wrote. Raises Stale where the sources or tests in *root* are others than it ran."""
        found = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        if found.get("sources") != sources(root):
            raise Stale(f"{file} was measured with other sources or tests. Run --measure {file} again.")
        from coverage import CoverageData  # only where it is asked for: not each environment has it

        data = CoverageData(str(file))
        data.read()
        names = {name: PLACE / name.partition(f"{PLACE}/")[2] for name in data.measured_files()}
        return cls({path: data.contexts_by_lineno(name) for name, path in names.items()}, found["seconds"])


class Tests:
    """The unit tests of a tree: their files by name, and what is known of the lines that each runs."""

    def __init__(self, root: Path, measured: Measured) -> None:
        self._files = {path: imports(path, root) for path in sorted((root / "tests/unit/plugins").rglob("test_*.py"))}
        self._root = root
        self._measured = measured

    def steps(self, mutant: Mutant) -> list[list[str]]:
        """Return the tests that may notice a mutant, the nearest first, in the steps to run."""
        own, near = self._by_imports(mutant.path)
        runs = self._running(mutant)
        if runs is not None:
            nearest = [test for test in runs if test.partition("::")[0] in own]
            return [tests for tests in (nearest, [test for test in runs if test not in nearest]) if tests]
        models = list(MODELS) if _module(mutant.path) in self._modelled else []
        return [tests for tests in (own, [test for test in near if test not in models], models) if tests]

    def _by_imports(self, path: Path) -> tuple[list[str], list[str]]:
        """Return the files that test a module, and those that import it or an importer of it, the smallest first."""
        name, names = _module(path), (f"test_{path.stem}.py", f"test_{path.parent.name}_{path.stem}.py")
        users = [other for other in sorted((self._root / PLACE).rglob("*.py")) if name in imports(other, self._root)]
        near = {_module(other.relative_to(self._root)) for other in users}
        by_size = sorted(self._files.items(), key=lambda pair: len(pair[1]))
        first = [test for test, imported in by_size if name in imported]
        second = [test for test, imported in by_size if imported & near and test not in first]
        own = [test for test in self._files if test.name in names] or first[:2]
        others = [test for test in [*first, *second] if test not in own]
        return [self._name(test) for test in own], [self._name(test) for test in others]

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _running(self, mutant: Mutant) -> list[str] | None:
        """Return the tests that run a line of a mutant, the fastest first; None if that is not known.

        What runs when the module is imported is run by no test of its own.
        """
        lines = self._measured.tests.get(mutant.path, {})
        numbers = range(mutant.line, mutant.line + mutant.before.count("\n") + 1)
        tests = {test for number in numbers for test in lines.get(number, [])}
        if not lines or "" in tests:
            return None
        return sorted(tests, key=lambda test: (self._measured.seconds.get(test, 0.0), test))

    @cached_property
    def _modelled(self) -> set[str]:
        """The modules that the model tests import, directly or not."""
        found: set[str] = set()
        new = {name for test in MODELS for name in imports(self._root / test, self._root)} | {"core.verbs"}
        while new:
            found |= new
            paths = [self._root / PLACE / (name.replace(".", "/") + ".py") for name in new]
            new = {name for path in paths if path.exists() for name in imports(path, self._root)} - found
        return found


class Broken(Exception):
    """Tests fail where nothing was changed."""


class _Contexts:
    """Name the test that runs in what coverage.py writes down."""

    def __init__(self, measuring: Coverage) -> None:
        self.measuring = measuring
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Give the lines that one test runs its name."""
        self.measuring.switch_context(item.nodeid)
        begin = time.monotonic()
        result = yield
        self.seconds[item.nodeid] = round(time.monotonic() - begin, 1)
        self.measuring.switch_context("")
        return result


def measure(root: Path, result: Path) -> None:
    """Run the unit tests of the modules in *root*, and write to *result* which line is run by which.

    Raises Broken where a test fails, as the lines of the others after it would be missing.
    """
    from coverage import Coverage

    os.chdir(root)
    measuring = Coverage(data_file=str(result), source=[str(root / PLACE / package) for package in PACKAGES])
    contexts = _Contexts(measuring)
    before = sources(root)
    measuring.start()
    code = pytest.main(["-q", "--hypothesis-seed=0", str(root / UNIT)], plugins=[contexts])
    measuring.stop()
    if code != pytest.ExitCode.OK:
        raise Broken(f"The unit tests ended with code {int(code)}; nothing is written.")
    measuring.save()
    text = json.dumps({"sources": before, "seconds": contexts.seconds})
    result.with_suffix(".json").write_text(text, encoding="utf-8")


class Tree:
    """A copy of the checkout in which mutants are tried."""

    def __init__(self, root: Path, seconds: float, measured: Measured) -> None:
        self.root = root
        self.seconds = seconds
        self.tests = Tests(root, measured)
        self._sound: set[str] = set()
        """Tests that passed without a change."""
        self._moments = count(1_000_000_000)

    def is_noticed(self, mutant: Mutant) -> bool:
        """Tell whether a test fails, or runs for too long, when the mutant is in the tree.

        Raises Broken where the same tests fail or run for as long without the mutant, too.
        """
        path = self.root / mutant.path
        text = path.read_text(encoding="utf-8")
        self._write(path, mutant.apply(text))
        try:
            failed = next(filter(None, map(self._failing, self.tests.steps(mutant))), None)
        finally:
            self._write(path, text)
        doubtful = set(failed or []) - self._sound
        if doubtful and self._failing(sorted(doubtful)):
            raise Broken(f"{mutant.path}: the tests fail, or need more --seconds, without a change: {doubtful}")
        self._sound |= doubtful
        return failed is not None

    def _write(self, path: Path, text: str) -> None:
        """Write a source; its time is another each time, so that no compiled file of before is taken for its own."""
        path.write_text(text, encoding="utf-8")
        moment = next(self._moments)
        os.utime(path, (moment, moment))

    def _failing(self, names: list[str]) -> list[str]:
        """Run tests until one fails, and return that with all its parameters; or all after too long a time."""
        compiled = {"PYTHONPYCACHEPREFIX": str(self.root / ".cache/compiled"), "PYTHONDONTWRITEBYTECODE": ""}
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-x", "-q", "--hypothesis-seed=0", *names],
                cwd=self.root,
                env={**os.environ, **compiled, "TEST_FILES_SEED": "0"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=self.seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return names
        if done.returncode == 0:
            return []
        return re.findall(r"^(?:FAILED|ERROR) ([^\[\s]+)", done.stdout, re.MULTILINE) or names


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
    parser.add_argument("--measured", type=Path, help="the file that --measure wrote for these sources")
    parser.add_argument("--measure", type=Path, help="only write to this file which line is run by which unit test")
    options = parser.parse_args(arguments)
    if options.measure is not None:
        try:
            measure(ROOT, options.measure.absolute())
        except Broken as error:
            parser.exit(1, f"{error}\n")
        return 0
    mutants = every_mutant(ROOT)
    known = kept()
    gone = sorted(known - {mutant.name for mutant in mutants})
    if gone:
        parser.exit(1, "\n".join([f"Take out of {KEPT.name} what is no mutant any more:", *gone, ""]))
    tried = chosen([mutant for mutant in mutants if mutant.name not in known], options.seed, options.count)
    try:
        measured = Measured() if options.measured is None else Measured.read(options.measured, ROOT)
    except Stale as error:
        parser.exit(1, f"{error}\n")
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(copy_of(ROOT, Path(folder) / "tree"), options.seconds, measured)
        noticed = sum(_is_noticed(tree, number, mutant) for number, mutant in enumerate(tried, 1))
    print(f"{noticed} of {len(tried)} were noticed, {noticed / len(tried):.1%}.")
    return 1 if noticed < options.least * len(tried) else 0


def _is_noticed(tree: Tree, number: int, mutant: Mutant) -> bool:
    """Try a mutant, and print what came of it; of a survivor also the name, for a test or a reason to keep it."""
    begin = time.monotonic()
    noticed = tree.is_noticed(mutant)
    print(f"{number:3} {'noticed ' if noticed else 'SURVIVED'} {time.monotonic() - begin:4.0f} s {mutant}", flush=True)
    if not noticed:
        print(f"    {mutant.name}", flush=True)
    return noticed


if __name__ == "__main__":
    sys.exit(main())
