#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_image
short_description: Load an image archive into the engine of a host
version_added: 0.1.0
description:
  - Loads an archive that lies on the host, unless the engine has an image of this name and recipe.
author: The cluster_compute.session authors (@cluster-compute)
options:
  name:
    description: Name of the image with its tag.
    type: str
    required: true
  recipe:
    description: Name of the recipe, as M(cluster_compute.session.image_archive) returns it.
    type: str
    required: true
  path:
    description: Where the archive lies on the host.
    type: path
    required: true
requirements:
  - docker (Python package)
attributes:
  check_mode:
    description: Can run in check mode and tell what it would change.
    support: full
  diff_mode:
    description: Shows what it changes as a difference.
    support: full
seealso:
  - module: cluster_compute.session.image_archive
"""

EXAMPLES = r"""
- name: Load the demo image
  cluster_compute.session.lab_image:
    name: cluster-compute/demo:latest
    recipe: cluster-compute-demo-0123456789ab
    path: /srv/lab-images/cluster-compute-demo-0123456789ab.tar
"""

RETURN = r"""
image_id:
  description: The image's id on this engine, empty in check mode when it would be loaded.
  type: str
  returned: success
  sample: sha256:9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0
"""

import traceback

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.cluster_compute.session.plugins.module_utils.lab.images import RECIPE_LABEL

try:
    import docker
    import docker.errors
except ImportError:
    _DOCKER_ERROR = traceback.format_exc()
else:
    _DOCKER_ERROR = ""


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "recipe": {"type": "str", "required": True},
            "path": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    if _DOCKER_ERROR:
        module.fail_json(
            msg=f"{missing_required_lib('docker')} The playbook prepare_hosts installs it.", exception=_DOCKER_ERROR
        )
    name, recipe = module.params["name"], module.params["recipe"]
    try:
        client = docker.DockerClient(base_url="unix:///run/docker.sock", version="auto", timeout=300)
        before, image_id = _find(client, name)
        changed = before != recipe
        if changed and not module.check_mode:
            with open(module.params["path"], "rb") as archive:
                client.images.load(archive)
            after, image_id = _find(client, name)
            if after != recipe:
                module.fail_json(msg=f"{module.params['path']} was loaded, but the engine has no {name} of {recipe}.")
    except (docker.errors.DockerException, OSError) as error:
        module.fail_json(msg=f"The image {name} could not be loaded from {module.params['path']}: {error}")
    module.exit_json(
        changed=changed,
        image_id=image_id if before == recipe or not module.check_mode else "",
        diff={"before": f"{before}\n" if before else "", "after": f"{recipe}\n"},
    )


def _find(client: docker.DockerClient, name: str) -> tuple[str, str]:
    """Return the recipe and the id of the image of this name, empty texts when there is none."""
    try:
        image = client.images.get(name)
    except docker.errors.ImageNotFound:
        return "", ""
    return image.labels.get(RECIPE_LABEL, ""), str(image.id)


if __name__ == "__main__":
    main()
