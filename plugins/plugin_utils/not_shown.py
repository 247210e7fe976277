# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Results for later tasks and not for people, because they contain data about the sessions of all users.

Ansible shows a result with ``-v``, and AWX keeps it in the events of a job for all who may see that job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.utils.display import Display

from ..module_utils._internal.core.values.errors import spoken


def not_shown(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result of which Ansible shows only warnings. The variable that registers it has the whole result."""
    for warning in result.get("warnings", ()):
        # Before 2.19 Ansible also leaves these out. A warning that was shown is not shown again. From 2.19 on, the
        # warnings of a registered result are no longer text, and were already shown.
        if isinstance(warning, str):
            Display().warning(spoken(warning))
    return {**result, "_ansible_no_log": True}
