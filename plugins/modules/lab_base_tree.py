#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_base_tree
short_description: Build the root file system that lab hosts of one Debian release share
version_added: 1.0.0
description:
  - Builds a bare Debian server with C(mmdebstrap) and keeps it in a cache directory, where any number of labs can use
    it.
  - The tree contains its own package repository, so hosts made from it can install packages without network access.
  - A complete tree is never changed. Another recipe gives another tree.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
options:
  cache:
    description: Absolute path of the cache directory on this machine.
    type: path
    required: true
  release:
    description: Code name of the Debian release.
    type: str
    required: true
  mirror:
    description: Address of the Debian mirror. By default, the mirror that this machine itself uses.
    type: str
    default: ""
  packages:
    description: Packages that are installed in the tree.
    type: list
    elements: str
    required: true
  offered:
    description: Packages that a host can install later. They and their dependencies are put into the tree's repository.
    type: list
    elements: str
    required: true
requirements:
  - mmdebstrap
  - util-linux
seealso:
  - module: cluster_compute.session.lab_host
"""

EXAMPLES = r"""
- name: Build the tree of bookworm hosts
  cluster_compute.session.lab_base_tree:
    cache: /var/cache/cluster-compute-lab
    release: bookworm
    packages: [sysvinit-core, openssh-server, python3, python3-apt]
    offered: [docker.io, python3-cryptography, iproute2]
  register: tree
"""

RETURN = r"""
path:
  description: Path of the tree.
  type: str
  returned: success
  sample: /var/cache/cluster-compute-lab/trees/bookworm-0123456789ab
seconds:
  description: How long the build took, in seconds. 0 if nothing was built.
  type: float
  returned: success
  sample: 31.4
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab import debian, system


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "cache": {"type": "path", "required": True},
            "release": {"type": "str", "required": True},
            "mirror": {"type": "str", "default": ""},
            "packages": {"type": "list", "elements": "str", "required": True},
            "offered": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    began = time.monotonic()
    try:
        system.need_root()
        recipe = debian.TreeRecipe(
            release=given["release"],
            mirror=given["mirror"] or debian.machine_mirror(),
            packages=tuple(given["packages"]),
            offered=tuple(given["offered"]),
        )
        path = debian.tree_path(given["cache"], recipe)
        if module.check_mode:
            changed = not debian.has_tree(given["cache"], recipe)
        else:
            changed = debian.build_tree(given["cache"], recipe)
    except system.LabError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=changed,
        path=path,
        seconds=round(time.monotonic() - began, 1) if changed else 0.0,
        diff={"before": "" if changed else f"{path}\n", "after": f"{path}\n"},
    )


if __name__ == "__main__":
    main()
