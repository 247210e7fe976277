# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""List the groups of an inventory that can be resource groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput

DOCUMENTATION = r"""
name: resource_groups
short_description: List the groups of an inventory that can be resource groups
version_added: 1.0.0
author: The cluster_compute.session authors
description:
  - Returns the groups that have hosts, and whose hosts are all hosts for sessions.
options:
  _input:
    description: Hosts by group, as in Ansible's variable C(groups).
    type: dict
    required: true
  within:
    description: The group of all hosts for sessions.
    type: str
    default: cluster_compute_hosts
"""

EXAMPLES = r"""
- name: Show the resource groups
  ansible.builtin.debug:
    msg: "{{ groups | cluster_compute.session.resource_groups }}"
"""

RETURN = r"""
_value:
  description: The groups. The group of all hosts comes first, the others are sorted by name.
  type: list
  elements: str
"""


def resource_groups(groups: Mapping[str, Sequence[str]], within: str = "cluster_compute_hosts") -> list[str]:
    """Return the groups. Raises AnsibleFilterError if there are no hosts for sessions."""
    # Ansible loads all filters for one.
    from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.awx import (
        resource_groups as find,
    )

    try:
        return find(groups, within)
    except InvalidInput as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"resource_groups": resource_groups}
