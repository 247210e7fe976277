#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_host
short_description: Converge everything one host owes a session
version_added: 0.1.0
description:
  - With O(state=present) makes what the plan gives to this host and what is missing of it - files, overlay link with
    its forwarding and neighbour entries, networks, containers, record - in one call, containers side by side.
  - With O(state=absent) removes everything the session has on this host, found by labels, link aliases and state,
    whatever is left of it. Data folders and named volumes stay.
  - When a step fails, what this call had made for a session that is being started is removed again.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  state:
    description:
      - Whether the session shall be there.
    type: str
    choices: [present, absent]
    default: present
  session_name:
    description:
      - Name of the session. With O(state=absent) this or O(session_id) is required.
    type: str
  session_id:
    description:
      - With O(state=absent) removes only the session that has this identifier.
    type: str
  keep_record:
    description:
      - With O(state=absent) leaves the session's record where it is.
    type: bool
    default: false
  unless_reserved:
    description:
      - With O(state=absent) and O(session_id) leaves everything as it is while a launch holds room for the session.
    type: bool
    default: false
  judged_revision:
    description:
      - With O(state=absent) and O(session_id) leaves everything as it is where this host has a newer record by now.
    type: int
  record:
    description:
      - The record as M(cluster_compute.session.session_plan) returns it. Required with O(state=present).
    type: dict
  holder:
    description:
      - The run of the launch that holds the session's place, as M(cluster_compute.session.session_plan) returns it.
    type: str
    default: ""
  host:
    description:
      - Name of this host in the plan. Required with O(state=present).
    type: str
  public_keys:
    description:
      - Public halves of the keys of every replica, as M(cluster_compute.session.session_prepare) returns them.
    type: dict
    default: {}
requirements:
  - Docker SDK for Python 5.0 or newer
  - iproute2
seealso:
  - module: cluster_compute.session.session_plan
  - module: cluster_compute.session.session_prepare
"""

EXAMPLES = r"""
- name: Start what the plan gives to this host
  cluster_compute.session.session_host:
    record: "{{ launch_plan.record }}"
    holder: "{{ launch_plan.holder }}"
    host: "{{ inventory_hostname }}"
    public_keys: "{{ launch_public_keys }}"

- name: Remove everything the session has on this host
  cluster_compute.session.session_host:
    state: absent
    session_name: train
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in order.
  returned: success
  type: list
  elements: str
  sample:
    - create network cc-3614fdf3
    - create container train-main1
sessions:
  description: Identifier and name of each session of which this host had anything, with the hosts its record names.
  returned: with O(state=absent)
  type: list
  elements: dict
tombstones:
  description: The tombstones of sessions of this name.
  returned: with O(state=absent)
  type: list
  elements: dict
"""

from contextlib import ExitStack
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine, EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerError, LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.link import LinkError
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import (
    DamagedFile,
    StateDirectory,
    StateError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import COMMITTED
from ansible_collections.cluster_compute.session.plugins.module_utils.core.record import RUNNING
from ansible_collections.cluster_compute.session.plugins.module_utils.host.converge import SessionHost
from ansible_collections.cluster_compute.session.plugins.module_utils.host.removal import known_sessions, removal_stages
from ansible_collections.cluster_compute.session.plugins.module_utils.host.steps import (
    StepFailed,
    descriptions,
    difference,
    perform,
)


def _has_moved_on(state: StateDirectory, ledger: LedgerFile, asked: dict[str, Any]) -> bool:
    """Tell whether somebody launches the session now, or has changed it since it was judged."""
    held = ledger.read().get(asked["session_id"])
    if asked["unless_reserved"] and held is not None and held.stage != COMMITTED:
        return True
    if asked["judged_revision"] is None:
        return False
    try:
        record = state.session(asked["session_id"]).read_record()
    except DamagedFile:
        return False
    return record is not None and record["revision"] > asked["judged_revision"]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "session_name": {"type": "str"},
            "session_id": {"type": "str"},
            "keep_record": {"type": "bool", "default": False},
            "unless_reserved": {"type": "bool", "default": False},
            "judged_revision": {"type": "int"},
            "record": {"type": "dict"},
            "holder": {"type": "str", "default": ""},
            "host": {"type": "str"},
            "public_keys": {"type": "dict", "default": {}, "no_log": False},
            "state_directory": {"type": "path", "default": "/var/lib/cluster-compute"},
        },
        required_if=[
            ("state", "present", ["record", "host"]),
            ("state", "absent", ["session_name", "session_id"], True),
        ],
        supports_check_mode=True,
    )
    asked = module.params
    state = StateDirectory(asked["state_directory"])
    ledger = LedgerFile(asked["state_directory"], forgiving=asked["state"] == "absent")
    result: dict[str, Any] = {}
    try:
        engine = Engine.connect()
        with ExitStack() as locks:
            if asked["state"] == "present":
                locks.enter_context(state.working_on(asked["record"]["id"]))
                session = SessionHost(engine, state, ledger, asked["record"], asked["host"], asked["holder"])
                stages = session.stages(asked["public_keys"], module.check_mode)
            else:
                meant = (asked["session_name"], asked["session_id"])
                result["sessions"] = known_sessions(engine, state, ledger, *meant)
                result["tombstones"] = [one for one in state.tombstones() if meant[0] in (None, one["name"])]
                for one in result["sessions"]:
                    locks.enter_context(state.working_on(one["id"]))
                if _has_moved_on(state, ledger, asked):
                    module.exit_json(changed=False, actions=[], **result)
                known = [one["id"] for one in result["sessions"]]
                stages = removal_stages(engine, state, ledger, *meant, known, asked["keep_record"])
            if not module.check_mode:
                # A session that runs is repaired, which takes nothing away from what works again.
                perform(stages, undo=asked["state"] == "absent" or asked["record"]["status"] != RUNNING)
    except (EngineError, LedgerError, LinkError, StateError, StepFailed, OSError) as error:
        module.fail_json(msg=str(error))
    actions = descriptions(stages)
    module.exit_json(changed=bool(actions), actions=actions, diff=difference(stages), **result)


if __name__ == "__main__":
    main()
