# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The scope of a run: which sessions it may launch, change and end if hosts belong to several resource groups.

A run is for one resource group, and a session belongs to the group that its request names. What other groups have on
the hosts that they share counts as taken, and is left to runs for those groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from ..model.record import PENDING, Record, carriers, group_of
from ..values.deferred import dataclass
from ..values.errors import printable

VARIABLE = "session_resource_group"
ALL = "all"
"""The group of every inventory that contains all of its hosts, also those that are not for sessions."""


def is_left_alone(told: Mapping[str, Any], record: Record) -> bool:
    """Whether a teardown by name leaves a session of that name alone on a host. told: of `Scope.told`."""
    is_of_others = group_of(record) not in ("", told["group"])
    return bool(told["group"]) and (is_of_others or not {*told["elsewhere"]}.isdisjoint(carriers(record)))


@dataclass(frozen=True)
class Scope:
    """The resource group of a run.

    group: its name; empty if the run is not for a particular group, and every session is its own. groups: the hosts of
    each group of the inventory, by name.
    """

    group: str = ""
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)

    def is_own(self, record: Record) -> bool:
        """Whether a session belongs to the run. A copy that names no group does, except if its hosts are elsewhere."""
        group = group_of(record)
        return self.group in ("", group) or (not group and not self.elsewhere(record.hosts))

    def has_group(self, record: Record) -> bool:
        """Whether the inventory has the group that a session belongs to; an empty group counts as missing."""
        return bool(self.groups.get(group_of(record)))

    def is_of_others(self, record: Record) -> bool:
        """Whether a session belongs to another group of the inventory."""
        return not self.is_own(record) and self.has_group(record)

    def elsewhere(self, hosts: Iterable[str]) -> list[str]:
        """Return those of *hosts* that are in the inventory but outside the group of the run."""
        return [host for host in hosts if host in self._outside]

    @cached_property
    def _outside(self) -> frozenset[str]:
        own = self.groups.get(self.group, ())
        everywhere = {host for members in self.groups.values() for host in members}
        return frozenset(everywhere.difference(own) if self.group and own else ())

    @property
    def told(self) -> dict[str, Any]:
        """The data by which hosts recognise sessions that a teardown by name is not meant for."""
        return {"group": self.group, "elsewhere": self.others}

    @property
    def others(self) -> list[str]:
        """All hosts of the inventory outside the group of the run."""
        return sorted(self._outside)

    def may_end(self, group: str, hosts: Collection[str]) -> bool:
        """Whether a teardown by name may end a session of another group, or one that has hosts outside its own.

        It may if no run for that group can end the whole of it, and this run reaches all hosts that know it.
        """
        members = self.groups.get(group, ())
        can_its_own = bool(members) and set(members) >= set(hosts)
        return not can_its_own and not self.elsewhere([*hosts, *members])

    def group_for(self, group: str, hosts: Collection[str]) -> str:
        """Return the smallest group of the inventory that can end a session; empty if there is none."""
        needed = {*hosts, *self.groups.get(group, ())}
        if self.groups.get(group) and needed <= set(self.groups[group]):
            return group
        found = [name for name, members in self.groups.items() if members and needed <= set(members)]
        return min(found, key=lambda name: (name == ALL, len(self.groups[name]), name), default="")

    def left_alone(self, record: Record) -> str:
        """Return why a run leaves a session of another group alone, and what to do, in two sentences."""
        group = printable(group_of(record))
        if self.has_group(record):
            return f"It belongs to resource group {group}. Run this with {VARIABLE}={group}."
        if not group:
            return f"Its hosts {', '.join(record.hosts)} are outside resource group {self.group}. Run this for theirs."
        # A running session would be created again by a launch with another group.
        again = f"launch it again with {VARIABLE} and session_recreate=true, or " if record.status == PENDING else ""
        return (
            f"It belongs to resource group {group}, which the inventory does not have. Give that group its name back, "
            f"for instance as a parent of the group that has its hosts now, or {again}tear it down."
        )


EVERYTHING = Scope()
"""The scope of a run that is not for a particular group."""
