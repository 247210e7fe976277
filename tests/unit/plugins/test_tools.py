# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts behind the make targets."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml
from ansible_collections.cluster_compute.session.tests.benchmarks import bench_engine
from ansible_collections.cluster_compute.session.tests.support.adapters.engine_server import engine_server
from ansible_collections.cluster_compute.session.tests.support.lab_lock import LabInUse, only_user

TOOLS = Path(__file__).resolve().parents[3] / "tools"


def load(name: str) -> ModuleType:
    """Return the module in tools/ called *name*."""
    spec = importlib.util.spec_from_file_location(f"tools_{name}", TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where a dataclass looks for its module.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def program(folder: Path, name: str, text: str) -> None:
    """Write the shell script *name* into *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def bash(script: Path, *arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    """Run *script* with *path* as its PATH."""
    shell = shutil.which("bash")
    assert shell is not None
    env = {**os.environ, "PATH": path}
    return subprocess.run([shell, str(script), *arguments], env=env, capture_output=True, text=True, check=False)


def test_nothing_is_installed_for_a_command_that_is_there() -> None:
    done = bash(TOOLS / "need.sh", "sh=never-wanted", path=os.environ["PATH"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_missing_package_is_named_where_it_cannot_be_installed(tmp_path: Path) -> None:
    done = bash(TOOLS / "need.sh", "no-such-command=some-package", path=str(tmp_path))
    assert done.returncode == 1
    assert "some-package" in done.stderr


def test_a_python_that_does_not_start_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = load("matrix")
    program(tmp_path / "shims", "python9.9", "exit 127")
    program(tmp_path / "real", "python9.9", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{tmp_path / 'real'}")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert matrix.interpreter("9.9") == str(tmp_path / "real" / "python9.9")
    assert matrix.interpreter("9.8") is None


def test_the_python_of_the_distribution_comes_before_others_on_the_path(tmp_path: Path) -> None:
    own = Path("/usr/bin/python3")
    is_new = "import sys; sys.exit(sys.version_info < (3, 11))"
    if not own.exists() or subprocess.run([own, "-c", is_new], check=False).returncode:
        pytest.skip("the distribution's Python is older than 3.11, or there is none")
    shutil.copytree(TOOLS, tmp_path / "tools")
    program(tmp_path / "bin", "python3.11", "exit 0")
    # A module that makes no environment, so that the script ends there.
    (tmp_path / "venv.py").touch()
    shell = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    script = ["bash", str(tmp_path / "tools" / "make_venv.sh")]
    done = subprocess.run(script, env=shell, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[0] == "Making .venv with /usr/bin/python3"
    assert done.returncode != 0


def test_an_ansible_core_without_a_python_is_named_and_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = load("matrix")
    monkeypatch.setattr(matrix, "interpreter", lambda version: None)
    outcome = matrix.check_core("2.21.5")
    assert str(outcome) == "NOT RUN  ansible-core 2.21.5: needs one of Python 3.12, 3.13, 3.14; none of them runs here"


def test_the_check_of_a_hub_requires_a_tag_by_which_it_sorts(tmp_path: Path) -> None:
    shutil.copytree(TOOLS, tmp_path / "tools")
    (tmp_path / "requirements").mkdir()
    (tmp_path / ".cache" / "certify" / "venv" / "bin").mkdir(parents=True)
    for folder in ("requirements/certify.txt", ".cache/certify/installed.txt"):
        (tmp_path / folder).write_text("x==1\n", encoding="utf-8")
    tar = shutil.which("tar")
    made = f'{tar} --create --gzip --file "$4/one.tar.gz" --files-from /dev/null'
    program(tmp_path / "bin", "ansible-galaxy", made)
    program(tmp_path / "bin", "ansible-lint", "exit 0")
    asked = f'case "$*" in *galaxy_importer*) echo "$GALAXY_IMPORTER_CHECK_REQUIRED_TAGS" >>"{tmp_path}/asked";; esac'
    program(tmp_path / "bin", "python", asked)
    done = bash(tmp_path / "tools" / "certify.sh", path=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "asked").read_text(encoding="utf-8") == "true\n"


def test_the_collection_has_a_tag_that_hubs_require() -> None:
    tags = yaml.safe_load((TOOLS.parent / "galaxy.yml").read_text(encoding="utf-8"))["tags"]
    # REQUIRED_TAG_LIST of galaxy_importer/schema.py in 0.4 to 0.5.
    required = (
        "ai application cloud database eda infrastructure linux monitoring networking security storage tools windows"
    )
    assert {*tags} & {*required.split()}


@pytest.mark.parametrize(
    "target", ["setup", "launch", "lint", "quick", "unit", "contract", "awx", "docs", "build", "sanity", "integration"]
)
def test_the_list_of_targets_tells_how_long_a_check_takes(target: str) -> None:
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run([make, "help"], cwd=TOOLS.parent, capture_output=True, text=True, check=True)
    assert re.search(rf"^  {target} .*\(\d+ (s|min)\b.*\)$", done.stdout, re.MULTILINE)


class TestEngineBenchmark:
    """The benchmark of clients of the engine, against a server that only answers."""

    def test_every_client_asks_the_engine(self, tmp_path: Path) -> None:
        with engine_server(tmp_path) as engine:
            for path in bench_engine.PATHS:
                engine.answer(f"GET {path.partition('?')[0]}", value={})
            took = bench_engine.measure(str(engine.path), 1)
        assert list(took) == ["nothing", "engine_api", "http.client", "Docker SDK"]
        assert all(milliseconds > 0 for milliseconds in took.values())

    def test_a_client_that_fails_is_not_timed(self, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError, match="Error"):
            bench_engine.once(bench_engine.WAYS["http.client"], str(tmp_path / "nothing.sock"))

    def test_ratios_are_of_what_a_client_adds(self) -> None:
        lines = bench_engine.table({"nothing": 20.0, "engine_api": 30.0, "http.client": 45.0})
        assert [line.split()[1:] for line in lines[1:]] == [
            ["20.0", "0.0"],
            ["30.0", "10.0", "1.0"],
            ["45.0", "25.0", "2.5"],
        ]


class TestMatrix:
    """What is noted of runs with each ansible-core."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Path:
        """Make a tree in which nothing is noted."""
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "matrix.json").write_text('{"ansible_core": {}, "host_python": {}}', encoding="utf-8")
        return tmp_path

    def test_a_run_without_a_lab_keeps_what_the_lab_has_shown(self, tree: Path) -> None:
        matrix = load("matrix")
        counts = {"unit tests": 4000, "playbooks": 30}
        whole = matrix.Outcome("x", python="3.11.2", counts={**counts, "sessions on a lab": 12})
        matrix.note(tree, "2.18.19", whole, "2026-11-27")
        broken = matrix.Outcome(
            "x", ["sanity tests", "unit tests (see log)"], python="3.12.1", counts={"playbooks": 30}
        )
        matrix.note(tree, "2.18.19", broken, "2026-11-28")
        row = next(row for row in matrix.rows(matrix.noted(tree)) if row[0] == "2.18")
        assert row == [
            "2.18",
            "3.11, 3.12, 3.13",
            "failed: sanity tests, unit tests; 30 playbooks (2026-11-28, 2.18.19 with Python 3.12.1)",
            "12 sessions on a lab (2026-11-27, 2.18.19 with Python 3.11.2)",
        ]

    def test_a_row_that_did_not_run_changes_nothing(self, tree: Path) -> None:
        matrix = load("matrix")
        before = matrix.noted(tree)
        matrix.note(tree, "2.18.19", matrix.Outcome("x", skipped="no Python"), "2026-11-27")
        assert matrix.noted(tree) == before
        assert {row[2] for row in matrix.rows(before)} == {"not run"}

    def test_what_is_known_from_the_page_says_so(self, tree: Path) -> None:
        matrix = load("matrix")
        part = {"date": "2026-11-25", "note": matrix.BY_PAGE}
        assert matrix.shown(part) == "passed, noted 2026-11-25"

    def test_a_python_of_hosts_is_run_and_noted(self, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        matrix = load("matrix")
        own = f"{sys.version_info[0]}.{sys.version_info[1]}"
        monkeypatch.setattr(matrix, "interpreter", lambda version: sys.executable)
        monkeypatch.setattr(matrix, "HOST_PYTHONS", (own,))
        monkeypatch.setattr(matrix, "ROOT", tree)
        monkeypatch.setattr(matrix, "CACHE", tree)
        monkeypatch.setattr(sys, "argv", ["matrix.py", "--hosts"])
        for folder in matrix.HOST_CODE:
            (tree / folder).mkdir(parents=True)
            (tree / folder / "one.py").write_text("x = 1\n", encoding="utf-8")
        assert matrix.main() == 0
        part = matrix.noted(tree)["host_python"][own]["checks"]
        assert (part["passed"], part["failed"]) == ({"files": 2}, [])
        assert part["python"].startswith(own)

    @pytest.mark.parametrize(
        ("text", "number"),
        [
            ("1 failed, 3 passed in 2s\n", 3),
            ("12 passed\n4011 passed, 2 skipped in 300s\n", 4011),
            ("Running sanity test 'shebang'\nRunning sanity test 'compile' on Python 3.9\n", 2),
            ("", 0),
        ],
    )
    def test_tests_are_counted(self, text: str, number: int) -> None:
        assert load("matrix").tests_passed(text) == number

    def test_the_page_has_what_is_noted(self) -> None:
        tool = load("make_reference")
        page = (TOOLS.parent / "docs" / "support_matrix.md").read_text(encoding="utf-8")
        assert tool.support(page) == page
        assert tool.support(page.replace("| 2.18 | 3.11,", "| 2.17 | 3.12,")) == page


def test_get_pip_installs_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    get_pip = load("get_pip")
    commands: list[list[str]] = []

    def run(command: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command[1:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("sys.argv", ["get_pip.py", "--no-cache", "pip==24.2", "--no-setuptools", "--no-wheel"])
    assert get_pip.main() == 0
    assert commands == [["-m", "ensurepip"], ["-m", "pip", "install", "--no-cache", "pip==24.2"]]


@pytest.mark.parametrize(("broken", "status"), [("", 0), ("unit", 1)])
def test_a_test_run_stops_at_a_failure_and_removes_its_lab(tmp_path: Path, broken: str, status: int) -> None:
    shutil.copytree(TOOLS, tmp_path / "tools")
    (tmp_path / "tests" / "integration_lab" / "inventory").mkdir(parents=True)
    make = f'shift 2; for one; do echo "$one" >>"{tmp_path}/made"; [ "$one" != "{broken}" ] || exit 2; done'
    program(tmp_path / "bin", "make", make)
    program(tmp_path / "bin", "ansible-playbook", f'echo "$@" >>"{tmp_path}/played"')
    done = bash(tmp_path / "tools" / "test.sh", "lint unit", "build", path=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert done.returncode == status
    made = (tmp_path / "made").read_text(encoding="utf-8").split()
    assert made == (["lint", "unit"] if broken else ["lint", "unit", "build"])
    assert ("FAILED: make lint unit" in done.stdout) == bool(broken)
    assert ("All checks passed" in done.stdout) != bool(broken)
    played = (tmp_path / "played").read_text(encoding="utf-8").splitlines()
    assert played == ["-i tests/integration_lab/inventory playbooks/lab_down.yml"]


class TestStamps:
    """Which of the tests that are left out while nothing of theirs changes have to run."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Path:
        """Make a tree with a source for each pattern."""
        for kind, patterns in load("stamps").SOURCES.items():
            for pattern in patterns:
                path = tmp_path / pattern.replace("**/", "").replace("*", f"{kind}_one")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"x = {pattern!r}\n", encoding="utf-8")
        return tmp_path

    def passed(self, tree: Path) -> Any:
        """Return the tool, after it has noted that all tests have passed."""
        stamps = load("stamps")
        for kind in stamps.SOURCES:
            stamps.write(tree, kind)
        return stamps

    def test_they_run_until_they_have_passed(self, tree: Path) -> None:
        stamps = load("stamps")
        assert stamps.outdated(tree) == ["lab", "examples", "walks", "environment", "benchmarks"]
        stamps.write(tree, "examples")
        assert stamps.outdated(tree) == ["lab", "walks", "environment", "benchmarks"]
        for kind in ("environment", "lab", "benchmarks", "walks"):
            stamps.write(tree, kind)
        assert stamps.outdated(tree) == []

    def test_they_run_again_when_anything_changes_that_they_judge(self, tree: Path) -> None:
        stamps = self.passed(tree)
        for path in [path for path in tree.rglob("*") if path.is_file() and path != tree / stamps.FILE]:
            content = path.read_bytes()
            path.write_bytes(content + (b"```sh\ny\n```\n" if path.suffix == ".md" else b"y = 2\n"))
            assert stamps.outdated(tree), path
            path.write_bytes(content)
            assert stamps.outdated(tree) == []
            path.rename(path.with_name(f"lab_other{path.suffix}"))
            with pytest.MonkeyPatch.context() as patch:
                # Whether anything is left that the pattern finds is for another test.
                left = {
                    kind: [glob for glob in patterns if any(tree.glob(glob))]
                    for kind, patterns in stamps.SOURCES.items()
                }
                patch.setattr(stamps, "SOURCES", left)
                assert stamps.outdated(tree), path
            path.with_name(f"lab_other{path.suffix}").rename(path)
        (tree / "roles/lab/tasks/more").mkdir(parents=True)
        assert stamps.outdated(tree) == []
        (tree / "roles/lab/tasks/more/main.yml").touch()
        assert stamps.outdated(tree) == ["lab"]

    def test_what_python_keeps_and_what_others_are_made_of_does_not_count(self, tree: Path) -> None:
        stamps = self.passed(tree)
        for name in (
            "plugins/module_utils/_internal/lab/__pycache__/x.pyc",
            "plugins/modules/session_host.py",
            "README.md",
        ):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).touch()
        assert stamps.outdated(tree) == []

    def test_a_pattern_that_finds_nothing_is_noticed(self, tree: Path) -> None:
        (tree / "plugins/modules/image_archive.py").unlink()
        with pytest.raises(FileNotFoundError, match=r"image_archive\.py"):
            load("stamps").outdated(tree)

    @pytest.mark.parametrize(
        ("script", "kinds", "status", "left"),
        [
            ("exit 0", [], 0, []),
            ("exit 0", ["lab"], 0, ["examples", "walks", "environment", "benchmarks"]),
            ("exit 1", [], 1, ["lab", "examples", "walks", "environment", "benchmarks"]),
            ('[ "$3" = lab ]', [], 1, ["examples", "walks", "environment", "benchmarks"]),
            ("echo more >>roles/lab/lab_one", [], 1, ["lab", "examples", "walks", "environment", "benchmarks"]),
        ],
        ids=["passed", "one asked for", "failed", "one failed", "changed meanwhile"],
    )
    def test_only_what_has_passed_is_noted(
        self,
        script: str,
        kinds: list[str],
        status: int,
        left: list[str],
        tree: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (tree / "bin").mkdir()
        (tree / "bin" / "pytest").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (tree / "bin" / "pytest").chmod(0o755)
        monkeypatch.setenv("PATH", str(tree / "bin"), prepend=os.pathsep)
        (tree / "tools" / "bench.sh").write_text('#!/bin/sh\n[ "$1" = --smoke ]\n', encoding="utf-8")
        (tree / "tools" / "bench.sh").chmod(0o755)
        stamps = load("stamps")
        monkeypatch.setattr(stamps, "ROOT", tree)
        assert stamps.main(kinds) == status
        assert stamps.outdated(tree) == left

    @pytest.mark.parametrize(
        ("text", "is_same"),
        [
            ('"""Words."""\n\n# Why.\nx = 1  # what\ndef f():\n    """More\n    words."""\n    return "# 1"\n', True),
            ('x = 2\n\n\ndef f():\n    """Doc."""\n    return "# 1"\n', False),
            ('x = 1\n\n\ndef f():\n    """Doc."""\n    return "# 2"\n', False),
            ('x = 1\n\n\ndef f():\n    """Doc."""\n    if x:\n        return "# 1"\n', False),
            ('x = (\n    1\n)\ndef f(): "Doc."; return "# 1"\n', False),
        ],
        ids=["words", "number", "text", "branch", "layout"],
    )
    def test_words_of_python_do_not_count(self, text: str, is_same: bool, tmp_path: Path) -> None:
        judged = load("stamps").judged
        path = tmp_path / "code.py"
        path.write_text('x = 1\n\n\ndef f():\n    """Doc."""\n    return "# 1"\n', encoding="utf-8")
        before = judged(path)
        path.write_text(text, encoding="utf-8")
        assert (judged(path) == before) is is_same

    @pytest.mark.parametrize(
        ("text", "is_same"),
        [
            ("Other words.\n\n```sh\nls -l\n```\n\n```text\nb\n```\n", True),
            ("Words.\n\n```sh\n# ccs ls\nls -l\n```\n\n```text\na\n```\n", True),
            ("Words.\n\n```sh\nls -a\n```\n\n```text\na\n```\n", False),
        ],
        ids=["words", "comment", "command"],
    )
    def test_commands_of_a_page_count_alone(self, text: str, is_same: bool, tmp_path: Path) -> None:
        judged = load("stamps").judged
        path = tmp_path / "page.md"
        path.write_text("Words.\n\n```sh\nls -l\n```\n\n```text\na\n```\n", encoding="utf-8")
        before = judged(path)
        path.write_text(text, encoding="utf-8")
        assert (judged(path) == before) is is_same

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ('def f(): "doc"; return 1\n', 'def f(): "doc"; return 2\n'),
            ('x = """a\n\nb"""\n', 'x = """a\nb"""\n'),
            ("#!/bin/a\nx = 1\n", "#!/bin/b\nx = 1\n"),
            ("x = f'{a} b'\n", "x = f'{a}  b'\n"),
            ("if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n"),
        ],
        ids=["after documentation", "lines of a text", "interpreter", "f-string", "indentation"],
    )
    def test_what_runs_counts(self, before: str, after: str, tmp_path: Path) -> None:
        judged = load("stamps").judged
        found = []
        for name, text in (("a.py", before), ("b.py", after)):
            (tmp_path / name).write_text(text, encoding="utf-8")
            found.append(judged(tmp_path / name))
        assert found[0] != found[1]

    def test_a_kind_that_nobody_knows_is_refused(self) -> None:
        with pytest.raises(SystemExit) as error:
            load("stamps").main(["labs"])
        assert error.value.code == 2

    def test_the_tree_has_all_of_them(self) -> None:
        stamps = load("stamps")
        assert {len(stamps.digest(TOOLS.parent, kind)) for kind in stamps.SOURCES} == {64}


class TestPlainEnglish:
    """What points at sentences that have to be read twice."""

    @pytest.fixture
    def page(self, tmp_path: Path) -> Path:
        """Make a page of four lines with two such places, and others where nobody reads them."""
        path = tmp_path / "page.md"
        path.write_text(
            "# What it does\n\n```sh\nmend anew\n```\nThere is no limit. `anew`\nIt is made anew.\nWho asks is told.\n",
            encoding="utf-8",
        )
        return path

    def test_each_place_is_named_with_what_to_write_instead(self, page: Path) -> None:
        places = load("plain_english").found([str(page.parent)])
        assert [place.split(": ")[:2] for place in places] == [
            [f"{page}:7", "again, re-create"],
            [f"{page}:8", "report, return, receive"],
            [f"{page}:8", "put the subject first"],
        ]

    def test_of_python_comments_and_texts_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "code.py"
        path.write_text('anew = 1  # made anew\nx = "it is mended"\n', encoding="utf-8")
        assert [place.partition(": ")[0] for place in load("plain_english").found([str(path)])] == [
            f"{path}:1",
            f"{path}:2",
        ]

    @pytest.mark.parametrize(("most", "status"), [(2, 1), (3, 0), (4, 0)])
    def test_more_than_there_were_fail(self, page: Path, most: int, status: int) -> None:
        assert load("plain_english").main([str(page), "--most", str(most)]) == status


def test_two_runs_of_tests_do_not_use_one_lab_at_once(tmp_path: Path) -> None:
    here, beside, again = (only_user(lab, tmp_path / "locks") for lab in ("it", "it1", "it"))
    with here, beside, pytest.raises(LabInUse, match="Other tests use the lab it on this machine"):
        again.__enter__()
    with only_user("it", tmp_path / "locks"):
        pass


class TestReference:
    """The generator of docs/reference."""

    KNOWN: ClassVar[dict[str, Any]] = {"role": {}, "module": {}, "callback": {}}

    @pytest.mark.parametrize(
        ("text", "markdown"),
        [
            ("With O(state=absent) or V(a)", "With `state=absent` or `a`"),
            ("see M(cluster_compute.session.session_decide)", "see `session_decide`"),
            ("C(default({}, true)) and E(TERM)", "`default({}, true)` and `TERM`"),
            ("L(the page, https://example.com/a)", "[the page](https://example.com/a)"),
            ("ABC(x) stays", "ABC(x) stays"),
            ("With O(main:awx_images), O(state=a:b)", "With `awx_images`, `state=a:b`"),
        ],
    )
    def test_markup_becomes_markdown(self, text: str, markdown: str) -> None:
        assert load("make_reference").marked(text) == markdown

    def test_a_stale_page_is_named_with_what_mends_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tool = load("make_reference")
        monkeypatch.setattr(tool, "FOLDER", tmp_path)
        monkeypatch.setattr(tool, "ASSETS", tmp_path / "assets")
        monkeypatch.setattr(tool, "known", lambda: self.KNOWN)
        monkeypatch.setattr(tool, "for_callers", lambda _known: {"cheat_sheet.md": "", "programs.md": ""})
        (tmp_path / "assets").mkdir()
        (tmp_path / "gone.md").write_text("of a room that is no more", encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["make_reference.py"])
        assert tool.main() == 0
        assert sorted(path.name for path in tmp_path.glob("*.md")) == [
            "cheat_sheet.md",
            "files.md",
            "modules.md",
            "playbooks.md",
            "plugins.md",
            "programs.md",
            "roles.md",
        ]
        made = {path.name for path in (tmp_path / "assets").iterdir()}
        assert made == {"launch_steps.svg", "packages.svg", "session.schema.json"}
        monkeypatch.setattr(sys, "argv", ["make_reference.py", "--check"])
        assert tool.main() == 0
        capsys.readouterr()
        (tmp_path / "roles.md").write_text("something else", encoding="utf-8")
        assert tool.main() == 1
        output = capsys.readouterr().out
        assert "roles.md." in output
        assert "make reference" in output
        assert (tmp_path / "roles.md").read_text(encoding="utf-8") == "something else"

    def test_the_variables_of_a_request_are_told_as_the_table_of_fields_has_them(self) -> None:
        tool = load("make_reference")
        text = (TOOLS.parent / "docs" / "request.md").read_text(encoding="utf-8")
        row = "| `session_size` | 1 to 4096 | `1` |"
        assert row in text
        assert tool.description(text.replace(row, "| `session_size` | 1 to 5 | `2` |")) == text

    def test_a_playbook_has_its_command_its_variables_and_an_example(self) -> None:
        text = (TOOLS.parent / "docs" / "reference" / "playbooks.md").read_text(encoding="utf-8")
        parts = {part.split("\n", 1)[0]: part.split("\n") for part in text.split("\n## ")}
        logs, drain, app = parts["logs"], parts["drain_hosts"], parts["close_app"]
        assert {
            "ansible-playbook cluster_compute.session.logs -e session_name=NAME",
            "ccs logs [-f] [-n LINES] NAME [REPLICA …]",
            "| `logs_timestamps` | `false` | Whether each line begins with its time. |",
            "| `logs_directory` | none | Folder on the controller to [save](../logs.md#saving) the lines in. |",
            "ansible-playbook -i inventories/lab playbooks/logs.yml -e session_name=small",
            "Example, from [jobs](../jobs.md):",
        } <= {*logs}
        assert "ansible-playbook cluster_compute.session.drain_hosts -e drain_hosts=… -e drain_reason=…" in drain
        assert "ansible-playbook cluster_compute.session.undrain_hosts -e drain_hosts=…" in parts["undrain_hosts"]
        assert [line for line in drain if line.startswith("| `drain_move` | `false` | ")]
        assert "ansible-playbook cluster_compute.session.close_app -e session_name=NAME" in app
        assert not [line for line in parts["schedule_pending"] if "`schedule_losses`" in line], "a playbook fills it in"
        launch = "\n".join(parts["launch_cluster"])
        assert "```text\nansible-playbook -i inventories/lab playbooks/launch_cluster.yml \\\n    -e " in launch

    def test_every_playbook_and_its_variables_are_there(self) -> None:
        tool = load("make_reference")
        page = tool.playbooks({"launch": {}, "teardown": {}, "login": {}})
        for path in (TOOLS.parent / "playbooks").glob("*.yml"):
            assert f"\n## {path.stem}\n" in page
            assert f"```text\nansible-playbook {tool.COLLECTION}.{path.stem}" in page
        assert "| of the request | all of the request |" in page
        assert "[teardown](roles.md#teardown)" in page

    def test_a_module_that_says_it_is_private_is_a_step_of_the_roles(self) -> None:
        documentation = {"short_description": "Do it", "options": {}}
        private = {**documentation, "notes": ["This module is private. It is a step."]}
        page = load("make_reference").modules({"own": {"doc": documentation}, "step": {"doc": private}})
        assert "## own\n\nDo it.\n" in page
        assert "## step" not in page
        assert "| `step` | Do it |" in page.partition("## Private modules")[2]

    def test_a_table_takes_any_text(self) -> None:
        assert load("make_reference").table(["a"], [["x | y\nz"]]) == ["| a |", "|---|", "| x \\| y z |", ""]


class TestDiagrams:
    """The pictures of the packages and of the steps of a launch, and the list of files."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Path:
        """Make a tree of three packages, of which two import a third in each of the three forms."""
        internal = "plugins/module_utils/_internal"
        full = f"ansible_collections.cluster_compute.session.{internal.replace('/', '.')}"
        for name, text in {
            f"{internal}/core/values/one.py": '"""One | two\nlines.\n\nMore."""\n',
            f"{internal}/core/rules/two.py": '"""Two."""\nfrom ..values import one\n',
            f"{internal}/host/calls/three.py": f'"""Three."""\nimport {full}.core.values.one\n',
            "plugins/action/four.py": f'"""Four."""\nfrom {full}.core.rules.two import x\n',
            "plugins/modules/five.py": "DOCUMENTATION = 'module: five\\nshort_description: Do it\\n'\n",
            "tools/six.py": '"""Six."""\n',
        }.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path

    def test_a_package_is_above_those_that_it_imports(self, tree: Path) -> None:
        diagrams = load("diagrams")
        imports = diagrams.package_imports(tree)
        assert imports == {
            "core/values": set(),
            "core/rules": {"core/values"},
            "host": {"core/values"},
            "action": {"core/rules"},
            "modules": set(),
        }
        assert diagrams.raised(imports) == [["core/values"], ["core/rules", "host"], ["action"]]
        drawn = diagrams.packages_picture(tree)
        assert drawn.count("<path ") == 3
        assert drawn.count("<rect ") == 1 + 4

    def test_an_import_that_another_one_implies_is_not_drawn(self) -> None:
        imports = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
        assert load("diagrams").reduced(imports) == {"a": {"b"}, "b": {"c"}, "c": set()}

    def test_packages_that_import_each_other_are_named(self) -> None:
        with pytest.raises(ValueError, match="a, b"):
            load("diagrams").layers({"a": {"b"}, "b": {"a"}, "c": set()})

    def test_every_file_is_listed_with_its_purpose(self, tree: Path) -> None:
        page = load("diagrams").files(tree)
        assert "| `one` | One \\| two lines. |" in page
        assert "| `calls/three` | Three. |" in page
        assert "| `five` | Do it. |" in page
        assert "| `six` | Six. |" in page
        (tree / "plugins/action/four.py").write_text("x = 1\n", encoding="utf-8")
        with pytest.raises(ValueError, match="neither a docstring"):
            load("diagrams").files(tree)

    def test_the_steps_of_a_launch_have_the_calls_and_followers_that_its_functions_name(self) -> None:
        steps = {step.name: step for step in load("diagrams").Flow(TOOLS.parent).steps()}
        assert steps["look"].calls == ["host_info"]
        assert {"hold", "cleanup", "ask", "start"} <= {*steps["look"].followed_by}
        assert steps["hold"].calls == ["session_host: held", "session_host: named"]
        assert {"begin", "start", "release", "undo"} <= {*steps["hold"].followed_by}
        assert steps["pull"].calls == ["session_images: pulled"]
        assert steps["serve"].followed_by == ["receive"]
        assert steps["offer"].calls == ["session_host: probe_written"]
        assert steps["wait"].calls == ["session_watch", "host_info"]
        assert steps["tell"].followed_by == []
        assert [name for name, step in steps.items() if not step.calls] == ["tell"]
        assert all(step.file for step in steps.values())

    def test_the_steps_are_those_of_the_verb_and_all_are_drawn(self) -> None:
        source = (TOOLS.parent / load("diagrams").VERBS / "launch.py").read_text(encoding="utf-8")
        table = re.findall(r"^\| ([a-z, ]+) \|", ast.get_docstring(ast.parse(source)) or "", re.MULTILINE)
        named = {name for cell in table[1:] for name in cell.split(", ")}
        drawn = load("diagrams").launch_picture(TOOLS.parent)
        assert {name for name in named if f">{name}</text>" not in drawn} == set()
        assert {step.name for step in load("diagrams").Flow(TOOLS.parent).steps()} == named


class TestDocumentation:
    """What makes pages and pictures of the documentation, and what judges them."""

    def test_a_picture_shows_what_a_terminal_shows_in_the_end(self) -> None:
        pictures = load("make_pictures")
        lines = pictures.screen("\r\x1b[Kstart 0/2\r\x1b[K\x1b[0;33mchanged: [h1]\x1b[0m\r\na <b>\r\nlonger\rshort")
        assert ["".join(letter for letter, _colour in cells) for cells in lines] == ["changed: [h1]", "a <b>", "shortr"]
        assert {colour for _letter, colour in lines[0]} == {pictures.COLOURS["33"]}
        drawn = pictures.svg(lines, "A & B")
        assert "<title>A &amp; B</title>" in drawn
        assert f">a{pictures.NO_BREAK}&lt;b&gt;</text>" in drawn
        assert f'fill="{pictures.COLOURS["33"]}" textLength="109.2"' in drawn

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ('<a href="other.html#there">', ""),
            ('<a href="#here"><p id="here">', ""),
            ('<a href="https://example.com/x">', ""),
            ('<img src="data:image/png;base64,AA">', ""),
            ('<a href="other.html#gone">', "a.html links to other.html#gone, which is not there."),
            ('<a href="gone.html">', "a.html links to gone.html, which is not there."),
            ('<img src="gone.svg">', "a.html links to gone.svg, which is not there."),
            (
                '<a href="http://example.com">',
                "a.html links to http://example.com, which is no full address with https.",
            ),
            ('<a href="//example">', "a.html links to //example, which is no full address with https."),
            ('<script src="https://example.com/x.js">', "a.html fetches https://example.com/x.js from outside."),
            (
                '<link rel="stylesheet" href="https://example.com/x">',
                "a.html fetches https://example.com/x from outside.",
            ),
            ('<link rel="canonical" href="https://example.com/x">', ""),
        ],
    )
    def test_links_and_what_is_fetched_are_judged(self, text: str, fault: str, tmp_path: Path) -> None:
        (tmp_path / "a.html").write_text(text, encoding="utf-8")
        (tmp_path / "other.html").write_text('<p id="there">', encoding="utf-8")
        (tmp_path / "llms.txt").write_text("- [Other](other.html): There.", encoding="utf-8")
        assert load("check_site").faults(tmp_path) == ([fault] if fault else [])

    def test_a_style_sheet_that_fetches_is_found_and_so_is_a_site_without_pages(self, tmp_path: Path) -> None:
        (tmp_path / "a.css").write_text("@font-face { src: url(https://example.com/f.woff) }", encoding="utf-8")
        (tmp_path / "llms.txt").write_text("- [A](a.css): A.\n- [B](b.md): B.", encoding="utf-8")
        no_page, fetches = f"{tmp_path} holds no page.", "a.css fetches https://example.com/f.woff from outside."
        gone = "llms.txt links to b.md, which is not there."
        assert load("check_site").faults(tmp_path) == [no_page, gone, fetches]
        (tmp_path / "llms.txt").write_text("", encoding="utf-8")
        assert load("check_site").faults(tmp_path) == [no_page, "llms.txt lists no page.", fetches]

    def test_programs_get_a_list_of_pages_with_the_first_sentence_of_each(self, tmp_path: Path) -> None:
        hook = load("docs_hook")
        text = "# A\n\n```sh\nls\n```\n\nSee [the `b`](b.md), and\nmore. Then others.\n\n## End\n"
        begin = SimpleNamespace(is_section=False, is_page=True, title="Begin", markdown="# N\n\nIt is: `this`:\n")
        begin.file = SimpleNamespace(src_uri="index.md")
        page = SimpleNamespace(is_page=True, title="A", markdown=text, file=SimpleNamespace(src_uri="use/a.md"))
        section = SimpleNamespace(is_section=True, title="Use", children=[page, SimpleNamespace(is_page=False)])
        hook.on_nav(SimpleNamespace(items=[begin, section]))
        hook.on_post_build({"site_name": "N", "site_description": "D", "site_dir": str(tmp_path)})
        listed = "# N\n\n> D\n\n## Begin\n\n- [Begin](index.md): It is: this.\n"
        listed += "\n## Use\n\n- [A](use/a.md): See the b, and more.\n"
        assert (tmp_path / "llms.txt").read_text(encoding="utf-8") == listed
        assert (tmp_path / "use/a.md").read_text(encoding="utf-8") == text

    @pytest.mark.parametrize(
        ("link", "on_the_site"),
        [
            ("../CONTRIBUTING.md#checks", "https://forge.example/blob/main/CONTRIBUTING.md#checks"),
            ("../docs/site.md", "../docs/site.md"),
            ("../nowhere.md", "../nowhere.md"),
            ("site.md#data", "site.md#data"),
        ],
    )
    def test_links_out_of_the_documentation_lead_to_the_forge(self, link: str, on_the_site: str) -> None:
        docs = TOOLS.parent / "docs"
        page = SimpleNamespace(file=SimpleNamespace(abs_src_path=str(docs / "page.md")))
        config = {"docs_dir": str(docs), "extra": {"repository": "https://forge.example"}}
        text = f"<!-- a -->\n<!-- b -->\n\n# Title\n[x]({link})\n"
        assert load("docs_hook").on_page_markdown(text, page, config) == f"# Title\n[x]({on_the_site})\n"

    @pytest.mark.parametrize(("scheme", "page"), [("default", "#ffffff"), ("slate", "#1e2129")])
    def test_what_the_site_colours_can_be_read(self, scheme: str, page: str) -> None:
        """WCAG 2.2, success criterion 1.4.3: 4.5 to 1, by its relative luminance."""
        css = (TOOLS.parent / "docs" / "assets" / "site.css").read_text(encoding="utf-8")
        own = css.partition(f'="{scheme}"]')[2].partition("}")[0]
        colours = dict(re.findall(r"--md-([a-z-]+): (#[0-9a-f]{6});", own))

        def luminance(colour: str) -> float:
            parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
            red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
            return 0.2126 * red + 0.7152 * green + 0.0722 * blue

        def contrast(one: str, other: str) -> float:
            low, high = sorted((luminance(one), luminance(other)))
            return (high + 0.05) / (low + 0.05)

        assert contrast("#000000", "#ffffff") == pytest.approx(21)
        assert contrast(colours["primary-fg-color"], "#ffffff") >= 4.5
        assert contrast(colours["typeset-a-color"], page) >= 4.5
        # The theme gives its plain buttons the colour of the header.
        button = css.partition(f'="{scheme}"] .md-typeset .md-button:not')[2].partition("}")[0]
        named = re.search(r"color: var\(--md-([a-z-]+)\)", button)
        assert contrast(colours[named[1] if named else "primary-fg-color"], page) >= 4.5

    def test_what_hurts_is_in_a_box_on_the_site_as_on_the_forge(self) -> None:
        page = SimpleNamespace(file=SimpleNamespace(abs_src_path=str(TOOLS.parent / "docs" / "page.md")))
        config = {"docs_dir": str(TOOLS.parent / "docs"), "extra": {"repository": "https://forge.example"}}
        text = "# Title\n\n> [!WARNING]\n> One.\n> Two.\n\nThen > [!NOTE] in a line.\n\n> A quote.\n"
        boxed = "# Title\n\n!!! warning\n    One.\n    Two.\n\nThen > [!NOTE] in a line.\n\n> A quote.\n"
        assert load("docs_hook").on_page_markdown(text, page, config) == boxed

    def test_the_support_matrix_names_the_releases_that_are_tested(self) -> None:
        text = (TOOLS.parent / "docs" / "support_matrix.md").read_text(encoding="utf-8")
        named = re.findall(r"^\| (2\.\d+) \| ([\d., ]+?) \|", text, re.MULTILINE)
        cores = load("matrix").CORES
        wanted = [(core.rpartition(".")[0], ", ".join(sorted(cores[core]))) for core in cores]
        assert named == wanted, "The table of docs/support_matrix.md is not that of tools/matrix.py."


class TestMutants:
    """Each small change is made once, and a test that notices it is told from one that does not."""

    TEXT: ClassVar = (
        'import os\n\n\ndef f(a: int = 1) -> bool:\n    """Return 1 < 2."""\n    print(\'é\', a)\n'
        "    return not a and a < 3\n"
    )

    def test_every_change_is_made_in_its_place(self) -> None:
        mutants = load("mutants")
        found = [mutant.apply(self.TEXT) for mutant in mutants.mutants_of(Path("a.py"), self.TEXT)]
        changes = [("= 1)", "= 2)"), ("print('é', a)", "pass"), ("not a and a < 3", "(not a or a < 3)")]
        changes += [("not a", "(a)"), ("a < 3", "(a <= 3)"), ("< 3", "< 4")]
        assert sorted(found) == sorted(self.TEXT.replace(before, after) for before, after in changes)

    def test_another_line_elsewhere_changes_nothing_in_what_is_chosen(self) -> None:
        mutants = load("mutants")
        path = mutants.PLACE / "core/a.py"
        lines = "".join(f"x{number} = {number}\n" for number in range(40))
        few, more = (list(mutants.mutants_of(path, text)) for text in (lines, f"y = z\n{lines}"))
        names = [[mutant.name for mutant in mutants.chosen(found, 1, 9)] for found in (few, more)]
        assert names[0] == names[1] != [mutant.name for mutant in mutants.chosen(few, 2, 9)]
        assert few[0].name == "core/a.py: x0 = 0: 0 -> 1"

    def test_what_needs_no_test_is_still_there(self) -> None:
        mutants = load("mutants")
        assert mutants.kept() <= {mutant.name for mutant in mutants.every_mutant(mutants.ROOT)}

    def test_what_was_measured_with_other_sources_is_refused(self, tmp_path: Path) -> None:
        mutants = load("mutants")
        for name, text in (("core/rules/a.py", "x = 1\n"), ("host/b.py", "y = 1\n")):
            path = tmp_path / mutants.PLACE / name
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
        before = mutants.sources(tmp_path)
        file = tmp_path / "measured"
        file.with_suffix(".json").write_text(json.dumps({"sources": before, "seconds": {}}), encoding="utf-8")
        assert mutants.sources(tmp_path) == before
        path.write_text("y = 2\n", encoding="utf-8")
        with pytest.raises(mutants.Stale, match="was measured with other sources"):
            mutants.Measured.read(file, tmp_path)

    def test_a_change_that_a_test_notices_is_told_from_one_that_none_does(self, tmp_path: Path) -> None:
        mutants = load("mutants")
        source = tmp_path / "plugins/module_utils/_internal/core/rules/small.py"
        source.parent.mkdir(parents=True)
        source.write_text("def f(a):\n    if a > 7:\n        return 1\n    return 2\n", encoding="utf-8")
        test = tmp_path / "tests/unit/plugins/test_small.py"
        test.parent.mkdir(parents=True)
        test.write_text(
            "import sys\n"
            "sys.path.insert(0, 'plugins/module_utils/_internal/core/rules')\n"
            "if False:\n"
            f"    from {mutants.PREFIX}core.rules import small\n"
            "import small\n\n\ndef test_f():\n    assert small.f(9) == 1\n",
            encoding="utf-8",
        )
        for name in mutants.MODELS:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("def test_it(): pass\n", encoding="utf-8")
        before = source.read_text(encoding="utf-8")
        tree = mutants.Tree(tmp_path, 60, mutants.Measured())
        noticed = {str(mutant): tree.is_noticed(mutant) for mutant in mutants.every_mutant(tmp_path)}
        assert {change.partition(": ")[2]: found for change, found in noticed.items()} == {
            "a > 7 -> (a >= 7)": False,
            "7 -> 8": False,
            "1 -> 2": True,
            "2 -> 3": False,
        }
        assert source.read_text(encoding="utf-8") == before
        (mutant, *_others) = mutants.every_mutant(tmp_path)
        near, *others = (f"tests/unit/plugins/test_{name}.py::test_x" for name in ("small", "slow", "fast"))
        measured = mutants.Measured({mutant.path: {2: [*others, near], 3: [""]}}, {others[0]: 9.0, near: 99.0})
        assert mutants.Tests(tmp_path, measured).steps(mutant) == [[near], others[::-1]], "Those that run the line"
        with test.open("a", encoding="utf-8") as file:
            file.write("\n\ndef test_slow():\n    import time\n    time.sleep(30)\n")
        with pytest.raises(mutants.Broken, match="without a change"):
            mutants.Tree(tmp_path, 2, mutants.Measured()).is_noticed(mutant)
        assert source.read_text(encoding="utf-8") == before


class TestStructure:
    """What is counted is what is there; a count that always gives zero would let everything pass."""

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("return 1", 0),
            ("if a:\n        return 1\n    elif b:\n        return 2", 2),
            ("for x in a:\n        if x:\n            return x", 3),
            ("return [x for x in a if x]", 1),
            ("return 1 if a else 2", 1),
            ("return a and b and c", 1),
            ("return [x if x else 1 for x in a]", 3),
        ],
    )
    def test_complexity(self, text: str, wanted: int) -> None:
        structure = load("structure")
        assert structure.complexity(ast.parse(f"def f(a, b, c):\n    {text}\n").body[0]) == wanted

    def test_every_kind_is_found(self, tmp_path: Path) -> None:
        structure = load("structure")
        folder = tmp_path / "plugins" / "module_utils" / "_internal" / "core" / "verbs"
        folder.mkdir(parents=True)
        (folder / "a.py").write_text(
            "def f(a, b, c, d, e, f, g, h) -> dict[str, Any]:\n"
            "    return [[[[[x for x in a] for y in b] for z in c] for u in d] for v in e['key']]\n"
        )
        assert {kind: len(places) for kind, places in structure.count(tmp_path).items()} == {
            "untyped mappings": 1,
            "keys in verbs and calls": 1,
            "functions of many parameters": 1,
            "complex functions": 0,
            "undocumented": 2,
        }
        (folder / "a.py").write_text(
            "def f():\n" + "".join(f"{'    ' * n}if {n}:\n" for n in range(1, 7)) + " " * 28 + "pass"
        )
        assert len(structure.count(tmp_path)["complex functions"]) == 1
