#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_preflight
short_description: Do one host's part of preflight
version_added: 1.0.0
description:
  - Lets a host look at itself, try the network with the others in the form in which sessions use it, and measure it.
  - Changes nothing that lasts. Its link lies in a network namespace that ends with the process that holds
    it, and that process ends by itself.
  - A host where something is wrong is described, with the reason; it is no failure.
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
      - V(examined) has the host look at itself.
      - V(listening) starts a process that the other hosts speak to, with a link of its own.
      - V(reached) has the host speak to the others.
      - V(measured) has it measure the way to one of them and back.
      - V(ended) ends the process, and returns what it heard.
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
      - Folders that the site lets sessions mount.
    type: list
    elements: str
    default: []
  underlay_address:
    description:
      - Address of this host that tunnels shall use.
    type: str
  encryption:
    description:
      - Whether to try what the host needs for encrypted sessions.
    type: bool
    default: false
  accelerators:
    description:
      - The variable C(cluster_compute_accelerators) of the host.
    type: raw
  plan:
    description:
      - Who tries whom, by which link (C(probe)), by host what it does in the probe of shared folders (C(storage)), and
        what holds for all (C(settings)).
    type: dict
  token:
    description:
      - What those name who speak to the process. Required but for V(examined).
    type: str
  ports:
    description:
      - With V(reached) and V(measured) the TCP ports that the hosts listen on, by name.
    type: dict
    default: {}
  udp_ports:
    description:
      - With V(reached) the UDP ports of encrypted sessions that the hosts listen on, by name.
    type: dict
    default: {}
  server:
    description:
      - What tells the process from others, as V(listening) returned it.
    type: dict
    default: {}
  target:
    description:
      - With V(measured) the name of the other host.
    type: str
    default: ""
requirements:
  - iproute2
seealso:
  - module: cluster_compute.session.session_decide
"""

EXAMPLES = r"""
- name: Look at every host of the resource group
  cluster_compute.session.host_preflight:
    state: examined
    images: [registry.example.com/train:1.4]
  register: preflight_host
"""

RETURN = r"""
observed:
  description: What the host found out about itself.
  returned: with O(state=examined)
  type: dict
times:
  description: What its clock said at the begin and at the end, in seconds since the epoch.
  returned: with O(state=examined)
  type: list
  elements: float
controller:
  description: What the controller's clock said before and after.
  returned: with O(state=examined)
  type: list
  elements: float
server:
  description: What tells the process from others.
  returned: with O(state=listening)
  type: dict
port:
  description: The TCP port that it listens on.
  returned: with O(state=listening)
  type: int
udp:
  description: The UDP port of encrypted sessions that it listens on; 0 if these are not tried.
  returned: with O(state=listening)
  type: int
peers:
  description: For each host that was tried, by number, what TCP said.
  returned: with O(state=reached)
  type: dict
shared:
  description: For each shared folder whether what another host wrote was found.
  returned: with O(state=reached)
  type: dict
measured:
  description: The round trip in seconds, and bits a second there and back.
  returned: with O(state=measured)
  type: dict
heard:
  description:
    - The size of the largest packet that came from each host, by number, through the tunnel (C(tunnel)) and to the port
      of encrypted sessions (C(plain)); null if the process was gone.
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
