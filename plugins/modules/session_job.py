#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_job
short_description: Run a command in the replicas of one host, without waiting for it
version_added: 1.0.0
description:
  - With O(state=started), starts a command in replicas of a session on this host. A process on the host stores the
    output and the exit status of the command, and ends the command at its timeout. This does not need the controller or
    a connection. M(cluster_compute.session.session_output) reads the output and the exit status.
  - With O(state=stopped), ends a job. Its processes get a signal to end, and are killed after ten seconds.
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
    choices: [started, stopped]
    default: started
  session_id:
    description:
      - Identifier of the session.
    type: str
    required: true
  job:
    description:
      - Identifier of the job, twelve hexadecimal digits.
    type: str
    required: true
  "on":
    description:
      - Where the job runs, as a mapping from replicas to the names of their hosts. Required with O(state=started).
    type: dict
  host:
    description:
      - Name of this host in O(on). Required with O(state=started).
    type: str
  command:
    description:
      - Program and arguments. Required with O(state=started).
    type: list
    elements: str
  env:
    description:
      - Environment variables in addition to those of the replica, as a mapping or as text with one C(NAME=value) per
        line. Their values are never in a result.
    type: raw
    default: {}
  directory:
    description:
      - Working directory. Empty uses that of the image.
    type: str
    default: ""
  user:
    description:
      - User to run as. Empty uses that of the image.
    type: str
    default: ""
  timeout:
    description:
      - Seconds after which the command is ended. V(0) means never.
    type: int
    default: 0
  once:
    description:
      - Whether to leave a job unchanged if it was started before, whether it still runs or has ended.
    type: bool
    default: false
  requeue:
    description:
      - With O(state=stopped), whether the job is stopped so that it can start again elsewhere, such as a batch command
        whose session goes back into the queue. The module then waits until the job has ended. A job that ended by
        itself in the meantime counts as ended.
    type: bool
    default: false
  warn_alone:
    description:
      - With O(state=started), whether to look for processes that were started with C(WORLD_SIZE=1) although the session
        has several replicas. A launcher that does not use the other replicas starts such processes.
    type: bool
    default: true
  output_size:
    description:
      - How many bytes of output to keep for each replica, as a number or with a unit. The newest output is kept. V(0)
        means the default, because the result of a job cannot be collected without its output.
    type: str
    default: 16m
seealso:
  - module: cluster_compute.session.session_jobs
  - module: cluster_compute.session.session_output
"""

EXAMPLES = r"""
- name: Start the job on this host
  cluster_compute.session.session_job:
    session_id: 3614fdf3-6a1e-4f0e-9d4c-0f9d1f3c6a52
    job: 0f9d1f3c6a52
    "on": {main1: h1}
    host: "{{ inventory_hostname }}"
    command: [mpirun, ./solve]
    timeout: 3600
"""

RETURN = r"""
started:
  description: Replicas of this host in which the command was, or would be, started.
  returned: with O(state=started)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import session_job
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    spec = ARGUMENTS["session_job"]
    env = {"type": "raw", "default": {}, "no_log": True}
    module = AnsibleModule(**{**spec, "argument_spec": {**spec["argument_spec"], "env": env}})
    # Ansible would blot out the values of the environment, short and ordinary ones, wherever they occur in what is
    # returned. So they are kept out of it.
    arguments = dict(module.params)
    del module.params["env"]
    module.no_log_values.clear()
    module.exit_json(**answer(session_job.call, arguments, module.check_mode))


if __name__ == "__main__":
    main()
