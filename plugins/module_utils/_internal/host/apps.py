# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Open and close apps in main1 of a session: each is a job that listens on main1's own loopback address.

Its token is created here. It is stored in a file of the state directory that only root can read, and in files of main1
that only its user can read. It is never in an argument list or in the stored output of the app.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..adapters import engine_objects
from ..adapters.engine import Engine
from ..adapters.engine_objects import Inspected
from ..adapters.listeners import listens, taken_ports
from ..adapters.output import JobOutput, OutputDirectory
from ..adapters.state import SessionDirectory, StateDirectory, make_directory, write_file
from ..core.model.call.session_app import AppAnswer, OpenedApp, Way
from ..core.model.decode import Malformed, decode, encode
from ..core.model.output import MAIN
from ..core.rules.apps import ADDRESS, PORTS, TABLE, AppRequest, filled, page
from ..core.values.errors import SessionError
from ..core.values.places import DIRECTORY, SHELL
from . import jobs

LOOK = 0.1
"""Seconds between two checks of whether an app listens or has ended."""
END = 2 * jobs.GRACE
"""Seconds within which a stopped job has to end."""
LAST_LINES = 10
"""Number of lines of an app's output in the error if the app does not start."""
_FIND = 'for program; do command -v "$program" >/dev/null && echo "$program"; done; true'


class AppError(SessionError):
    """An app cannot be opened; the message is a sentence."""


def open_app(
    state: StateDirectory, session_id: str, host: str, app: AppRequest, size: int, seconds: float, check_mode: bool
) -> AppAnswer:
    """Start the app if it does not run, and return its data.

    host: this one's name in the session's plan. size: maximum number of bytes to keep of its output. seconds: how long
    it may take until it listens. Raises AppError, JobError and EngineError if it cannot be started or does not listen.
    Nothing of it is then left.
    """
    container = _container(session_id)
    directory = state.session(session_id)
    with state.working_on(session_id):
        found = _read(directory, app.name)
        job = _job(state, session_id, found) if found else None
        if found and job and jobs.is_running(job):
            made, changed = found, False
        else:
            way = _way(container.id, app)
            if check_mode:
                return AppAnswer(changed=True, opened=OpenedApp(way))
            if job:
                jobs.stop(job)  # apps whose watching process is gone
            made, changed = _start(state, session_id, host, replace(app, ways=(way,)), container, size), True
    if not check_mode:
        _await(state, session_id, app.name, made, container, seconds)
    return AppAnswer(changed=changed, opened=made)


def close_apps(state: StateDirectory, session_id: str, names: Sequence[str], check_mode: bool) -> list[str]:
    """End apps of a session, and return which were open. names: empty for all."""
    directory = state.session(session_id)
    if not directory.apps.exists():
        return []
    with state.working_on(session_id):
        meant = [name for name in directory.app_names() if not names or name in names]
        for name in meant if not check_mode else ():
            _close(state, session_id, name)
    return meant


def _close(state: StateDirectory, session_id: str, name: str) -> None:
    """End an app, and remove its data when it has ended. Raises AppError if it does not end."""
    directory = state.session(session_id)
    found = _read(directory, name)
    job = _job(state, session_id, found) if found else None
    if job:
        jobs.stop(job)
        deadline = time.monotonic() + END
        while jobs.is_running(job):
            if time.monotonic() > deadline:
                raise AppError(f"The app {name} does not end. Its job is {job.id}.")
            time.sleep(LOOK)
    shutil.rmtree(_folder(directory, name), ignore_errors=True)
    directory.forget_app(name)


def _read(directory: SessionDirectory, name: str) -> OpenedApp | None:
    """Return what was recorded when an app was opened, maybe by another release; None if that cannot be read."""
    try:
        return decode(OpenedApp, directory.read_app(name), f"The app {name}", forgiving=True)
    except Malformed:
        return None


