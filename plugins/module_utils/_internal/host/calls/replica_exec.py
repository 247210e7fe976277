# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run a program in a replica of this host."""

from __future__ import annotations

from dataclasses import replace

from ...adapters import engine_objects
from ...adapters.engine import Engine, EngineError
from ...adapters.state import StateDirectory
from ...core.model.call.base import States
from ...core.model.call.replica_exec import ExecAnswer, Execute
from .. import owner


def call(request: Execute, _check_mode: bool) -> ExecAnswer:
    """Return how the program ended. It has failed if its exit code is not 0. Raises EngineError, SessionError."""
    engine = Engine.connect()
    owner.check(engine, StateDirectory(request.state_directory), request.session_name, request.asker)
    found = engine.session_containers(
        {engine_objects.LABEL_SESSION_NAME: request.session_name, engine_objects.LABEL_REPLICA: request.replica}
    )
    if not found:
        raise EngineError(f"This host runs no replica {request.replica} of a session named {request.session_name}.")
    code, out, err = engine.execute(found[0].id, list(request.command), request.user)
    answer = ExecAnswer(changed=True, rc=code, stdout=out, stderr=err)
    if code == 0:
        return answer
    why = f"{request.command[0]} ended with exit code {code} in {request.replica}: {(err or out).strip()}"
    return replace(answer, failed=True, msg=why)


STATES: States = {Execute: call}
