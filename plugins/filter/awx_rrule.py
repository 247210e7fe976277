# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Check the recurrence rule of an AWX schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput

DOCUMENTATION = r"""
name: awx_rrule
short_description: Check the recurrence rule of an AWX schedule
version_added: 1.0.0
author: The cluster_compute.session authors
description:
  - Returns the rule unchanged. Fails if the AWX server would reject it.
options:
  _input:
    description: The rule, such as V(DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=1).
    type: str
    required: true
  name:
    description: Name of the rule in messages.
    type: str
    default: rrule
"""

EXAMPLES = r"""
- name: Show a rule
  ansible.builtin.debug:
    msg: "{{ 'DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=1' | cluster_compute.session.awx_rrule }}"
"""

RETURN = r"""
_value:
  description: The rule.
  type: str
"""


def awx_rrule(rule: str, name: str = "rrule") -> str:
    """Return *rule*. Raises AnsibleFilterError with everything that is wrong with it."""
    from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.awx import (
        check_rrule,  # Ansible loads all filters for one
    )

    problems = check_rrule(rule, name)
    if problems:
        raise AnsibleFilterError(f"The schedule cannot be used; nothing was sent.\n{InvalidInput(problems)}")
    return rule


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"awx_rrule": awx_rrule}
