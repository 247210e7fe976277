# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Determine how the containers of replicas ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..adapters import engine as docker_engine
from ..adapters.engine import Engine
from ..adapters.engine_objects import Container, read_inspected
from ..adapters.state import SessionDirectory

if TYPE_CHECKING:
    from ..core.values.failure import Failure

# The imports below are not needed on a host without failures.

ALIVE = ("running", "created", "restarting", "paused", "removing")
"""States of a container that has not ended, as the engine lists them."""


def read_exit_code(engine: Engine, entry: Container) -> int | None:
    """Return the exit code of a container that has ended, for whatever reason. None if it has not ended."""
    if entry.state in ALIVE:
        return None
    found = engine.inspect(entry.id)
    return None if found is None else found.exit_code


def read_failure(engine: Engine, directory: SessionDirectory, entry: Container, host: str) -> Failure | None:
    """Return how a container that does not run has failed, or None if it did not.

    Only containers that were started after the engine can have failed by themselves. All others ended with the engine.
    A replica that this host stopped because of its disk use stays stopped, whatever happened to the engine.
    """
    if entry.state in ALIVE:
        return None
    found = engine.inspect(entry.id) or read_inspected({})
    code, replica = found.exit_code or 0, entry.replica
    stop = directory.read_stop(replica)
    stopped = stop["reason"] if stop["started"] == found.started else ""
    by_itself = (code != 0 or found.out_of_memory) and seconds_at(found.started) >= docker_engine.engine_start()
    if not (by_itself or stopped):
        return None
    from ..core.values.failure import Failure

    restarts = directory.read_restarts(replica)
    return Failure(replica, host, code, found.out_of_memory, found.finished, restarts, stopped)


def seconds_at(stamp: str) -> float:
    """Return an engine's time stamp as seconds since 1970; 0 for none.

    An engine can be down for less than a second, so the fraction decides if a container ended before the new start.
    """
    from ..core.rules.output import nanoseconds_of

    try:
        return nanoseconds_of(stamp) / 10**9
    except ValueError:
        return 0.0
