#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_step
short_description: Run the step of a verb on a host
version_added: 1.0.0
description:
  - Reads the state that M(cluster_compute.session.session_decide) returned from the variable of the verb, for example
    C(launch_state), and makes the calls that it names for this host, in order. Stops after the first call that fails.
  - A host that has nothing to do is skipped.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
options:
  verb:
    description:
      - The verb to which the step belongs.
    type: str
    required: true
    choices: [check_pairs, launch, logs, preflight, repair, run_job, schedule, teardown]
  step:
    description:
      - The step to run. If the state names another step, the host is skipped. Without this option, any step is run.
    type: str
seealso:
  - module: cluster_compute.session.session_decide
"""

EXAMPLES = r"""
- name: Reserve resources on every host of the plan, and create the keys
  cluster_compute.session.session_step:
    verb: launch
    step: hold
  register: launch_answer
  failed_when: false
  ignore_unreachable: true
"""

RETURN = r"""
results:
  description:
    - The results of the calls, if there was more than one. The result of a single call is returned unchanged.
  returned: if a host has more than one call in a step
  type: list
  elements: dict
"""
