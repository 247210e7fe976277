#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_event
short_description: Report the outcome of draining hosts to automation
version_added: 1.0.0
description:
  - Passes on what happened as the artifact C(cluster_compute_event), as M(ansible.builtin.set_stats) does, and sends it
    to the receiver in C(cluster_compute_events). Does neither in check mode.
  - Fails if the value of C(cluster_compute_events) does not name a receiver.
  - Runs on the controller and changes nothing.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
options:
  verb:
    description:
      - What was done to the hosts.
    type: str
    required: true
    choices: [drain, undrain]
  answers:
    description:
      - A mapping from the requested hosts to the registered results of M(cluster_compute.session.host_drain). Without
        it, the module only checks C(cluster_compute_events).
    type: dict
  wait_seconds:
    description:
      - For how many seconds the hosts waited for sessions to end. Sessions that are left are then a failure. V(0) means
        that no host waited.
    type: int
    default: 0
  failures:
    description:
      - Failures other than those that the hosts reported.
    type: list
    elements: str
    default: []
seealso:
  - module: cluster_compute.session.host_drain
"""

EXAMPLES = r"""
- name: Report what happened
  cluster_compute.session.session_event:
    verb: drain
    answers: "{{ dict(drain_chosen | zip(drain_chosen | map('extract', hostvars, 'drain_answer'))) }}"
    wait_seconds: 600
  register: drain_event
  run_once: true
"""

RETURN = r"""
failures:
  description: Why it failed, in full sentences. Empty if it did not fail.
  returned: success
  type: list
  elements: str
  sample: ["h1 may not be drained. It could not be reached."]
"""
