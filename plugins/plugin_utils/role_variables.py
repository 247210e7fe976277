# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Which variables the roles of this collection have."""

from __future__ import annotations

import re
from pathlib import Path

_ROLES = Path(__file__).resolve().parents[2] / "roles"
_FILES = ("meta/argument_specs.yml", "defaults/main.yml", "vars/main.yml")
_NAME = re.compile(r"^(?: {6})?(\w+):", re.MULTILINE)
"""A variable in an argument specification or in the other files. Reading YAML would take fifty times as long."""
NOT_CHECKED = "awx"
"""Prefix of the variables that AWX gives to jobs. Their names differ between releases."""


def role_variables() -> dict[str, list[str]]:
    """Return by role what follows its name in its variables."""
    found: dict[str, list[str]] = {}
    for path in (path for file in _FILES for path in sorted(_ROLES.glob(f"*/{file}"))):
        role = path.parts[-3]
        names = [name for name in _NAME.findall(path.read_text(encoding="utf-8")) if name.startswith(f"{role}_")]
        if names and role != NOT_CHECKED:
            found[role] = [*dict.fromkeys([*found.get(role, ()), *(name[len(role) + 1 :] for name in names)])]
    return found
