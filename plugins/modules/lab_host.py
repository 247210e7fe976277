#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_host
short_description: Create, boot, power off or remove one host of a lab
version_added: 1.0.0
description:
  - A lab host has its own disk (an overlay on a base tree), process tree, network, host name, SSH server and init. It
    behaves like a separate machine except for its kernel, and has none of the software that is installed on the machine
    around it.
  - The key pair for logging in to the hosts of a lab is C(ssh/id_ed25519) in the lab's directory. C(ssh/known_hosts)
    next to it contains the hosts' keys.
  - The module runs on the machine that carries the lab.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.lab
  - cluster_compute.session.attributes.private
options:
  name:
    description: Name of the host.
    type: str
    required: true
  state:
    description:
      - V(present) creates the host if it does not exist and boots it if it does not run.
      - V(off) cuts its power. All its processes end at once and its network is removed. Its disk stays.
      - V(absent) cuts its power and removes its disk.
    type: str
    choices: [present, "off", absent]
    default: present
  tree:
    description: The base tree, as M(cluster_compute.session.lab_base_tree) returns it.
    type: path
  address:
    description: The host's address in O(subnet).
    type: str
  subnet:
    description: The lab's IPv4 network.
    type: str
  mtu:
    description: MTU of the host's network interface, in bytes.
    type: int
    default: 1500
  shared_folders:
    description: Paths of directories that all hosts of the lab share.
    type: list
    elements: str
    default: []
  images:
    description: Directory of this machine that the host sees read-only as C(/srv/lab-images).
    type: path
  timeout:
    description: How long to wait for the SSH server after boot, in seconds.
    type: float
    default: 60
requirements:
  - iproute2
  - openssh-client
seealso:
  - module: cluster_compute.session.lab_base_tree
  - module: cluster_compute.session.lab_network
  - module: cluster_compute.session.lab_teardown
"""

EXAMPLES = r"""
- name: Boot a host
  cluster_compute.session.lab_host:
    lab: lab
    directory: /var/lib/cluster-compute-lab/lab
    name: h1
    tree: /var/cache/cluster-compute-lab/trees/bookworm-0123456789ab
    address: 10.212.0.11
    subnet: 10.212.0.0/24
    images: /var/cache/cluster-compute-lab/images

- name: Cut its power
  cluster_compute.session.lab_host:
    lab: lab
    directory: /var/lib/cluster-compute-lab/lab
    name: h1
    state: "off"
"""

RETURN = r"""
state:
  description: State in which the host was found, V(running), V(off) or V(absent).
  type: str
  returned: success
  sample: absent
seconds:
  description: How long the change took, in seconds. 0 if there was nothing to change.
  type: float
  returned: success
  sample: 1.2
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab import hosts, system
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab.names import Lab

_NEEDED = ["tree", "address", "subnet", "images"]
_RESULTS = {"present": "running", "off": "off", "absent": "absent"}


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "lab": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "off", "absent"], "default": "present"},
            "tree": {"type": "path"},
            "address": {"type": "str"},
            "subnet": {"type": "str"},
            "mtu": {"type": "int", "default": 1500},
            "shared_folders": {"type": "list", "elements": "str", "default": []},
            "images": {"type": "path"},
            "timeout": {"type": "float", "default": 60},
        },
        required_if=[("state", "present", _NEEDED)],
        supports_check_mode=True,
    )
    given = module.params
    began = time.monotonic()
    try:
        system.need_root()
        host = Lab(given["lab"], given["directory"]).host(given["name"])
        before = hosts.state(host)
        if given["state"] == "present":
            settings = hosts.HostSettings(
                tree=given["tree"],
                address=given["address"],
                subnet=given["subnet"],
                mtu=given["mtu"],
                shared_folders=tuple(given["shared_folders"]),
                images=given["images"],
            )
            changed = hosts.ensure_running(host, settings, given["timeout"], module.check_mode)
        elif given["state"] == "off":
            changed = hosts.ensure_off(host, module.check_mode)
        else:
            changed = hosts.ensure_absent(host, module.check_mode)
    except system.LabError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=changed,
        state=before,
        seconds=round(time.monotonic() - began, 1) if changed else 0.0,
        diff={"before": f"{before}\n", "after": f"{_RESULTS[given['state']]}\n"},
    )


if __name__ == "__main__":
    main()
