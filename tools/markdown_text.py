# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables, and Ansible's markup, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable


def marked(text: str) -> str:
    """Return Ansible's markup as Markdown."""
    # An option of a role can have the name of its entry point in front.
    text = re.sub(r"\bO\([a-z_]+:", "O(", text)
    text = re.sub(r"\b[LR]\(([^,()]+), *([^()]+)\)", r"[\1](\2)", text)
    text = re.sub(r"\bM\((?:[a-z_]+\.[a-z_]+\.)?([^()]+)\)", r"`\1`", text)
    return re.sub(r"\b(?:C|O|V|E|P|RV|I|B|U)\(([^()]*(?:\([^()]*\)[^()]*)*)\)", r"`\1`", text)


def sentences(description: str | Iterable[str]) -> list[str]:
    """Return the paragraphs of a description."""
    return [marked(text) for text in ([description] if isinstance(description, str) else description)]


def cell(text: str) -> str:
    """Return text that can stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table, and an empty one."""
    head = list(head)
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(cell(text) for text in row)} |" for row in rows), ""]
