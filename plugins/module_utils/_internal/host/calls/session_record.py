# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Store records of sessions on this host."""

from __future__ import annotations

from typing import Any

from ...adapters.ledger import LedgerFile
from ...adapters.state import StateDirectory
from ...core.model.record import read_record
from ..prepare import keep_lines, keep_records, keep_tombstones, leave_torn_down, release_name


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Return what was, or would be, written. Raises InvalidRecord, StateError."""
    state = StateDirectory(arguments["state_directory"])
    records = [read_record(record) for record in arguments["records"]]
    ledger = LedgerFile(arguments["state_directory"])
    actions = keep_records(state, records, check_mode, arguments["recorded"], settles=True)
    if not check_mode:
        leave_torn_down(state, ledger, records, arguments["looked"], arguments["lease_owner"])
    for record in [] if check_mode or arguments["lease_owner"] is None else records:
        release_name(ledger, record.id, arguments["lease_owner"])
    actions += keep_tombstones(state, arguments["tombstones"], arguments["forget"], check_mode)
    seconds, most = arguments["output_days"] * 86400, arguments["output_sessions"]
    actions += keep_lines(state, arguments["settled"], seconds, most, check_mode)
    return {"changed": bool(actions), "actions": actions}
