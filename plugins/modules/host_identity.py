#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_identity
short_description: Give a host an identity of its own
version_added: 1.0.0
description:
  - A host knows itself by an identity that it keeps in its state directory, whatever an inventory calls it. So two
    names for one host are noticed.
  - Beside it stands a digest of what the firmware names the machine by. Where that does not fit any more, the disk was
    copied or moved; the host is left out then, and this module fails and says what to do.
  - An identity that is there stays; a new name is added.
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
    support: full
options:
  host:
    description:
      - What the inventory calls the host. Names that it had when it was prepared are kept, so that sessions that wait
        for it, or have ended there, are known to mean it.
    type: str
    required: true
seealso:
  - module: cluster_compute.session.host_info
"""

EXAMPLES = r"""
- name: Give the host an identity of its own
  cluster_compute.session.host_identity:
    host: "{{ inventory_hostname }}"
"""

RETURN = r"""
actions:
  description: What was, or in check mode would be, done.
  returned: success
  type: list
  elements: str
  sample: ["create identity h1"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import host_identity
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["host_identity"])
    module.exit_json(**answer(host_identity.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
