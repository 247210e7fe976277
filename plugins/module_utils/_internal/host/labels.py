# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Store a session's record in a label of its default network, so that a lost state directory can be restored.

Labels cannot be changed, so a session that changes while it runs has the newer record in one of the containers that
came with the change.

An image can contain labels, and the id of a session is visible in the queue. A record therefore has an authentication
code, with a key of this host that no container can see. The key is outside the state directory, because labels are
needed when that is lost. Records without a valid code are ignored.
"""

from __future__ import annotations

import base64
import hmac
import json
import zlib

from ..adapters import engine_objects
from ..adapters.engine import Engine
from ..adapters.state import StateDirectory
from ..core.model.decode import encode
from ..core.model.record import InvalidRecord, Record, read_record

LARGEST = 64 * 1024 * 1024
"""Maximum size of an unpacked label in bytes. A record of the largest session has a tenth of it."""


def pack(record: Record) -> str:
    """Return the label's text."""
    text = json.dumps(encode(record), sort_keys=True, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(label: str, session_id: str) -> Record:
    """Return the record in a label. Raises InvalidRecord if it is not a record of this session."""
    try:
        packed = base64.b64decode(label, validate=True)
        text = zlib.decompressobj().decompress(packed, LARGEST)
        data = json.loads(text)
    except (ValueError, RecursionError, zlib.error) as error:
        raise InvalidRecord(f"The label of session {session_id} holds no record ({error}).") from error
    return read_record(data, session_id)


def record_labels(state: StateDirectory, record: Record) -> dict[str, str]:
    """Return the label with a record, and the label with its code by this host's key. Raises OSError."""
    packed = pack(record)
    return {engine_objects.LABEL_RECORD: packed, engine_objects.LABEL_CODE: code_of(packed, state.make_label_key())}


def code_of(packed: str, key: bytes) -> str:
    """Return the code of a label's text, in which the session's id is, by the key of a host."""
    return hmac.new(key, packed.encode("utf-8", "surrogateescape"), "sha256").hexdigest()


def labelled_records(engine: Engine, state: StateDirectory) -> tuple[dict[str, Record], dict[str, tuple[str, str]]]:
    """Return the newest record of each session in labels. A label without a record counts as missing.

    Also return the sessions with a label that this host cannot have written: by id, the session's name there and the
    object with the label.
    """
    key = state.read_label_key()
    found: dict[str, Record] = {}
    unproven: dict[str, tuple[str, str]] = {}
    entries = [(f"network {entry.name}", entry.labels) for entry in engine.networks()]
    entries += [(f"container {entry.name}", entry.labels) for entry in engine.session_containers()]
    for what, held in entries:
        session_id, packed = held.session_id, held.text(engine_objects.LABEL_RECORD)
        if not session_id or not packed:
            continue
        if not _is_own(packed, held.text(engine_objects.LABEL_CODE), key):
            unproven.setdefault(session_id, (held.session_name, what))
            continue
        try:
            record = unpack(packed, session_id)
        except InvalidRecord:
            continue
        if session_id not in found or record.revision > found[session_id].revision:
            found[session_id] = record
    return found, {key: where for key, where in unproven.items() if key not in found}


def _is_own(packed: str, code: str, key: bytes | None) -> bool:
    """Return whether the record in a label has a valid code by this host's key."""
    return key is not None and hmac.compare_digest(
        code.encode("utf-8", "surrogateescape"), code_of(packed, key).encode()
    )
