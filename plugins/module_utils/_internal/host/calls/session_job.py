# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Start a job in replicas of this host, or end it."""

from __future__ import annotations

from ...adapters.output import OutputDirectory
from ...adapters.state import StateDirectory
from ...core.model.call.base import Answer, States
from ...core.model.call.session_job import JobAnswer, StartJob, StopJob
from ...core.rules.output import parse_keep_size
from ...core.values.parse import parse_env
from .. import jobs

DEFAULT_SIZE = 16 * 1024**2


def _started(request: StartJob, check_mode: bool) -> JobAnswer:
    """Start the command."""
    command = jobs.Command(
        request.command,
        parse_env("job_env", request.env),
        request.user,
        request.directory,
        request.timeout,
        parse_keep_size(request.output_size) or DEFAULT_SIZE,
        request.warn_alone,
    )
    state = StateDirectory(request.state_directory)
    job = OutputDirectory(request.state_directory).session(request.session_id).job(request.job)
    # A session that is removed in the meantime would get its output directory again, which nothing would clean up.
    with state.working_on(request.session_id):
        is_there = request.once and job.read_info() is not None
        if not check_mode and not is_there:
            jobs.start(state, request.session_id, request.job, request.on, request.host, command)
    started = [name for name, host in request.on.items() if host == request.host]
    return JobAnswer(changed=not is_there, started=tuple(started))


def _stopped(request: StopJob, check_mode: bool) -> JobAnswer:
    """End the job."""
    job = OutputDirectory(request.state_directory).session(request.session_id).job(request.job)
    running = jobs.is_running(job)
    if not check_mode and job.path.exists():
        jobs.stop(job, requeue=request.requeue)
    return JobAnswer(changed=running)


STATES: States = {StartJob: _started, StopJob: _stopped}


def call(request: StartJob | StopJob, check_mode: bool) -> Answer:
    """Run the requested state. Raises SessionError, OSError."""
    return STATES[type(request)](request, check_mode)
