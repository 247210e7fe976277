# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Engine descriptions of running containers, cached until their first process ends.

The engine's list contains neither the process nor where a container writes (Docker Engine API, ContainerList), so a
check of all containers each half minute would need a request for each. None of that changes while the process runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .background import start_of
from .engine import Engine
from .ledger import REMOVALS, key_of
from .state import write_file

_OF_MOUNTS = ("Type", "Source", "Destination")
FORM = 1
"""Version of the cached form. It changes with the content, so that no release reads the cache of another."""
OWN_FILES = ("HostsPath", "HostnamePath", "ResolvConfPath")
"""Folder where the engine keeps the files for a container's /etc (Docker Engine API, ContainerInspect)."""


class Descriptions:
    """Descriptions of running containers, from one check of them; they are stored where a boot removes them."""

    def __init__(self, engine: Engine, state_directory: str) -> None:
        self._engine = engine
        self.path = Path(REMOVALS) / f"cluster-compute-containers-{key_of(state_directory)}.json"
        self._known: dict[str, dict[str, Any]] = {}
        with suppress(OSError, ValueError, LookupError, TypeError):
            found = json.loads(self.path.read_text(encoding="utf-8", errors="replace"))
            self._known = dict(found["containers"]) if found["form"] == FORM else {}
        self._before = dict(self._known)

    def of(self, container_id: str) -> dict[str, Any]:
        """Return what a check of disks needs of a container's description; empty if it is gone.

        Raises EngineError if the engine does not answer.
        """
        kept = self._known.get(container_id)
        if kept is not None and kept["start"] == start_of(kept["pid"]):
            return dict(kept["description"])
        found = self._engine.inspect(container_id)
        if found is None:
            return {}
        status = {key: found["State"].get(key) for key in ("Pid", "StartedAt")}
        mounts = [{"Target": mount["Target"]} for mount in found["HostConfig"].get("Mounts") or []]
        description: dict[str, Any] = {
            **{key: found[key] for key in ("Id", *OWN_FILES)},
            "State": status,
            "HostConfig": {"Mounts": mounts},
            "Mounts": [{key: mount.get(key, "") for key in _OF_MOUNTS} for mount in found["Mounts"]],
            "GraphDriver": {"Data": (found.get("GraphDriver") or {}).get("Data")},
        }
        pid = status["Pid"]
        start = start_of(pid) if pid else None
        self._known.pop(container_id, None)
        # If its first process has ended, another may have its number by now.
        if start is not None and _is_of(pid, found["Id"]) and start == start_of(pid):
            self._known[container_id] = {"pid": pid, "start": start, "description": description}
        return description

    def keep(self, container_ids: Iterable[str]) -> None:
        """Keep those of some containers for the next check; one that cannot be written is requested again."""
        kept = {key: self._known[key] for key in container_ids if key in self._known}
        if kept != self._before:
            with suppress(OSError):
                write_file(self.path, json.dumps({"form": FORM, "containers": kept}) + "\n", mode=0o600)


def _is_of(pid: int, container_id: str) -> bool:
    """Tell whether a process is one of a container, by its cgroup (cgroups(7)), which it cannot leave by itself."""
    try:
        return container_id in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
