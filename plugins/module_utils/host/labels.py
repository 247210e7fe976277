# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Carry a session's record in a label of its default network, so that a lost state directory can be made anew."""

from __future__ import annotations

import base64
import json
import zlib

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
