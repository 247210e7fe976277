# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Stop replicas that write too much outside their mounts, as `rules.disk` decides for this host's disks.

A timer checks this periodically (`prepare_hosts`), and so does each repair. They measure each replica's writable layer,
the volumes of its image, removed files that are still open, and the files that the engine and the session put into its
``/etc``.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any

from ..adapters import disk_use, folders, machine
from ..adapters.descriptions import Description, Descriptions
from ..adapters.engine import Engine
from ..adapters.engine_objects import LABEL_DISK, Container
from ..adapters.state import StateDirectory
from ..core.rules.disk import INODES, Space, Use, engine_limits, is_short, to_stop
from ..core.values.deferred import dataclass
from ..core.values.errors import SessionError, message_of
from ..core.values.paths import is_below

Measure = Callable[[str], Mapping[str, Any]]

SECONDS = 60
"""Seconds to wait until one directory of a replica is counted. The next check continues the count."""
HELD_SECONDS = 60
"""Seconds to search the processes of a replica for open files."""
REMOVED = " (deleted)"
"""Suffix of the kernel's name of a removed file (proc_pid_fd(5))."""
_CONTAINER = re.compile(r"[0-9a-f]{64}")


class DiskError(SessionError):
    """What replicas have written could not be measured, or one could not be stopped. The message is a full sentence."""


def is_limited(engine: Engine) -> bool:
    """Return whether this engine itself can limit how much a container writes."""
    info = engine.info()
    return engine_limits(info.storage_driver, info.backing, folders.mount_of(os.path.realpath(info.root)).details)


def enforce_limits(
    engine: Engine, state: StateDirectory, check_mode: bool = False, measure: Measure = machine.disk
) -> tuple[dict[str, str], list[str]]:
    """Stop these replicas, and return the containers with the reasons, and what went wrong, as sentences.

    measure: returns the size and free space of a path's file system (`machine.disk`). Raises EngineError if the engine
    does not answer, and OSError if the state directory does not exist.
    """
    root = engine.info().root
    running = _running_replicas(engine, state, root, check_mode)
    paths = [root, str(state.root), *(path for replica in running.values() for path in replica.folders)]
    # By device number, as several paths may be on the same device.
    names = {os.stat(place).st_dev: place for place in reversed(paths) if os.path.exists(place)}
    disks = {*names, *(device for replica in running.values() for device in replica.devices())}
    spaces = dict(_spaces(names.values(), measure))
    systems = _FileSystems(names, any(is_short(space) for space in spaces.values()), disks)
    uses, problems = _uses(running.values(), systems)
    if not check_mode:
        disk_use.end_counts()
    done: dict[str, str] = {}
    for container, reason in to_stop(spaces, uses).items():
        try:
            if not check_mode:
                running[container].stop(reason)
        except (SessionError, OSError) as error:
            problems.append(f"{container} was to be stopped. {reason} {message_of(error)}")
        else:
            done[container] = reason
    return done, problems


@dataclass(frozen=True)
class _FileSystems:
    """The file systems of replicas on this host.

    names: by device. short: whether one of them has too little space left. disks: devices of files that are not in
    memory.
    """

    names: Mapping[int, str]
    short: bool
    disks: Collection[int]


def _running_replicas(engine: Engine, state: StateDirectory, root: str, check_mode: bool) -> dict[str, _Replica]:
    """Return the running replicas of this host by their containers. root: the engine's directory."""
    entries = [entry for entry in engine.session_containers() if entry.runs]
    descriptions = Descriptions(engine, str(state.root))
    described = [(entry, descriptions.of(entry.id)) for entry in entries]
    found = [_Replica(engine, state, entry, root, description) for entry, description in described if description]
    if not check_mode:
        descriptions.keep(entry.id for entry in entries)
    return {replica.container: replica for replica in found if replica.runs}


def _uses(replicas: Iterable[_Replica], systems: _FileSystems) -> tuple[list[Use], list[str]]:
    """Return how much each replica has written, and what is not known of that, as sentences."""
    members = cache(members_by_container)
    uses: list[Use] = []
    problems = []
    for replica in replicas:
        try:
            uses.append(replica.use(systems, members))
        except FileNotFoundError:
            continue  # it has ended just now
        except (SessionError, OSError) as error:
            problems.append(f"What {replica.container} has written is not known: {message_of(error)}")
        problems += [f"What {replica.container} has written is not known yet: {why}." for why in replica.uncounted]
        if replica.has_more:
            problems.append(
                f"What {replica.container} has removed and holds open is not known in full: its processes have not "
                f"been looked through within {HELD_SECONDS} seconds."
            )
    return uses, problems


def _spaces(paths: Iterable[str], measure: Measure) -> Iterator[tuple[str, Space]]:
    for place in paths:
        found = measure(place)
        yield place, Space(found["size"], found["free"])
        yield f"{INODES}{place}", Space(found["files"], found["files_free"])


