# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The consequences of a failed replica.

A replica has failed when its first process ended with another exit code than 0, or was killed because it ran out of
memory, while its engine was at work, or when its host stopped it for what it wrote on a disk. A replica that went down
with its host or its engine has not failed: it is started again.

``restart``: a failed replica is started again, at most `restart_limit` times; then its session ends.
``keep``: a failed replica stays as it is, and the session goes on as long as main1 runs.
``strict``: the session ends with the first failure.
"""

from __future__ import annotations

from collections.abc import Iterable

from .deferred import dataclass

STRICT, KEEP, RESTART = "strict", "keep", "restart"
FAILURE_POLICIES = (RESTART, KEEP, STRICT)


@dataclass(frozen=True)
class Failure:
    """One replica that failed.

    finished: when, as its host's engine says. restarts: how often it was started again. stopped: why its host stopped
    it (`rules.disk`); empty where it ended otherwise.
    """

    replica: str
    host: str
    exit_code: int
    oom_killed: bool
    finished: str
    restarts: int
    stopped: str = ""

    def describe(self) -> str:
        """Return what happened as a sentence."""
        if self.stopped:
            return f"Replica {self.replica} on {self.host} was stopped. {self.stopped}"
        cause = ", killed because it ran out of memory" if self.oom_killed else ""
        times = "1 restart" if self.restarts == 1 else f"{self.restarts} restarts"
        again = "" if not self.restarts else f" after {times}"
        return f"Replica {self.replica} on {self.host} ended with exit code {self.exit_code}{cause}{again}."


def may_restart(policy: str, limit: int, failure: Failure) -> bool:
    """Tell whether a failed replica is started again; one that was stopped would go on where it was."""
    return policy == RESTART and failure.restarts < limit and not failure.stopped


def end_of(policy: str, limit: int, failures: Iterable[Failure]) -> Failure | None:
    """Return the failure that ends the session: the first of those that do; None where it goes on."""
    fatal = [
        failure
        for failure in failures
        if policy == STRICT
        or (policy == KEEP and failure.replica == "main1")
        or (policy == RESTART and not may_restart(policy, limit, failure))
    ]
    return min(fatal, key=lambda failure: (_in_order(failure.finished), failure.replica), default=None)


def _in_order(stamp: str) -> str:
    """Return a time stamp of an engine, which leaves out zeros at the end of the fraction, so that it sorts as text."""
    whole, _dummy, fraction = stamp.rstrip("Z").partition(".")
    return f"{whole}.{fraction:0<9}"
