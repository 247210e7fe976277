# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Make ready what the replicas of one host need before any of them starts: reservation, record, keys."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ssh_keys import converge_keys
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory, StateError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import CONFIRMED
from ansible_collections.cluster_compute.session.plugins.module_utils.core.record import (
    PREPARING,
    Record,
    is_note,
    note_of,
)

PublicKeys = dict[str, dict[str, "str | None"]]


def prepare(
    state: StateDirectory,
    ledger: LedgerFile,
    record: Record,
    host: str,
    *,
    holder: str,
    regenerate_keys: bool,
    deadline: float,
    check_mode: bool,
    recorded: Collection[str] = (),
) -> tuple[PublicKeys, list[str]]:
    """Confirm the reservation, write the record down, make missing keys; a host without replicas keeps a note.

    holder: the run of the launch that holds the reservation. deadline: seconds within which the session has to run.
    recorded: sessions that this host had a record of when the launch looked.
    Returns the public halves of the keys of this host's replicas, and what was, or would be, done. Raises LedgerError
    where the reservation has run out, StateError where the session was torn down since the launch looked.
    """
    if host not in record["hosts"]:
        return {}, keep_records(state, [note_of(record)], check_mode, recorded)
    session = state.session(record["id"])
    if record["id"] in recorded and session.read_record() is None and not check_mode:
        ledger.release(record["id"], holder)
        raise StateError(f"Session {record['name']} was torn down while this launch was at work.")
    replicas = [replica for replica in record["plan"]["replicas"] if replica["host"] == host]
    if not check_mode:
        ledger.advance(record["id"], CONFIRMED, deadline, holder)
        if record["status"] == PREPARING:
            # Before the first key: what is found later of a launch that was killed can then be told whose it is.
            keep_records(state, [record], check_mode)
    actions: list[str] = []
    public_keys: PublicKeys = {}
    for replica in replicas:
        folder = session.replica(replica["name"]) / "ssh"
        public_keys[replica["name"]], made = converge_keys(folder, regenerate_keys, check_mode)
        actions += [f"create key {replica['name']}/{key}" for key in made]
    return public_keys, actions


def keep_records(
    state: StateDirectory, records: list[Record], check_mode: bool, recorded: Collection[str] = ()
) -> list[str]:
    """Write down those *records* that this host has not, or has in an older revision; return what was done.

    recorded: sessions that this host had a record of when these were made; who has none any more was torn down.
    """
    actions = []
    for record in records:
        directory = state.session(record["id"])
        found = directory.read_record()
        if is_note(record) and found is not None and _says_the_same(found, record):
            continue
        if found is None and record["id"] in recorded:
            continue
        if found is None or found["revision"] < record["revision"]:
            actions.append(f"{'update' if found else 'create'} record {record['name']}")
            if not check_mode:
                directory.write_record(record)
    return actions


def _says_the_same(found: Record, note: Record) -> bool:
    """Tell whether a copy says what a note says, in whatever revision: which hosts carry the session, and how it is."""
    return (found["status"], found["hosts"]) == (note["status"], note["hosts"])


def keep_tombstones(
    state: StateDirectory, tombstones: list[dict[str, Any]], forget: list[str], check_mode: bool
) -> list[str]:
    """Set *tombstones* (id, name, hosts) and forget those of the ids in *forget*; return what was done."""
    actions = []
    known = {one["id"]: one for one in state.tombstones()}
    for one in tombstones:
        before = known.get(one["id"])
        hosts = sorted({*one["hosts"], *(before["hosts"] if before else ())})
        if before is None or before["hosts"] != hosts:
            actions.append(f"set tombstone {one['name']}")
            if not check_mode:
                state.write_tombstone(one["id"], one["name"], hosts)
    for session_id in forget:
        if session_id in known:
            actions.append(f"remove tombstone {known[session_id]['name']}")
            if not check_mode:
                state.remove_tombstone(session_id)
    return actions
