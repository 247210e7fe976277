#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_output
short_description: Read what the replicas of one host wrote
version_added: 1.0.0
description:
  - With O(state=known) tells which sessions of a name this host has a record or output of.
  - With O(state=read) returns what the replicas of a session wrote on this host, those that were removed since
    included. With O(follow_seconds) goes on for so long and shows lines as they come.
  - With O(state=pruned) removes output that has been kept for long enough, and what ended runs left that tried
    the engine or examined an image.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.internal
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  state:
    description:
      - What to do.
    type: str
    choices: [known, read, pruned]
    default: read
  session_name:
    description:
      - Name of the session. Required with O(state=known).
    type: str
  session_id:
    description:
      - Identifier of the session. Required with O(state=read); narrows O(state=known).
    type: str
  replicas:
    description:
      - Replicas to read; empty for all.
    type: list
    elements: str
    default: []
  since:
    description:
      - Where to begin - C(seconds) before now by this host's clock, or a C(time) as engines write it. Empty for all.
    type: dict
    default: {}
  tail:
    description:
      - Most lines of each replica, the newest of those that O(grep) leaves.
    type: int
  job:
    description:
      - Job to read; empty for all that was written, V(none) for what no job wrote.
    type: str
    default: ""
  states:
    description:
      - With O(state=known) whether C(members) tells what the replicas are doing, which only their engine knows.
    type: bool
    default: false
  grep:
    description:
      - Regular expression of Python that lines have to hold.
    type: str
    default: ""
  size:
    description:
      - Most bytes of each replica in one answer, the newest ones.
    type: int
    default: 1048576
  follow_seconds:
    description:
      - For how long to go on reading; not at all with V(0). Ends sooner where nothing that is read runs any more.
    type: float
    default: 0
  width:
    description:
      - With O(follow_seconds) the width of the column of names in what is shown.
    type: int
    default: 0
  timestamps:
    description:
      - With O(follow_seconds) whether times are shown.
    type: bool
    default: false
  positions:
    description:
      - Where an earlier call ended, as it returned it.
    type: dict
  wait:
    description:
      - Seconds after which the module answers although nothing new was written. The action that follows sets it.
    type: float
    default: 0
  days:
    description:
      - With O(state=pruned) days for which output is kept after its session has ended.
    type: int
    default: 7
  sessions:
    description:
      - With O(state=pruned) sessions that have ended of which it is kept at most.
    type: int
    default: 50
seealso:
  - module: cluster_compute.session.session_logs
"""

EXAMPLES = r"""
- name: Read the last lines of a session's replicas on this host
  cluster_compute.session.session_output:
    session_id: 3614fdf3-6a1e-4f0e-9d4c-0f9d1f3c6a52
    tail: 100
  register: logs_read
"""

RETURN = r"""
sessions:
  description:
    - Sessions with C(id), C(status) and C(hosts) of the record here, if there is one, C(ended) in seconds since 1970,
      if there is output, C(members), the replicas that run here, C(replicas), which tells of removed ones how they
      ended, and C(jobs) with their commands and where they run.
  returned: with O(state=known)
  type: list
  elements: dict
sources:
  description: For each replica its C(lines), each a list of time, C(out) or C(err), and text, and how many older ones
    were C(left_out) for want of O(size).
  returned: with O(state=read)
  type: list
  elements: dict
jobs:
  description: For each job that was read, and each replica here, its C(status), C(exit_code) and why it has none.
  returned: with O(state=read)
  type: list
  elements: dict
positions:
  description: Where this call ended.
  returned: with O(state=read)
  type: dict
running:
  description: How many replicas and jobs run on this host, or with O(job) in how many replicas it runs.
  returned: with O(state=read)
  type: int
leftovers:
  description: What was, or would be, removed of ended runs that tried the engine or examined an image.
  returned: with O(state=pruned)
  type: list
  elements: str
removed:
  description: Sessions whose output was, or would be, removed.
  returned: with O(state=pruned)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import session_output
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["session_output"])
    module.exit_json(**answer(session_output.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
