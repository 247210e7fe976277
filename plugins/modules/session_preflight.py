#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_preflight
short_description: Judge whether the hosts of a resource group can run sessions
version_added: 0.1.0
description:
  - Says what the hosts have to look at and who tries whom, and judges what they answer.
  - Judges by the rules of a launch where that has some.
  - Runs on the controller and changes nothing.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes.internal
options:
  state:
    description:
      - V(asked) checks the variables, V(planned) says who tries whom, V(judged) tells what was found.
    type: str
    choices: [asked, planned, judged]
    required: true
  known:
    description:
      - The hosts of the group.
    type: list
    elements: str
    required: true
  settings:
    description:
      - The variables of the role P(cluster_compute.session.preflight#role), without their prefix.
    type: dict
    default: {}
  hosts:
    description:
      - For each host the registered result of M(cluster_compute.session.host_preflight) in its state V(examined).
    type: dict
    default: {}
  plan:
    description:
      - What this module returned as C(plan) in its state V(planned).
    type: dict
  listening:
    description:
      - For each host the registered result of its state V(listening).
    type: dict
    default: {}
  reached:
    description:
      - For each host the registered result of its state V(reached).
    type: dict
    default: {}
  ended:
    description:
      - For each host the registered result of its state V(ended).
    type: dict
    default: {}
  measured:
    description:
      - The registered results of its state V(measured), each with C(from) and C(to).
    type: list
    elements: dict
    default: []
seealso:
  - module: cluster_compute.session.host_preflight
"""

EXAMPLES = r"""
- name: Check what is asked
  cluster_compute.session.session_preflight:
    state: asked
    known: "{{ ansible_play_hosts_all }}"
    settings: {clock_seconds: 2}
  register: preflight_asked
  run_once: true
"""

RETURN = r"""
looks:
  description: What the hosts have to look at, C(images), C(paths), C(volumes), C(encryption) and by host C(roots).
  returned: with O(state=asked)
  type: dict
matrix:
  description: Whether the pairs are to be measured.
  returned: with O(state=asked)
  type: bool
plan:
  description:
    - Who tries whom, by which link (C(trial)), by host what it does to prove that folders are shared (C(proofs)), and
      what holds for all (C(settings)).
  returned: with O(state=planned)
  type: dict
rounds:
  description: For each round of the measurement the hosts that measure, and whom.
  returned: with O(state=planned)
  type: list
  elements: dict
token:
  description: What those name who speak to the hosts' processes.
  returned: with O(state=planned)
  type: str
answer:
  description:
    - What was found, C(findings), C(counts) by severity, C(hosts), C(pairs) and C(matrix).
  returned: with O(state=judged)
  type: dict
table:
  description: The same for people, as lines.
  returned: with O(state=judged)
  type: list
  elements: str
problems:
  description: What the playbook fails for, as lines.
  returned: with O(state=judged)
  type: list
  elements: str
"""
