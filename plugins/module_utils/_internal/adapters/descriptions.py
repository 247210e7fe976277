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

from ..core.values.deferred import dataclass
from .background import start_of
from .engine import Engine
from .ledger import REMOVALS, key_of
from .state import write_file

FORM = 2
"""Version of the cached form. It changes with the content, so that no release reads the cache of another."""


@dataclass(frozen=True)
class Description:
    """The parts of `Inspected` that a check of disks needs of a container. start: of its process."""

    id: str
    pid: int
    start: int | None
    started: str
    own_files: tuple[str, ...]
    layer: str
    merged: str
    image_volumes: tuple[tuple[str, str], ...]


class Descriptions:
    """Descriptions of running containers, from one check of them; they are stored where a boot removes them."""

    def __init__(self, engine: Engine, state_directory: str) -> None:
        self._engine = engine
        self.path = Path(REMOVALS) / f"cluster-compute-containers-{key_of(state_directory)}.json"
        self._known: dict[str, Description] = {}
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            found = json.loads(self.path.read_text(encoding="utf-8", errors="replace"))
            if found["form"] == FORM:
                self._known = {key: Description(**kept) for key, kept in found["containers"].items()}
        self._before = dict(self._known)

    def of(self, container_id: str) -> Description | None:
        """Return the description of a container; None if it is gone. Raises EngineError if the engine is silent."""
        kept = self._known.get(container_id)
        if kept is not None and kept.start == start_of(kept.pid):
            return kept
        found = self._engine.inspect(container_id)
        if found is None:
            return None
        start = start_of(found.pid) if found.pid else None
        own_files = (found.hosts_file, found.hostname_file, found.resolver_file)
        seen = (found.layer, found.merged, found.image_volumes)
        description = Description(found.id, found.pid, start, found.started, own_files, *seen)
        self._known.pop(container_id, None)
        # If its first process has ended, another may have its number by now.
        if start is not None and _is_of(found.pid, found.id) and start == start_of(found.pid):
            self._known[container_id] = description
        return description

    def keep(self, container_ids: Iterable[str]) -> None:
        """Keep those of some containers for the next check; one that cannot be written is requested again."""
        kept = {key: self._known[key] for key in container_ids if key in self._known}
        if kept != self._before:
            containers = {key: vars(description) for key, description in kept.items()}
            with suppress(OSError):
                write_file(self.path, json.dumps({"form": FORM, "containers": containers}) + "\n", mode=0o600)


def _is_of(pid: int, container_id: str) -> bool:
    """Tell whether a process is one of a container, by its cgroup (cgroups(7)), which it cannot leave by itself."""
    try:
        return container_id in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
