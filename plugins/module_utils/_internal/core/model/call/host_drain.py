# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Drain a host, or accept new sessions on it again."""

from dataclasses import field
from typing import ClassVar, Optional

from ...values.deferred import dataclass
from .base import PATH, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class Drain(Call):
    """Take no new sessions on a host.

    reason, by: why, and which user wants that. wait_seconds: how long to wait until no session holds a place on it.
    """

    call: ClassVar[str] = "host_drain"
    state: ClassVar[str] = "drained"
    is_default: ClassVar[bool] = True

    reason: str = ""
    by: str = ""
    wait_seconds: int = 0
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class Undrain(Call):
    """Take new sessions on a host again."""

    call: ClassVar[str] = "host_drain"
    state: ClassVar[str] = "undrained"

    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class DrainAnswer(Answer):
    """The answer of host_drain. sessions: names of those that hold a place on the host."""

    sessions: Optional[tuple[str, ...]] = None
