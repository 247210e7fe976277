# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Compare the runtime of replicas with the engine's default runtime.

`engine_runtime` creates the script that is the former. Each collection of a host's facts checks that it still matches.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from ..adapters.engine import RUNTIME
from ..adapters.engine_objects import Runtime

SCRIPT = Path("/usr/local/lib/cluster-compute/runtime")
_PLAIN = "runc"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LAST_LINE = re.compile(r'^exec (.+) "\$@"$', re.MULTILINE)
"""End of the script, in this release and earlier ones: the runtime that it executes."""


def stale(known: Mapping[str, Runtime], default: str) -> str:
    """Return why replicas start with another runtime than the default. Empty if they use the same one.

    known, default: runtimes of this host's engine, and the name of its default. The script names the runtime for which
    it was created. If it is missing, or the engine has no entry for it, other checks report this.
    """
    try:
        made_for = _LAST_LINE.search(SCRIPT.read_text(encoding="utf-8"))
    except OSError:
        made_for = None
    if RUNTIME not in known or made_for is None:
        return ""
    plain = default_of(known, default)
    now = [plain.path, *plain.arguments] if plain.path else [default]
    if _resolved(now) == _resolved(shlex.split(made_for[1])):
        return ""
    return (
        f"Its engine's default runtime is {default} ({shlex.join(now)}), and replicas would start by {made_for[1]}, "
        "which was the default when the host was prepared. Run the prepare_hosts playbook for it. Where that refuses "
        "the new one, run it with prepare_hosts_engine_runtime=false, or set the old one in its daemon.json."
    )


def _resolved(command: list[str]) -> list[str]:
    """Return a command with the path of its program, which an engine may have by name only."""
    return [os.path.realpath(shutil.which(command[0], path=_PATH) or command[0]), *command[1:]]


def default_of(known: Mapping[str, Runtime], default: str) -> Runtime:
    """Return the default runtime of containers. Our entry comes before the engine's own."""
    return known.get(_PLAIN if default == RUNTIME else default, Runtime(""))
