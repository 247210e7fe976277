#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_repair
short_description: Restore missing parts of the sessions that run on a host
version_added: 1.0.0
description:
  - Compares the host with the records of all its sessions, and restores exactly what is missing - containers, links,
    forwarding entries, networks, keys, files, records and reservations. One call covers all sessions.
  - Files in the state directory that cannot be trusted are set aside, never deleted. They are created again from the
    data on other hosts, or from labels on this one.
  - In check mode, reports the differences.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.internal
  - cluster_compute.session.attributes.recorded
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  host:
    description:
      - Name of this host in the plans.
    type: str
    required: true
  known_as:
    description:
      - By session, the name of this host in plans that use another name for it.
    type: dict
    default: {}
  session_name:
    description:
      - The only session to repair. Empty repairs all.
    type: str
    default: ""
  allocatable:
    description:
      - What sessions may use of this host in total. Lost reservations of a session are only restored if the resources
        are free. Without this option, that is not checked.
    type: dict
  mount_roots:
    description:
      - Directories below which sessions may mount paths of this host. A record from a label or another host is rejected
        if its plan mounts other paths.
    type: list
    elements: str
    default: []
  volume_drivers:
    description:
      - Drivers whose volumes sessions may mount on this host. Records with other drivers are rejected in the same way.
    type: list
    elements: str
    default: []
  records:
    description:
      - Records by session, as other hosts have them. This host takes over newer revisions and records that it does not
        have.
    type: dict
    default: {}
  public_keys:
    description:
      - Public keys of replicas, by session, as other hosts have them.
    type: dict
    default: {}
  conflicting:
    description:
      - Ids of sessions whose record differs between hosts although the revision is the same. They are not changed.
    type: list
    elements: str
    default: []
  apart:
    description:
      - Ids of sessions for which the controller cannot reach most of the other hosts. This host itself requests from
        those hosts whether it still carries the replicas, and starts nothing unless they confirm it.
    type: list
    elements: str
    default: []
  waiting:
    description:
      - Ids of sessions with replicas that replace lost ones on this host. These replicas are not started yet, because
        other hosts have not yet released the lost host.
    type: list
    elements: str
    default: []
requirements:
  - cryptography
  - iproute2
seealso:
  - module: cluster_compute.session.session_step
"""

EXAMPLES = r"""
- name: Restore missing parts
  cluster_compute.session.session_repair:
    host: "{{ inventory_hostname }}"
    session_name: demo
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in order.
  returned: always
  type: list
  elements: str
  sample:
    - create link ccx3614fdf3
sessions:
  description: For each session with missing parts, its name, what was done, and what could not be done.
  returned: always
  type: dict
public_keys:
  description: For each session, the public keys of the replicas on this host.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import session_repair
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["session_repair"])
    module.exit_json(**answer(session_repair.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
