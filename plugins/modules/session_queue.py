#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_queue
short_description: Tell who waits in the queue of a resource group, why, and who can start now
version_added: 0.1.0
description:
  - Goes through the sessions that wait, by priority, then by age, and tells which of them have room. The first that has
    none keeps a place of its own, which those behind it cannot take.
  - Runs on the controller and changes nothing.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
options:
  hosts:
    description:
      - For each host the registered result of M(cluster_compute.session.host_info).
    type: dict
    required: true
seealso:
  - module: cluster_compute.session.session_decide
"""

EXAMPLES = r"""
- name: See who is next
  cluster_compute.session.session_queue:
    hosts:
      h1: "{{ hostvars['h1']['schedule_host'] }}"
      h2: "{{ hostvars['h2']['schedule_host'] }}"
  register: schedule_queue
  run_once: true
"""

RETURN = r"""
queue:
  description: The sessions that wait, in order, each with position, name, owner, priority and the reason.
  returned: success
  type: list
  elements: dict
launchable:
  description: For each session that can start now what M(cluster_compute.session.session_request) would return.
  returned: success
  type: list
  elements: dict
chores:
  description: What has to be written and removed first, for the role cleanup.
  returned: success
  type: dict
tidy:
  description: Whether there is nothing of that kind.
  returned: success
  type: bool
"""
