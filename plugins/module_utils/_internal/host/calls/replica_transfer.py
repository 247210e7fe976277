# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Send data from this host's replica of a session to another replica and back."""

from __future__ import annotations

import time

from ...adapters import engine_objects
from ...adapters.engine import Engine
from ...core.model.call.base import States
from ...core.model.call.replica_transfer import Transfer, TransferAnswer
from ...core.values.errors import SessionError

BLOCK = 65536
SEND = (
    f'dd if=/dev/zero bs={BLOCK} count="$2" 2>/dev/null | '
    'ssh -o ConnectTimeout=10 -o ServerAliveInterval=10 "$1" cat | wc -c'
)
"""Script in the replica. $1 is the other one, $2 the number of blocks. SSH loads CPUs and network on both sides."""


class TransferError(SessionError):
    """Nothing could be sent, or not everything came back. The message is a full sentence."""


def call(request: Transfer, _check_mode: bool) -> TransferAnswer:
    """Return the replica, and the id of its container. With a peer, return the seconds for there and back.

    Raises TransferError, and EngineError if it does not end in time.
    """
    engine = Engine.connect(request.seconds)
    found = engine.session_containers({engine_objects.LABEL_SESSION_NAME: request.session_name})
    running = [entry for entry in found if entry.runs]
    if len(running) != 1:
        raise TransferError(f"{len(running)} replicas of session {request.session_name} run here; it has to be one.")
    name = running[0].replica
    if not request.peer:
        return TransferAnswer(changed=False, replica=name, container=running[0].id)
    blocks = -(-request.size // BLOCK)
    begin = time.monotonic()
    command = ["sh", "-c", SEND, "sh", request.peer, str(blocks)]
    code, out, err = engine.execute(running[0].id, command, seconds=request.seconds)
    took = time.monotonic() - begin
    if code != 0 or out.strip() != str(blocks * BLOCK):
        lines = (err.strip() or f"{out.strip() or 'nothing'} of {blocks * BLOCK} bytes came back").splitlines()
        raise TransferError(f"{name} and {request.peer} do not work together: {lines[-1]}")
    return TransferAnswer(changed=False, replica=name, took=took)


STATES: States = {Transfer: call}
