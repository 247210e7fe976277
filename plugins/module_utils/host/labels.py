# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Carry a session's record in a label of its default network, so that a lost state directory can be made anew.

Labels stay as they were made, so a session that changes while it runs has the newer record in one of the containers
that came with the change.
"""

from __future__ import annotations

import base64
import json
import zlib

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import engine as docker_engine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.decode import encode
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import (
    InvalidRecord,
    Record,
    read_record,
)

LARGEST = 64 * 1024 * 1024
"""Most bytes that a label may unpack to; a record of the largest session has a tenth of it."""


def pack(record: Record) -> str:
    """Return the label's text."""
    text = json.dumps(encode(record), sort_keys=True, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(label: str, session_id: str) -> Record:
    """Return the record in a label. Raises InvalidRecord where it is not one of this session."""
    try:
        packed = base64.b64decode(label, validate=True)
        text = zlib.decompressobj().decompress(packed, LARGEST)
        data = json.loads(text)
    except (ValueError, RecursionError, zlib.error) as error:
        raise InvalidRecord(f"The label of session {session_id} holds no record ({error}).") from error
    return read_record(data, session_id)


def labelled_records(engine: Engine) -> dict[str, Record]:
    """Return the records that labels hold, the newest by session; a label that holds none is as good as missing."""
    found: dict[str, Record] = {}
    for entry in (*engine.networks(), *engine.session_containers()):
        held = entry.get("Labels") or {}
        session_id = docker_engine.session_id_of(held)
        if session_id and docker_engine.LABEL_RECORD in held:
            try:
                record = unpack(held[docker_engine.LABEL_RECORD], session_id)
            except InvalidRecord:
                continue
            if session_id not in found or record.revision > found[session_id].revision:
                found[session_id] = record
    return found
