#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_logs
short_description: Put together what the replicas of a session wrote
version_added: 0.1.0
description:
  - With O(state=checked) reads the variables whose names begin with C(logs_) and reports everything that is wrong with
    them.
  - With O(state=chosen) decides which session is meant, from what all hosts know of its name. One that has a record
    comes first, then the one that ended last.
  - With O(state=merged) puts the lines of all hosts in order of time, shows them and saves them.
  - Runs on the controller.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.internal
attributes:
  check_mode:
    support: full
    details: Nothing is saved in check mode.
  diff_mode:
    support: none
options:
  state:
    description:
      - What to do.
    type: str
    choices: [checked, chosen, merged]
    required: true
  results:
    description:
      - A mapping of the hosts of the resource group to the registered results of
        M(cluster_compute.session.session_output). Required with O(state=chosen) and O(state=merged).
    type: dict
  session_name:
    description:
      - Name of the session. Required with O(state=chosen).
    type: str
  resource_group:
    description:
      - Name of the resource group, for what is said where it has no such session. Required with O(state=chosen).
    type: str
  request:
    description:
      - What O(state=checked) returned. Required with O(state=chosen) and O(state=merged).
    type: dict
  chosen:
    description:
      - What O(state=chosen) returned. Required with O(state=merged).
    type: dict
seealso:
  - module: cluster_compute.session.session_output
"""

EXAMPLES = r"""
- name: Show what was written, in order of time
  cluster_compute.session.session_logs:
    state: merged
    request: "{{ logs_request }}"
    chosen: "{{ logs_session }}"
    results: "{{ dict(ansible_play_hosts_all | zip(ansible_play_hosts_all | map('extract', hostvars, 'logs_read'))) }}"
  run_once: true
"""

RETURN = r"""
request:
  description: What is asked for.
  returned: with O(state=checked)
  type: dict
session_id:
  description: The session that is meant.
  returned: with O(state=chosen)
  type: str
hosts:
  description: Hosts that have anything of it.
  returned: with O(state=chosen)
  type: list
  elements: str
members:
  description: The replicas of the session, if it runs, and their hosts.
  returned: with O(state=chosen)
  type: dict
width:
  description: Width of the column of names.
  returned: with O(state=chosen)
  type: int
notes:
  description: What is missing and why, full sentences.
  returned: with O(state=chosen) and O(state=merged)
  type: list
  elements: str
lines:
  description: How many lines there are.
  returned: with O(state=merged)
  type: int
files:
  description: The files that were written.
  returned: with O(state=merged)
  type: list
  elements: str
"""
