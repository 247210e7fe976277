#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_images
short_description: Make sure that a host has the images its replicas need
version_added: 0.1.0
description:
  - Pulls, side by side, the images which the plan needs on this host and which its engine does not have.
  - An image that the engine has is left as it is.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  plan:
    description:
      - The plan as M(cluster_compute.session.session_plan) returns it.
    type: dict
    required: true
  host:
    description:
      - Name of this host in the plan.
    type: str
    required: true
requirements:
  - Docker SDK for Python 5.0 or newer
seealso:
  - module: cluster_compute.session.session_plan
"""

EXAMPLES = r"""
- name: Fetch what the replicas on this host need
  cluster_compute.session.session_images:
    plan: "{{ placement_result.plan }}"
    host: "{{ inventory_hostname }}"
"""

RETURN = r"""
pulled:
  description: Images that were, or would be, pulled.
  returned: success
  type: list
  elements: str
"""

from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.adapters.engine import Engine, EngineError


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "dict", "required": True},
            "host": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    plan, host = module.params["plan"], module.params["host"]
    wanted = {replica["image"] for replica in plan["replicas"] if replica["host"] == host}
    try:
        engine = Engine.connect(timeout=600)
        missing = sorted(image for image in wanted if engine.inspect_image(image) is None)
        if missing and not module.check_mode:
            with ThreadPoolExecutor() as pool:
                list(pool.map(engine.pull_image, missing))
    except EngineError as error:
        module.fail_json(
            msg=f"The session's image cannot be had on {host}: {error}. Correct session_image, or load the image there."
        )
    module.exit_json(changed=bool(missing), pulled=missing)


if __name__ == "__main__":
    main()
