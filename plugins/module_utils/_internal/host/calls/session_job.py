# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Start a job in replicas of this host, or end it."""

from __future__ import annotations

from typing import Any, Callable

from ...adapters.output import OutputDirectory
from ...adapters.state import StateDirectory
from ...core.rules.output import parse_keep_size
from ...core.values.parse import parse_env
from .. import jobs

DEFAULT_SIZE = 16 * 1024**2


def _started(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Start the command."""
    command = jobs.Command(
        arguments["command"],
        parse_env("job_env", arguments["env"]),
        arguments["user"],
        arguments["directory"],
        arguments["timeout"],
        parse_keep_size(arguments["output_size"]) or DEFAULT_SIZE,
        arguments["warn_alone"],
    )
    where = (arguments["on"], arguments["host"])
    state = StateDirectory(arguments["state_directory"])
    job = OutputDirectory(arguments["state_directory"]).session(arguments["session_id"]).job(arguments["job"])
    # A session that is removed in the meantime would get its output directory again, which nothing would clean up.
    with state.working_on(arguments["session_id"]):
        is_there = arguments["once"] and job.read_info() is not None
        if not check_mode and not is_there:
            jobs.start(state, arguments["session_id"], arguments["job"], *where, command)
    started = [name for name, host in arguments["on"].items() if host == arguments["host"]]
    return {"changed": not is_there, "started": started}


def _stopped(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """End the job."""
    job = OutputDirectory(arguments["state_directory"]).session(arguments["session_id"]).job(arguments["job"])
    running = jobs.is_running(job)
    if not check_mode and job.path.exists():
        jobs.stop(job, requeue=arguments["requeue"])
    return {"changed": running}


STATES: dict[str, Callable[[dict[str, Any], bool], dict[str, Any]]] = {"started": _started, "stopped": _stopped}


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Run the requested state. Raises SessionError, OSError."""
    return STATES[arguments["state"]](arguments, check_mode)
