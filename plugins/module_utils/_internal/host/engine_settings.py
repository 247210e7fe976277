# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The site's settings for the engine of this host, from its settings file and its command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path("/etc/docker/daemon.json")
"""Default settings file of an engine (dockerd(8), --config-file)."""
_CONFIG = "--config-file"


def words_of(process: int) -> list[str]:
    """Return the command line of a process. Empty if there is none."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def file_of(process: int) -> Path:
    """Return the settings file of the engine with this process, by the engine's name for it."""
    words = words_of(process)
    for word, following in zip(words, [*words[1:], ""]):
        if word.startswith(f"{_CONFIG}="):
            return Path(word.partition("=")[2])
        if word == _CONFIG:
            return Path(following)
    return FILE


def read(path: Path) -> Mapping[str, Any]:
    """Return the content of a settings file. Empty if it does not exist or an engine could not read it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, Mapping) else {}


def why_no_rules(process: int) -> str:
    """Return the setting that stops the engine from writing firewall rules. Empty if it writes them.

    process: the engine's, 0 if it is not known.
    """
    for word in words_of(process) if process else ():
        if word.startswith("--iptables=") and word.partition("=")[2].lower() in ("false", "f", "0"):
            return f"{word} on its command line"
    path = file_of(process) if process else FILE
    return f'"iptables": false in {path}' if read(path).get("iptables") is False else ""
