# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Mark this host as suspect for a while, or as trusted again."""

from __future__ import annotations

from ...adapters.suspicion import SuspicionFile
from ...core.model.call.base import Answer, States
from ...core.model.call.host_suspect import Suspect


def call(request: Suspect, check_mode: bool) -> Answer:
    """Return whether the host's own state has changed."""
    file = SuspicionFile(request.state_directory)
    before = file.read()
    changed = (before is not None) != bool(request.reason)
    if not check_mode and request.reason:
        file.remember(request.reason)
    elif not check_mode:
        file.forget()
    return Answer(changed=changed)


STATES: States = {Suspect: call}
