# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Store records of sessions on this host."""

from __future__ import annotations

from ...adapters.ledger import LedgerFile
from ...adapters.state import StateDirectory
from ...core.model.call.base import States
from ...core.model.call.session_host import SessionAnswer
from ...core.model.call.session_record import KeepRecords
from ..prepare import keep_lines, keep_records, keep_tombstones, leave_torn_down, release_name


def call(request: KeepRecords, check_mode: bool) -> SessionAnswer:
    """Return what was, or would be, written. Raises StateError."""
    state, records = StateDirectory(request.state_directory), list(request.records)
    ledger = LedgerFile(request.state_directory)
    actions = keep_records(state, records, check_mode, request.recorded, settles=True)
    if not check_mode:
        leave_torn_down(state, ledger, records, request.looked, request.lease_owner)
    if request.lease_owner is not None and not check_mode:
        for record in records:
            release_name(ledger, record.id, request.lease_owner)
    actions += keep_tombstones(state, request.tombstones, request.forget, check_mode)
    actions += keep_lines(state, request.settled, request.output_days * 86400, request.output_sessions, check_mode)
    return SessionAnswer(changed=bool(actions), actions=tuple(actions))


STATES: States = {KeepRecords: call}
