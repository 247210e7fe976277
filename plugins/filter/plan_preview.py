# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Return as data what a launch in check mode would have done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

DOCUMENTATION = r"""
name: plan_preview
short_description: Return as data what a launch in check mode would have done
version_added: 1.0.0
author: The cluster_compute.session authors (@cluster-compute)
description:
  - Combines the plan of a launch with the changes that the hosts reported.
  - Environment variables of the user and options of volume drivers are returned as names only.
options:
  _input:
    description: What M(cluster_compute.session.session_decide) returned at the end of a launch in check mode.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what a launch would do
  ansible.builtin.debug:
    msg: "{{ launch_state | cluster_compute.session.plan_preview }}"
"""

RETURN = r"""
_value:
  description:
    - C(session_name), C(status), C(report), C(session_id), C(is_new), C(replaces), C(mode), C(network), C(egress),
      C(ssh_port), C(ends) (when its time is over, as text), C(hosts) with the changes on each, and C(replicas) with
      host, address and environment of each.
  type: dict
"""


def plan_preview(state: Mapping[str, Any]) -> Any:
    """Return what the launch with the last state *state* would have done."""
    # Ansible loads all filters for one.
    from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import encode
    from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.show.preview import preview

    return encode(preview(state, state["outcome"]["report"], state["done"]))


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"plan_preview": plan_preview}
