#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_output
short_description: Find and remove the output of sessions on one host
version_added: 1.0.0
description:
  - With O(state=known), returns the sessions of a name for which this host has a record or output.
  - With O(state=pruned), removes output whose retention time is over, and leftovers of ended runs that tested the
    engine or examined an image.
  - The call that reads output has the same name and another value of O(state). M(cluster_compute.session.session_step)
    makes it, and its class in C(plugins/module_utils/_internal/core/model/call/session_output.py) documents it.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  state:
    description: What to do.
    type: str
    choices: [known, pruned]
    required: true
  session_name:
    description: Name of the session. Required with O(state=known).
    type: str
  session_id:
    description: With O(state=known), returns only the session with this identifier.
    type: str
  states:
    description:
      - With O(state=known), whether C(members) includes the states of the replicas, which have to be requested from the
        engine.
    type: bool
    default: false
  days:
    description:
      - With O(state=pruned), for how many days to keep output after its session has ended.
    type: int
    default: 7
  sessions:
    description:
      - With O(state=pruned), for how many ended sessions to keep output.
    type: int
    default: 50
seealso:
  - module: cluster_compute.session.session_logs
"""

EXAMPLES = r"""
- name: Find the sessions with a name that have output on this host
  cluster_compute.session.session_output:
    state: known
    session_name: train
  register: logs_known
"""

RETURN = r"""
sessions:
  description:
    - The sessions. C(id), C(status) and C(hosts) come from the record on this host, if there is one. C(ended) is in
      seconds since 1970, if there is output. C(members) are the replicas that run here, C(replicas) contains how
      removed replicas ended, and C(jobs) has the jobs with their commands and where they run.
  returned: with O(state=known)
  type: list
  elements: dict
leftovers:
  description:
    - Leftovers of ended runs that were, or would be, removed. Such runs tested the engine or examined an image.
  returned: with O(state=pruned)
  type: list
  elements: str
removed:
  description: Sessions whose output was, or would be, removed.
  returned: with O(state=pruned)
  type: list
  elements: str
"""
