#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_job
short_description: Run a command in the replicas of one host, without waiting for it
version_added: 0.1.0
description:
  - With O(state=started) starts a command in replicas of a session on this host. A process of the host keeps what it
    writes and how it ends, and ends it when its time is over; neither the controller nor a connection is needed for
    that. M(cluster_compute.session.session_output) reads both.
  - With O(state=stopped) ends a job - its processes are asked to end, and killed after ten seconds.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
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
      - Where the job runs, replicas to the names of their hosts. Required with O(state=started).
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
      - Environment variables beyond those of the replica, as a mapping or as text with one C(NAME=value) a line. Their
        values are in no result.
    type: raw
    default: {}
  directory:
    description:
      - Directory to run in; empty for that of the image.
    type: str
    default: ""
  user:
    description:
      - User to run as; empty for that of the image.
    type: str
    default: ""
  timeout:
    description:
      - Seconds after which the command is ended; V(0) for never.
    type: int
    default: 0
  once:
    description:
      - Whether a job that was started before is left as it is, run or ended.
    type: bool
    default: false
  output_size:
    description:
      - Most bytes that are kept of what it writes in each replica, the newest ones, as a number or with a unit. V(0)
        stands for the default, as a job could not be collected without.
    type: str
    default: 16m
requirements:
  - Docker SDK for Python 5.0 or newer
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

from contextlib import nullcontext
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.output import OutputDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.output import parse_keep_size
from ansible_collections.cluster_compute.session.plugins.module_utils.core.record import RUNNING
from ansible_collections.cluster_compute.session.plugins.module_utils.core.request import parse_env
from ansible_collections.cluster_compute.session.plugins.module_utils.host import jobs

DEFAULT_SIZE = 16 * 1024**2


def _started(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Start the command."""
    command = jobs.Command(
        asked["command"],
        parse_env("job_env", asked["env"]),
        asked["user"],
        asked["directory"],
        asked["timeout"],
        parse_keep_size(asked["output_size"]) or DEFAULT_SIZE,
    )
    where = (asked["on"], asked["host"])
    state = StateDirectory(asked["state_directory"])
    job = OutputDirectory(asked["state_directory"]).session(asked["session_id"]).job(asked["job"])
    with state.working_on(asked["session_id"]) if asked["once"] else nullcontext():
        is_there = asked["once"] and job.read_about() is not None
        if not check_mode and not is_there:
            jobs.start(state, asked["session_id"], asked["job"], *where, command)
    started = [name for name, host in asked["on"].items() if host == asked["host"]]
    return {"changed": not is_there, "started": started}


def _stopped(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """End the job."""
    job = OutputDirectory(asked["state_directory"]).session(asked["session_id"]).job(asked["job"])
    running = any(one["status"] == RUNNING for one in jobs.outcomes(job))
    if not check_mode and job.path.exists():
        jobs.stop(job)
    return {"changed": running}


STATES: dict[str, Callable[[dict[str, Any], bool], dict[str, Any]]] = {"started": _started, "stopped": _stopped}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(STATES), "default": "started"},
            "session_id": {"type": "str", "required": True},
            "job": {"type": "str", "required": True},
            "on": {"type": "dict"},
            "host": {"type": "str"},
            "command": {"type": "list", "elements": "str"},
            "env": {"type": "raw", "default": {}, "no_log": True},
            "directory": {"type": "str", "default": ""},
            "user": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 0},
            "once": {"type": "bool", "default": False},
            "output_size": {"type": "str", "default": "16m"},
            "state_directory": {"type": "path", "default": "/var/lib/cluster-compute"},
        },
        required_if=[("state", "started", ["on", "host", "command"])],
        supports_check_mode=True,
    )
    # Ansible would blot out the values of the environment, short and ordinary ones, wherever they occur in what is
    # returned. So they are kept out of it.
    asked = dict(module.params)
    del module.params["env"]
    module.no_log_values.clear()
    try:
        result = STATES[asked["state"]](asked, module.check_mode)
    except (SessionError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
