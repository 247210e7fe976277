# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Make ready what the replicas of one host need before any of them starts: reservation, record, folders, keys."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ssh_keys import converge_keys
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import (
    SessionDirectory,
    StateDirectory,
    StateError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import (
    PREPARING,
    Record,
    is_stub,
    stub_of,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.rules.ledger import CONFIRMED
from ansible_collections.cluster_compute.session.plugins.module_utils.host import firewall_rules
from ansible_collections.cluster_compute.session.plugins.module_utils.host.data import SessionData
from ansible_collections.cluster_compute.session.plugins.module_utils.host.steps import descriptions, perform

PublicKeys = dict[str, dict[str, "str | None"]]


def prepare(
    state: StateDirectory,
    ledger: LedgerFile,
    record: Record,
    host: str,
    *,
    lease_owner: str,
    regenerate_keys: bool,
    deadline: float,
    check_mode: bool,
    recorded: Collection[str] = (),
) -> tuple[PublicKeys, list[str]]:
    """Confirm the reservation, write the record down, make missing folders and keys; without replicas keep a stub.

    lease_owner: the run of the launch that holds the reservation. deadline: seconds within which the session has to
    run. recorded: sessions that this host had a record of when the launch looked.
    Returns the public keys of this host's replicas, and what was, or would be, done. Raises LedgerError
    where the reservation has run out, StateError where the session was torn down since the launch looked, FolderError
    where a folder cannot be made or proven.
    """
    if host not in record["hosts"]:
        stub = stub_of(record)
        actions = keep_records(state, [stub], check_mode, recorded)
        return {}, actions + _keep_out(state, stub, check_mode)
    session = state.session(record["id"])
    if record["id"] in recorded and session.read_record() is None and not check_mode:
        ledger.release(record["id"], lease_owner)
        raise StateError(f"Session {record['name']} was torn down while this launch was at work. Launch again.")
    if not check_mode:
        ledger.advance(record["id"], CONFIRMED, deadline, lease_owner)
        if record["status"] == PREPARING:
            # Before the first key: what is found later of a launch that was killed can then be told whose it is.
            keep_records(state, [record], check_mode)
    actions = SessionData(record, host, session).prepare(lease_owner, check_mode)
    public_keys, made = make_keys(session, record["plan"], host, regenerate_keys, check_mode)
    return public_keys, actions + [f"create key {key}" for key in made]


def make_keys(
    session: SessionDirectory, plan: dict[str, Any], host: str, regenerate: bool, check_mode: bool
) -> tuple[PublicKeys, list[str]]:
    """Make the keys of this host's replicas that are missing, or all anew with *regenerate*.

    Returns the public keys by replica, None for those that check mode kept from being made, and the names of the
    keys that were, or would be, made. In an encrypted session a host has a key for its tunnel, which is told with each
    of its replicas.
    """
    public_keys: PublicKeys = {}
    names: list[str] = []
    for replica in plan["replicas"]:
        if replica["host"] == host:
            folder = session.replica(replica["name"]) / "ssh"
            public_keys[replica["name"]], made = converge_keys(folder, regenerate, check_mode)
            names += [f"{replica['name']}/{key}" for key in made]
    if plan["network"] is not None and plan["network"]["tunnel"] is not None:
        from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import wireguard

        public = None if regenerate else wireguard.read_public_key(session.tunnel_key_file)
        if public is None:
            names.append(session.tunnel_key_file.name)
            public = None if check_mode else wireguard.create_key(session.tunnel_key_file)
        for keys in public_keys.values():
            keys["tunnel"] = public
    return public_keys, names


def _keep_out(state: StateDirectory, stub: Record, check_mode: bool) -> list[str]:
    """Keep containers of this host, which carries no replica, out of the session's tunnel; return what was done."""
    if not check_mode and state.session(stub["id"]).read_record() is None:
        return []  # it was torn down just now
    wanted = firewall_rules.isolation_of_stub(stub)
    if wanted is None:
        return []
    stages = [firewall_rules.rule_steps(wanted, Engine.connect().uses_nftables())]
    if not check_mode:
        perform(stages)
    return descriptions(stages)


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
        if is_stub(record) and found is not None and _says_the_same(found, record):
            continue
        if found is None and record["id"] in recorded:
            continue
        if found is None or found["revision"] < record["revision"]:
            actions.append(f"{'update' if found else 'create'} record {record['name']}")
            if not check_mode:
                directory.write_record(record)
    return actions


def _says_the_same(found: Record, stub: Record) -> bool:
    """Tell whether a copy says what a stub says, in whatever revision: which hosts carry the session, and how it is."""
    return (found["status"], found["hosts"]) == (stub["status"], stub["hosts"])


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
