# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Measure how two replicas work together."""

from dataclasses import field
from typing import ClassVar, Optional

from ...values.deferred import dataclass
from ..decode import OPTIONAL
from .base import Answer, Call


@dataclass(frozen=True)
class Transfer(Call):
    """Send data from the host's replica of a session to another replica and back.

    peer: the other replica; empty to send nothing and return the own one. size: in bytes. seconds: how long that may
    take.
    """

    call: ClassVar[str] = "replica_transfer"

    session_name: str
    peer: str = ""
    size: int = 64 * 1024**2
    seconds: int = 120


@dataclass(frozen=True)
class TransferAnswer(Answer):
    """The answer of replica_transfer. took: seconds for there and back."""

    replica: str = field(default="", metadata=OPTIONAL)
    container: str = field(default="", metadata=OPTIONAL)
    took: Optional[float] = None
