#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_repair
short_description: Put back what is missing of the sessions that run on a host
version_added: 0.1.0
description:
  - Compares the host with the records of all its sessions, and puts back exactly what is missing - containers, links,
    forwarding entries, networks, keys, files, records, reservations - in one call, however many sessions there are.
  - Files of the state directory that cannot be trusted are set aside, never deleted, and made anew from what other
    hosts, or labels on this one, know.
  - In check mode tells what differs.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.recorded
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  host:
    description:
      - Name of this host in the plans.
    type: str
    required: true
  session_name:
    description:
      - The only session to look at; empty for all.
    type: str
    default: ""
  room:
    description:
      - What sessions may use of this host in all, as M(cluster_compute.session.session_survey) returns it. A place that
        a session has lost is only taken again where it is free; without this it is not asked for.
    type: dict
  records:
    description:
      - Records by session as other hosts know them; a newer revision, or one that is missing here, is taken over.
    type: dict
    default: {}
  public_keys:
    description:
      - Public halves of the keys of replicas, by session, as other hosts know them.
    type: dict
    default: {}
requirements:
  - Docker SDK for Python 5.0 or newer
  - cryptography
  - iproute2
seealso:
  - module: cluster_compute.session.session_survey
"""

EXAMPLES = r"""
- name: Put back what is missing
  cluster_compute.session.session_repair:
    host: "{{ inventory_hostname }}"
    room: "{{ repair_survey.rooms[inventory_hostname] }}"
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in order.
  returned: always
  type: list
  elements: str
  sample:
    - create link ccx3614fdf3
sessions:
  description: For each session of which anything was missing its name, what was done, and what could not be done.
  returned: always
  type: dict
public_keys:
  description: For each session the public halves of the keys of the replicas on this host.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateDirectory
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError, message_of
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import Room
from ansible_collections.cluster_compute.session.plugins.module_utils.core.record import read_record
from ansible_collections.cluster_compute.session.plugins.module_utils.host.repair import repair_host


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "session_name": {"type": "str", "default": ""},
            "room": {"type": "dict"},
            "records": {"type": "dict", "default": {}},
            "recorded": {"type": "list", "elements": "str", "default": []},
            "public_keys": {"type": "dict", "default": {}, "no_log": False},
            "state_directory": {"type": "path", "default": "/var/lib/cluster-compute"},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        done = repair_host(
            StateDirectory(asked["state_directory"]),
            asked["host"],
            {key: read_record(record, key) for key, record in asked["records"].items()},
            asked["public_keys"],
            recorded=asked["recorded"],
            room=Room.from_dict(asked["room"]) if asked["room"] else None,
            session_name=asked["session_name"] or None,
            check_mode=module.check_mode,
        )
    except (SessionError, OSError) as error:
        module.fail_json(msg=message_of(error))
    result = {
        "changed": bool(done.actions),
        "actions": done.actions,
        "sessions": done.sessions,
        "public_keys": done.public_keys,
        "diff": {"before": done.before, "after": done.after},
    }
    if done.problems:
        module.fail_json(msg="\n".join(done.problems), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
