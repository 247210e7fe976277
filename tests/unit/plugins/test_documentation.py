# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `ansible-doc` shows: every plugin and role there is, what each option means, and examples that Ansible takes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

ROOT = Path(__file__).resolve().parents[3]
PREFIX = "cluster_compute.session."
KINDS = {
    "callback": "plugins/callback/*.py",
    "connection": "plugins/connection/*.py",
    "filter": "plugins/filter/*.py",
    "inventory": "plugins/inventory/*.py",
    "module": "plugins/modules/*.py",
    "role": "roles/*/meta/argument_specs.yml",
}
RUNS = ("awx_rrule", "awx_survey", "resource_groups")
"""Filters whose examples need nothing that a session has, and so run."""
SPECIFICATION = ("type", "elements", "required", "choices", "default", "options", "aliases")


def run(*argv: str) -> str:
    """Run a program of Ansible in the checkout and return what it says; it has to succeed."""
    env = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    env["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"  # for the recap
    program = str(Path(sys.executable).with_name(argv[0]))
    done = subprocess.run([program, *argv[1:]], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def known() -> dict[str, dict[str, Any]]:
    """Return what ansible-doc knows of the collection, by kind and name."""
    everything = json.loads(run("ansible-doc", "--json", "--metadata-dump", PREFIX.rstrip(".")))["all"]
    return {
        kind: {name[len(PREFIX) :]: facts for name, facts in everything[kind].items() if name.startswith(PREFIX)}
        for kind in KINDS
    }


@pytest.mark.parametrize("kind", KINDS)
def test_all_there_is_is_documented(kind: str, known: dict[str, dict[str, Any]]) -> None:
    paths = [path for path in ROOT.glob(KINDS[kind]) if path.stem != "__init__"]
    names = {path.parents[1].name if kind == "role" else path.stem for path in paths}
    assert names
    assert set(known[kind]) == names
    for name, facts in known[kind].items():
        if kind == "role":
            parts = list(facts["entry_points"].values())
        else:
            parts = [facts["doc"]]
            assert PREFIX in facts["examples"] or kind == "connection", f"{name} has no example with its full name"
        for part in parts:
            assert part["short_description"]
            assert part["description"], f"{name} is not described"
            assert all(option["description"] for option in part.get("options", {}).values())


def tasks_of(kind: str, known: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tasks of all examples of a kind, each with the name of what it is an example of."""
    for name, facts in known[kind].items():
        yield from ((name, task) for task in yaml.safe_load(facts["examples"]))


def specification(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a documentation as modules take them."""
    return {
        name: {
            key: specification(value) if key in ("options", "suboptions") else value
            for key, value in {**option, "options": option.get("suboptions") or {}}.items()
            if key in SPECIFICATION and value not in ({}, None)
        }
        for name, option in options.items()
    }


def literal(value: Any) -> bool:
    """Tell whether a value stands for itself, and is not a template."""
    return "{{" not in json.dumps(value)


def test_the_examples_of_modules_give_options_that_there_are(known: dict[str, dict[str, Any]]) -> None:
    seen = set()
    for name, task in tasks_of("module", known):
        if f"{PREFIX}{name}" not in task:
            continue
        seen.add(name)
        given = task[f"{PREFIX}{name}"] or {}
        options = specification(known["module"][name]["doc"]["options"])
        for option, value in given.items():
            if option in options and not literal(value):
                options[option] = {"type": "raw"}
        problems = ArgumentSpecValidator(options).validate(given).error_messages
        assert problems == [], f"example of {name}"
    assert seen == set(known["module"])


def test_the_examples_are_plays_and_tasks(known: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    tasks = [task for kind in ("module", "filter") for _name, task in tasks_of(kind, known)]
    assert len(tasks) > len(known["module"]) + len(known["filter"]) - 1
    plays = [play for _name, play in tasks_of("connection", known)]
    playbook = tmp_path / "examples.yml"
    playbook.write_text(json.dumps([{"hosts": "localhost", "tasks": tasks}, *plays]), encoding="utf-8")
    run("ansible-playbook", "-i", "localhost,", "--syntax-check", str(playbook))


def test_examples_of_filters_run(known: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    tasks = [task for name, task in tasks_of("filter", known) if name in RUNS]
    assert len(tasks) == len(RUNS)
    playbook = tmp_path / "filters.yml"
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    playbook.write_text(json.dumps([play]), encoding="utf-8")
    said = run("ansible-playbook", "-i", "inventories/example", str(playbook))
    assert re.search(rf"ok={len(RUNS)}\b.*failed=0", said)


def test_the_examples_of_the_inventory_have_options_that_there_are(known: dict[str, dict[str, Any]]) -> None:
    facts = known["inventory"]["sessions"]
    examples = list(yaml.safe_load_all(facts["examples"]))
    assert examples
    for example in examples:
        assert set(example) <= {*facts["doc"]["options"]}
        assert example["plugin"] == f"{PREFIX}sessions"


@pytest.mark.parametrize("name", ["give_back", "progress"])
def test_the_example_of_a_callback_enables_it(name: str, known: dict[str, dict[str, Any]]) -> None:
    assert f"callbacks_enabled = {PREFIX}{name}" in known["callback"][name]["examples"]
