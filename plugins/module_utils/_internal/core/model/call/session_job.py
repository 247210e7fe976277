# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Start a job in replicas, or end it."""

from dataclasses import field
from typing import Any, ClassVar, Optional

from ...values.deferred import dataclass
from .base import PATH, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class StartJob(Call):
    """Start a job in replicas of the host.

    job: its id. on: the host of each of its replicas, also of those on other hosts. env: as the variable ``job_env``.
    directory, user: empty for those of the image. timeout: seconds; 0 for none. once: whether nothing is done if the
    job is known. warn_alone: whether processes are reported that work alone, although the session has several replicas.
    output_size: how much output of a replica is kept, with a unit.
    """

    call: ClassVar[str] = "session_job"
    state: ClassVar[str] = "started"
    is_default: ClassVar[bool] = True

    session_id: str
    job: str
    on: dict[str, str]
    host: str
    command: tuple[str, ...]
    env: Any = field(default_factory=dict)
    directory: str = ""
    user: str = ""
    timeout: int = 0
    once: bool = False
    warn_alone: bool = True
    output_size: str = "16m"
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class StopJob(Call):
    """End a job. job: its id. requeue: whether it is to start again elsewhere."""

    call: ClassVar[str] = "session_job"
    state: ClassVar[str] = "stopped"

    session_id: str
    job: str
    requeue: bool = False
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class JobAnswer(Answer):
    """The answer of session_job. started: the replicas in which the command was started."""

    started: Optional[tuple[str, ...]] = None
