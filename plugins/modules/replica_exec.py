#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: replica_exec
short_description: Run a command in a replica
version_added: 0.1.0
description:
  - Runs one command, without a shell, in a running replica of a session on this host, as the image's user.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
attributes:
  check_mode:
    support: none
    details: In check mode the command is skipped.
  diff_mode:
    support: none
options:
  session_name:
    description:
      - Name of the session.
    type: str
    required: true
  replica:
    description:
      - Name of the replica.
    type: str
    default: main1
  command:
    description:
      - Program and arguments.
    type: list
    elements: str
    required: true
  user:
    description:
      - User to run as; the image's own by default.
    type: str
    default: ""
requirements:
  - Docker SDK for Python 5.0 or newer
"""

EXAMPLES = r"""
- name: Reach sub1 from main1
  cluster_compute.session.replica_exec:
    session_name: train
    command: [ssh, sub1, hostname]
"""

RETURN = r"""
rc:
  description: Exit code of the command.
  returned: when the command ran
  type: int
stdout:
  description: Its standard output.
  returned: when the command ran
  type: str
stderr:
  description: Its standard error.
  returned: when the command ran
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters import engine as docker_engine
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine, EngineError


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "session_name": {"type": "str", "required": True},
            "replica": {"type": "str", "default": "main1"},
            "command": {"type": "list", "elements": "str", "required": True},
            "user": {"type": "str", "default": ""},
        },
    )
    asked = module.params
    labels = {
        docker_engine.LABEL_SESSION_NAME: asked["session_name"],
        docker_engine.LABEL_REPLICA: asked["replica"],
    }
    try:
        engine = Engine.connect()
        found = engine.session_containers(labels)
        if not found:
            raise EngineError(
                f"This host runs no replica {asked['replica']} of a session named {asked['session_name']}."
            )
        code, out, err = engine.execute(found[0]["Id"], asked["command"], asked["user"])
    except EngineError as error:
        module.fail_json(msg=str(error))
    result = {"changed": True, "rc": code, "stdout": out, "stderr": err}
    if code != 0:
        module.fail_json(
            msg=f"{asked['command'][0]} ended with exit code {code} in {asked['replica']}: {(err or out).strip()}",
            **result,
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
