# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface of a playbook for its callers: variables that it requires and reads, and artifacts that it provides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SESSION = "cluster_compute_session"
"""Artifact of a role that is given `…_hands_on: true`."""
_SET_STATS = re.compile(r"set_stats:\n\s+data:\n\s+(\w+):")
_HANDS_ON = re.compile(r"^\s+\w+_hands_on: true$", re.MULTILINE)
_IMPORTED = re.compile(r"import_playbook: (\w+)\.yml")


@dataclass(frozen=True)
class Verb:
    """A playbook as its callers see it.

    required: variables without which it fails. reads: all names of variables that it accepts. defaults: of its own
    variables, as the reference shows them. artifacts: their names.
    """

    required: tuple[str, ...] = ()
    reads: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()


def artifacts_of(root: Path, playbook: str, roles: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the artifacts of a playbook, in the order in which it provides them. roles: those of each playbook."""
    text = (root / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8")
    tasks = [root / "roles" / role / "tasks" / "main.yml" for role in roles.get(playbook, ())]
    texts = [text, *(path.read_text(encoding="utf-8") for path in tasks if path.exists())]
    found = [name for imported in _IMPORTED.findall(text) for name in artifacts_of(root, imported, roles)]
    found += [SESSION] if _HANDS_ON.search(text) else []
    found += [name for one in texts for name in _SET_STATS.findall(one)]
    return tuple(dict.fromkeys(found))
