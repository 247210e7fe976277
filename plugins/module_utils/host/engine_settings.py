# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What the engine of this host was told by the site: the file that it has its settings from, and its command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path("/etc/docker/daemon.json")
"""Where an engine has its settings from that is told of no other file (dockerd(8), --config-file)."""
_CONFIG = "--config-file"


def words_of(process: int) -> list[str]:
    """Return the command line of a process; nothing where there is none."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def file_of(process: int) -> Path:
    """Return the file that the engine of this process has its settings from, as the engine calls it."""
    words = words_of(process)
    for word, following in zip(words, [*words[1:], ""]):
        if word.startswith(f"{_CONFIG}="):
            return Path(word.partition("=")[2])
        if word == _CONFIG:
            return Path(following)
    return FILE


def read(path: Path) -> Mapping[str, Any]:
    """Return what a file says; nothing where there is none, or none that an engine reads."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, Mapping) else {}


def why_no_rules(process: int) -> str:
    """Return where it is said that the engine writes no firewall rules for containers; empty where it does write them.

    process: the engine's, 0 where it is not known.
    """
    for word in words_of(process) if process else ():
        if word.startswith("--iptables=") and word.partition("=")[2].lower() in ("false", "f", "0"):
            return f"{word} on its command line"
    path = file_of(process) if process else FILE
    return f'"iptables": false in {path}' if read(path).get("iptables") is False else ""
