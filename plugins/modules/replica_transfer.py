#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: replica_transfer
short_description: Measure how long a replica takes to send data to another one and get it back
version_added: 1.0.0
description:
  - The only replica of a session on this host sends bytes over SSH to another replica, which sends them back. This
    loads the CPUs and the network of both hosts.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes.internal
options:
  session_name:
    description:
      - Name of the session.
    type: str
    required: true
  peer:
    description:
      - Name of the other replica. If it is empty, the module only returns which replica this host has.
    type: str
    default: ""
  size:
    description:
      - Bytes to send, in whole blocks of 64 KiB.
    type: int
    default: 67108864
  seconds:
    description:
      - For how many seconds to wait at most.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Measure a transfer between main1 and sub1
  cluster_compute.session.replica_transfer:
    session_name: check-pairs
    peer: sub1
"""

RETURN = r"""
replica:
  description: Name of the replica that this host has.
  type: str
  returned: always
container:
  description: Id of its container.
  type: str
  returned: without a peer
took:
  description: Duration in seconds.
  type: float
  returned: with a peer
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import replica_transfer
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["replica_transfer"])
    module.exit_json(**answer(replica_transfer.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
