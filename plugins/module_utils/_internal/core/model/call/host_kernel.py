# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Set the kernel parameters of a host."""

from typing import ClassVar

from ...values.deferred import dataclass
from .base import Call


@dataclass(frozen=True)
class SetKernel(Call):
    """Set the kernel parameters that many replicas need. max_replicas: as in the inventory; empty for the default."""

    call: ClassVar[str] = "host_kernel"

    max_replicas: str = ""
