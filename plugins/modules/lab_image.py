#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_image
short_description: Load an image archive into the engine of a host
version_added: 1.0.0
description:
  - Loads an archive on the host. Does nothing if the engine already has an image with this name and recipe.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
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
    description: Path of the archive on the host.
    type: path
    required: true
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
  description: The image's id on this engine. Empty in check mode if it would be loaded.
  type: str
  returned: success
  sample: sha256:9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0
"""

from collections.abc import Iterator

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.adapters.engine import (
    Engine,
    EngineError,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab.images import RECIPE_LABEL

PATIENCE = 1800
"""Seconds without an answer of the engine while it unpacks the image."""
CHUNK = 1024**2
"""Number of bytes of the archive to read at a time."""


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
    name, recipe = module.params["name"], module.params["recipe"]
    try:
        engine = Engine.connect(timeout=PATIENCE)
        before, image_id = _find(engine, name)
        changed = before != recipe
        if changed and not module.check_mode:
            engine.load_images(_chunks(module.params["path"]))
            after, image_id = _find(engine, name)
            if after != recipe:
                module.fail_json(msg=f"{module.params['path']} was loaded, but the engine has no {name} of {recipe}.")
    except (EngineError, OSError) as error:
        module.fail_json(msg=f"The image {name} could not be loaded from {module.params['path']}: {error}")
    module.exit_json(
        changed=changed,
        image_id=image_id if before == recipe or not module.check_mode else "",
        diff={"before": f"{before}\n" if before else "", "after": f"{recipe}\n"},
    )


def _chunks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _find(engine: Engine, name: str) -> tuple[str, str]:
    """Return the recipe and the id of the image with this name, or empty texts if there is none."""
    found = engine.inspect_image(name)
    if found is None:
        return "", ""
    return found.labels.text(RECIPE_LABEL), found.id


if __name__ == "__main__":
    main()
