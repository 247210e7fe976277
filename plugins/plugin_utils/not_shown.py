# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Results for the tasks that follow, and not for people: they have what hosts know of the sessions of everybody.

Ansible shows a result with ``-v``, and AWX keeps it among the events of a job for whoever may see that job.
"""

from __future__ import annotations

from typing import Any

from ansible.utils.display import Display

from ..module_utils.core.values.errors import spoken


def not_shown(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result of which Ansible shows nothing but warnings; the variable that registers it has it all."""
    for warning in result.get("warnings", ()):
        # Before 2.19 Ansible leaves out these as well; a warning that was shown is not shown again. From 2.19 on those
        # of a result that was registered are no text any more, and were shown then.
        if isinstance(warning, str):
            Display().warning(spoken(warning))
    return {**result, "_ansible_no_log": True}
