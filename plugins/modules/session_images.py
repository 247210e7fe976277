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
  - Does what M(cluster_compute.session.session_decide) has decided for this host. Pulls images by their digests,
    side by side; or gives an image to another host, or gets one from there or from the controller.
  - Credentials of registries come from the variable C(cluster_compute_registries) of the host. They are handed to
    Docker Engine and written nowhere. Ansible's pipelining is used in any case, so that no file holds them either.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.internal
attributes:
  check_mode:
    support: partial
    details: Tells what would be fetched, but not whether it can be had.
  diff_mode:
    support: none
options:
  state:
    description:
      - V(resolved) asks the registry for the digests of O(images).
      - V(pulled) pulls O(pulls).
      - V(loaded) brings O(transfer) from an archive on the controller.
      - V(serving) starts a server that gives O(transfer) to one other host, then ends.
      - V(received) gets O(transfer) from a server.
      - V(ended) ends O(servers) that still wait.
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
      - Images to pull, each with the C(reference) that it is given and the C(digest) by which it is pulled.
    type: list
    elements: dict
    default: []
  transfer:
    description:
      - The C(reference) and the id (C(image)) of an image, and the names of C(sender) and C(receiver).
      - C(content) tells what the image consists of where the receiver's store of images gives it another id.
    type: dict
  allowed:
    description:
      - Ids of all images that the archive on the controller holds.
    type: list
    elements: str
    default: []
  archive:
    description:
      - Path of the archive on the controller.
    type: path
  address:
    description:
      - Address on which this host serves, or by which it reaches the server.
    type: str
  source:
    description:
      - Address of this host by which it reaches the server, with O(state=received). By default any.
    type: str
  ports:
    description:
      - First and last port of those that a server may use.
    type: list
    elements: int
    default: [8480, 8489]
  server:
    description:
      - What V(serving) returned on the sender, with O(state=received).
    type: dict
    default: {}
  servers:
    description:
      - The C(server) of each result of V(serving) that was of no use.
    type: list
    elements: dict
    default: []
  secret:
    description:
      - Secret of this launch. The token that the two hosts of a transfer share is derived from it on the controller.
    type: str
  token:
    description:
      - Set by the action of this module.
    type: str
  logins:
    description:
      - Set by the action of this module, as JSON.
    type: str
requirements:
  - cryptography
seealso:
  - module: cluster_compute.session.session_decide
"""

EXAMPLES = r"""
- name: Pull what the session needs
  cluster_compute.session.session_images:
    state: pulled
    pulls:
      - reference: registry.example.com/train:1.4
        digest: registry.example.com/train@sha256:9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0
"""

RETURN = r"""
digests:
  description: By reference the digest that the registry has now.
  returned: with O(state=resolved)
  type: dict
pulled:
  description: By reference the C(id) of the image, the C(bytes) that came and the C(seconds) that it took.
  returned: with O(state=pulled)
  type: dict
problems:
  description: By reference why it was not resolved or pulled.
  returned: with O(state=resolved) and O(state=pulled)
  type: dict
denied:
  description:
    - Those of RV(problems) that the registry does not have, or does not give to who asks. The others may come later.
  returned: with O(state=resolved) and O(state=pulled)
  type: list
  elements: str
port:
  description: Where the server listens.
  returned: with O(state=serving)
  type: int
fingerprint:
  description: SHA-256 of the certificate that the server shows.
  returned: with O(state=serving)
  type: str
server:
  description: What tells the server's process from others.
  returned: with O(state=serving)
  type: dict
bytes:
  description: Size of the archive that came; 0 where the host had the image already.
  returned: with O(state=loaded) and O(state=received)
  type: int
seconds:
  description: How long that took.
  returned: with O(state=loaded) and O(state=received)
  type: float
image:
  description:
    - The id of the image that came, where this host's store gives it another one than the sender's; else empty.
  returned: with O(state=received)
  type: str
ended:
  description: How many servers were still there.
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
