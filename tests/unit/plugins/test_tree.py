# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every file of the tree has to keep to."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import boot_install

ROOT = Path(__file__).resolve().parents[3]
# In pieces, or this file would find itself.
SPDX = "SPDX-" + "License-Identifier:"
# A path that exists only where somebody happens to work; /home/work/ in an image is none.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root/\.pyenv|opt/pypi)/")
# Files which cannot hold a comment, and the ones that antsibull-changelog writes.
NO_COMMENT = {".json", ".svg", ".png"}
NO_HEADER = {"COPYING", "CHANGELOG.rst", "changelogs/changelog.yaml"}


def texts() -> dict[str, str]:
    """Return name and content of every text file that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    found = {}
    for name in filter(None, names):
        path = ROOT / name
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" not in data:
            found[name] = data.decode("utf-8")
    return found


def without_header(name: str, text: str) -> bool:
    """Return whether *text* could carry the licence line near its start and does not."""
    exempt = not text or Path(name).suffix in NO_COMMENT or name in NO_HEADER
    return not exempt and not any(SPDX in line for line in text.splitlines()[:10])


def with_machine_path(_name: str, text: str) -> bool:
    """Return whether *text* names a folder of one particular machine."""
    return MACHINE_PATH.search(text) is not None


def with_untidy_lines(name: str, text: str) -> bool:
    """Return whether *text* has spaces at a line's end, foreign line ends, or no newline at its end."""
    if not text or Path(name).suffix == ".svg":
        return False
    return "\r" in text or not text.endswith("\n") or re.search(r"[ \t]+$", text, re.MULTILINE) is not None


@pytest.mark.parametrize("wrong", [without_header, with_machine_path, with_untidy_lines])
def test_every_file(wrong: Callable[[str, str], bool]) -> None:
    files = texts()
    assert len(files) > 10, "git lists hardly any file: the check would pass without having looked"
    assert [name for name, text in files.items() if wrong(name, text)] == []


@pytest.mark.parametrize(
    ("wrong", "name", "text"),
    [
        (without_header, "a.py", "import os\n"),
        (with_machine_path, "a.md", "see /" + "work/main\n"),
        (with_untidy_lines, "a.py", "x = 1 \n"),
        (with_untidy_lines, "a.py", "x = 1"),
    ],
)
def test_the_checks_find_what_they_look_for(wrong: Callable[[str, str], bool], name: str, text: str) -> None:
    assert wrong(name, text)


def test_a_home_folder_called_work_is_no_machine_path() -> None:
    assert not with_machine_path("a.md", "/home/work/.ssh\n")


def test_the_action_group_names_every_module_that_is_published() -> None:
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text(encoding="utf-8"))
    left_out = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["build_ignore"]
    every = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py") if path.stem != "__init__"}
    published = {name for name in every if not any(fnmatch(f"plugins/modules/{name}.py", each) for each in left_out)}
    assert {name for name in every if name.startswith("lab_")} | {"image_archive"} == every - published
    assert runtime["action_groups"]["session"] == sorted(published)
    assert runtime["plugin_routing"]["modules"].keys() <= published


def test_a_module_is_promised_or_says_that_it_is_private() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "plugins" / "modules").glob("*.py")}
    promises = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    row = re.search(r"^\| the modules (.+?) \|", promises, re.MULTILINE)
    assert row is not None
    public = {name for name, text in texts.items() if "session.attributes.private\n" not in text}
    assert set(re.findall(r"`(\w+)`", row[1])) == public


def test_no_sanity_test_is_ignored() -> None:
    assert list((ROOT / "tests" / "sanity").glob("ignore*")) == []


@pytest.mark.parametrize("environment", [("controller", "develop"), ("certify",)], ids=" ".join)
def test_every_requirement_is_pinned_once(environment: tuple[str, ...]) -> None:
    names: list[str] = []
    for path in [ROOT / "requirements" / f"{name}.txt" for name in environment]:
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(("#", "-r ")):
                name, _equals, version = line.partition("==")
                assert re.fullmatch(r"[\w.]+", version), f"{path.name}: {line} is not pinned exactly"
                names.append(name.lower())
    assert names
    assert sorted(names) == sorted(set(names))


