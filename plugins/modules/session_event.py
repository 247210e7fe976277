#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_event
short_description: Tell automation what came of draining hosts
version_added: 1.0.0
description:
  - Hands on what happened as an artifact, C(cluster_compute_event), as M(ansible.builtin.set_stats) does it, and sends
    it to the receiver that C(cluster_compute_events) names; not in check mode.
  - Fails where C(cluster_compute_events) names no receiver.
  - Runs on the controller and changes nothing.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes.internal
options:
  verb:
    description:
      - What was done to the hosts.
    type: str
    required: true
    choices: [drain, undrain]
  answers:
    description:
      - A mapping of the hosts that were named to the registered results of M(cluster_compute.session.host_drain).
        Without it nothing has happened yet, and only C(cluster_compute_events) is checked.
    type: dict
  wait_seconds:
    description:
      - For how long hosts waited for the end of sessions; those that are left failed to end then. 0 for no such wait.
    type: int
    default: 0
  failures:
    description:
      - What went wrong beside what the hosts answered.
    type: list
    elements: str
    default: []
seealso:
  - module: cluster_compute.session.host_drain
"""

EXAMPLES = r"""
- name: Hand on what happened
  cluster_compute.session.session_event:
    verb: drain
    answers: "{{ dict(drain_chosen | zip(drain_chosen | map('extract', hostvars, 'drain_answer'))) }}"
    wait_seconds: 600
  register: drain_event
  run_once: true
"""

RETURN = r"""
failures:
  description: Why it failed, in full sentences; empty where it did not.
  returned: success
  type: list
  elements: str
  sample: ["h1 may not be drained. It could not be reached."]
"""
