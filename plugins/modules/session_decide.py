#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_decide
short_description: Decide what a launch does with the answers of the hosts it asked
version_added: 0.1.0
description:
  - Tells whether a session holds its place on every host of its plan, asks the others again, or gives everything back.
  - Where the launch shall try again, it pauses for a moment first, drawn by chance.
  - Runs on the controller and changes nothing.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
options:
  plan:
    description:
      - What M(cluster_compute.session.session_plan) returned.
    type: dict
    required: true
  results:
    description:
      - For each host the registered result of M(cluster_compute.session.session_host) in its state V(reserved).
    type: dict
    required: true
  attempt:
    description:
      - Number of this try, from 1 on.
    type: int
    required: true
  attempts:
    description:
      - How many tries there are.
    type: int
    default: 20
seealso:
  - module: cluster_compute.session.session_host
"""

EXAMPLES = r"""
- name: Decide
  cluster_compute.session.session_decide:
    plan: "{{ launch_plan }}"
    results:
      h1: "{{ hostvars['h1']['launch_reserved'] }}"
      h2: "{{ hostvars['h2']['launch_reserved'] }}"
    attempt: 1
  register: launch_decision
  run_once: true
"""

RETURN = r"""
verdict:
  description: V(granted), V(ask again), V(give back), or V(pending) where there was nothing to ask for.
  returned: success
  type: str
again:
  description: Whether the launch shall try again.
  returned: success
  type: bool
reasons:
  description: What the hosts that refused said.
  returned: success
  type: list
  elements: str
broken:
  description: Whether a host failed instead of answering.
  returned: success
  type: bool
report:
  description: The outcome for people, line by line.
  returned: success
  type: list
  elements: str
"""
