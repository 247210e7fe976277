# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What a host's timer does, each time that it runs: count what owners use, look at the time of sessions,
write figures for the site's monitoring, look at the disks, and say which session has which card."""

from __future__ import annotations

from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError, message_of
from ansible_collections.cluster_compute.session.plugins.module_utils.host.disk import enforce_limits
from ansible_collections.cluster_compute.session.plugins.module_utils.host.durations import keep_time
from ansible_collections.cluster_compute.session.plugins.module_utils.host.journal import say
from ansible_collections.cluster_compute.session.plugins.module_utils.host.use import count_use


def look(state: StateDirectory) -> int:
    """Do it, say so, and return the exit code: 1 where something could not be done."""
    try:
        state.check_version()
    except (SessionError, OSError) as error:
        say(f"Nothing is looked at: {message_of(error)}")
        return 1
    try:
        engine = Engine.connect()
    except SessionError:
        _write_figures(None, state)
        _write_cards(None, state)
        return 0  # without an engine nothing runs, and others say so
    failed = False
    # Disks late, as to walk them may take minutes; cards last, as what tells them may hang.
    for work in (_count_use, _keep_time, _write_figures, _look_at_disks, _write_cards):
        done, problems = work(engine, state)
        for line in (*done, *problems):
            say(line)
        failed = failed or bool(problems)
    return 1 if failed else 0


def _count_use(_engine: Engine, state: StateDirectory) -> tuple[list[str], list[str]]:
    try:
        count_use(state)
    except (SessionError, OSError) as error:
        return [], [f"What owners use could not be counted: {message_of(error)}"]
    return [], []


def _keep_time(engine: Engine, state: StateDirectory) -> tuple[list[str], list[str]]:
    try:
        return keep_time(engine, state)
    except (SessionError, OSError) as error:
        return [], [f"The time of sessions could not be kept: {message_of(error)}"]


def _write_figures(_engine: Engine | None, state: StateDirectory) -> tuple[list[str], list[str]]:
    if "metrics_directory" not in state.settings_text():
        return [], []
    from ansible_collections.cluster_compute.session.plugins.module_utils.host import metrics

    try:
        metrics.write_figures(state)
    except (SessionError, OSError) as error:
        return [], [f"Figures for the site's monitoring could not be written: {message_of(error)}"]
    return [], []


def _write_cards(_engine: Engine | None, state: StateDirectory) -> tuple[list[str], list[str]]:
    if "job_mapping_directory" not in state.settings_text():
        return [], []
    from ansible_collections.cluster_compute.session.plugins.module_utils.host import metrics

    try:
        metrics.write_cards(state)
    except (SessionError, OSError) as error:
        return [], [f"Which session has which card could not be written: {message_of(error)}"]
    return [], []


def _look_at_disks(engine: Engine, state: StateDirectory) -> tuple[list[str], list[str]]:
    try:
        done, problems = enforce_limits(engine, state)
    except (SessionError, OSError) as error:
        return [], [f"What replicas write is not known: {error}"]
    return [f"stop container {container}: {reason}" for container, reason in done.items()], problems
