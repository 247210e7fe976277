# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the collection with every supported ansible-core and every Python of a managed host that is present here.

For each ansible-core: unit tests, every sanity test, a syntax check of every playbook, and the documentation of every
plugin and role; with --lab also the contract tests and sessions on a lab. For each Python: does the code that runs on
managed hosts compile. What cannot run is named, with the reason. Releases of ansible-core as arguments (2.16 2.18)
stand for all. What was run is noted in tests/matrix.json, of which `make reference` makes a table of
docs/support_matrix.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "matrix"
NAMESPACE = "cluster_compute.session"

# ansible-core release: Pythons of its controller, from ansible-core's own support matrix; the first present is used.
CORES = {
    "2.16.19": ("3.11", "3.12", "3.10"),
    "2.17.14": ("3.12", "3.11", "3.10"),
    "2.18.19": ("3.11", "3.12", "3.13"),
    "2.19.14": ("3.11", "3.12", "3.13"),
    "2.20.10": ("3.12", "3.13", "3.14"),
    "2.21.5": ("3.12", "3.13", "3.14"),
}
# Pythons of a managed host: tests/config.yml says from which on.
HOST_PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
HOST_CODE = ("plugins/module_utils", "plugins/modules")
# Launch, status, login, another size, the queue, jobs and teardown, as the documents have them.
SESSIONS = ("tests/integration_lab/test_docs.py", "-k", "commands_of_a_document and (first_session or jobs)")
RESULTS = Path("tests/matrix.json")
BY_PAGE = "noted"
"""A note on what was tested before results were written."""
WITH_LAB = ("contract tests", "sessions on a lab")
# Left to ansible-core itself: its releases want different ones.
NOT_PINNED = ("ansible-core", "resolvelib")


@dataclass
class Outcome:
    """What became of one row of the matrix: the checks that failed, or why nothing ran.

    python: the version that ran it. counts: by check how many tests passed, or files and plugins.
    """

    name: str
    failed: list[str] = field(default_factory=list)
    skipped: str = ""
    python: str = ""
    counts: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.skipped:
            return f"NOT RUN  {self.name}: {self.skipped}"
        if self.failed:
            return f"FAILED   {self.name}: {', '.join(self.failed)}"
        return f"passed   {self.name}"


def interpreter(version: str) -> str | None:
    """Return the path of a Python of *version* (such as 3.12) that really starts; a version manager's shim may not."""
    name = f"python{version}"
    folders = [folder for folder in os.get_exec_path() if Path(folder) != ROOT / ".venv" / "bin"]
    candidates = [Path(folder) / name for folder in folders]
    candidates += sorted((Path.home() / ".pyenv" / "versions").glob(f"*/bin/{name}"))
    for path in candidates:
        if not os.access(path, os.X_OK):
            continue
        if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(path)
    return None


