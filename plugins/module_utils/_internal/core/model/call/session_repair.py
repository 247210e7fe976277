# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Restore missing parts of sessions."""

from dataclasses import field
from typing import Any, ClassVar, Optional

from ...values.deferred import dataclass
from ..claims import Allocatable
from ..record import PublicKeys, Record
from .base import PATH, PUBLIC, RECORD, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class Repair(Call):
    """Restore missing parts of the sessions of a host.

    host: its name in the inventory. known_as: by session its name in the plan, where that differs. session_name: the
    only session to repair; empty for all. allocatable: as of Hold; None if nothing is known. mount_roots,
    volume_drivers: what sessions may use. records: by id, those that the host has to know. recorded, looked: as of
    Hold. apart: ids of sessions most of whose other hosts are unreachable. conflicting: ids of those of which hosts
    have different plans. waiting: ids of those that wait for hosts. public_keys: by session, of all replicas.
    """

    call: ClassVar[str] = "session_repair"

    host: str
    known_as: dict[str, str] = field(default_factory=dict)
    session_name: str = ""
    allocatable: Optional[Allocatable] = None
    mount_roots: tuple[str, ...] = ()
    volume_drivers: tuple[str, ...] = ()
    records: dict[str, Record] = field(default_factory=dict, metadata=RECORD)
    recorded: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    conflicting: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    looked: Optional[float] = None
    public_keys: dict[str, PublicKeys] = field(default_factory=dict, metadata=PUBLIC)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class RepairedSession:
    """The parts of a session that were restored; problem: why some of them were not."""

    name: str
    actions: tuple[str, ...] = ()
    problem: str = ""


@dataclass
class Repaired:
    """The changes of a repair; in check mode, those that it would make.

    sessions: by id. public_keys: new ones, by session. faults: problems that belong to no session. warnings: problems
    that remain for now and cause no harm. held_back: ids of sessions that this host does not start by itself now.
    """

    actions: list[str] = field(default_factory=list)
    sessions: dict[str, RepairedSession] = field(default_factory=dict)
    public_keys: dict[str, PublicKeys] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    held_back: list[str] = field(default_factory=list)

    def add(self, other: "Repaired") -> None:
        """Add what was done in another repair."""
        for name in ("actions", "faults", "warnings", "held_back"):
            getattr(self, name).extend(getattr(other, name))
        for name in ("sessions", "public_keys", "before", "after"):
            getattr(self, name).update(getattr(other, name))

    @property
    def problems(self) -> list[str]:
        """The problems that remain."""
        of_sessions = [f"Session {own.name}: {own.problem}" for own in self.sessions.values() if own.problem]
        return [*self.faults, *of_sessions]


@dataclass(frozen=True)
class RepairAnswer(Answer):
    """The answer of session_repair. sessions, faults, public_keys: as of Repaired."""

    sessions: dict[str, RepairedSession] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    public_keys: dict[str, PublicKeys] = field(default_factory=dict)
