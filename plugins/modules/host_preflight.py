#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_preflight
short_description: Run the preflight checks of one host
version_added: 1.0.0
description:
  - Checks a host, tests the network to the other hosts in the way in which sessions use it, and measures its speed.
  - Makes no permanent changes. Its link is in a network namespace that ends with the process that holds it, and that
    process ends by itself.
  - A problem on the host is reported with the reason. The module does not fail.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes.internal
  - cluster_compute.session.attributes.state_directory
options:
  state:
    description:
      - V(examined) checks the host itself.
      - V(listening) starts a process with its own link, to which the other hosts connect.
      - V(reached) connects to the other hosts.
      - V(measured) measures the connection to one of them and back.
      - V(ended) ends the process and returns what it received.
    type: str
    choices: [examined, listening, reached, measured, ended]
    required: true
  host:
    description:
      - Name of this host in the inventory.
    type: str
    default: ""
  images:
    description:
      - Image references to look up in the engine.
    type: list
    elements: str
    default: []
  paths:
    description:
      - Absolute paths to describe.
    type: list
    elements: str
    default: []
  volumes:
    description:
      - Names of volumes to describe.
    type: list
    elements: str
    default: []
  roots:
    description:
      - Directories that the site allows sessions to mount.
    type: list
    elements: str
    default: []
  underlay_address:
    description:
      - Address of this host for tunnels.
    type: str
  encryption:
    description:
      - Whether to test if the host can run encrypted sessions.
    type: bool
    default: false
  accelerators:
    description:
      - The variable C(cluster_compute_accelerators) of the host.
    type: raw
  plan:
    description:
      - Which host tests which, over which link (C(probe)), the part of each host in the test of shared directories
        (C(storage)), and the settings that apply to all hosts (C(settings)).
    type: dict
  token:
    description:
      - Secret that other hosts present to the process. Required with all states except V(examined).
    type: str
  ports:
    description:
      - With V(reached) and V(measured), the TCP ports on which the hosts listen, by host name.
    type: dict
    default: {}
  udp_ports:
    description:
      - With V(reached), the UDP ports of encrypted sessions on which the hosts listen, by host name.
    type: dict
    default: {}
  server:
    description:
      - Identity of the process, as V(listening) returned it.
    type: dict
    default: {}
  target:
    description:
      - With V(measured), the name of the other host.
    type: str
    default: ""
requirements:
  - iproute2
seealso:
  - module: cluster_compute.session.session_decide
"""

EXAMPLES = r"""
- name: Check every host of the resource group
  cluster_compute.session.host_preflight:
    state: examined
    images: [registry.example.com/train:1.4]
  register: preflight_host
"""

RETURN = r"""
observed:
  description: The results of the host's own checks.
  returned: with O(state=examined)
  type: dict
times:
  description: Time of the host's clock at the beginning and at the end, in seconds since the epoch.
  returned: with O(state=examined)
  type: list
  elements: float
controller:
  description: Time of the controller's clock before and after, in seconds since the epoch.
  returned: with O(state=examined)
  type: list
  elements: float
server:
  description: Identity of the process.
  returned: with O(state=listening)
  type: dict
port:
  description: The TCP port on which it listens.
  returned: with O(state=listening)
  type: int
udp:
  description: The UDP port of encrypted sessions on which it listens. 0 if these are not tested.
  returned: with O(state=listening)
  type: int
peers:
  description: For each tested host, by number, the result of the TCP connection.
  returned: with O(state=reached)
  type: dict
shared:
  description: For each shared directory, whether the file that another host wrote was found.
  returned: with O(state=reached)
  type: dict
measured:
  description: The round trip in seconds, and bits a second there and back.
  returned: with O(state=measured)
  type: dict
heard:
  description:
    - The size of the largest packet received from each host, by number, through the tunnel (C(tunnel)) and on the port
      of encrypted sessions (C(plain)). Null if the process had already ended.
  returned: with O(state=ended)
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import host_preflight
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["host_preflight"])
    module.exit_json(**answer(host_preflight.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
