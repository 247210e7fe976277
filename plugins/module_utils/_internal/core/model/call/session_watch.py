# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Wait until there may be capacity for a session."""

from dataclasses import field
from typing import ClassVar

from ...values.deferred import dataclass
from .base import AT_CONTROLLER, PATH, PUBLIC, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class Watch(Call):
    """Wait until there may be capacity for a session.

    signature: of the facts that were collected last. seconds: how long to wait. rendezvous_key: common to all hosts
    that wait for the session. pause: seconds for which the controller waits at least.
    """

    call: ClassVar[str] = "session_watch"

    session_name: str
    signature: str
    rendezvous_key: str = field(metadata={**PUBLIC, **AT_CONTROLLER})
    seconds: float
    pause: float = field(default=1, metadata=AT_CONTROLLER)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class WatchAnswer(Answer):
    """The answer of session_watch. moved: whether anything has changed."""

    moved: bool = False
