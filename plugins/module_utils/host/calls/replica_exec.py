# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run a program in a replica of this host."""

from __future__ import annotations

from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import engine as docker_engine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine, EngineError


def call(asked: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
    """Return how the program ended; failed where its exit code is not 0. Raises EngineError."""
    engine = Engine.connect()
    found = engine.session_containers(
        {
            docker_engine.LABEL_SESSION_NAME: asked["session_name"],
            docker_engine.LABEL_REPLICA: asked["replica"],
        }
    )
    if not found:
        raise EngineError(f"This host runs no replica {asked['replica']} of a session named {asked['session_name']}.")
    code, out, err = engine.execute(found[0]["Id"], asked["command"], asked["user"])
    result = {"changed": True, "rc": code, "stdout": out, "stderr": err}
    if code == 0:
        return result
    why = f"{asked['command'][0]} ended with exit code {code} in {asked['replica']}: {(err or out).strip()}"
    return {**result, "failed": True, "msg": why}
