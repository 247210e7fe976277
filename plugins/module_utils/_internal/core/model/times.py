# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""For how long a session may run, and for how long it has run: what requests and hosts say.

Annotations are types here, not text, as the decoder reads them.
"""

from dataclasses import field
from typing import Optional

from ..values.deferred import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits that a request sets for its session, in seconds; None for no limit, and for no warning."""

    max_duration: Optional[int] = None
    max_idle: Optional[int] = None
    end_warning: Optional[int] = None

    @property
    def exist(self) -> bool:
        """Whether any limit is set."""
        return self.max_duration is not None or self.max_idle is not None


@dataclass(frozen=True)
class Counters:
    """Resources that a replica has used since its start: seconds of CPU, and bytes in and out on its network."""

    cpu: float
    traffic: float


@dataclass(frozen=True)
class Sample:
    """One check of a host's part of a session.

    boot: identifies the boot of the host. clock: seconds since that boot. started: seconds since the first of the
    replicas here was started in this boot; 0 if none runs. replicas: those that run, None if they were not counted.
    in_use: whether a job or an app runs there, or a user is logged in.
    """

    boot: str
    clock: float
    started: float = 0.0
    replicas: Optional[dict[str, Counters]] = None
    in_use: bool = False


@dataclass(frozen=True)
class Times:
    """Times that a host stores for its part. ran, idle: seconds. warned: *ran* at the warning; None before it."""

    boot: str
    clock: float
    ran: float = 0.0
    idle: float = 0.0
    replicas: dict[str, Counters] = field(default_factory=dict)
    warned: Optional[float] = None


@dataclass(frozen=True)
class PartTimes:
    """Times that a host reports for its part. ran, idle: seconds, None if they were not requested. over: why its time
    is over, a sentence, empty before. is_idle: whether it has been unused for so long that it may end.
    """

    over: str = ""
    is_idle: bool = False
    ran: Optional[int] = None
    idle: Optional[int] = None
