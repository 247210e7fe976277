#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_watch
short_description: Wait until sessions on any host release capacity
version_added: 1.0.0
description:
  - Waits until there is a change in what sessions hold on this host or in the queue. Also returns when another host of
    the same task has seen such a change, or when the time is up.
  - Changes nothing.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes.internal
  - cluster_compute.session.attributes.state_directory
options:
  session_name:
    description:
      - Session that waits. Changes of this session itself do not count.
    type: str
    required: true
  signature:
    description:
      - The signature of this host, as M(cluster_compute.session.host_info) returned it.
    type: str
    required: true
  rendezvous_key:
    description:
      - A name that is the same for all hosts of this task, and that no other task uses.
    type: str
    required: true
  pause:
    description:
      - Minimum number of seconds to wait, so that many changes in a row are handled together.
    type: float
    default: 1
  seconds:
    description:
      - Maximum number of seconds to wait.
    type: float
    required: true
seealso:
  - module: cluster_compute.session.host_info
"""

EXAMPLES = r"""
- name: Wait until there may be capacity
  cluster_compute.session.session_watch:
    session_name: train
    signature: "{{ launch_host.host.signature }}"
    rendezvous_key: "{{ launch_state.lease_owner }}"
    seconds: 600
"""

RETURN = r"""
moved:
  description: Whether this host has changed.
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import session_watch
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["session_watch"])
    module.exit_json(**answer(session_watch.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
