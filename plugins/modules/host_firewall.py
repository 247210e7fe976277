#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_firewall
short_description: Keep containers of a host out of the overlays of sessions, and open its ports for other hosts
version_added: 1.0.0
description:
  - A session that spans several hosts has one network, which is carried in tunnels (VXLAN, RFC 7348). Their packets are
    not signed. A container could send a forged packet of a tunnel to a host of the session, and the session's network
    would accept it.
  - The rules of this module drop such packets where they leave the containers of a host, whatever sessions run. A host
    that carries no part of a session therefore needs no rules for that session.
  - Packets that arrive on the interface to the other hosts pass, and so do packets that stay on the bridge of their
    session. In addition, each session has its own rules on its hosts.
  - The rules are restored at boot, before Docker Engine starts, and by every repair.
  - If the host has ufw or firewalld, which drop what they do not know, the module opens ports there on request.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
options:
  state:
    description:
      - V(present) adds the rules and stores them for the next boot. V(absent) removes both.
    type: str
    choices: [present, absent]
    default: present
  vxlan_port:
    description:
      - UDP port of the site's tunnels.
    type: int
    default: 4789
  vni_pool:
    description:
      - First and last network identifier of the site's sessions.
    type: str
    default: 4096-16777215
  underlay_address:
    description:
      - Address at which other hosts reach this one. The default is the address of the interface of the default route.
    type: str
  peers:
    description:
      - Addresses and subnets for which O(ports) are opened in ufw or firewalld. What an earlier run opened for others
        is closed. Rules of the site are not changed.
    type: list
    elements: str
    default: []
  ports:
    description:
      - Ports with their protocol, such as V(udp/4789) or V(tcp/8480-8489).
    type: list
    elements: str
    default: []
seealso:
  - module: cluster_compute.session.host_boot
"""

EXAMPLES = r"""
- name: Keep containers out of the overlays of all sessions
  cluster_compute.session.host_firewall:
    vni_pool: 5000-5999
"""

RETURN = r"""
actions:
  description: What was, or in check mode would be, done.
  returned: success
  type: list
  elements: str
  sample: ["create firewall rules standing", "create file /usr/local/lib/cluster-compute/overlays.json"]
overlays:
  description: The port, the first and last identifier, and the interface to the other hosts. Null after removal.
  returned: success
  type: dict
  sample: {"port": 4789, "first": 4096, "last": 16777215, "interface": "eth0"}
"""
