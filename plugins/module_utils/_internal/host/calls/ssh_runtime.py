# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Build the SSH runtime for replicas of this host."""

from __future__ import annotations

from ...core.model.call.base import States
from ...core.model.call.ssh_runtime import BuildSshRuntime, SshRuntimeAnswer
from ...core.values.places import RUNTIME_ON_HOST
from .. import ssh_runtime


def call(_request: BuildSshRuntime, check_mode: bool) -> SshRuntimeAnswer:
    """Return the changes of the directory. Raises SessionError, OSError."""
    done = ssh_runtime.install(check_mode)
    difference = {"before": done.before, "after": done.after}
    return SshRuntimeAnswer(changed=done.changed, path=RUNTIME_ON_HOST, diff=difference)


STATES: States = {BuildSshRuntime: call}
