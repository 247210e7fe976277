#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_survey
short_description: Judge what the hosts of a resource group say together
version_added: 0.1.0
description:
  - Puts the facts of all hosts together. Tells what nobody owns any more, which sessions a failure has ended, and what
    each host has to know of its sessions that it may have lost.
  - Where a host that could know better cannot be reached, it leaves things as they are.
  - Runs on the controller and changes nothing.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
options:
  hosts:
    description:
      - For each host the registered result of M(cluster_compute.session.host_info) with whole records.
    type: dict
    required: true
  leaks:
    description:
      - Whether C(chores) holds the removal of leaks as well, which are parts of sessions that no record explains.
    type: bool
    default: false
seealso:
  - module: cluster_compute.session.session_repair
"""

EXAMPLES = r"""
- name: Judge what the hosts say
  cluster_compute.session.session_survey:
    hosts:
      h1: "{{ hostvars['h1']['repair_host'] }}"
      h2: "{{ hostvars['h2']['repair_host'] }}"
  register: repair_survey
  run_once: true
"""

RETURN = r"""
chores:
  description: What has to be written and removed, for the role cleanup.
  returned: success
  type: dict
tidy:
  description: Whether there is nothing of that kind.
  returned: success
  type: bool
missing:
  description: Hosts that could not be looked at, each with the reason.
  returned: success
  type: list
  elements: str
records:
  description: For each host the records it has to have.
  returned: success
  type: dict
rooms:
  description: For each host what sessions may use of it in all.
  returned: success
  type: dict
public_keys:
  description: For each session the public halves of the keys of its replicas.
  returned: success
  type: dict
findings:
  description: What is not as it should be, as sentences.
  returned: success
  type: list
  elements: str
"""
