# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Control groups of a lab's hosts: one per host in every hierarchy, version 1 or 2."""

from __future__ import annotations

import os
import time

from .system import LabError, read_file

_MOUNT = "/sys/fs/cgroup"


def hierarchies() -> list[str]:
    """Return the mount points of all hierarchies of this machine."""
    found = []
    for line in (read_file("/proc/self/mountinfo") or "").splitlines():
        fields = line.split()
        kind = fields[fields.index("-") + 1]
        if kind in ("cgroup", "cgroup2") and (fields[4] == _MOUNT or fields[4].startswith(f"{_MOUNT}/")):
            found.append(fields[4])
    return list(dict.fromkeys(found))


def enter(group: str) -> None:
    """Move this process into the leaf 'init' of a group, in every hierarchy.

    The leaf is for version 2, where a group that holds processes cannot hand its controllers down to containers.
    """
    mounts = hierarchies()
    if not mounts:
        raise LabError("No control groups are mounted below /sys/fs/cgroup; Docker Engine needs them.")
    for mount in mounts:
        path = mount
        for part in (*group.split("/"), "init"):
            path = f"{path}/{part}"
            os.makedirs(path, exist_ok=True)
            # Also if it existed, because another host of a lab may have created it just now and not done this yet.
            _inherit_cpuset(path)
        with open(f"{path}/cgroup.procs", "w", encoding="ascii") as stream:
            stream.write(str(os.getpid()))


def _inherit_cpuset(path: str) -> None:
    for name in ("cpuset.cpus", "cpuset.mems"):
        if os.path.exists(f"{path}/{name}") and not (read_file(f"{path}/{name}") or "").strip():
            inherited = (read_file(f"{os.path.dirname(path)}/{name}") or "").strip()
            if inherited:
                with open(f"{path}/{name}", "w", encoding="ascii") as stream:
                    stream.write(inherited)


def existing(group: str) -> list[str]:
    """Return the mount points of the hierarchies that have the group."""
    return [mount for mount in hierarchies() if os.path.isdir(f"{mount}/{group}")]


def remove(group: str) -> bool:
    """Remove a group and all below it in every hierarchy. Return whether there was one.

    The processes in it must have been killed; the kernel may need a moment to forget them.
    """
    mounts = existing(group)
    for mount in mounts:
        top = f"{mount}/{group}"
        deadline = time.monotonic() + 10
        while os.path.isdir(top):
            _remove_tree(top, deadline)
            if os.path.isdir(top):
                time.sleep(0.05)
    return bool(mounts)


def _remove_tree(top: str, deadline: float) -> None:
    """Remove the empty groups of a hierarchy, from below. Raises LabError if one remains after the deadline."""
    for folder, _folders, _files in os.walk(top, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            if time.monotonic() > deadline:
                raise LabError(f"The control group {folder} still holds processes and cannot be removed.") from None
