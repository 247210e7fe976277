#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_images
short_description: Make sure that a host has the images of a session
version_added: 0.1.0
description:
  - Pulls, side by side, the images which the engine of this host does not have. An image that it has is left as it is.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
attributes:
  check_mode:
    support: partial
    details: Tells what would be pulled, but not whether it can be had.
  diff_mode:
    support: none
options:
  images:
    description:
      - Image references.
    type: list
    elements: str
    required: true
requirements:
  - Docker SDK for Python 5.0 or newer
seealso:
  - module: cluster_compute.session.session_plan
"""

EXAMPLES = r"""
- name: Fetch what the session needs
  cluster_compute.session.session_images:
    images: [registry.example.com/train:1.4]
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
        argument_spec={"images": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True
    )
    try:
        engine = Engine.connect(timeout=600)
        missing = sorted(image for image in set(module.params["images"]) if engine.inspect_image(image) is None)
        if missing and not module.check_mode:
            with ThreadPoolExecutor() as pool:
                list(pool.map(engine.pull_image, missing))
    except EngineError as error:
        module.fail_json(msg=f"{error} Correct session_image, or load the image on this host.")
    module.exit_json(changed=bool(missing), pulled=missing)


if __name__ == "__main__":
    main()
