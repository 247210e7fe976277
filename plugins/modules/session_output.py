#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_output
short_description: Read the output of the replicas on one host
version_added: 1.0.0
description:
  - With O(state=known), returns the sessions of a name for which this host has a record or output.
  - With O(state=read), returns the output of the replicas of a session on this host, including replicas that were
    removed since. With O(follow_seconds), continues for that time and shows new lines as they arrive.
  - With O(state=pruned), removes output whose retention time is over, and leftovers of ended runs that tested the
    engine or examined an image.
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
      - Identifier of the session. Required with O(state=read). With O(state=known), returns only this session.
    type: str
  replicas:
    description:
      - Replicas to read. Empty reads all.
    type: list
    elements: str
    default: []
  since:
    description:
      - Where to begin - C(seconds) before now by this host's clock, or a C(time) in the format of Docker Engine. Empty
        reads everything.
    type: dict
  tail:
    description:
      - Maximum number of lines of each replica. The newest lines that match O(grep) are returned.
    type: int
  job:
    description:
      - Job whose output to read. Empty reads all output, V(none) reads output that does not come from a job.
    type: str
    default: ""
  states:
    description:
      - With O(state=known), whether C(members) includes the states of the replicas, which have to be requested from the
        engine.
    type: bool
    default: false
  grep:
    description:
      - Python regular expression. Only lines that contain a match are returned.
    type: str
    default: ""
  size:
    description:
      - Maximum number of bytes of each replica in one answer. The newest output is returned.
    type: int
    default: 1048576
  follow_seconds:
    description:
      - For how many seconds to follow the output. V(0) does not follow. Ends sooner if nothing that is read still runs.
    type: float
    default: 0
  width:
    description:
      - With O(follow_seconds), the width of the name column.
    type: int
    default: 0
  timestamps:
    description:
      - With O(follow_seconds), whether times are shown.
    type: bool
    default: false
  positions:
    description:
      - Where an earlier call ended, as that call returned it.
    type: dict
  wait:
    description:
      - Seconds after which the module returns even if nothing new was written. The action plugin sets it to follow the
        output.
    type: float
    default: 0
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
- name: Read the last lines of a session's replicas on this host
  cluster_compute.session.session_output:
    session_id: 3614fdf3-6a1e-4f0e-9d4c-0f9d1f3c6a52
    tail: 100
  register: logs_read
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
sources:
  description:
    - For each replica its C(lines), each a list of time, C(out) or C(err), and text, and how many older ones were
      C(left_out) because of O(size).
  returned: with O(state=read)
  type: list
  elements: dict
jobs:
  description:
    - For each job that was read, and each replica here, its C(status), and its C(exit_code) or why it has none.
  returned: with O(state=read)
  type: list
  elements: dict
positions:
  description: Where this call ended.
  returned: with O(state=read)
  type: dict
running:
  description: How many replicas and jobs run on this host. With O(job), in how many replicas the job runs.
  returned: with O(state=read)
  type: int
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
