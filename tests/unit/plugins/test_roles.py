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
WISHES = (
    "preflight_json | length > 0",
    "inventory_hostname not in launch_request.known_unreachable | default([])",
    "inventory_hostname not in schedule_unreachable",
)
"""Conditions of tasks that only ask what the user wants, or what an earlier look of the same run has found."""


TASK_FILES = sorted((CHECKOUT / "roles").glob("*/tasks/*.yml"))


def names_written(text: str) -> set[str]:
    """Return the names of what the tasks of a file register or set as facts."""
    return set(re.findall(r"register: (\w+)", text)) | set(re.findall(r"^ {6,10}(\w+): ", text, re.MULTILINE))


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
