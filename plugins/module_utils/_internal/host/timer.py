# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The work of a host's timer: record the use of owners, check the time of sessions, restore names in replicas, write
metrics for the site's monitoring, check the disks, and write which session has which GPU."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from ..adapters.bounded import be_impatient, bounded, patience
from ..adapters.engine import Engine
from ..adapters.state import StateDirectory
from ..adapters.suspicion import SuspicionFile
from ..core.values.errors import SessionError, hangs, message_of
from . import packs
from .disk import enforce_limits
from .durations import keep_time
from .journal import say
from .names import keep_names
from .use import count_use

STATE_SECONDS = 60.0
"""Seconds for the file system of the state directory."""
WORK_SECONDS = 900.0
"""Seconds for each task of the timer. A task that hangs does not stop the others."""

Report = tuple[list[str], list[str]]
"""What was done and what could not be done, one line each."""


def look(state: StateDirectory) -> int:
    """Run the tasks, report them, and return the exit code, 1 if something could not be done."""
    note = SuspicionFile(str(state.root))
    if note.hangs():
        be_impatient()
    what = f"the file system of the state directory {state.root}"
    try:
        bounded(state.check_version, what, patience(what, STATE_SECONDS))
    except (SessionError, OSError) as error:
        if hangs(error):
            note.remember(str(error), hangs=True)
        say(f"Nothing is checked: {message_of(error)}")
        return 1
    figures = (partial(_write_figures, state), "Figures for the site's monitoring could not be written")
    cards = (partial(_write_cards, state), "Which session has which card could not be written")
    parts = (partial(_prune_packs, state), "Working directories that no session has could not be removed")
    works = [figures, cards, parts]  # without an engine nothing runs, and others report this
    with suppress(SessionError):
        engine = Engine.connect()
        # Names after disks, because tenants can keep the timer busy with them. GPUs last, because their tool may hang.
        works = [
            (partial(_count_use, state), "The use of owners could not be recorded"),
            (partial(_keep_time, engine, state), "The time of sessions could not be kept"),
            figures,
            (partial(_look_at_disks, engine, state), "How much replicas write is not known"),
            (partial(keep_names, engine, state), "Names in replicas could not be checked"),
            parts,
            cards,
        ]
    failed = False
    for work, otherwise in works:
        try:
            done, problems = bounded(work, "what this host's timer does", WORK_SECONDS)
        except Exception as error:  # whatever the error is, and whichever record it belongs to, the other tasks run
            done, problems = [], [f"{otherwise}: {message_of(error)}"]
        for line in (*done, *problems):
            say(line)
        failed = failed or bool(problems)
    return int(failed)


def _count_use(state: StateDirectory) -> Report:
    count_use(state)
    return [], []


def _keep_time(engine: Engine, state: StateDirectory) -> Report:
    done, problems, warnings = keep_time(engine, state)
    return [*done, *warnings], problems


def _prune_packs(state: StateDirectory) -> Report:
    return [f"remove part of a working directory {name}" for name in packs.prune(state)], []


def _write_figures(state: StateDirectory) -> Report:
    if "metrics_directory" in state.settings_text():
        from . import metrics

        metrics.write_figures(state)
    return [], []


def _write_cards(state: StateDirectory) -> Report:
    if "job_mapping_directory" in state.settings_text():
        from . import metrics

        metrics.write_cards(state)
    return [], []


def _look_at_disks(engine: Engine, state: StateDirectory) -> Report:
    done, problems = enforce_limits(engine, state)
    return [f"stop container {container}: {reason}" for container, reason in done.items()], problems
