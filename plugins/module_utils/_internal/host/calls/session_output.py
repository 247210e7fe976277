# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read the output of replicas of this host."""

from __future__ import annotations

from contextlib import closing, suppress

from ...adapters.state import StateDirectory
from ...core.model.call.base import Answer, Call, States
from ...core.model.call.session_output import FindOutput, OutputAnswer, PruneOutput, ReadOutput
from ...core.model.output import Since
from .. import output


def _known(request: FindOutput, _check_mode: bool) -> OutputAnswer:
    """Return the sessions with the name."""
    state = StateDirectory(request.state_directory)
    sessions = output.known_sessions(state, request.session_name, request.session_id or "", request.states)
    return OutputAnswer(changed=False, sessions=tuple(sessions))


def _read(request: ReadOutput, _check_mode: bool) -> OutputAnswer:
    """Read the output."""
    question = output.Question(
        request.session_id,
        request.replicas,
        request.since or Since(),
        request.tail,
        request.grep,
        request.size,
        request.job,
    )
    state = StateDirectory(request.state_directory)
    with closing(output.OutputReader(state, question, request.positions)) as reader:
        sources = reader.read_when_written(request.wait)
    return OutputAnswer(
        changed=False,
        sources=tuple(sources),
        jobs=tuple(reader.jobs),
        positions=reader.positions,
        running=reader.running,
    )


def _pruned(request: PruneOutput, check_mode: bool) -> OutputAnswer:
    """Remove output whose retention time is over, and leftovers."""
    # Only this call needs them.
    from ...adapters.engine import Engine, EngineError
    from .. import engine_trial, image_notes, packs

    state = StateDirectory(request.state_directory)
    removed = output.prune(state, request.days * 86400, request.sessions, check_mode)
    if not check_mode:
        packs.prune(state)
    left: list[str] = []
    with suppress(EngineError):  # the collection of facts reports a host without an engine
        engine = Engine.connect()
        left = engine_trial.remove_left(engine, check_mode) + image_notes.remove_left(engine, check_mode)
        if not check_mode:
            image_notes.prune(state, engine)
    return OutputAnswer(changed=bool(removed or left), removed=tuple(removed), leftovers=tuple(left))


STATES: States = {FindOutput: _known, ReadOutput: _read, PruneOutput: _pruned}


def call(request: Call, check_mode: bool) -> Answer:
    """Run the requested state. Raises SessionError, OSError."""
    return STATES[type(request)](request, check_mode)
