# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run a program in a replica of this host."""

from __future__ import annotations

from typing import Any

from ...adapters import engine as docker_engine
from ...adapters.engine import Engine, EngineError
from ...adapters.state import StateDirectory
from .. import owner


def call(arguments: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
    """Return how the program ended. It has failed if its exit code is not 0. Raises EngineError, SessionError."""
    engine = Engine.connect()
    owner.check(engine, StateDirectory(arguments["state_directory"]), arguments["session_name"], arguments["asker"])
    found = engine.session_containers(
        {
            docker_engine.LABEL_SESSION_NAME: arguments["session_name"],
            docker_engine.LABEL_REPLICA: arguments["replica"],
        }
    )
    if not found:
        raise EngineError(
            f"This host runs no replica {arguments['replica']} of a session named {arguments['session_name']}."
        )
    code, out, err = engine.execute(found[0]["Id"], arguments["command"], arguments["user"])
    result = {"changed": True, "rc": code, "stdout": out, "stderr": err}
    if code == 0:
        return result
    why = f"{arguments['command'][0]} ended with exit code {code} in {arguments['replica']}: {(err or out).strip()}"
    return {**result, "failed": True, "msg": why}
