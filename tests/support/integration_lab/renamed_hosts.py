# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory of the lab in which hosts have other names."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    INVENTORY,
)


def inventory_of(folder: Path, names: Mapping[str, str]) -> Path:
    """Return an inventory of the lab in which hosts have other names."""
    inventory = folder / "-".join(names.values())
    shutil.copytree(INVENTORY, inventory)
    hosts = inventory / "hosts.yml"
    pattern = rf"\b({'|'.join(names)}):"
    text, count = re.subn(pattern, lambda found: f"{names[found[1]]}:", hosts.read_text(encoding="utf-8"))
    assert count >= len(names)
    hosts.write_text(text, encoding="utf-8")
    return inventory
