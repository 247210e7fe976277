# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Add the runtime entry for replicas to the engine, or remove it."""

from typing import ClassVar

from ...values.deferred import dataclass
from .base import Call


@dataclass(frozen=True)
class AddRuntime(Call):
    """Add the runtime entry for replicas to the host's engine."""

    call: ClassVar[str] = "host_runtime"
    state: ClassVar[str] = "present"
    is_default: ClassVar[bool] = True


@dataclass(frozen=True)
class RemoveRuntime(Call):
    """Remove the runtime entry for replicas from the host's engine."""

    call: ClassVar[str] = "host_runtime"
    state: ClassVar[str] = "absent"
