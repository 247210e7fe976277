# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Mark a host as suspect for a while, or as trusted again."""

from dataclasses import field
from typing import ClassVar

from ...values.deferred import dataclass
from .base import PATH, STATE_DIRECTORY, Call


@dataclass(frozen=True)
class Suspect(Call):
    """Mark a host as suspect for a while. reason: why; empty to trust it again."""

    call: ClassVar[str] = "host_suspect"

    reason: str = ""
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)
