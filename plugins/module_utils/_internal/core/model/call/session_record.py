# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Store records of sessions."""

from dataclasses import field
from typing import ClassVar, Optional

from ...values.deferred import dataclass
from ..record import Record, Tombstone
from .base import PATH, RECORD, STATE_DIRECTORY, Call


@dataclass(frozen=True)
class KeepRecords(Call):
    """Store records of sessions on a host.

    recorded, looked: as of Hold. lease_owner: the run whose leases of the names are released; None for no lease.
    tombstones: to set. forget: ids of the tombstones to remove. settled: ids of ended sessions of which no host has an
    older state, so that their lines are removed in time: after output_days, or output_sessions newer ones.
    """

    call: ClassVar[str] = "session_record"

    records: tuple[Record, ...] = field(default=(), metadata=RECORD)
    recorded: tuple[str, ...] = ()
    looked: Optional[float] = None
    lease_owner: Optional[str] = None
    tombstones: tuple[Tombstone, ...] = ()
    forget: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    output_days: int = 7
    output_sessions: int = 50
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)
