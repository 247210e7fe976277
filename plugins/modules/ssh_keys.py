#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_keys
short_description: Make the SSH keys of a session's replicas on their host
version_added: 0.1.0
description:
  - Makes an ed25519 client key and an ed25519 host key for each replica that this host runs, and returns their public
    halves. Private halves stay on the host.
  - An existing key is kept.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  session_id:
    description:
      - Identifier of the session, a UUID.
    type: str
    required: true
  replicas:
    description:
      - Names of the replicas that this host runs.
    type: list
    elements: str
    required: true
  regenerate:
    description:
      - Make all keys anew, although they exist.
    type: bool
    default: false
requirements:
  - cryptography
seealso:
  - module: cluster_compute.session.session_host
"""

EXAMPLES = r"""
- name: Make the keys of the replicas on this host
  cluster_compute.session.ssh_keys:
    session_id: 3614fdf3-0e04-4a3c-9d2a-53a1f7b2c8aa
    replicas: [main1, sub1]
  register: cluster_compute_keys
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
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory, StateError


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "session_id": {"type": "str", "required": True},
            "replicas": {"type": "list", "elements": "str", "required": True},
            "regenerate": {"type": "bool", "default": False},
            "state_directory": {"type": "path", "default": "/var/lib/cluster-compute"},
        },
        supports_check_mode=True,
    )
    if ssh_keys.CRYPTOGRAPHY_IMPORT_ERROR is not None:
        module.fail_json(msg=missing_required_lib("cryptography"), exception=ssh_keys.CRYPTOGRAPHY_IMPORT_ERROR)
    asked = module.params
    public_keys = {}
    actions = []
    try:
        session = StateDirectory(asked["state_directory"]).session(asked["session_id"])
        for name in asked["replicas"]:
            folder = session.replica(name) / "ssh"
            public_keys[name], made = ssh_keys.converge_keys(folder, asked["regenerate"], module.check_mode)
            actions += [f"create key {name}/{key}" for key in made]
    except (StateError, ssh_keys.KeyFileError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(actions),
        public_keys=public_keys,
        actions=actions,
        diff={"before": "", "after": "".join(f"{action}\n" for action in actions)},
    )


if __name__ == "__main__":
    main()
