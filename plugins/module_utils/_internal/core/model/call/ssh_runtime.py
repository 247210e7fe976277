# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Build the SSH runtime for replicas."""

from typing import ClassVar

from ...values.deferred import dataclass
from .base import Answer, Call


@dataclass(frozen=True)
class BuildSshRuntime(Call):
    """Build the SSH runtime for replicas."""

    call: ClassVar[str] = "ssh_runtime"


@dataclass(frozen=True)
class SshRuntimeAnswer(Answer):
    """The answer of ssh_runtime. path: of the directory."""

    path: str = ""
