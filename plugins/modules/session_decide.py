#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_decide
short_description: Decide the next step of a verb from the answers of the hosts
version_added: 1.0.0
description:
  - Reads two variables of the verb - its state, which this module returned before, and the answer of each host to the
    last step. For a launch these are C(launch_state) and C(launch_answer). Returns the next state.
  - The answer to the step V(launch) of another verb is C(outcome) in C(launch_state).
  - If the verb has to try again, the module first pauses for a short random time.
  - Fails if the verb has failed, and reports everything that is wrong.
  - Runs on the controller and changes nothing.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
options:
  verb:
    description:
      - The verb.
    type: str
    required: true
    choices: [check_pairs, launch, logs, preflight, repair, run_job, schedule, teardown]
  given:
    description:
      - Begins the verb. The variables of its role without their prefix, as the verb needs them; for a launch also
        C(request), which M(cluster_compute.session.session_request) returned.
      - If O(after) names the first step, every host of the play must have answered to it, and the answers are evaluated
        at once. Otherwise the first state is returned.
    type: dict
  after:
    description:
      - The step after which to decide. If the state names another step, the state is returned unchanged.
    type: str
  says:
    description:
      - Whether to show the outcome of the verb to people if the verb is over, and then return nothing else.
    type: bool
    default: false
  state_of:
    description:
      - A host of an earlier play whose state this play continues with. The state is returned unchanged.
    type: str
seealso:
  - module: cluster_compute.session.session_step
"""

EXAMPLES = r"""
- name: Plan the session
  cluster_compute.session.session_decide:
    verb: launch
    given: {request: "{{ launch_request }}"}
    after: look
  register: launch_state
  run_once: true

- name: Decide the next step
  cluster_compute.session.session_decide:
    verb: launch
    after: hold
  register: launch_state
  run_once: true
"""

RETURN = r"""
step:
  description: The next step of the hosts. Empty if the verb is over.
  returned: success
  type: str
  sample: hold
title:
  description: Description of the step for people.
  returned: success
  type: str
calls:
  description: The modules to call, with the arguments of each host in C(hosts).
  returned: success
  type: list
  elements: dict
outcome:
  description: The outcome of a finished launch, with C(session_name), C(status) and C(report).
  returned: for a launch that is over
  type: dict
status:
  description: V(SCHEDULED) if the session of the launch was placed, otherwise why it was not.
  returned: for a launch
  type: str
play_hosts:
  description: The hosts that have something to do in the normal steps of a launch, at least one.
  returned: for a launch
  type: list
  elements: str
left:
  description: The hosts that have something to do in steps that only some launches need. Empty if a launch is over.
  returned: for a launch
  type: list
  elements: str
record:
  description: The record of the session with its plan.
  returned: for a launch, null while the session is not placed
  type: dict
report:
  description: Messages for people, in full sentences.
  returned: success
  type: list
  elements: str
"""
