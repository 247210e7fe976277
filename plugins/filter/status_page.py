# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Show a resource group as one HTML page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

DOCUMENTATION = r"""
name: status_page
short_description: Show a resource group as one HTML page
version_added: 1.0.0
author: The cluster_compute.session authors (@cluster-compute)
description:
  - Returns a page with a drawing of hosts, networks and replicas, and the full state of each session.
  - The page works without a network or other files, and every value in it is escaped.
  - The same input gives the same page.
options:
  _input:
    description: What M(cluster_compute.session.session_info) returns as C(overview).
    type: dict
    required: true
  made:
    description: When the hosts were asked, as V(2026-01-02T10:30:00Z). Empty if the page is not to say it.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Write the page
  ansible.builtin.copy:
    content: "{{ info_answer.overview | cluster_compute.session.status_page }}"
    dest: status.html
    mode: "0644"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
_value:
  description: The page.
  type: str
"""


def status_page(overview: Mapping[str, Any], made: str = "") -> str:
    """Return the page."""
    from ansible_collections.cluster_compute.session.plugins.plugin_utils.status_page import (
        render,  # Ansible loads all filters for one
    )

    return render(overview, made)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"status_page": status_page}
