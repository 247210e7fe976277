# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read the output of replicas of this host."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any, Callable

from ...adapters.state import StateDirectory
from .. import output


def _known(arguments: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
    """Return the sessions with the name."""
    state = StateDirectory(arguments["state_directory"])
    return {
        "changed": False,
        "sessions": output.known_sessions(
            state, arguments["session_name"], arguments["session_id"] or "", arguments["states"]
        ),
    }


def _read(arguments: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
    """Read the output."""
    question = output.Question(
        arguments["session_id"],
        arguments["replicas"],
        arguments["since"],
        arguments["tail"],
        arguments["grep"],
        arguments["size"],
        arguments["job"],
    )
    state = StateDirectory(arguments["state_directory"])
    with closing(output.OutputReader(state, question, arguments["positions"])) as reader:
        sources = reader.read_when_written(arguments["wait"])
    return {
        "changed": False,
        "sources": sources,
        "jobs": reader.jobs,
        "positions": reader.positions,
        "running": reader.running,
    }


def _pruned(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Remove output whose retention time is over, and leftovers."""
    # Only this call needs them.
    from ...adapters.engine import Engine, EngineError
    from .. import engine_trial, image_notes

    state = StateDirectory(arguments["state_directory"])
    removed = output.prune(state, arguments["days"] * 86400, arguments["sessions"], check_mode)
    left = []
    with suppress(EngineError):  # the collection of facts reports a host without an engine
        engine = Engine.connect()
        left = engine_trial.remove_left(engine, check_mode) + image_notes.remove_left(engine, check_mode)
        if not check_mode:
            image_notes.prune(state, engine)
    return {"changed": bool(removed or left), "removed": removed, "leftovers": left}


STATES: dict[str, Callable[[dict[str, Any], bool], dict[str, Any]]] = {
    "known": _known,
    "read": _read,
    "pruned": _pruned,
}


def call(arguments: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Run the requested state. Raises SessionError, OSError."""
    return STATES[arguments["state"]](arguments, check_mode)