class _Replica:
    """A replica's container, and where on this host it writes. root: the engine's directory."""

    def __init__(
        self, engine: Engine, state: StateDirectory, entry: Container, root: str, description: Description
    ) -> None:
        self.engine = engine
        self.container = entry.name
        self.labels = entry.labels
        self.name = entry.replica
        self.directory = state.session(entry.labels.session_id)
        self.description = description
        self.folders: list[str] = []
        self.volumes = [path for path, _place in description.image_volumes]
        self.has_more = False
        self.uncounted: list[str] = []
        self.work = 0.0
        self.runs = bool(description.pid)
        if self.runs:
            try:
                self.folders = self._folders(root)
            except OSError:
                self.runs = False  # it has ended just now

    def _folders(self, root: str) -> list[str]:
        """Return its writable layer and the volumes of its image."""
        layer = self.description.layer or self._layer(root)
        return [layer] * bool(layer) + [place for _path, place in self.description.image_volumes]

    def _layer(self, root: str) -> str:
        """Return the writable layer from the kernel, for engines that do not report it. Empty if there is none."""
        mounts = [mount for mount in folders.mounted(self.description.pid) if mount.point == "/"]
        found = [detail for mount in mounts for detail in mount.details if detail.startswith("upperdir=")]
        # With very many layers, an engine names each one relative to their common directory.
        return os.path.join(root, "overlay2", found[0][len("upperdir=") :]) if found else ""

    def devices(self) -> Iterator[int]:
        """Return the devices of files outside its mounts, as the replica sees them. It may have changed its root."""
        for place in filter(None, (self.description.merged, f"/proc/{self.description.pid}/root")):
            with suppress(OSError):
                yield os.stat(place).st_dev

    def use(self, systems: _FileSystems, members: Callable[[], Mapping[str, list[int]]]) -> Use:
        """Return how much it has written. A directory is walked only if this can matter.

        members: returns the processes of each container, by its id.
        """
        limit = self.labels.number(LABEL_DISK) or None
        if limit is not None and not self.folders:
            raise DiskError(f"its path on this host is not known, so its limit of {limit} bytes is not enforced")
        taken: dict[str, int] = {}
        largest = self._add_own_files(taken, systems)
        if self.folders and (systems.short or limit is not None):
            self._add_folders(taken, systems)
            self._add_held_open(taken, systems, members().get(self.description.id, ()))
        return Use(self.container, limit, taken, largest, self.work)

    def _add_own_files(self, taken: dict[str, int], systems: _FileSystems) -> int:
        """Add the files in its ``/etc`` that are not in its layer, and return the size of the largest."""
        largest = 0
        for path in {*self.description.own_files, str(self.directory.hosts_file(self.name))}:
            try:
                found = os.lstat(path)
            except OSError:
                continue  # the only replica of a session has no such file from the session
            largest = max(largest, found.st_blocks * 512)
            _add(taken, systems.names.get(found.st_dev), found.st_blocks * 512)
        return largest

    def _add_folders(self, taken: dict[str, int], systems: _FileSystems) -> None:
        for folder in self.folders:
            name = systems.names.get(os.stat(folder).st_dev)
            _add(taken, name, self._counted(folder, "--block-size=1"))
            if systems.short and name is not None:
                _add(taken, INODES + name, self._counted(folder, "--inodes"))

    def _add_held_open(self, taken: dict[str, int], systems: _FileSystems, processes: Iterable[int]) -> None:
        held = self._held_open(processes, systems.disks)
        name = systems.names.get(os.stat(self.folders[0]).st_dev)
        _add(taken, name, sum(held.values()))
        if systems.short and name is not None:
            _add(taken, INODES + name, len(held))

    def _counted(self, folder: str, unit: str) -> int:
        """Return the size of a directory. 0 while the count continues."""
        try:
            return disk_use.count(folder, unit, SECONDS)
        except disk_use.NotCounted as error:
            self.uncounted.append(str(error))
            self.work += error.work
            return 0

    def _held_open(self, processes: Iterable[int], disks: Collection[int]) -> dict[tuple[int, int], int]:
        """Return the bytes of each removed file that a process still has open or mapped.

        Such a file is in no directory, and uses space until the last process closes it (unlink(2)). Files on a mount of
        the replica do not count, except on volumes of its image. Shared memory also looks like a removed file
        (memfd_create(2), shmget(2)), on a device that is not in *disks*.
        """
        points = sorted((mount.point for mount in folders.mounted(self.description.pid)), key=len, reverse=True)
        found: dict[tuple[int, int], int] = {}
        deadline = time.monotonic() + HELD_SECONDS
        for place in (f"/proc/{pid}/{kind}" for pid in processes for kind in ("fd", "map_files")):
            try:
                entries = os.listdir(place)
            except OSError:
                continue  # the process has ended
            for entry in entries:
                with suppress(OSError):
                    status = self._removed_file(f"{place}/{entry}", points)
                    if status is not None and status.st_dev in disks:
                        found[status.st_dev, status.st_ino] = status.st_blocks * 512
            if time.monotonic() > deadline:
                self.has_more = True  # no evasion with very many files: those that were found count
                break
        return found

    def _removed_file(self, entry: str, points: Iterable[str]) -> os.stat_result | None:
        """Return the status of an open file if it is a removed one outside its mounts, at *points*. Raises OSError."""
        path = os.readlink(entry)
        if not path.endswith(REMOVED) or next(filter(partial(is_below, path), points), "/") not in ("/", *self.volumes):
            return None
        status = os.stat(entry)
        return status if stat.S_ISREG(status.st_mode) and not status.st_nlink else None

    def stop(self, reason: str) -> None:
        """Record why, and stop it at once, even if nothing can be recorded. It continues to write until then."""
        unwritten = ""
        try:
            self.directory.write_stop(self.name, {"started": self.description.started, "reason": reason})
        except OSError as error:
            unwritten = message_of(error)
        self.engine.stop_container(self.container, 0)
        if unwritten:
            raise DiskError(f"it is stopped, but the reason could not be recorded: {unwritten}")


def members_by_container() -> dict[str, list[int]]:
    """Return the processes of each container, by its id, which is in the name of their cgroup (cgroups(7)).

    A process cannot leave its cgroup without privileges on the host.
    """
    found: dict[str, list[int]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            for container in set(_CONTAINER.findall(file.read())):
                found.setdefault(container, []).append(int(pid))
    return found


def _add(taken: dict[str, int], name: str | None, amount: int) -> None:
    if name is not None:
        taken[name] = taken.get(name, 0) + amount
