# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run a program in a replica."""

from dataclasses import field
from typing import ClassVar, Optional

from ...values.deferred import dataclass
from .base import PATH, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class Execute(Call):
    """Run a program in a replica. user: empty for that of the image. asker: as of OpenApp."""

    call: ClassVar[str] = "replica_exec"
    has_check_mode: ClassVar[bool] = False

    session_name: str
    command: tuple[str, ...]
    replica: str = "main1"
    user: str = ""
    asker: Optional[str] = None
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class ExecAnswer(Answer):
    """The answer of replica_exec, once the program has run."""

    rc: Optional[int] = None
    stdout: Optional[str] = None
    stderr: Optional[str] = None
