# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Make ready what the replicas of one host need before any of them starts: reservation, record, keys."""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ssh_keys import converge_keys
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import (
    PREPARING,
    RECORD_SCHEMA,
    StateDirectory,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import CONFIRMED

PublicKeys = dict[str, dict[str, "str | None"]]


def prepare(
    state: StateDirectory,
    ledger: LedgerFile,
    plan: dict[str, Any],
    host: str,
    *,
    regenerate_keys: bool,
    deadline: float,
    check_mode: bool,
) -> tuple[PublicKeys, list[str]]:
    """Confirm the reservation, make missing keys.

    Returns the public halves of the keys of this host's replicas, and what was, or would be, done. Raises LedgerError
    where the reservation has run out.
    """
    session = state.session(plan["session"]["id"])
    replicas = [replica for replica in plan["replicas"] if replica["host"] == host]
    if not check_mode:
        ledger.advance(plan["session"]["id"], CONFIRMED, deadline)
        if session.read_record() is None:
            # Before the first key: what is found later of a launch that was killed can then be told whose it is.
            session.write_record({"schema": RECORD_SCHEMA, "status": PREPARING, "revision": 1, "plan": plan})
    actions: list[str] = []
    public_keys: PublicKeys = {}
    for replica in replicas:
        folder = session.replica(replica["name"]) / "ssh"
        public_keys[replica["name"]], made = converge_keys(folder, regenerate_keys, check_mode)
        actions += [f"create key {replica['name']}/{key}" for key in made]
    return public_keys, actions
