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
  after:
    description:
      - The step after which to decide. If the state names another step, the state is returned unchanged.
    type: str
  given:
    description:
      - Begins another verb with these inputs. If O(after) names the first step, the answers to it are evaluated at
        once.
    type: dict
  says:
    description:
      - Whether to show the outcome of the verb to people if the verb is over, and then return nothing else.
    type: bool
    default: false
  request:
    description:
      - Begins a launch, after every host of the play has answered to M(cluster_compute.session.host_info). The value is
        what M(cluster_compute.session.session_request) returned. If the session already waits, add its record as
        C(waits).
    type: dict
  attempts:
    description:
      - How often a launch plans again if concurrent launches took the capacity.
    type: int
    default: 20
  from_queue:
    description:
      - Whether the launch comes from the queue. Such a launch does not fail if the session cannot be started.
    type: bool
    default: false
  regenerate_keys:
    description:
      - Whether a launch replaces all keys.
    type: bool
    default: false
  hands_on:
    description:
      - Whether to pass the outcome of the verb on to later jobs in C(cluster_compute_session), as
        M(ansible.builtin.set_stats) does.
    type: bool
    default: false
  session_name:
    description:
      - Begins a teardown of this session, after every host of the play has removed it.
      - With O(verb=repair), the only session to repair. Empty means all sessions.
    type: str
  fails:
    description:
      - Whether a teardown fails if a host could not be reached or cleaned.
    type: bool
    default: true
  begins:
    description:
      - Begins a repair or a run through the queue, after every host of the play has answered to
        M(cluster_compute.session.host_info). A repair needs whole records.
    type: bool
    default: false
  only_lost:
    description:
      - In a run through the queue, whether only to move replicas of lost hosts to other hosts. With O(session_name),
        only those of this session are moved, whatever its request says.
    type: bool
    default: false
  moves_from:
    description:
      - In a run through the queue, hosts whose replicas move to other hosts, if their sessions survive the loss of a
        host.
    type: list
    elements: str
    default: []
  losses:
    description:
      - In a run through the queue, ids of sessions that are known to have lost hosts. Every host of the play except
        those of O(unreachable) must have answered about these sessions, with C(peers_of) and whole records.
    type: list
    elements: str
    default: []
  unreachable:
    description: In a run through the queue, hosts that are known to be unreachable and were not contacted.
    type: list
    elements: str
    default: []
  leaks:
    description:
      - Whether a repair also removes parts of sessions that have no record.
    type: bool
    default: false
  puts_back:
    description:
      - Whether a repair restores what is missing.
    type: bool
    default: true
  requeue_from:
    description:
      - In a repair, hosts whose batch sessions go back into the queue.
    type: list
    elements: str
    default: []
  outcome:
    description:
      - The outcome of a launch that O(verb=schedule) requested, which is C(outcome) in its last state.
    type: dict
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
    request: "{{ launch_request }}"
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
