# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/troubleshooting.md: each message in it is one of the sources, and each refusal of the roles is in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
PAGE = (CHECKOUT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
LAB = "roles/lab"
VERBS = "plugins/module_utils/_internal/core/verbs"
FAILS = ("fail", "refuse", "not_changed")
VARIES = "…"


class Loader(yaml.SafeLoader):
    """Takes text that Ansible does not template for what it is."""


def untemplated(loader: Loader, node: yaml.ScalarNode) -> Any:
    return loader.construct_scalar(node)


Loader.add_constructor("!unsafe", untemplated)


def one_line(text: str) -> str:
    return " ".join(text.split())


def quoted() -> list[str]:
    """Return the messages of the page, those that Ansible says itself left out."""
    return re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)


def texts_of_python(path: Path) -> Iterator[str]:
    """Give the texts of a source file, with a mark in place of each value."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        yield from texts_of_expression(node)


def texts_of_expression(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else VARIES for part in node.values)
        yield "".join(str(part) for part in parts)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def texts_of_tasks(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from texts_of_tasks(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of_tasks(item)
    elif isinstance(value, str):
        yield re.sub(r"\{\{.*?\}\}", VARIES, value, flags=re.DOTALL)


def task_files() -> list[Path]:
    found = [*CHECKOUT.glob("roles/*/tasks/*.yml"), *CHECKOUT.glob("playbooks/*.yml")]
    return sorted(path for path in found if LAB not in str(path) and not path.name.startswith(("lab_", "demo_")))


def sources() -> list[str]:
    found = [text for path in (CHECKOUT / "plugins").rglob("*.py") for text in texts_of_python(path)]
    found += [text for path in task_files() for text in texts_of_tasks(load(path))]
    return [one_line(text) for text in found]


def load(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader)  # noqa: S506 - a safe one


def pattern(message: str) -> re.Pattern[str]:
    """Return what finds a message of the page in a source: what varies may be a value, or a word chosen in between."""
    return re.compile(".*".join(re.escape(part) for part in one_line(message).split(VARIES)))


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return sources()


@pytest.mark.parametrize("message", quoted())
def test_a_quoted_message_is_one_of_the_sources(message: str, texts: list[str]) -> None:
    found = pattern(message)
    assert any(found.search(text) for text in texts), f"nothing says '{message}'; correct docs/troubleshooting.md"


def refusals() -> Iterator[tuple[str, str]]:
    """Give place and text of every message with which a role, a playbook or a verb fails."""
    for path in task_files():
        for task in tasks(load(path)):
            failing = task.get("ansible.builtin.fail") or task.get("ansible.builtin.assert")
            # An assertion without a message lets a filter say what is wrong.
            if failing is not None and (message := failing.get("msg") or failing.get("fail_msg")):
                text = " ".join([*texts_of_tasks(message), *texts_of_tasks(task.get("vars", {}))])
                if text.replace(VARIES, "").strip():  # else all of it comes from a module, with its words
                    yield f"{path.relative_to(CHECKOUT)}: {task['name']}", one_line(text)

    for path in sorted((CHECKOUT / VERBS).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in FAILS:
                text = " ".join(text for part in node.args for text in texts_of_expression(part))
                if text.replace(VARIES, "").strip():
                    yield f"{path.name}: {node.lineno}", one_line(text)


def tasks(value: Any) -> Iterator[dict[str, Any]]:
    """Give every task of a file, those in blocks and plays included."""
    for item in value if isinstance(value, list) else ():
        yield item
        for key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks"):
            yield from tasks(item.get(key))


@pytest.mark.parametrize(("place", "text"), list(refusals()))
def test_a_refusal_of_a_role_is_on_the_page(place: str, text: str) -> None:
    known = any(pattern(message).search(text) for message in quoted())
    assert known, f"{place} fails with '{text}': add a row for it to docs/troubleshooting.md"


@pytest.mark.parametrize(("place", "text"), list(refusals()))
def test_a_refusal_of_a_role_is_in_full_sentences_and_says_what_next(place: str, text: str) -> None:
    assert re.search(r"[.:]( |$)", text), f"{place}: '{text}' is no sentence"
    assert len(text.replace(VARIES, "").split()) >= 8, f"{place}: '{text}' does not say what to do next"


def test_there_are_refusals_and_messages() -> None:
    assert len(list(refusals())) > 10
    assert len(quoted()) > 60
    assert len(set(quoted())) == len(quoted())
