#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_suspect
short_description: Mark a host as suspect for a while, or as trusted again
version_added: 1.0.0
description:
  - A suspect host gets new sessions only if no other host has capacity. It is trusted again after 1800 seconds, when it
    boots, when a session was started on it, or when preflight finds no error.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.internal
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  reason:
    description:
      - Why the host is suspect. Empty to trust it again.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Trust a host again
  cluster_compute.session.host_suspect:
"""

RETURN = r""" # """

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import host_suspect
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["host_suspect"])
    module.exit_json(**answer(host_suspect.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
