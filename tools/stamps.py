# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the tests that are left out of a check while nothing changes that they judge, and note that they have passed.

A file of the tree holds, for each kind of them, a digest of all that they judge, written after they have passed. Where
it agrees with the tree, `pytest tests/integration_lab` and `make bench-smoke` leave them out.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = Path("tests/integration_lab/stamps.txt")
HEADER = """# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# Sources that have passed their tests: the kind of tests, and a digest. Written by make stamps.
"""
SOURCES: dict[str, tuple[str, ...]] = {
    # What makes a lab and prepares its hosts, and what judges it.
    "lab": (
        "plugins/module_utils/_internal/lab/**/*.py",
        "plugins/modules/lab_*.py",
        "plugins/modules/image_archive.py",
        "plugins/modules/host_boot.py",
        "plugins/modules/ssh_runtime.py",
        "roles/lab/**/*",
        "roles/prepare_hosts/**/*",
        "playbooks/lab_*.yml",
        "playbooks/prepare_hosts.yml",
        "tests/integration_lab/inventory/**/*",
        "tests/integration_lab/test_lab.py",
    ),
    # The examples, their image, what programs in a replica read and are started by, and what judges them.
    "examples": (
        "examples/*/**/*",
        "examples/demo_session.yml",
        "examples/images.yml",
        "examples/run.yml",
        "docs/examples.md",
        "docs/torchrun.md",
        "inventories/minimal/**/*",
        "plugins/module_utils/_internal/core/values/environment_names.py",
        "plugins/module_utils/_internal/core/values/places.py",
        "plugins/module_utils/_internal/core/rules/environment.py",
        "plugins/module_utils/_internal/core/rules/first_program.py",
        "plugins/module_utils/_internal/core/rules/rendezvous.py",
        "plugins/module_utils/_internal/core/values/start_order.py",
        "plugins/module_utils/_internal/host/entry_point.py",
        "plugins/module_utils/_internal/host/jobs.py",
        "plugins/module_utils/_internal/host/session/files.py",
        "plugins/module_utils/_internal/host/session/ssh.py",
        "plugins/module_utils/_internal/host/ssh_runtime.py",
        "plugins/module_utils/_internal/replica/**/*.py",
        "tests/integration_lab/test_examples.py",
    ),
    # The walks of people from their beginning to their end, and all that they meet by the way.
    "walks": (
        "tests/walks/*.yml",
        "tests/integration_lab/test_walks.py",
        "tests/support/awx/server.py",
        "playbooks/*",
        "plugins/callback/*.py",
        "plugins/module_utils/_internal/core/model/fields.py",
        "plugins/module_utils/_internal/core/show/*.py",
        "roles/awx/**/*",
        "roles/prepare_hosts/**/*",
        "pyproject.toml",
        "requirements.txt",
    ),
    # The execution environment, and what it is built of.
    "environment": (
        "ee/**/*",
        "bindep.txt",
        "galaxy.yml",
        "meta/**/*",
        "requirements.txt",
        "requirements/develop.txt",
        "tests/integration_lab/test_execution_environment.py",
    ),
    # The benchmarks, and what they use of the collection by itself.
    "benchmarks": (
        "tests/benchmarks/**/*",
        "tests/support/crippled.py",
        "tools/bench.sh",
        "playbooks/check_pairs.yml",
        "playbooks/launch_cluster.yml",
        "playbooks/plan_cluster.yml",
        "playbooks/status.yml",
        "playbooks/teardown_cluster.yml",
        "plugins/module_utils/_internal/adapters/engine.py",
        "plugins/module_utils/_internal/adapters/engine_api.py",
        "plugins/module_utils/_internal/adapters/ledger.py",
        "plugins/module_utils/_internal/adapters/ssh_keys.py",
        "plugins/module_utils/_internal/adapters/state.py",
        "plugins/module_utils/_internal/core/model/claims.py",
        "plugins/module_utils/_internal/core/model/plan.py",
        "plugins/module_utils/_internal/core/rules/environment.py",
        "plugins/module_utils/_internal/core/rules/ledger.py",
        "plugins/module_utils/_internal/core/rules/placement.py",
        "plugins/module_utils/_internal/host/session/**/*.py",
        "plugins/module_utils/_internal/host/steps.py",
    ),
}
"""What the tests of each kind judge. Those of a lab say by the marker `stamped` which kind they are."""


def command(kind: str) -> list[str]:
    """Return the command that runs the tests of *kind*."""
    if kind == "benchmarks":
        return ["tools/bench.sh", "--smoke"]
    return ["pytest", "tests/integration_lab", "--stamped", kind]


