# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The roles of verbs are loops: what is decided is in the core, and what people read is short."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.plugin_utils.verbs import VERBS

CHECKOUT = Path(__file__).resolve().parents[3]
PLAYBOOKS = {
    "launch": "launch_cluster",
    "teardown": "teardown_cluster",
    "repair": "repair",
    "schedule": "schedule_pending",
}
LONGEST = {"launch": 8, "teardown": 4, "repair": 10, "schedule": 10}
"""Banners of tasks that a run shows at most, those that pass included, where nothing rare is to be done."""
SET = {
    "launch": ["launch_image_secret"],
    "preflight": ["preflight_token"],
    "repair": ["repair_report"],
    "schedule": ["schedule_outcomes", "schedule_queue"],
}
"""The only variables that tasks set: results that others read, and secrets, which no state may hold."""

WISHES = (
    "preflight_json | length > 0",
    "inventory_hostname not in launch_request.known_unreachable | default([])",
    "inventory_hostname not in schedule_away",
)
"""Conditions of tasks that only ask what the user wants, or what an earlier look of the same run has found."""


TASK_FILES = sorted((CHECKOUT / "roles").glob("*/tasks/*.yml"))


def names_written(text: str) -> set[str]:
    """Return the names of what the tasks of a file register or set as facts."""
    return set(re.findall(r"register: (\w+)", text)) | set(re.findall(r"^ {6,10}(\w+): ", text, re.MULTILINE))


def tasks_of(role: str, name: str) -> list[dict[str, Any]]:
    text = (CHECKOUT / "roles" / role / "tasks" / f"{name}.yml").read_text(encoding="utf-8")
    return list(yaml.safe_load(text))


def banners(role: str, name: str) -> int:
    """Return how many tasks a file of a role shows; what it imports is shown in its place."""
    imported = [task.get("ansible.builtin.import_tasks") for task in tasks_of(role, name)]
    return sum(1 if file is None else banners(role, file.removesuffix(".yml")) for file in imported)


@pytest.mark.parametrize("verb", LONGEST)
def test_a_plain_run_shows_few_tasks(verb: str) -> None:
    playbook = yaml.safe_load((CHECKOUT / "playbooks" / f"{PLAYBOOKS[verb]}.yml").read_text(encoding="utf-8"))
    shown = 0
    for play in playbook:
        for task in () if "launch_losses" in play["hosts"] else play["tasks"]:  # as rare: it has no hosts else
            role = task.get("ansible.builtin.import_role")
            if role is None:
                shown += 1
            elif role.get("tasks_from") != "finish":  # that play has no hosts where nothing rare is to be done
                validates = "tasks_from" not in role and role.get("rolespec_validate", True)
                shown += banners(verb, role.get("tasks_from", "main")) + validates
    assert shown <= LONGEST[verb]


@pytest.mark.parametrize("path", sorted((CHECKOUT / "playbooks").glob("*.yml")), ids=lambda path: path.stem)
def test_a_play_reads_of_the_controller_only_what_another_has_written(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    written = {name for task in TASK_FILES for name in names_written(task.read_text(encoding="utf-8"))}
    read = set(re.findall(r"hostvars\['localhost'\]\['(\w+)'\]", text)) | set(
        re.findall(r"hostvars\['localhost'\]\.(\w+)", text)
    )
    assert read - names_written(text) - (written if "import_role" in text else set()) - {"ansible_facts"} == set()


@pytest.mark.parametrize("verb", VERBS)
def test_no_task_decides(verb: str) -> None:
    for path in sorted((CHECKOUT / "roles" / verb / "tasks").glob("*.yml")):
        for task in yaml.safe_load(path.read_text(encoding="utf-8")):
            condition = str(task.get("when", ""))
            assert condition in ("", *WISHES) or f"{verb}_state." in condition, task["name"]
            if "ansible.builtin.set_fact" in task:
                assert list(task["ansible.builtin.set_fact"]) == SET.get(verb)


def plain_default(value: Any) -> Any:
    """Return a default; of one that a variable of the site may replace, the value behind it."""
    if isinstance(value, str) and value.startswith("{{ "):
        return yaml.safe_load(re.sub(r".*default\(([^,)]*).*", r"\1", value))
    return value


def test_a_default_that_is_documented_is_the_one_that_holds() -> None:
    compared = 0
    for path in sorted((CHECKOUT / "roles").glob("*/meta/argument_specs.yml")):
        defaults = path.parent.parent / "defaults" / "main.yml"
        holds = yaml.safe_load(defaults.read_text(encoding="utf-8")) if defaults.exists() else {}
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            for name, option in (entry.get("options") or {}).items():
                if name in holds and "default" in option:
                    role = path.parent.parent.name
                    assert plain_default(holds[name]) == plain_default(option["default"]), f"{role}: {name}"
                    compared += 1
    assert compared > 50
