# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tell how the containers of replicas ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..adapters import engine as docker_engine
from ..adapters.engine import Engine
from ..adapters.state import SessionDirectory

if TYPE_CHECKING:
    from ..core.values.failure import Failure

# A look at a host on which nothing failed does without what is imported below.

ALIVE = ("running", "created", "restarting", "paused", "removing")
"""States of a container that has not ended, as the engine lists them."""


def read_exit_code(engine: Engine, entry: Mapping[str, Any]) -> int | None:
    """Return the exit code of a container that has ended, whatever ended it; None where it has not."""
    if entry["State"] in ALIVE:
        return None
    code = ((engine.inspect(entry["Id"]) or {}).get("State") or {}).get("ExitCode")
    return None if code is None else int(code)


def read_failure(engine: Engine, directory: SessionDirectory, entry: Mapping[str, Any], host: str) -> Failure | None:
    """Return how a container that does not run has failed, or None where it did not.

    Only what was started since the engine was can have failed by itself: everything else went down with the engine.
    What this host stopped for its use of a disk stays stopped, whatever became of the engine.
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

    An engine can be down for less than a second: what it ended is older than its new start by the fraction alone.
    """
    from ..core.rules.output import nanoseconds_of

    try:
        return nanoseconds_of(stamp) / 10**9
    except ValueError:
        return 0.0
