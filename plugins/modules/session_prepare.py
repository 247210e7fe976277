#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_prepare
short_description: Make ready what the replicas on a host need before any of them starts
version_added: 0.1.0
description:
  - Confirms the reservation of the session on this host, which all its hosts have granted by now, and writes its record
    down. A host that carries no replica of it keeps a note that the session exists.
  - Makes an ed25519 client key and an ed25519 host key for each replica on this host, and returns their public halves.
    Private halves stay on the host. An existing key is kept.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.recorded
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  record:
    description:
      - The record as M(cluster_compute.session.session_plan) returns it.
    type: dict
    required: true
  holder:
    description:
      - The run of the launch that holds the session's place, as M(cluster_compute.session.session_plan) returns it.
    type: str
    required: true
  host:
    description:
      - Name of this host in the plan.
    type: str
    required: true
  regenerate_keys:
    description:
      - Make all keys anew, although they exist.
    type: bool
    default: false
  deadline_seconds:
    description:
      - Seconds within which the session has to run, or its reservation is free again.
    type: int
    default: 600
requirements:
  - cryptography
seealso:
  - module: cluster_compute.session.session_reserve
  - module: cluster_compute.session.session_host
"""

EXAMPLES = r"""
- name: Make ready what the replicas on this host need
  cluster_compute.session.session_prepare:
    record: "{{ launch_plan.record }}"
    holder: "{{ launch_plan.holder }}"
    host: "{{ inventory_hostname }}"
  register: launch_prepared
"""

RETURN = r"""
public_keys:
  description: For each replica the public halves C(client) and C(host); null for a key that only check mode holds back.
  returned: success
  type: dict
  sample:
    main1:
      client: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA
      host: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB
actions:
  description: What was done, or would be done, in order.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import ssh_keys
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerError, LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory, StateError
from ansible_collections.cluster_compute.session.plugins.module_utils.host.prepare import prepare


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "record": {"type": "dict", "required": True},
            "holder": {"type": "str", "required": True},
            "host": {"type": "str", "required": True},
            "regenerate_keys": {"type": "bool", "default": False, "no_log": False},
            "deadline_seconds": {"type": "int", "default": 600},
            "recorded": {"type": "list", "elements": "str", "default": []},
            "state_directory": {"type": "path", "default": "/var/lib/cluster-compute"},
        },
        supports_check_mode=True,
    )
    if ssh_keys.CRYPTOGRAPHY_IMPORT_ERROR is not None:
        module.fail_json(msg=missing_required_lib("cryptography"), exception=ssh_keys.CRYPTOGRAPHY_IMPORT_ERROR)
    asked = module.params
    try:
        public_keys, actions = prepare(
            StateDirectory(asked["state_directory"]),
            LedgerFile(asked["state_directory"]),
            asked["record"],
            asked["host"],
            holder=asked["holder"],
            regenerate_keys=asked["regenerate_keys"],
            deadline=asked["deadline_seconds"],
            check_mode=module.check_mode,
            recorded=asked["recorded"],
        )
    except (LedgerError, StateError, ssh_keys.KeyFileError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(actions),
        public_keys=public_keys,
        actions=actions,
        diff={"before": "", "after": "".join(f"{action}\n" for action in actions)},
    )


if __name__ == "__main__":
    main()
