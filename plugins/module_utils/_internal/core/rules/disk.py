# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Decides which replica is stopped because of what it wrote on its host's disks, outside its mounts.

A replica has a limit of its own if its session requested one. Without a limit it may write until a file system is
short; then the replica that holds more than half of that file system is stopped. On each host that can be one replica
at most, so no replica is stopped for what others wrote. This is kubelet's method at its eviction thresholds
(Kubernetes, node-pressure eviction), which stops one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from ..values.deferred import dataclass
from ..values.resources import format_memory

MOST_WORK = 300.0
"""Seconds of processor time for counting what a replica has: enough for tens of millions of files. It is not time by
the clock, because a slow or dead disk is not the replica's fault."""
PARTS = 20
"""One part in this many of a file system, and of its inodes, has to stay free."""
LARGEST_FILE = 16 * 1024**2
"""Bytes that the engine's own files of a replica (``/etc/hosts``, ``/etc/hostname``, ``/etc/resolv.conf``) may take,
each; a line for each of 4,096 replicas takes less than 1 MiB."""
INODES = "the inodes of "
"""How the name of a space of inodes begins."""


@dataclass(frozen=True)
class Space:
    """The size of a file system, in bytes or in inodes: the total, and what is free."""

    size: int
    free: int


@dataclass(frozen=True)
class Use:
    """The amount that a replica has written outside its mounts.

    container: its name. limit: bytes, None if it has no limit of its own. taken: by the name of a `Space`. file: the
    largest of the engine's own files, in bytes. work: seconds of processor time that an unfinished count has taken; the
    true amount is then at least *taken*.
    """

    container: str
    limit: int | None = None
    taken: Mapping[str, int] = field(default_factory=dict)
    file: int = 0
    work: float = 0.0

    @property
    def bytes(self) -> int:
        """Bytes on all file systems."""
        return sum(amount for name, amount in self.taken.items() if not name.startswith(INODES))


def engine_limits(driver: str, backing: str, options: Iterable[str]) -> bool:
    """Tell whether an engine can limit what a container writes: overlay2 on XFS with project quotas alone.

    driver, backing: its storage driver and the file system below it. options: of that file system's mount.
    Source: Docker documentation, dockerd, "Storage driver options", overlay2.size.
    """
    return (driver, backing) == ("overlay2", "xfs") and not {"prjquota", "pquota"}.isdisjoint(options)


def is_short(space: Space) -> bool:
    """Tell whether less is free than required; a file system that does not count inodes never runs short of them."""
    return space.free * PARTS < space.size


def to_stop(spaces: Mapping[str, Space], uses: Iterable[Use]) -> dict[str, str]:
    """Return which of the running containers are to be stopped, each with the reason as sentences.

    spaces: by name, if they are known. A space that runs short counts more than a limit of its own.
    """
    found = {}
    for use in uses:
        short = [why for name, space in spaces.items() if (why := _why_short(name, space, use.taken.get(name, 0)))]
        why = short[-1] if short else _why_too_much(use)
        if why:
            found[use.container] = why
    return found


def _why_too_much(use: Use) -> str:
    """Return which limit of its own a container exceeds, a sentence; empty if none."""
    if use.limit is not None and use.bytes > use.limit:
        return (
            f"It has written {_rounded(use.bytes)} outside its mounts, and its session_disk_size is "
            f"{format_memory(use.limit)}."
        )
    if use.file > LARGEST_FILE:
        return (
            f"Its /etc/hosts, /etc/hostname or /etc/resolv.conf takes {_rounded(use.file)}, and "
            f"{format_memory(LARGEST_FILE)} is the most."
        )
    if use.work > MOST_WORK:
        return (
            f"It has so many files outside its mounts that {use.work:.0f} seconds of work did not count them, so "
            "it is not known how much it has written."
        )
    return ""


def _why_short(name: str, space: Space, taken: int) -> str:
    """Return that a space runs short because of what one container has taken, a sentence; empty if it does not."""
    if not is_short(space) or taken * 2 <= space.size:
        return ""
    amount = str(taken) if name.startswith(INODES) else _rounded(taken)
    return f"Less than a twentieth of {name} was free, and it had taken more than half outside its mounts: {amount}."


def _rounded(amount: int) -> str:
    """Return bytes in whole MiB, rounded up."""
    return format_memory(-(-amount // 1024**2) * 1024**2)
