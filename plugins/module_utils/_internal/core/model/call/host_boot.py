# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Install the program that runs at boot, or remove it."""

from dataclasses import field
from typing import ClassVar, Optional

from ...values.deferred import dataclass
from .base import PATH, STATE_DIRECTORY, Answer, Call


@dataclass(frozen=True)
class InstallBoot(Call):
    """Install the program that runs at boot, and its settings.

    path: of the program. output_size, output_days, output_sessions: how much output of a replica is kept, with a unit,
    for how many days, and of how many sessions. share_half_life: a duration, after which the use of an owner counts
    half. metrics_directory, job_mapping_directory: where files for the site's monitoring are written; None or empty
    for nowhere.
    """

    call: ClassVar[str] = "host_boot"
    state: ClassVar[str] = "present"
    is_default: ClassVar[bool] = True

    path: str = field(default="/usr/local/lib/cluster-compute/host.pyz", metadata=PATH)
    output_size: str = "16m"
    output_days: int = 7
    output_sessions: int = 50
    share_half_life: Optional[str] = None
    metrics_directory: Optional[str] = field(default=None, metadata=PATH)
    job_mapping_directory: Optional[str] = field(default=None, metadata=PATH)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class RemoveBoot(Call):
    """Remove the program that runs at boot. path: of the program."""

    call: ClassVar[str] = "host_boot"
    state: ClassVar[str] = "absent"

    path: str = field(default="/usr/local/lib/cluster-compute/host.pyz", metadata=PATH)
    state_directory: str = field(default=STATE_DIRECTORY, metadata=PATH)


@dataclass(frozen=True)
class BootAnswer(Answer):
    """The answer of host_boot. path: of the program, also after its removal."""

    path: str = ""
