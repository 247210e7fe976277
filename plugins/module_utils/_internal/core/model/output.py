# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The output of replicas and its jobs: what is requested, what hosts report about both, and how jobs ended."""

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Optional

from ..values.deferred import dataclass
from .decode import OPTIONAL

DEFAULT_SIZE = 1024**2
MAIN = "main1"


@dataclass(frozen=True)
class Since:
    """The time from which output is wanted: seconds before now, or a time of a line; neither for all output."""

    seconds: Optional[int] = None
    time: str = ""


@dataclass(frozen=True)
class LogsRequest:
    """The requested part of a session's output.

    session_id: empty for the newest session of the name. replicas: empty for all. job: id of the only job, "" for all
    output, NO_JOB for output that no job wrote. tail, size: lines and bytes of each replica. follow_seconds: 0 for
    none. directory: where to save, "" for nowhere.
    """

    session_id: str = ""
    replicas: tuple[str, ...] = ()
    job: str = ""
    since: Since = field(default_factory=Since)
    tail: Optional[int] = None
    grep: str = ""
    size: int = DEFAULT_SIZE
    follow_seconds: int = 0
    timestamps: bool = False
    directory: str = ""


@dataclass(frozen=True)
class JobRequest:
    """The request: a command to run, or an earlier job to follow.

    command: empty for an earlier job, which id names. on: words for the replicas. env: secret, so the step that starts
    the job reads it itself. directory, user: empty for those of the container. timeout: seconds, 0 for none. detach:
    whether the run does not wait for its end. stop: whether the job is to be ended. warn_alone: whether to warn of
    processes that work alone in a larger session.
    """

    command: tuple[str, ...] = ()
    on: tuple[str, ...] = (MAIN,)
    env: dict[str, str] = field(default_factory=dict, metadata=OPTIONAL)
    directory: str = ""
    user: str = ""
    timeout: int = 0
    detach: bool = False
    id: str = ""
    stop: bool = False
    warn_alone: bool = True


@dataclass(frozen=True)
class Source:
    """The output of a replica, or of a job in it. lines: time, stream and text of each. left_out: number omitted."""

    replica: str
    job: str
    lines: Any
    left_out: int = 0


@dataclass(frozen=True)
class JobOutcome:
    """The outcome of a job in a replica, as far as it is known.

    exit_code: None while there is none. problem: why that is not known, or why its host could not start it; full
    sentences. stopped: whether it was stopped on request. requeue: whether it starts again elsewhere, because the user
    who stopped it wanted that, or because its host could not start it. alone: whether a process of it had a WORLD_SIZE
    of 1 in a session of several replicas. finished: seconds since 1970.
    """

    replica: str
    status: str
    job: str = ""
    exit_code: Optional[int] = None
    timed_out: bool = False
    stopped: bool = False
    requeue: bool = False
    alone: bool = False
    problem: str = ""
    finished: Optional[float] = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "JobOutcome":
        """Return it from its plain form, which another release may have written: unknown keys are left out."""
        return cls(**{own.name: data[own.name] for own in fields(cls) if own.name in data})


@dataclass(frozen=True)
class ReplicaEnd:
    """How a replica ended that was removed, as far as its engine reported it. finished: a time, empty for none."""

    exit_code: Optional[int] = None
    oom_killed: bool = False
    finished: str = ""


@dataclass(frozen=True)
class JobCopy:
    """A host's report of a job. on: the host of each of its replicas. here: those that ran on this host."""

    on: dict[str, str]
    command: tuple[str, ...] = ()
    here: tuple[str, ...] = ()


@dataclass(frozen=True)
class Runner:
    """The process that watches a job, and when it was started."""

    pid: int
    start: int


@dataclass(frozen=True)
class JobInfo(JobCopy):
    """A host's note of a job. started: in seconds since 1970. boot: of the host. runner: None until it is known."""

    started: float = 0.0
    boot: str = ""
    runner: Optional[Runner] = None
    timeout: float = 0


@dataclass(frozen=True)
class SessionCopy:
    """A host's report of a session of which it has a record or output.

    status, resource_group: of its record, empty if it has none. ended: in seconds since 1970. host: this host's name in
    the session's plan. members: what each replica here is doing. replicas: how those ended that were removed. jobs: by
    id.
    """

    id: str
    status: str = ""
    revision: int = 0
    owner: str = ""
    shared_with: tuple[str, ...] = ()
    resource_group: str = ""
    ended: Optional[float] = None
    host: Optional[str] = None
    hosts: tuple[str, ...] = ()
    members: dict[str, str] = field(default_factory=dict)
    replicas: dict[str, ReplicaEnd] = field(default_factory=dict)
    jobs: dict[str, JobCopy] = field(default_factory=dict)
