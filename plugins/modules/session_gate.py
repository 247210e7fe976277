#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_gate
short_description: Tell whether every host has done its part of a step
version_added: 0.1.0
description:
  - Looks at the results of all hosts and returns the reasons of those that failed or could not be reached.
  - Runs on the controller and changes nothing. It does not fail, so that every host can clean up.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
options:
  hosts:
    description:
      - Hosts that had a part to do.
    type: list
    elements: str
    required: true
  witnesses:
    description:
      - Hosts that had a part to do if they could be reached. One that could not does not keep anything from passing.
    type: list
    elements: str
    default: []
  results:
    description:
      - For each host the registered result of its part.
    type: dict
    required: true
  proof:
    description:
      - Name of the value that the result of a part holds if it was done.
    type: str
    required: true
  before:
    description:
      - Result of the gate before this one. If that let nothing pass, this one does not either, for the same reasons.
    type: dict
  record:
    description:
      - Record of the session that is being started, to tell what becomes of it where it came from the queue.
    type: dict
"""

EXAMPLES = r"""
- name: See whether every host is ready
  cluster_compute.session.session_gate:
    hosts: "{{ launch_plan.hosts }}"
    results:
      h1: "{{ hostvars['h1']['launch_prepared'] }}"
      h2: "{{ hostvars['h2']['launch_prepared'] }}"
    proof: public_keys
  register: launch_gate
  run_once: true
"""

RETURN = r"""
passed:
  description: Whether every host has done its part.
  returned: success
  type: bool
failures:
  description: For each host that has not, its name and the reason.
  returned: success
  type: list
  elements: str
failed_hosts:
  description: Hosts that have not done their part.
  returned: success
  type: list
  elements: str
unreachable_hosts:
  description: Those of them that could not be reached.
  returned: success
  type: list
  elements: str
failed_record:
  description: Record of a session from the queue whose start failed; null for others.
  returned: success
  type: dict
"""
