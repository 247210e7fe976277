# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Restore missing parts of sessions."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional

from ..claims import Allocatable
from ..record import Record
from .base import PATH, PUBLIC, RECORD, STATE_DIRECTORY, Call


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
    public_keys: dict[str, Any] = field(default_factory=dict, metadata=PUBLIC)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)