def version_of(path: str) -> str:
    """Return the whole version of an interpreter."""
    program = "import platform; print(platform.python_version())"
    done = subprocess.run([path, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def tests_passed(text: str) -> int:
    """Return how many tests have passed by the output of a check; pytest and ansible-test say it differently."""
    if found := re.findall(r"\b(\d+) passed\b", text):
        return int(found[-1])
    return len({*re.findall(r"^Running sanity test '?([^'\s]+)", text, re.MULTILINE)})


def noted(root: Path) -> dict[str, Any]:
    """Return what runs of the matrix have noted in the tree at *root*."""
    known: dict[str, Any] = json.loads((root / RESULTS).read_text(encoding="utf-8"))
    return known


def note(root: Path, row: str, outcome: Outcome, today: str) -> None:
    """Note a row that has run: an ansible-core, or a Python of hosts. The lab's part stays if it did not run."""
    if outcome.skipped:
        return
    known = noted(root)
    kind = "ansible_core" if row in CORES else "host_python"
    parts: dict[str, dict[str, int]] = {"checks": {}, "lab": {}}
    for name, number in outcome.counts.items():
        parts["lab" if name in WITH_LAB else "checks"][name] = number
    entry = {"checks": {}, "lab": {}, **known[kind].get(row, {})}
    failed_with_lab = [name for name in outcome.failed if name.startswith(WITH_LAB)]
    failed = {"lab": failed_with_lab, "checks": [name for name in outcome.failed if name not in failed_with_lab]}
    for part, counts in parts.items():
        if counts or failed[part]:
            # Names of logs are of no use elsewhere.
            reasons = [name.partition(" (see ")[0] for name in failed[part]]
            ran = {"date": today, "release": f"{row} with " if row in CORES else "", "python": outcome.python}
            entry[part] = {**ran, "passed": counts, "failed": reasons}
    known[kind][row] = entry
    text = json.dumps(known, indent=2, sort_keys=True)
    (root / RESULTS).write_text(f"{text}\n", encoding="utf-8")


def shown(part: Mapping[str, Any]) -> str:
    """Return one part of a row in words."""
    if not part:
        return "not run"
    if part.get("note"):
        return f"passed, {part['note']} {part['date']}"
    counts = ", ".join(f"{number:,} {name}" for name, number in sorted(part["passed"].items()) if number)
    failed = f"failed: {', '.join(part['failed'])}; " if part["failed"] else ""
    return f"{failed}{counts or 'nothing passed'} ({part['date']}, {part['release']}Python {part['python']})"


def rows(known: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of the page's table: release, Pythons, all checks but those of a lab, and those."""
    made = []
    for core, pythons in CORES.items():
        entry = known["ansible_core"].get(core, {})
        ordered = ", ".join(sorted(pythons, key=lambda version: int(version.partition(".")[2])))
        made.append([core.rpartition(".")[0], ordered, shown(entry.get("checks", {})), shown(entry.get("lab", {}))])

    def of_hosts(version: str) -> str:
        """Return what became of a Python; which patch release it was, only the results tell."""
        told = shown(known["host_python"].get(version, {}).get("checks", {}))
        return re.sub(r", Python [\w.]+\)", ")", told)

    for told, versions in groupby(HOST_PYTHONS, of_hosts):
        made.append(["only the code of hosts", ", ".join(versions), told, ""])
    return made


def pins() -> Iterator[str]:
    """Yield the pinned requirements that hold for every ansible-core."""
    for name in ("controller.txt", "develop.txt"):
        for line in (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines():
            if "==" in line and line.split("==")[0] not in NOT_PINNED:
                yield line


def run(log: Path, *command: str, env: dict[str, str] | None = None) -> bool:
    """Run *command* in the checkout, its output appended to *log*; return whether it succeeded."""
    with log.open("a", encoding="utf-8") as output:
        output.write(f"$ {' '.join(command)}\n")
        output.flush()
        done = subprocess.run(command, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT, check=False)
    return done.returncode == 0


def plugins() -> Iterator[tuple[str, str]]:
    """Yield type and full name of everything that ansible-doc can show."""
    for kind in ("callback", "connection", "filter", "inventory", "module"):
        for path in sorted((ROOT / "plugins" / ("modules" if kind == "module" else kind)).glob("*.py")):
            if path.stem != "__init__":
                yield kind, f"{NAMESPACE}.{path.stem}"
    for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        yield "role", f"{NAMESPACE}.{path.parent.parent.name}"


def check_core(core: str, with_lab: bool = False) -> Outcome:
    """Run every check with ansible-core *core* in a virtual environment of its own."""
    found = next((path for path in map(interpreter, CORES[core]) if path), None)
    if found is None:
        outcome = Outcome(f"ansible-core {core}")
        outcome.skipped = f"needs one of Python {', '.join(CORES[core])}; none of them runs here"
        return outcome
    outcome = Outcome(f"ansible-core {core} with {found}")
    venv = CACHE / f"ansible-core-{core}"
    log = CACHE / f"ansible-core-{core}.log"
    log.unlink(missing_ok=True)
    constraints = CACHE / "constraints.txt"
    constraints.write_text("\n".join(pins()) + "\n", encoding="utf-8")
    python = str(venv / "bin" / "python")
    outcome.python = version_of(found)
    wanted = [f"ansible-core=={core}", "pytest", "-r", "tests/unit/requirements.txt", "-c", str(constraints)]
    pip = ("-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet")
    if not (run(log, found, "-m", "venv", "--clear", str(venv)) and run(log, python, *pip, *wanted)):
        outcome.failed.append(f"installation (see {log.relative_to(ROOT)})")
        return outcome
    env = {**os.environ, "PATH": f"{venv / 'bin'}:{os.environ['PATH']}", "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}

    def check(name: str, *command: str, kind: str = "") -> None:
        begin = log.stat().st_size
        passed = run(log, *command, env=env)
        outcome.counts.setdefault(kind or name, 0)
        if passed:
            outcome.counts[kind or name] += 1 if kind else tests_passed(log.read_bytes()[begin:].decode())
        else:
            outcome.failed.append(name)

    check("unit tests", python, "-m", "pytest", "tests/unit")
    check("sanity tests", "tools/sanity.sh")
    if with_lab:
        check("contract tests", python, "-m", "pytest", "tests/contract")
        check("sessions on a lab", python, "-m", "pytest", *SESSIONS)
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        name = str(path.relative_to(ROOT))
        # Playbooks that act on one host have to be told which.
        command = ("-i", "localhost,", "-e", "lab_host=localhost", "--syntax-check", name)
        check(name, str(venv / "bin" / "ansible-playbook"), *command, kind="playbooks")
    for kind, name in plugins():
        show = (str(venv / "bin" / "ansible-doc"), "-t", kind, name)
        check(f"documentation of the {kind} {name}", *show, kind="pages of documentation")
    if outcome.failed:
        outcome.failed[-1] += f" (see {log.relative_to(ROOT)})"
    return outcome


def check_host_python(version: str) -> Outcome:
    """Compile the code that runs on managed hosts with Python *version*."""
    found = interpreter(version)
    if found is None:
        return Outcome(f"code of managed hosts on Python {version}", skipped=f"no python{version} runs here")
    outcome = Outcome(f"code of managed hosts on {found}", python=version_of(found))
    program = "import sys; [compile(open(name).read(), name, 'exec') for name in sys.argv[1:]]"
    files = sorted(str(path) for folder in HOST_CODE for path in (ROOT / folder).rglob("*.py"))
    outcome.counts["files"] = len(files)
    log = CACHE / f"python{version}.log"
    log.unlink(missing_ok=True)
    if not run(log, found, "-c", program, *files):
        outcome.failed.append(f"does not compile (see {log.relative_to(ROOT)})")
    return outcome


def main() -> int:
    """Run the whole matrix and print one line for each row; return 1 if a row failed or no ansible-core could run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--lab", action="store_true", help="with each of them, a host's side and sessions on a lab as well"
    )
    parser.add_argument("--hosts", action="store_true", help="only the code of managed hosts")
    parser.add_argument("core", nargs="*", help="how the release begins; all of them unless given")
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    outcomes = []
    cores = [core for core in CORES if not options.core or core.startswith(tuple(options.core))]
    for core in () if options.hosts else cores:
        outcomes.append(check_core(core, options.lab))
        note(ROOT, core, outcomes[-1], today)
        print(outcomes[-1], flush=True)
    cores_run = [outcome for outcome in outcomes if not outcome.skipped]
    for version in HOST_PYTHONS:
        outcomes.append(check_host_python(version))
        note(ROOT, version, outcomes[-1], today)
        print(outcomes[-1], flush=True)
    return int(not (cores_run or options.hosts) or any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
