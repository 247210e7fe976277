#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_jobs
short_description: Decide where a job runs, and judge what came of it
version_added: 0.1.0
description:
  - With O(state=checked) reads the variables whose names begin with C(job_) and reports everything that is wrong with
    them. The values of C(job_env) are not returned; O(state=planned) reads them again.
  - With O(state=planned) decides in which replicas the command runs, and refuses a session that is not ready, or finds
    where a job that was started before runs.
  - With O(state=judged) puts together how the job ended in each replica.
  - Runs on the controller and changes nothing.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes.internal
options:
  state:
    description:
      - What to do.
    type: str
    choices: [checked, planned, judged]
    required: true
  results:
    description:
      - A mapping of the hosts of the resource group to the registered results of
        M(cluster_compute.session.session_output). Required with O(state=planned) and O(state=judged).
    type: dict
  session_name:
    description:
      - Name of the session. Required with O(state=planned).
    type: str
  resource_group:
    description:
      - Name of the resource group, for what is said where it has no such session. Required with O(state=planned).
    type: str
  request:
    description:
      - What O(state=checked) returned. Required with O(state=planned).
    type: dict
  plan:
    description:
      - What O(state=planned) returned. Required with O(state=judged).
    type: dict
  waited:
    description:
      - With O(state=judged) whether the hosts were asked how it ended; with V(false) the job has only been started.
    type: bool
    default: true
seealso:
  - module: cluster_compute.session.session_job
  - module: cluster_compute.session.session_output
"""

EXAMPLES = r"""
- name: See how the job ended
  cluster_compute.session.session_jobs:
    state: judged
    plan: "{{ run_job_plan }}"
    results: "{{ dict(groups['pool'] | zip(groups['pool'] | map('extract', hostvars, 'run_job_read'))) }}"
  register: run_job_outcome
  run_once: true
"""

RETURN = r"""
request:
  description: What is asked for.
  returned: with O(state=checked)
  type: dict
session_id:
  description: The session.
  returned: with O(state=planned)
  type: str
job:
  description: Identifier of the job.
  returned: with O(state=planned)
  type: str
is_batch:
  description: Whether it is the session's batch command.
  returned: with O(state=planned)
  type: bool
"on":
  description: Where the job runs, replicas to hosts.
  returned: with O(state=planned)
  type: dict
command:
  description: The command as people read it.
  returned: with O(state=planned)
  type: str
width:
  description: Width of the column of names.
  returned: with O(state=planned)
  type: int
outcome:
  description:
    - C(job), C(session_id), C(status), which is V(ENDED), V(RUNNING), V(LOST) or V(UNKNOWN), C(succeeded), and for each
      replica C(host), C(status) and C(exit_code).
  returned: with O(state=judged)
  type: dict
report:
  description: The same as lines of text.
  returned: with O(state=judged)
  type: list
  elements: str
failures:
  description: Why it did not succeed, with the last lines of each replica in which it failed.
  returned: with O(state=judged)
  type: list
  elements: str
"""
