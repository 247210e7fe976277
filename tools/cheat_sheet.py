# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cheat sheet of docs/reference: for each thing that people do the line of ccs, and that of its playbook.

The rows name a line of ccs; its playbook and variables are those with which ccs itself starts ansible-playbook.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import yaml
from ansible_collections.cluster_compute.session.playbooks import ccs
from ansible_collections.cluster_compute.session.tools.markdown_text import table
from ansible_collections.cluster_compute.session.tools.verb_facts import Verb

COLLECTION = "cluster_compute.session"
PROGRAM = "ansible-playbook"


@dataclass(frozen=True)
class Row:
    """A thing that people do. page: where it is described, from docs. line: of ccs, or of a playbook without ccs."""

    what: str
    page: str
    line: str


FILES = {
    "train.yml": {"image": "train:1.4", "size": 4},
    "batch.yml": {"image": "train:1.4", "size": 4, "command": "python3 train.py"},
}
"""The session files that the lines name."""
SECTIONS: Mapping[str, Sequence[Row]] = {
    "Sessions": (
        Row("Launch a session", "request.md", "ccs up train.yml"),
        Row("Show what a launch would do", "status.md#before-a-launch", "ccs plan train.yml"),
        Row("Launch, and wait for capacity", "queue.md", "ccs up train.yml -e session_on_no_capacity=wait"),
        Row("Grow or shrink a running session", "resize.md", "ccs up train.yml -e session_size=6"),
        Row("Launch, run a command, and end with it", "ccs.md#commands", "ccs run batch.yml"),
        Row("Launch, run a command, and do not wait", "ccs.md#commands", "ccs run batch.yml --detach"),
        Row("List sessions, hosts and the queue", "status.md", "ccs ps"),
        Row(
            "Write a page, and the data as JSON",
            "status.md#the-page",
            "ccs ps -e status_page=a.html -e status_json=a.json",
        ),
        Row(
            "Get sessions and hosts as data",
            "inside.md#sessions-as-data",
            "session_info -e cluster_compute_info_file=info.json",
        ),
        Row("Remove a session", "recovery.md#what-to-run", "ccs down train"),
    ),
    "Inside a session": (
        Row("Log in to a replica", "login.md", "ccs ssh train sub1"),
        Row("Show the newest output", "logs.md", "ccs logs -n 50 train"),
        Row("Follow the output", "logs.md", "ccs logs -f train"),
        Row("Run a program in replicas", "jobs.md", "ccs exec --on all train -- nvidia-smi"),
        Row(
            "Start a program, and do not wait",
            "jobs.md#detach-and-come-back",
            "ccs exec --detach train -- python3 eval.py",
        ),
        Row(
            "Come back to a program",
            "jobs.md#detach-and-come-back",
            "run_job -e session_name=train -e job_id=8c1d5a3e7f90",
        ),
        Row("Open an app", "apps.md", "ccs app train jupyter"),
        Row("Close an app", "apps.md", "close_app -e session_name=train -e app=jupyter"),
    ),
    "Hosts": (
        Row("Install or update what hosts need", "site.md#controller-and-hosts", "ccs prepare"),
        Row("Check whether hosts can run sessions", "preflight.md", "ccs preflight"),
        Row("Find the slow host", "preflight.md#find-the-slow-host", "check_pairs -e session_image=train:1.4"),
        Row("Drain a host", "site.md#draining-hosts", "ccs drain h3 'new memory'"),
        Row("Drain a host, and move its sessions", "site.md#draining-hosts", "ccs drain h3 repair -e drain_move=true"),
        Row("Undrain a host", "site.md#draining-hosts", "ccs undrain h3"),
        Row("Remove what hosts were prepared with", "operate.md#take-a-host-out-and-put-it-back", "unprepare_hosts"),
    ),
    "Schedules and faults": (
        Row("Start waiting sessions", "queue.md", "schedule_pending"),
        Row("Show the queue", "queue.md", "schedule_pending --check"),
        Row("Fail if anything differs from the records", "recovery.md#what-to-run", "audit --check"),
        Row("Restore what is missing", "recovery.md#what-to-run", "repair"),
        Row("Move replicas of lost hosts", "recovery.md#lost-hosts", "replace_lost"),
        Row("Remove what no record explains", "recovery.md#what-to-run", "gc"),
        Row("Write a project for AWX", "awx.md", "write_awx_project -e awx_project_directory=awx"),
        Row("Set up AWX", "awx.md", "configure_awx -e awx_execution_environment_image=registry.example.com/ee:1"),
    ),
}
OF_SHELLS = {"names", "completion"}
"""Commands of ccs that people do not type."""
NOT_STARTED_BY_PEOPLE = {"job_result"}
"""Playbooks that are nodes of workflows."""
TEXT_LISTS = {"drain_hosts", "logs_replicas"}
"""Variables whose lists may be given as text with commas."""
INSTEAD = {"job_command": "job_id"}
"""Required variable: another one that can take its place."""
PLAIN = re.compile(r"[\w./:@%+,-]+")
"""Values that neither a shell nor Ansible changes."""


