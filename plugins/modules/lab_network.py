#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_network
short_description: Create the bridge that connects the hosts of a lab
version_added: 1.0.0
description:
  - Creates a bridge in the machine's own network namespace, gives it the first address of the lab's subnet, and allows
    frames between its ports in the machine's firewall.
  - M(cluster_compute.session.lab_teardown) removes it.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.lab
  - cluster_compute.session.attributes.private
options:
  subnet:
    description: The lab's IPv4 network.
    type: str
    required: true
requirements:
  - iproute2
  - iptables
seealso:
  - module: cluster_compute.session.lab_host
  - module: cluster_compute.session.lab_teardown
"""

EXAMPLES = r"""
- name: Create the network of the lab
  cluster_compute.session.lab_network:
    lab: lab
    directory: /var/lib/cluster-compute-lab/lab
    subnet: 10.212.0.0/24
"""

RETURN = r"""
bridge:
  description: Name of the bridge.
  type: str
  returned: success
  sample: br-lab
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab import network, system
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab.names import Lab


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "lab": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "subnet": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        system.need_root()
        lab = Lab(module.params["lab"], module.params["directory"])
        with system.locked(lab.lock):
            missing = network.missing_network(lab, module.params["subnet"])
            if missing and not module.check_mode:
                network.create_network(lab, module.params["subnet"], missing)
    except system.LabError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(missing),
        bridge=lab.bridge,
        diff={"before": "", "after": "".join(f"{lab.bridge}: {part}\n" for part in missing)},
    )


if __name__ == "__main__":
    main()
