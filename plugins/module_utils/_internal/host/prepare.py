# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Prepare one host for a session before any replica starts: record or stub record, and keys."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ..adapters.engine import Engine
from ..adapters.ledger import LedgerFile
from ..adapters.ssh_keys import converge_keys
from ..adapters.state import SessionDirectory, StateDirectory
from ..core.model.record import ENDED, PublicKeys, Record, Tombstone, differs, is_stub, line_of, says_the_same, stub_of
from ..core.values.errors import SessionError, message_of
from . import firewall_rules
from .steps import descriptions, perform

if TYPE_CHECKING:
    from ..core.model.plan import Plan


def keep_stub(
    state: StateDirectory,
    ledger: LedgerFile,
    record: Record,
    *,
    lease_owner: str,
    recorded: Collection[str],
    looked: float | None = None,
    check_mode: bool,
) -> tuple[list[str], str]:
    """Store a stub record of a session without replicas on this host, and keep its containers out of the tunnel.

    lease_owner: the run of the launch that may hold the session's name here. The stub holds it from now on. recorded:
    sessions of which this host had a record when the launch collected facts. Returns what was, or would be, done, and
    why the record could not be written. Containers are still kept out, which is all that the session needs here.
    """
    stub = stub_of(record)
    unwritten = ""
    try:
        actions = keep_records(state, [stub], check_mode, recorded)
        if not check_mode:
            leave_torn_down(state, ledger, [stub], looked, lease_owner)
        is_known = check_mode or state.session(stub.id).read_record() is not None  # otherwise it was torn down just now
    except (SessionError, OSError) as error:
        actions, is_known, unwritten = [], True, message_of(error)
    if is_known:
        actions += keep_out(stub, check_mode)
    if not check_mode and not unwritten:
        release_name(ledger, record.id, lease_owner)
    return actions, unwritten


def release_name(ledger: LedgerFile, session_id: str, lease_owner: str) -> None:
    """Release a run's lease of a session's name alone, because the record holds the name from now on."""
    held = ledger.read().get(session_id)
    if held is not None and not held.claim.replicas:
        ledger.release(session_id, lease_owner)


def make_keys(
    session: SessionDirectory, plan: Plan, host: str, regenerate: bool, check_mode: bool
) -> tuple[PublicKeys, list[str]]:
    """Create the missing keys of this host's replicas, or replace all of them with *regenerate*.

    Returns the public keys by replica, None for keys that check mode did not create, and the names of the keys that
    were, or would be, created. In an encrypted session a host has a key for its tunnel, which is returned with each of
    its replicas.
    """
    public_keys: dict[str, dict[str, str | None]] = {}
    names: list[str] = []
    for replica in plan.on(host):
        folder = session.replica(replica.name) / "ssh"
        public_keys[replica.name], made = converge_keys(folder, regenerate, check_mode)
        names += [f"{replica.name}/{key}" for key in made]
    if plan.network is not None and plan.network.tunnel is not None:
        from ..adapters import wireguard

        public = None if regenerate else wireguard.read_public_key(session.tunnel_key_file)
        if public is None:
            names.append(session.tunnel_key_file.name)
            public = None if check_mode else wireguard.create_key(session.tunnel_key_file)
        for keys in public_keys.values():
            keys["tunnel"] = public
    return public_keys, names


def keep_out(stub: Record, check_mode: bool) -> list[str]:
    """Keep containers of this host, which carries no replica, out of the session's tunnel. Return what was done."""
    if stub.tunnel is None:
        return []
    nftables = Engine.connect().uses_nftables()
    stages = [firewall_rules.standing_steps(nftables), firewall_rules.keep_out_steps(stub, nftables)]
    if not check_mode:
        perform(stages)
    return descriptions(stages)


def keep_records(
    state: StateDirectory,
    records: list[Record],
    check_mode: bool,
    recorded: Collection[str] = (),
    settles: bool = False,
) -> list[str]:
    """Store those *records* that this host does not have, or has in an older revision. Return what was done.

    recorded: sessions of which this host had a record when these were created. A session without a record now was torn
    down. settles: a stub also replaces another content of its revision, because most witnesses have agreed to it.
    """
    actions = []
    for record in records:
        directory = state.session(record.id)
        found = directory.read_record()
        is_wanted = record.id not in recorded if found is None else _is_newer(record, found, settles)
        if is_wanted:
            actions.append(f"{'update' if found else 'create'} record {record.name}")
            if not check_mode:
                directory.write_record(record)
    return actions


def _is_newer(record: Record, found: Record, settles: bool) -> bool:
    """Return whether *record* replaces the record *found* on this host. settles: as in `keep_records`."""
    if is_stub(record) and says_the_same(found, record):
        return False
    is_rival = settles and is_stub(record) and found.revision == record.revision
    return found.revision < record.revision or (is_rival and differs(found, record))


def leave_torn_down(
    state: StateDirectory, ledger: LedgerFile, records: list[Record], looked: float | None, lease_owner: str | None
) -> None:
    """Remove records of sessions whose names were torn down here since their run collected facts (*looked*).

    This runs after they were written. A teardown that comes later finds them by itself.
    """
    for record in records:
        directory = state.session(record.id)
        if not ledger.was_removed(record.name, record.id, looked, lease_owner):
            ledger.admit(record.name, record.id)
        elif directory.exists() and not directory.host_file.exists():
            state.remove_session(record.id)


def keep_lines(
    state: StateDirectory, settled: Collection[str], seconds: float, most: int, check_mode: bool
) -> list[str]:
    """Keep a line of each ended session, for *seconds* and for the newest *most*. Return what was done.

    settled: ids of sessions of which no host has an older state. The lines of others stay.
    """
    actions = []
    ended = [record for record in state.records()[0] if record.status in ENDED]
    times = {record.id: state.session(record.id).record_file.stat().st_mtime for record in ended}
    newest = sorted(ended, key=lambda record: times[record.id], reverse=True)
    for place, record in enumerate(newest):
        if record.id in settled and (place >= most or time.time() - times[record.id] >= seconds):
            actions.append(f"remove record {record.name}")
            if not check_mode:
                state.remove_session(record.id)
        elif record != line_of(record):
            actions.append(f"shorten record {record.name}")
            if not check_mode:
                state.session(record.id).write_record(line_of(record))
    return actions


def keep_tombstones(
    state: StateDirectory, tombstones: Iterable[Tombstone], forget: Iterable[str], check_mode: bool
) -> list[str]:
    """Add *tombstones* and remove those of the ids in *forget*. Return what was done."""
    actions = []
    known = {tombstone.id: tombstone for tombstone in state.tombstones()}
    for tombstone in tombstones:
        before = known.get(tombstone.id)
        hosts = sorted({*tombstone.hosts, *(before.hosts if before else ())})
        if before is None or list(before.hosts) != hosts:
            actions.append(f"set tombstone {tombstone.name}")
            if not check_mode:
                state.write_tombstone(tombstone.id, tombstone.name, hosts)
    for tombstone in (known[session_id] for session_id in forget if session_id in known):
        actions.append(f"remove tombstone {tombstone.name}")
        if not check_mode:
            state.remove_tombstone(tombstone.id)
    return actions
