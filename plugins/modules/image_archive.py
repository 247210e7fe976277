#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: image_archive
short_description: Build a container image from Debian packages, without a registry or an engine
version_added: 1.0.0
description:
  - Builds the image's file system with C(mmdebstrap) and writes an archive in the format of C(docker save). The image
    has the same id on every engine that loads it.
  - The same recipe and the same package versions give the same image. A finished archive stays in the cache directory.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
options:
  cache:
    description: Absolute path of the cache directory on this machine.
    type: path
    required: true
  name:
    description: Name of the image with its tag.
    type: str
    required: true
  release:
    description: Code name of the Debian release.
    type: str
    required: true
  mirror:
    description: Address of the Debian mirror. By default, the mirror that this machine itself uses.
    type: str
    default: ""
  variant:
    description:
      - V(minbase) installs the packages on top of Debian's essential ones.
      - V(extract) unpacks only the packages and runs none of their scripts.
    type: str
    choices: [minbase, extract]
    default: minbase
  packages:
    description: The packages.
    type: list
    elements: str
    required: true
  files:
    description: Files to put into the image.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path in the image.
        type: str
        required: true
      content:
        description: Text of the file.
        type: str
        required: true
      mode:
        description: Octal permissions.
        type: str
        default: "644"
  shell:
    description: The program, with its arguments, that reads O(setup) from its standard input inside the image.
    type: list
    elements: str
    default: [/bin/sh, -e]
  setup:
    description: Script that runs inside the image after packages and files were installed.
    type: str
    default: ""
  user:
    description: The default user of the image's containers.
    type: str
    default: ""
  working_directory:
    description: The working directory of the image's containers.
    type: str
    default: /
  environment:
    description: Environment variables of the image.
    type: dict
    default: {}
  entrypoint:
    description: The image's entrypoint.
    type: list
    elements: str
    default: []
  command:
    description: The image's default command.
    type: list
    elements: str
    default: []
requirements:
  - mmdebstrap
  - util-linux
seealso:
  - module: cluster_compute.session.lab_image
"""

EXAMPLES = r"""
- name: Build an image that contains only busybox
  cluster_compute.session.image_archive:
    cache: /var/cache/cluster-compute-lab
    name: cluster-compute/busybox:latest
    release: bookworm
    variant: extract
    packages: [busybox-static]
    shell: [/bin/busybox, sh, -e]
    setup: /bin/busybox --install -s /bin
    command: [/bin/sh]
"""

RETURN = r"""
path:
  description: Path of the archive.
  type: str
  returned: success
  sample: /var/cache/cluster-compute-lab/images/cluster-compute-demo-0123456789ab.tar
recipe:
  description: Name of the recipe, which the image carries as a label.
  type: str
  returned: success
  sample: cluster-compute-demo-0123456789ab
image_id:
  description: The image's id. Empty in check mode if there is no archive yet.
  type: str
  returned: success
  sample: sha256:9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0
seconds:
  description: How long the build took, in seconds. 0 if nothing was built.
  type: float
  returned: success
  sample: 41.2
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab import debian, images, system


def main() -> None:
    """Entry point of the module."""
    strings = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "cache": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "release": {"type": "str", "required": True},
            "mirror": {"type": "str", "default": ""},
            "variant": {"type": "str", "choices": ["minbase", "extract"], "default": "minbase"},
            "packages": {"type": "list", "elements": "str", "required": True},
            "files": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "path": {"type": "str", "required": True},
                    "content": {"type": "str", "required": True},
                    "mode": {"type": "str", "default": "644"},
                },
            },
            "shell": {**strings, "default": ["/bin/sh", "-e"]},
            "setup": {"type": "str", "default": ""},
            "user": {"type": "str", "default": ""},
            "working_directory": {"type": "str", "default": "/"},
            "environment": {"type": "dict", "default": {}},
            "entrypoint": strings,
            "command": strings,
        },
        supports_check_mode=True,
    )
    given = module.params
    began = time.monotonic()
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **given["environment"]}
    try:
        system.need_root()
        recipe = images.ImageRecipe(
            name=given["name"],
            release=given["release"],
            mirror=given["mirror"] or debian.machine_mirror(),
            variant=given["variant"],
            packages=tuple(given["packages"]),
            files=tuple((file["path"], file["content"], file["mode"]) for file in given["files"]),
            shell=tuple(given["shell"]),
            setup=given["setup"],
            config={
                "User": given["user"],
                "WorkingDir": given["working_directory"],
                "Env": [f"{name}={value}" for name, value in environment.items()],
                "Entrypoint": given["entrypoint"] or None,
                "Cmd": given["command"] or None,
            },
        )
        if module.check_mode:
            archive = images.find_archive(given["cache"], recipe)
            changed = archive is None
            path = archive.path if archive else f"{given['cache']}/images/{recipe.key}.tar"
            image_id = archive.image_id if archive else ""
        else:
            built, changed = images.build_archive(given["cache"], recipe)
            path, image_id = built.path, built.image_id
    except system.LabError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=changed,
        path=path,
        recipe=recipe.key,
        image_id=image_id,
        seconds=round(time.monotonic() - began, 1) if changed else 0.0,
        diff={"before": "" if changed else f"{path}\n", "after": f"{path}\n"},
    )


if __name__ == "__main__":
    main()
