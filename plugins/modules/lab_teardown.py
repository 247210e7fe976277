#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_teardown
short_description: Remove everything that a lab made on this machine
version_added: 1.0.0
description:
  - Removes processes, network namespaces, links, firewall rules, control groups and the directory of a lab.
  - Finds them by the lab's name and by the disks that processes use, so it also removes what a killed run left.
  - Waits for a run of the same lab that is still in progress. The cache of base trees and images is kept.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.lab
  - cluster_compute.session.attributes.private
requirements:
  - iproute2
  - iptables
seealso:
  - module: cluster_compute.session.lab_host
"""

EXAMPLES = r"""
- name: Remove the lab
  cluster_compute.session.lab_teardown:
    lab: lab
    directory: /var/lib/cluster-compute-lab/lab
"""

RETURN = r"""
removed:
  description: What was found and removed, as text.
  type: list
  elements: str
  returned: success
  sample: [bridge br-lab, directory /var/lib/cluster-compute-lab/lab]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab import hosts, system
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab.names import Lab


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "lab": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        system.need_root()
        removed = hosts.remove_lab(Lab(module.params["lab"], module.params["directory"]), module.check_mode)
    except system.LabError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(removed),
        removed=removed,
        diff={"before": "".join(f"{thing}\n" for thing in removed), "after": ""},
    )


if __name__ == "__main__":
    main()
