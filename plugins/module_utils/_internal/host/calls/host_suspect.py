# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Mark this host as suspect for a while, or as trusted again."""

from __future__ import annotations

from typing import Any

from ...adapters.suspicion import SuspicionFile


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Return whether the host's own state has changed."""
    file = SuspicionFile(arguments["state_directory"])
    before = file.read()
    changed = (before is not None) != bool(arguments["reason"])
    if not check_mode and arguments["reason"]:
        file.remember(arguments["reason"])
    elif not check_mode:
        file.forget()
    return {"changed": changed}