@dataclass(frozen=True)
class Started:
    """A run that ccs starts. then: what it starts after the playbook, if anything."""

    playbook: str
    variables: Mapping[str, Any]
    options: Sequence[str]
    then: Sequence[str] = ()


def page(verbs: Mapping[str, Verb]) -> str:
    """Return the page. verbs: the playbooks that are not of the lab. Raises ValueError if a row is wrong or missing."""
    check_complete(verbs)
    lines = ["# Cheat sheet", "", *_introduction()]
    for title, rows in SECTIONS.items():
        lines += [f"## {title}", ""]
        lines += table(["to", "`ccs`", "`ansible-playbook`"], [_cells(row, verbs) for row in rows])
    return "\n".join(lines)


def purposes() -> dict[str, str]:
    """Return what the playbooks are for in a few words: of their first rows."""
    found: dict[str, str] = {}
    for row in _rows():
        found.setdefault(started(row.line).playbook, row.what)
    return found


def check_complete(verbs: Mapping[str, Verb]) -> None:
    """Raise ValueError for a playbook or a command of ccs without a row."""
    parser: Any = ccs.parser()
    known = {f"ccs {name}" for name in next(iter(parser._subparsers._group_actions)).choices if name not in OF_SHELLS}
    rows = _rows()
    shown = {" ".join(row.line.split()[:2]) for row in rows if row.line.startswith("ccs ")}
    playbooks = {started(row.line).playbook for row in rows} | NOT_STARTED_BY_PEOPLE
    missing = sorted(known - shown) + sorted({*verbs} - playbooks)
    if missing:
        raise ValueError(f"The cheat sheet lacks {', '.join(missing)}. Add a row to SECTIONS in {Path(__file__).name}.")


def started(line: str) -> Started:
    """Return the run that a line of ccs, or of a playbook, starts."""
    first, *words = shlex.split(line)
    if first == "ccs":
        return _started_by_ccs(words)
    variables, options = separate(words)
    return Started(first, variables, options)


def playbook_line(run: Started, verb: Verb) -> str:
    """Return the command line of a run; variables that have their defaults are left out.

    Raises ValueError if the playbook does not read a variable, or requires another one.
    """
    given = {name: value for name, value in run.variables.items() if value != "" and not _is_default(name, value, verb)}
    faults = [f"does not read {name}" for name in sorted({*given} - verb.reads)]
    faults += [f"requires {name}" for name in verb.required if not {name, INSTEAD.get(name)} & {*given}]
    if faults:
        raise ValueError(f"The playbook {run.playbook} {', '.join(faults)}. Correct the row in {Path(__file__).name}.")
    names = sorted(given, key=lambda name: name != "session_name")
    texts = {name: as_text(name, given[name]) for name in names}
    words = [f"-e {name}={text}" for name, text in texts.items() if text is not None]
    others = {name: given[name] for name, text in texts.items() if text is None}
    words += [f"-e {shlex.quote(json.dumps(others))}"] if others else []
    return " ".join([f"{PROGRAM} {COLLECTION}.{run.playbook}", *words, *run.options])


