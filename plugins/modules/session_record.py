#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_record
short_description: Store session records on a host that may carry no replica of these sessions
version_added: 1.0.0
description:
  - Stores records that this host does not have, or has in an older revision. An older revision never replaces a newer
    one.
  - Adds and removes tombstones. A tombstone records that a session has to be removed from a host when the host is
    reachable again.
  - Shortens records of ended sessions from earlier releases to one line. Removes lines that are settled and old, or
    that exceed the number to keep.
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
    support: none
options:
  records:
    description:
      - The records to keep.
    type: list
    elements: dict
    default: []
  lease_owner:
    description:
      - The run of a launch that may hold the names of these sessions on this host. The records hold the names from now
        on.
    type: str
  tombstones:
    description:
      - The tombstones to add, each with C(id), C(name) and C(hosts), the hosts that could not be reached.
    type: list
    elements: dict
    default: []
  forget:
    description:
      - Identifiers of sessions whose tombstones are no longer needed.
    type: list
    elements: str
    default: []
  settled:
    description:
      - Identifiers of sessions that have ended for good, whose lines may expire.
    type: list
    elements: str
    default: []
  output_days:
    description:
      - For how many days to keep such a line.
    type: int
    default: 7
  output_sessions:
    description:
      - For how many ended sessions to keep a line. The newest ones are kept.
    type: int
    default: 50
seealso:
  - module: cluster_compute.session.session_decide
"""

EXAMPLES = r"""
- name: Store the request of a waiting session
  cluster_compute.session.session_record:
    records: ["{{ launch_state.record }}"]
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in order.
  returned: success
  type: list
  elements: str
  sample:
    - create record train
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import session_record
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["session_record"])
    module.exit_json(**answer(session_record.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
