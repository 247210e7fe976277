#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_reserve
short_description: Hold capacity of a host for a session, or give it back
version_added: 0.1.0
description:
  - With O(state=leased) asks the host, under its lock, whether the claim fits beside everything that is held at that
    moment, and holds it for O(lease_seconds) if it does. A refusal is an answer, no failure.
  - With O(state=released) gives back what the session holds, unless it runs.
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
      - Whether the claim shall be held.
    type: str
    choices: [leased, released]
    default: leased
  claim:
    description:
      - What the session takes on this host, as M(cluster_compute.session.session_plan) returns it.
    type: dict
    required: true
  holder:
    description:
      - The run of the launch that asks, as M(cluster_compute.session.session_plan) returns it. Only its own reservation
        is renewed or given back.
    type: str
    required: true
  room:
    description:
      - What sessions may use of this host in all, as M(cluster_compute.session.session_plan) returns it.
      - Required with O(state=leased).
    type: dict
  lease_seconds:
    description:
      - Seconds for which the capacity is held if nothing more is heard of the launch.
    type: int
    default: 120
requirements:
  - Docker SDK for Python 5.0 or newer
seealso:
  - module: cluster_compute.session.session_plan
"""

EXAMPLES = r"""
- name: Hold what the session takes on this host
  cluster_compute.session.session_reserve:
    claim: "{{ launch_plan.claims[inventory_hostname].claim }}"
    holder: "{{ launch_plan.holder }}"
    room: "{{ launch_plan.claims[inventory_hostname].room }}"
  register: launch_reserved
"""

RETURN = r"""
granted:
  description: Whether the host holds the claim.
  returned: with O(state=leased)
  type: bool
reasons:
  description: Why it does not, in full sentences.
  returned: with O(state=leased)
  type: list
  elements: str
undecided:
  description: Sessions that do not know yet whether they start, and are the only ones in the way.
  returned: with O(state=leased)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import EngineError
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.ledger import LedgerError, LedgerFile
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.state import StateError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import CoreError
from ansible_collections.cluster_compute.session.plugins.module_utils.core.ledger import Claim
from ansible_collections.cluster_compute.session.plugins.module_utils.host.reservation import lease, release


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["leased", "released"], "default": "leased"},
            "claim": {"type": "dict", "required": True},
            "holder": {"type": "str", "required": True},
            "room": {"type": "dict"},
            "lease_seconds": {"type": "int", "default": 120},
            "state_directory": {"type": "path", "default": "/var/lib/cluster-compute"},
        },
        required_if=[("state", "leased", ["room"])],
        supports_check_mode=True,
    )
    asked = module.params
    ledger = LedgerFile(asked["state_directory"])
    try:
        claim = Claim.from_dict(asked["claim"])
        if asked["state"] == "released":
            module.exit_json(changed=release(ledger, claim, asked["holder"], module.check_mode))
        terms = (asked["room"], asked["lease_seconds"], asked["holder"])
        changed, answer = lease(ledger, claim, *terms, module.check_mode)
    except (EngineError, LedgerError, StateError, CoreError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=changed, granted=answer.granted, reasons=list(answer.reasons), undecided=list(answer.undecided)
    )


if __name__ == "__main__":
    main()
