#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_images
short_description: Bring the images of a session to a host
version_added: 1.0.0
description:
  - Performs what M(cluster_compute.session.session_decide) has decided for this host. It pulls images by their digests
    in parallel, sends an image to another host, or receives one from there or from the controller.
  - Credentials of registries come from the variable C(cluster_compute_registries) of the host. They are passed to
    Docker Engine and never written to a file. For this reason, Ansible's pipelining is always used.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.internal
attributes:
  check_mode:
    support: partial
    details: Reports what would be fetched, but not whether it is available.
  diff_mode:
    support: none
options:
  state:
    description:
      - V(resolved) requests the digests of O(images) from the registry.
      - V(pulled) pulls O(pulls).
      - V(loaded) loads the image of O(transfer) from an archive on the controller.
      - V(serving) starts a server that sends the image of O(transfer) to one other host and then ends.
      - V(received) gets the image of O(transfer) from a server.
      - V(ended) ends those of O(servers) that still wait.
    type: str
    choices: [resolved, pulled, loaded, serving, received, ended]
    required: true
  images:
    description:
      - Image references.
    type: list
    elements: str
    default: []
  pulls:
    description:
      - Images to pull, each with the C(digest) by which it is pulled and the C(reference) that it gets.
    type: list
    elements: dict
    default: []
  transfer:
    description:
      - The C(reference) and the id (C(image)) of an image, and the names of C(sender) and C(receiver).
      - C(content) identifies the content of the image if it has another id in the receiver's image store.
    type: dict
  allowed:
    description:
      - Ids of all images in the archive on the controller.
    type: list
    elements: str
    default: []
  archive:
    description:
      - Path of the archive on the controller.
    type: path
  address:
    description:
      - Address on which this host serves, or at which it reaches the server.
    type: str
  source:
    description:
      - With O(state=received), the source address of this host for the connection to the server. By default any
        address.
    type: str
  ports:
    description:
      - First and last port that a server may use.
    type: list
    elements: int
    default: [8480, 8489]
  server:
    description:
      - With O(state=received), what V(serving) returned on the sender.
    type: dict
    default: {}
  servers:
    description:
      - The C(server) of each result of V(serving) whose server was not used.
    type: list
    elements: dict
    default: []
  secret:
    description:
      - Secret of this launch. The token that the two hosts of a transfer share is derived from it on the controller.
    type: str
  token:
    description:
      - Set by the action plugin of this module.
    type: str
  logins:
    description:
      - Set by the action plugin of this module, as JSON.
    type: str
requirements:
  - cryptography
seealso:
  - module: cluster_compute.session.session_decide
"""

EXAMPLES = r"""
- name: Pull the images of the session
  cluster_compute.session.session_images:
    state: pulled
    pulls:
      - reference: registry.example.com/train:1.4
        digest: registry.example.com/train@sha256:9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0
"""

RETURN = r"""
digests:
  description: By reference, the current digest in the registry.
  returned: with O(state=resolved)
  type: dict
pulled:
  description: By reference, the C(id) of the image, the C(bytes) received and the duration in C(seconds).
  returned: with O(state=pulled)
  type: dict
problems:
  description: By reference, why the image was not resolved or pulled.
  returned: with O(state=resolved) and O(state=pulled)
  type: dict
denied:
  description:
    - References of RV(problems) that the registry does not have, or for which it denies access. For the others, a later
      attempt may succeed.
  returned: with O(state=resolved) and O(state=pulled)
  type: list
  elements: str
port:
  description: The port on which the server listens.
  returned: with O(state=serving)
  type: int
fingerprint:
  description: SHA-256 fingerprint of the server's certificate.
  returned: with O(state=serving)
  type: str
server:
  description: Identity of the server's process.
  returned: with O(state=serving)
  type: dict
bytes:
  description: Size of the received archive. 0 if the host already had the image.
  returned: with O(state=loaded) and O(state=received)
  type: int
seconds:
  description: How long it took.
  returned: with O(state=loaded) and O(state=received)
  type: float
image:
  description:
    - The id of the received image if it differs from the id on the sender, otherwise empty.
  returned: with O(state=received)
  type: str
ended:
  description: How many servers still ran.
  returned: with O(state=ended)
  type: int
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import session_images
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["session_images"])
    module.exit_json(**answer(session_images.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