def as_text(name: str, value: object) -> str | None:
    """Return a value as `-e NAME=VALUE` takes it, None if it has to be given as JSON."""
    if isinstance(value, list):
        value = ",".join(map(str, value)) if name in TEXT_LISTS else None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if value is not None and PLAIN.fullmatch(text) else None


def _introduction() -> list[str]:
    lines = [
        "Each task as a line of `ccs`, where it has one, and as a line of `ansible-playbook`, which `ccs -v` shows "
        "with its variables in a file.",
        "",
        "Add `-i INVENTORY` to each line unless [`ansible.cfg` or the settings of `ccs`](../ccs.md) name one, and "
        "`--check` to change nothing. Another resource group is `-g GROUP`, or `-e session_resource_group=GROUP`. "
        "`ccs` also gives a launch your public keys (`session_authorized_keys`).",
        "",
    ]
    for name, session in FILES.items():
        lines += ["```yaml", f"# {name}", *yaml.safe_dump(session, sort_keys=False).splitlines(), "```", ""]
    return lines


def _rows() -> list[Row]:
    return [row for rows in SECTIONS.values() for row in rows]


def _cells(row: Row, verbs: Mapping[str, Verb]) -> list[str]:
    run = started(row.line)
    if run.playbook not in verbs:
        raise ValueError(f"There is no playbook {run.playbook}. Correct the row in {Path(__file__).name}.")
    then = f", then `{' '.join(run.then)}`" if run.then else ""
    short = f"`{row.line}`" if row.line.startswith("ccs ") else ""
    return [f"[{row.what}](../{row.page})", short, f"`{playbook_line(run, verbs[run.playbook])}`{then}"]


def _is_default(name: str, value: object, verb: Verb) -> bool:
    return name in verb.defaults and f"`{as_text(name, value)}`" == verb.defaults[name]


def separate(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the variables that words of ansible-playbook set, of two values the later one, and the other words."""
    variables: dict[str, Any] = {}
    others, rest = [], iter(words)
    for word in rest:
        if word != "-e":
            others.append(word)
            continue
        given = next(rest)
        if given.startswith("{"):
            variables |= json.loads(given)
        elif given.startswith("@"):
            variables |= yaml.load(Path(given[1:]).read_text(encoding="utf-8"), Loader=ccs.Loader)  # noqa: S506
        else:
            name, _equals, value = given.partition("=")
            variables[name] = value
    return variables, others


def _started_by_ccs(words: Sequence[str]) -> Started:
    """Return the run that a command of ccs starts; nothing is carried out."""
    recorder = _Recorder()
    with tempfile.TemporaryDirectory() as folder, recorder.in_place():
        for name, session in FILES.items():
            (Path(folder) / name).write_text(yaml.safe_dump(session, sort_keys=False), encoding="utf-8")
        ccs.main([str(Path(folder) / word) if word in FILES else word for word in words])
    if len(recorder.runs) != 1:
        raise ValueError(f"'ccs {shlex.join(words)}' starts {len(recorder.runs)} playbooks, not one. Correct the row.")
    return replace(recorder.runs[0], then=recorder.others)


@dataclass
class _Recorder:
    """Notes what ccs starts, and starts nothing. others: words of a program that is not ansible-playbook."""

    runs: list[Started] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def start(self, argv: Sequence[str], **_named: object) -> SimpleNamespace:
        """Note a command while the file of its variables exists."""
        if argv[0] == PROGRAM:
            variables, (playbook, *options) = separate(argv[1:])
            self.runs.append(Started(Path(playbook).stem, variables, options))
        else:
            self.others = [word.replace(str(Path.home()), "~", 1) for word in argv]
        return SimpleNamespace(returncode=0)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Stand in for what ccs starts and prints, and for what belongs to this machine and its user."""
        with (
            patch.object(ccs, "subprocess", SimpleNamespace(Popen=self.start, run=self.start, PIPE=None, STDOUT=None)),
            patch.object(ccs, "ansible_playbook", lambda: PROGRAM),
            patch.object(ccs, "inventory", lambda _given: []),
            patch.object(ccs, "own_keys", list),
            redirect_stdout(io.StringIO()),
        ):
            yield
