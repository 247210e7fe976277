# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Log in from one replica to another as launchers do: by the session's client, by key, to the user's own shell."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from ..adapters import background
from ..adapters.engine import Engine, EngineError
from ..core.model.plan import Replica
from ..core.values.places import RUNTIME
from .session.ssh import SERVER_ENVIRONMENT, in_the_way

PARALLEL = 16
SECONDS = 20.0
"""Seconds for a login. With a tenth of a core a login takes two, and start files of a shell take longer."""
CONNECT_SECONDS = 5
ENDING_SECONDS = 5.0
"""Seconds for which a login may still be listed as running after its output has ended."""
LONGEST = 2048
"""Bytes of output of a failed login to keep, because a start file may write without end."""


def failures(engine: Engine, pairs: Iterable[tuple[Replica, Replica]]) -> list[str]:
    """Perform each of the logins once, in parallel. Return the reasons of failures as sentences."""
    from concurrent.futures import ThreadPoolExecutor  # not needed for the facts of a host

    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        return [found for found in pool.map(lambda pair: _failure(engine, *pair), list(pairs)) if found]


def _failure(engine: Engine, client: Replica, server: Replica) -> str:
    said = _login(engine, client, server)
    if said is None:
        return ""
    where = server if server.host == client.host else client
    return (
        f"{client.name} on {client.host} cannot log in to {server.name} by SSH as the launchers of programs do: "
        f"{said}.{in_the_way(engine, where.container)}"
    )


def _login(engine: Engine, client: Replica, server: Replica) -> str | None:
    """Return the output of a failed login, None if it succeeded. Raises EngineError."""
    options = ["-T", "-o", "LogLevel=ERROR", "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
    command = [f"{RUNTIME}/bin/ssh", *options, server.name, "exit 0"]
    made = engine.prepare_command(client.container, command, "", "", SERVER_ENVIRONMENT)
    said, deadline, is_late = b"", time.monotonic() + SECONDS, False
    try:
        for out, err in engine.run_command(made, SECONDS):
            said = (said + (out or b"") + (err or b""))[:LONGEST]
            is_late = time.monotonic() > deadline
            if is_late:
                break
    except EngineError:
        is_late = engine.command_state(made)[0]
        if not is_late:
            raise
    code = None if is_late else _exit_code(engine, made)
    if code == 0:
        return None
    if code is None:
        background.send({engine.command_state(made)[1]} - {0}, signal.SIGKILL)
    text = " ".join(said.decode("utf-8", "replace").split()).rstrip(".")
    how = f"it had not ended after {SECONDS:.0f} seconds" if code is None else f"exit code {code}"
    return f"{text} ({how})" if text else how


def _exit_code(engine: Engine, command: str) -> int | None:
    """Return how a command ended, after its output. The engine may need a moment to notice. None if it still runs."""
    deadline = time.monotonic() + ENDING_SECONDS
    while True:
        is_running, _process, code = engine.command_state(command)
        if not is_running:
            return code
        if time.monotonic() > deadline:
            return None
        time.sleep(0.05)
