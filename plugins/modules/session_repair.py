#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_repair
short_description: Put back what is missing of the sessions that run on a host
version_added: 1.0.0
description:
  - Compares the host with the records of all its sessions, and puts back exactly what is missing - containers, links,
    forwarding entries, networks, keys, files, records, reservations - in one call, however many sessions there are.
  - Files of the state directory that cannot be trusted are set aside, never deleted, and made anew from what other
    hosts, or labels on this one, know.
  - In check mode tells what differs.
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
      - Name of this host in the plans of sessions that call it otherwise, by session.
    type: dict
    default: {}
  session_name:
    description:
      - The only session to look at; empty for all.
    type: str
    default: ""
  allocatable:
    description:
      - What sessions may use of this host in all. A place that a session has lost is only taken again where it is free;
        without this it is not asked for.
    type: dict
  mount_roots:
    description:
      - Folders below which sessions may mount paths of this host. A record from a label or another host is refused
        where its plan has others.
    type: list
    elements: str
    default: []
  volume_drivers:
    description:
      - Drivers whose volumes sessions may mount on this host, likewise.
    type: list
    elements: str
    default: []
  records:
    description:
      - Records by session as other hosts know them; a newer revision, or one that is missing here, is taken over.
    type: dict
    default: {}
  public_keys:
    description:
      - Public keys of replicas, by session, as other hosts know them.
    type: dict
    default: {}
  conflicting:
    description:
      - Ids of sessions of whose records hosts have two contents in one revision. They are left as they are.
    type: list
    elements: str
    default: []
  apart:
    description:
      - Ids of sessions of which the controller does not reach most of the other hosts. Whether this host still carries
        their replicas it asks those hosts by itself, and starts nothing where they do not say so.
    type: list
    elements: str
    default: []
  waiting:
    description:
      - Ids of sessions whose replicas that come to this host in place of lost ones are not started yet, as other hosts
        have not let go of the lost host.
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
- name: Put back what is missing
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
  description: For each session of which anything was missing its name, what was done, and what could not be done.
  returned: always
  type: dict
public_keys:
  description: For each session the public keys of the replicas on this host.
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
