#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_decide
short_description: Decide what follows from the answers of hosts to the step of a verb
version_added: 1.0.0
description:
  - Reads the state of a verb, which this module returned before, from the variable of the verb, and what each host
    answered to its step; for a launch C(launch_state) and C(launch_answer). Returns the next state.
  - Where the verb shall try again, it pauses for a moment first, drawn by chance.
  - Fails where the verb has failed, with everything that is wrong.
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
      - The verb.
    type: str
    required: true
    choices: [check_pairs, launch, logs, preflight, repair, run_job, schedule, teardown]
  after:
    description:
      - The step after which to decide; where the state names another, it is returned as it is.
    type: str
  given:
    description:
      - Begins another verb with what it is told here. The first step is judged at once where O(after) names it.
    type: dict
  says:
    description:
      - Whether to show people what came of the verb if it is over, and return nothing else then.
    type: bool
    default: false
  request:
    description:
      - Begins a launch, after every host of the play has answered to M(cluster_compute.session.host_info). What
        M(cluster_compute.session.session_request) returned, with C(waits), the record, where the session waits already.
    type: dict
  attempts:
    description:
      - How often a launch plans anew where others were faster.
    type: int
    default: 20
  from_queue:
    description:
      - Whether a launch is one of the queue, which does not fail where the session cannot be started.
    type: bool
    default: false
  regenerate_keys:
    description:
      - Whether a launch makes all keys anew.
    type: bool
    default: false
  hands_on:
    description:
      - Whether what came of the verb is handed on to what follows, as M(ansible.builtin.set_stats) does it, in
        C(cluster_compute_session).
    type: bool
    default: false
  session_name:
    description:
      - Begins a teardown of this session, after every host of the play has removed it.
      - The only session to put back for O(verb=repair); empty for all.
    type: str
  fails:
    description:
      - Whether a teardown fails where a host could not be reached or cleaned.
    type: bool
    default: true
  begins:
    description:
      - Begins a repair, or goes through the queue, after every host of the play has answered to
        M(cluster_compute.session.host_info); for a repair with whole records.
    type: bool
    default: false
  only_lost:
    description:
      - Where the queue is gone through, whether only replicas of hosts that were lost find others. With O(session_name)
        those of this session alone, whatever its request says.
    type: bool
    default: false
  moves_from:
    description: Where the queue is gone through, hosts from which replicas of sessions move that outlive a host.
    type: list
    elements: str
    default: []
  losses:
    description:
      - Where the queue is gone through, ids of sessions that are known to miss hosts. Every host of the play but those
        of O(unreachable) has to have answered of them, with C(peers_of) and whole records.
    type: list
    elements: str
    default: []
  unreachable:
    description: Where the queue is gone through, hosts that are known to be out of reach, and were not asked.
    type: list
    elements: str
    default: []
  leaks:
    description:
      - Whether a repair removes parts of sessions that no record explains as well.
    type: bool
    default: false
  puts_back:
    description:
      - Whether a repair puts back what is missing.
    type: bool
    default: true
  requeue_from:
    description:
      - Hosts that batch sessions leave for the queue, in a repair.
    type: list
    elements: str
    default: []
  outcome:
    description:
      - What became of a launch that O(verb=schedule) has asked for, C(outcome) of its last state.
    type: dict
  state_of:
    description:
      - A host of an earlier play whose state is the one to go on with in this play; it is returned as it is.
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

- name: Decide what follows
  cluster_compute.session.session_decide:
    verb: launch
    after: hold
  register: launch_state
  run_once: true
"""

RETURN = r"""
step:
  description: What hosts do next; empty where the verb is over.
  returned: success
  type: str
  sample: hold
title:
  description: What people are told that they do.
  returned: success
  type: str
calls:
  description: The modules that are called, with C(hosts), what each host is told.
  returned: success
  type: list
  elements: dict
outcome:
  description: What came of a launch that is over, C(session_name), C(status) and C(report).
  returned: for a launch that is over
  type: dict
status:
  description: V(SCHEDULED) for a launch whose session has a place; why there is none else.
  returned: for a launch
  type: str
play_hosts:
  description: The hosts that the plain way of a launch has something to do for, at least one.
  returned: for a launch
  type: list
  elements: str
left:
  description: The hosts that what only some launches need has something to do for; none where a launch is over.
  returned: for a launch
  type: list
  elements: str
record:
  description: The record of the session with its plan.
  returned: for a launch, null while there is no place
  type: dict
report:
  description: What people are told, in full sentences.
  returned: success
  type: list
  elements: str
"""
