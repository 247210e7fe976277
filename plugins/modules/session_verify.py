#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_verify
short_description: Prove that the replicas on a host work
version_added: 0.1.0
description:
  - Waits until every replica that the plan gives to this host runs and, if its image says how to tell, is healthy.
  - Proves that each has the interface, address, MAC and MTU of the plan, and that unfragmented packets of the full size
    pass between this host's replicas and those of every other host, both ways.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
options:
  plan:
    description:
      - The plan in the record that M(cluster_compute.session.session_plan) returns.
    type: dict
    required: true
  host:
    description:
      - Name of this host in the plan.
    type: str
    required: true
  timeout:
    description:
      - Seconds after which a replica that is not ready is reported with its last state.
    type: int
    default: 60
requirements:
  - Docker SDK for Python 5.0 or newer
  - iproute2, iputils-ping, util-linux
"""

EXAMPLES = r"""
- name: Wait for the replicas on this host and prove their network
  cluster_compute.session.session_verify:
    plan: "{{ launch_plan.record.plan }}"
    host: "{{ inventory_hostname }}"
"""

RETURN = r"""
replicas:
  description: What was found, one entry a replica, in rank order.
  returned: success
  type: list
  elements: dict
  sample:
    - name: main1
      host: h1
      container: train-main1
      rank: 0
      address: 10.213.7.2
      status: RUNNING
      interface: eth1
      mtu: 1450
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine, EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.link import LinkError
from ansible_collections.cluster_compute.session.plugins.module_utils.host.verify import VerificationFailed, verify


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "dict", "required": True},
            "host": {"type": "str", "required": True},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    asked = module.params
    if module.check_mode:
        module.exit_json(changed=False, replicas=[])
    try:
        replicas = verify(Engine.connect(), asked["plan"], asked["host"], asked["timeout"])
    except (EngineError, LinkError, VerificationFailed) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, replicas=replicas)


if __name__ == "__main__":
    main()
