# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Determine how the containers of replicas ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..adapters import engine as docker_engine
from ..adapters.engine import Engine
from ..adapters.state import SessionDirectory

if TYPE_CHECKING:
    from ..core.values.failure import Failure

# The imports below are not needed on a host without failures.

ALIVE = ("running", "created", "restarting", "paused", "removing")
"""States of a container that has not ended, as the engine lists them."""


def read_exit_code(engine: Engine, entry: Mapping[str, Any]) -> int | None:
    """Return the exit code of a container that has ended, for whatever reason. None if it has not ended."""
    if entry["State"] in ALIVE:
        return None
    code = ((engine.inspect(entry["Id"]) or {}).get("State") or {}).get("ExitCode")
    return None if code is None else int(code)


def read_failure(engine: Engine, directory: SessionDirectory, entry: Mapping[str, Any], host: str) -> Failure | None:
    """Return how a container that does not run has failed, or None if it did not.

    Only containers that were started after the engine can have failed by themselves. All others ended with the engine.
    A replica that this host stopped because of its disk use stays stopped, whatever happened to the engine.
    """
    if entry["State"] in ALIVE:
        return None
    state = (engine.inspect(entry["Id"]) or {}).get("State") or {}
    code = int(state.get("ExitCode") or 0)
    killed = bool(state.get("OOMKilled"))
    replica = entry["Labels"].get(docker_engine.LABEL_REPLICA, "")
    started = str(state.get("StartedAt") or "")
    stop = directory.read_stop(replica)
    stopped = stop["reason"] if stop["started"] == started else ""
    by_itself = (code != 0 or killed) and seconds_at(started) >= docker_engine.engine_start()
    if not (by_itself or stopped):
        return None
    from ..core.values.failure import Failure

    finished = str(state.get("FinishedAt") or "")
    return Failure(replica, host, code, killed, finished, directory.read_restarts(replica), stopped)


def seconds_at(stamp: str) -> float:
    """Return an engine's time stamp as seconds since 1970; 0 for none.

    An engine can be down for less than a second, so the fraction decides if a container ended before the new start.
    """
    from ..core.rules.output import nanoseconds_of

    try:
        return nanoseconds_of(stamp) / 10**9
    except ValueError:
        return 0.0
