#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_kernel
short_description: Set the kernel parameters that many replicas on one host need
version_added: 1.0.0
description:
  - Each replica has a neighbour entry for every other replica that it communicates with. All replicas of a host share
    one kernel table for these entries, with 1024 entries by default. 33 replicas that all communicate with each other
    exceed this limit, and packets are then lost.
  - This module raises the limits of the table, C(net.ipv4.neigh.default.gc_thresh1) to C(gc_thresh3), and those of
    IPv6. It sets them immediately, and with a file in C(/etc/sysctl.d) at each boot. It never lowers a limit.
  - A host without these settings, because it is a network namespace of another host, is not changed.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
options:
  max_replicas:
    description:
      - Maximum number of replicas on the host, of all sessions together. Empty means no limit, and the module then
        calculates with 256.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Raise the neighbour table limits for 64 replicas
  cluster_compute.session.host_kernel:
    max_replicas: "64"
"""

RETURN = r"""
actions:
  description: What was, or in check mode would be, done.
  returned: success
  type: list
  elements: str
  sample: ["set kernel setting net.ipv4.neigh.default.gc_thresh3", "create file /etc/sysctl.d/60-cluster-compute.conf"]
"""
