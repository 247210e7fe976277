# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read the output of replicas."""

from dataclasses import field
from typing import Any, ClassVar, Optional

from ...values.deferred import dataclass
from ..output import JobOutcome, SessionCopy, Since, Source
from .base import AT_CONTROLLER, PATH, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class FindOutput(Call):
    """Find the sessions with a name of which a host has a record or output.

    session_id: the only one that is meant; None for all. states: also what each replica is doing.
    """

    call: ClassVar[str] = "session_output"
    state: ClassVar[str] = "known"

    session_name: str
    session_id: Optional[str] = None
    states: bool = False
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class ReadOutput(Call):
    """Read the output of replicas.

    replicas: empty for all. tail: the number of last lines; None for all. job: its id; empty for the output of
    containers. grep: a regular expression of lines. size: the most bytes of an answer. positions: where an earlier
    answer ended; None to begin. wait: seconds to wait for new output. follow_seconds: for how long the controller asks
    again. width, timestamps: how it shows the lines.
    """

    call: ClassVar[str] = "session_output"
    state: ClassVar[str] = "read"
    is_default: ClassVar[bool] = True

    session_id: str
    replicas: tuple[str, ...] = ()
    since: Optional[Since] = None
    tail: Optional[int] = None
    job: str = ""
    grep: str = ""
    size: int = 1024**2
    positions: Optional[dict[str, Any]] = None
    wait: float = 0
    follow_seconds: float = field(default=0, metadata=AT_CONTROLLER)
    width: int = field(default=0, metadata=AT_CONTROLLER)
    timestamps: bool = field(default=False, metadata=AT_CONTROLLER)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class PruneOutput(Call):
    """Remove output that was kept for *days*, or of more than *sessions* sessions, and leftovers."""

    call: ClassVar[str] = "session_output"
    state: ClassVar[str] = "pruned"

    days: int = 7
    sessions: int = 50
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class OutputAnswer(Answer):
    """The answer of session_output, one part for each state.

    known: the sessions. read: the output, how jobs ended in the replicas here, where the answer ends, and how many
    replicas and jobs run. pruned: the sessions whose output was removed, and leftovers of ended runs.
    """

    sessions: Optional[tuple[SessionCopy, ...]] = None
    sources: Optional[tuple[Source, ...]] = None
    jobs: Optional[tuple[JobOutcome, ...]] = None
    positions: Optional[dict[str, Any]] = None
    running: Optional[int] = None
    removed: Optional[tuple[str, ...]] = None
    leftovers: Optional[tuple[str, ...]] = None