def judged(path: Path) -> bytes:
    """Return what counts of a file: of a Python file what runs, without comments, documentation and the layout.

    Of a page it is the commands, which are all that a test runs of it.
    The first line counts if it names an interpreter. Python before 3.12 has one token for an f-string, later ones have
    several: it counts as one text.
    """
    content = path.read_bytes()
    if path.suffix == ".md":
        blocks = re.findall(rb"^```sh\n(.*?)^```$", content, re.MULTILINE | re.DOTALL)
        return b"".join(line for line in b"".join(blocks).splitlines(True) if not line.startswith(b"#"))
    if path.suffix != ".py":
        return content
    text = content.decode("utf-8")
    lines = list(io.StringIO(text))
    documented = {
        (node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    parts = [lines[0].rstrip()] if text.startswith("#!") else []
    begin: list[tuple[int, int]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            begin.append(token.start)
        elif kind == "FSTRING_END":
            start = begin.pop()
            if not begin:
                whole = lines[start[0] - 1 : token.end[0]]
                whole[-1] = whole[-1][: token.end[1]]
                whole[0] = whole[0][start[1] :]
                parts.append("".join(whole))
        elif token.start in documented:
            documented.add(token.end)  # and the end of its line
        elif kind in ("INDENT", "DEDENT", "NEWLINE"):
            parts.append(kind)
        elif not begin and kind not in ("COMMENT", "NL", "ENCODING"):
            parts.append(token.string)
    return "\n".join(parts).encode()


def digest(root: Path, kind: str) -> str:
    """Return a digest of names and contents of what the tests of *kind* judge, in the tree at *root*.

    The words of Python files and pages do not count (`judged`).

    Raises FileNotFoundError for a pattern that finds nothing: it would let changes pass.
    """
    paths: set[Path] = set()
    for pattern in SOURCES[kind]:
        found = {path for path in root.glob(pattern) if path.is_file() and path.suffix != ".pyc"}
        if not found:
            raise FileNotFoundError(f"No source of the kind {kind} is called {pattern}.")
        paths |= found
    whole = hashlib.sha256()
    for path in sorted(paths):
        content = hashlib.sha256(judged(path)).hexdigest()
        whole.update(f"{content}  {path.relative_to(root).as_posix()}\n".encode())
    return whole.hexdigest()


def written(root: Path) -> dict[str, str]:
    """Return the digests that are noted in the tree at *root*, by kind."""
    if not (root / FILE).is_file():
        return {}
    lines = [line.split() for line in (root / FILE).read_text(encoding="utf-8").splitlines()]
    return {words[0]: words[1] for words in lines if len(words) == 2 and words[0] in SOURCES}


def outdated(root: Path) -> list[str]:
    """Return the kinds of tests that have to run for the tree at *root*."""
    noted = written(root)
    return [kind for kind in SOURCES if noted.get(kind) != digest(root, kind)]


def write(root: Path, kind: str) -> None:
    """Note that the tests of *kind* have passed with the sources in the tree at *root*."""
    noted = {**written(root), kind: digest(root, kind)}
    lines = "".join(f"{name} {noted[name]}\n" for name in SOURCES if name in noted)
    (root / FILE).write_text(f"{HEADER}{lines}", encoding="utf-8")


def run(kind: str) -> bool:
    """Run the tests of *kind* and note that they have passed; tell whether they have, with what is there now."""
    before = digest(ROOT, kind)
    if subprocess.run(command(kind), cwd=ROOT, check=False).returncode != 0:
        print(f"The tests of the kind {kind} have not passed; nothing is noted.")
    elif digest(ROOT, kind) != before:
        print(f"What the tests of the kind {kind} judge has changed while they ran; nothing is noted.")
    else:
        write(ROOT, kind)
        print(f"{FILE} says that the tests of the kind {kind} have passed.")
        return True
    return False


def main(arguments: list[str] | None = None) -> int:
    """Run what has to run, kind by kind, and note each kind that has passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="kind", help=f"one of {', '.join(SOURCES)}; without any, all kinds")
    parser.add_argument("--all", action="store_true", help="run the tests also where nothing has changed")
    options = parser.parse_args(arguments)
    if unknown := set(options.kinds) - set(SOURCES):
        parser.error(f"there is no kind {', '.join(sorted(unknown))}")
    kinds = options.kinds or list(SOURCES)
    for kind in kinds if options.all else [kind for kind in outdated(ROOT) if kind in kinds]:
        if not run(kind):
            return 1
    print(f"All tests of the kinds {', '.join(kinds)} have passed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