def _container(session_id: str) -> Inspected:
    """Return the running main1 of a session. Raises AppError."""
    wanted = {engine_objects.LABEL_SESSION_ID: session_id, engine_objects.LABEL_REPLICA: MAIN}
    engine = Engine.connect()
    found = [entry for entry in engine.session_containers(wanted) if entry.runs]
    inspected = engine.inspect(found[0].id) if found else None
    if inspected is None:
        raise AppError(f"{MAIN} does not run on this host. Run the repair playbook.")
    return inspected


def _job(state: StateDirectory, session_id: str, app: OpenedApp) -> JobOutput:
    return OutputDirectory(str(state.root)).session(session_id).job(app.job)


def _folder(directory: SessionDirectory, name: str) -> Path:
    """Return the app's directory in main1 below /etc/cluster-compute."""
    return directory.replica(MAIN) / "apps" / name


def _way(container: str, app: AppRequest) -> Way:
    """Return the first way of an app whose program is in the image. Raises AppError if there is none."""
    programs = [way.command[0] for way in app.ways]
    _code, out, _err = Engine.connect().execute(container, [SHELL, "-c", _FIND, "look", *programs])
    found = out.split()
    for way in app.ways:
        if way.command[0] in found:
            return way
    raise AppError(
        f"The image of {MAIN} has no program for the app {app.name}. Looked for: {', '.join(programs)}. Put one of "
        f"them into the image, or name another in {TABLE}."
    )


def _start(
    state: StateDirectory, session_id: str, host: str, app: AppRequest, container: Inspected, size: int
) -> OpenedApp:
    """Start an app in the chosen way, and return its data."""
    (way,) = app.ways
    directory = state.session(session_id)
    owner = directory.read_owner(MAIN)
    if owner is None:
        raise AppError(f"This host does not know the user of {MAIN}. Run the repair playbook.")
    taken = taken_ports(container.pid)
    port = secrets.choice([port for port in PORTS if port not in taken])
    made = OpenedApp(way, secrets.token_hex(6), port, "" if way.without_token else secrets.token_hex(24))
    token_file = f"{DIRECTORY}/apps/{app.name}/token"
    values: dict[str, str] = {"port": str(port), "token": made.token, "token_file": token_file}
    folder = _folder(directory, app.name)
    directory.write_app(app.name, encode(made))
    make_directory(folder.parent, 0o755)
    make_directory(folder, 0o755)
    for name, text in (
        ("token", filled(way.token_file, values)),
        ("url", f"{page(port, way.url, made.token)}\n"),
    ):
        write_file(folder / name, text, mode=0o400, owner=owner)
    command = jobs.Command(
        [filled(word, values) for word in way.command],
        {name: filled(text, values) for name, text in way.environment.items()},
        user="",
        directory=app.directory,
        timeout=0,
        size=size,
        secret=made.token,
    )
    try:
        jobs.start(state, session_id, made.job, {MAIN: host}, host, command)
    except SessionError:
        _close(state, session_id, app.name)
        raise
    return made


def _await(
    state: StateDirectory,
    session_id: str,
    name: str,
    made: OpenedApp,
    container: Inspected,
    seconds: float,
) -> None:
    """Wait until an app listens. If it ends before or does not listen, it is closed and AppError is raised."""
    job = _job(state, session_id, made)
    deadline = time.monotonic() + seconds
    while not listens(container.pid, ADDRESS, made.port):
        is_running = jobs.is_running(job)
        if is_running and time.monotonic() < deadline:
            time.sleep(LOOK)
            continue
        why = f"does not listen on {ADDRESS} after {seconds:.0f} seconds" if is_running else _how_it_ended(job)
        lines = [f"{MAIN} | {text}" for _time, _stream, text in job.read(MAIN, None)[0][-LAST_LINES:]]
        close_apps(state, session_id, [name], check_mode=False)
        raise AppError("\n".join([f"The app {name} {why}.", *lines]))


def _how_it_ended(job: JobOutput) -> str:
    code = next((outcome.exit_code for outcome in jobs.outcomes(job)), None)
    return "ended before it listened" + ("" if code is None else f", with exit code {code}")
