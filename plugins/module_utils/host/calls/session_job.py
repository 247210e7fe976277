# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Start a job in replicas of this host, or end it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Callable

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.output import OutputDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.record import RUNNING
from ansible_collections.cluster_compute.session.plugins.module_utils.core.model.values import parse_env
from ansible_collections.cluster_compute.session.plugins.module_utils.core.output import parse_keep_size
from ansible_collections.cluster_compute.session.plugins.module_utils.host import jobs

DEFAULT_SIZE = 16 * 1024**2


def _started(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Start the command."""
    command = jobs.Command(
        asked["command"],
        parse_env("job_env", asked["env"]),
        asked["user"],
        asked["directory"],
        asked["timeout"],
        parse_keep_size(asked["output_size"]) or DEFAULT_SIZE,
    )
    where = (asked["on"], asked["host"])
    state = StateDirectory(asked["state_directory"])
    job = OutputDirectory(asked["state_directory"]).session(asked["session_id"]).job(asked["job"])
    with state.working_on(asked["session_id"]) if asked["once"] else nullcontext():
        is_there = asked["once"] and job.read_about() is not None
        if not check_mode and not is_there:
            jobs.start(state, asked["session_id"], asked["job"], *where, command)
    started = [name for name, host in asked["on"].items() if host == asked["host"]]
    return {"changed": not is_there, "started": started}


def _stopped(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """End the job."""
    job = OutputDirectory(asked["state_directory"]).session(asked["session_id"]).job(asked["job"])
    running = any(one["status"] == RUNNING for one in jobs.outcomes(job))
    if not check_mode and job.path.exists():
        jobs.stop(job)
    return {"changed": running}


STATES: dict[str, Callable[[dict[str, Any], bool], dict[str, Any]]] = {"started": _started, "stopped": _stopped}


def call(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring about the state that is asked for. Raises SessionError, OSError."""
    return STATES[asked["state"]](asked, check_mode)