def test_what_is_promised_is_shown_by_tests_that_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[^`:]+)::(\w+)`", text)
    assert len(named) > 100
    for path, name in named:
        tests = ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        assert name in {test.name for test in tests if isinstance(test, ast.FunctionDef)}, f"{path}::{name}"


def test_the_list_of_files_names_every_file_of_the_plugins_and_tools() -> None:
    text = (ROOT / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    parts = {part.split("`", 2)[1]: part for part in text.split("\n## ")[1:]}
    paths = [path for folder in ("plugins", "tools") for path in (ROOT / folder).rglob("*.py")]
    names = [path.relative_to(ROOT) for path in paths if path.stem != "__init__"]
    assert len(names) > 250
    missing = [
        name
        for name in names
        if not any(
            name.is_relative_to(folder) and f"\n| `{name.relative_to(folder).with_suffix('')}` | " in part
            for folder, part in parts.items()
        )
    ]
    assert missing == []


TESTS = "ansible_collections.cluster_compute.session.tests."


def test_nothing_imports_from_a_file_of_tests_and_shared_helpers_are_in_support() -> None:
    wrong, counted = [], 0
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "tools").glob("*.py")]:
        module = TESTS.partition("tests.")[0] + ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name in boot_install.imports(module, path.read_text(encoding="utf-8")):
            parts = name[len(TESTS) :].split(".") if name.startswith(TESTS) else []
            counted += bool(parts)
            # Benchmarks are programs, which use each other's lab and have tests.
            if parts and (parts[0] not in ("support", "benchmarks") or parts[-1].startswith(("test_", "conftest"))):
                wrong.append(f"{path.relative_to(ROOT)}: {name}")
    assert counted > 300
    assert wrong == []
    assert [path.name for path in (ROOT / "tests").glob("*.py")] == []


CORE = ("values", "model", "rules", "cluster", "planning", "preflight", "show", "verbs")
"""The packages of the core. One imports those before it."""
MODULE_UTILS = "ansible_collections.cluster_compute.session.plugins.module_utils._internal."


def imported(path: Path) -> set[str]:
    """Return what a file of module_utils imports from there, by names below it, also for types."""
    module = MODULE_UTILS + ".".join(
        path.relative_to(ROOT / "plugins" / "module_utils" / "_internal").with_suffix("").parts
    )
    names = boot_install.imports(module, path.read_text(encoding="utf-8"))
    return {name[len(MODULE_UTILS) :] for name in names if name.startswith(MODULE_UTILS)}


def test_a_package_of_the_core_imports_only_those_before_it() -> None:
    core = ROOT / "plugins" / "module_utils" / "_internal" / "core"
    assert [path.name for path in core.glob("*.py")] == ["__init__.py"], "each file of the core has a package"
    assert {path.name for path in core.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(CORE)
    wrong = []
    counted = 0
    for number, package in enumerate(CORE):
        allowed = tuple(f"core.{other}." for other in CORE[: number + 1])
        for path in (core / package).rglob("*.py"):
            names = imported(path)
            counted += len(names)
            wrong += [f"{package}/{path.name} imports {name}" for name in names if not f"{name}.".startswith(allowed)]
    assert counted > 300
    assert sorted(wrong) == []


def test_what_one_package_uses_of_the_collection_is_imported_by_relative_names() -> None:
    folders = [ROOT / "plugins" / "module_utils", ROOT / "plugins" / "plugin_utils"]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(paths) > 150
    absolute = re.compile(r"^\s*(from|import) ansible_collections\.cluster_compute", re.MULTILINE)
    assert [path.name for path in paths if absolute.search(path.read_text(encoding="utf-8"))] == []
