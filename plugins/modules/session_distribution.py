#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_distribution
short_description: Decide how the hosts of a session get the images that they lack
version_added: 0.1.0
description:
  - Settles on one image for each reference of a session, and says what each host does next to get it. It asks the
    registry, pulls by a digest, gives the image to another host or gets it from there.
  - Called once before all steps, and after each step with its results, until there is nothing left to do.
  - Runs on the controller and changes nothing.
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
      - What M(cluster_compute.session.session_plan) returned.
    type: dict
    required: true
  hosts:
    description:
      - For each host of the resource group the registered result of M(cluster_compute.session.host_info).
    type: dict
    required: true
  before:
    description:
      - What this module returned before the step that was taken now.
    type: dict
    default: {}
  asked:
    description:
      - Results by host of M(cluster_compute.session.session_images) with the state C(resolved).
    type: dict
    default: {}
  pulled:
    description:
      - Results by host, with the state C(pulled).
    type: dict
    default: {}
  served:
    description:
      - Results by host, with the state C(serving).
    type: dict
    default: {}
  arrived:
    description:
      - Results by host, with the state C(loaded) or C(received).
    type: dict
    default: {}
seealso:
  - module: cluster_compute.session.session_plan
  - module: cluster_compute.session.session_images
"""

EXAMPLES = r"""
- name: See how the images get to the hosts that lack them
  cluster_compute.session.session_distribution:
    plan: "{{ launch_plan }}"
    hosts:
      h1: "{{ hostvars['h1']['launch_host'] }}"
      h2: "{{ hostvars['h2']['launch_host'] }}"
  register: launch_images
  run_once: true
"""

RETURN = r"""
needs:
  description: What is known of each image reference.
  returned: success
  type: list
  elements: dict
asks:
  description: By host the references whose digests it asks the registry for.
  returned: success
  type: dict
pulls:
  description: By host the images that it pulls, each with C(reference) and C(digest).
  returned: success
  type: dict
round:
  description: Number of the round of transfers from host to host that comes next, from 1.
  returned: success
  type: int
rounds:
  description: How many rounds there are in all, if all goes well.
  returned: success
  type: int
progress:
  description: What comes next, for people - how many hosts pull, or which round it is of how many.
  returned: success
  type: str
  sample: "round 2 of 3, hosts: 2"
loads:
  description: Hosts that get an image from the controller in this round.
  returned: success
  type: list
  elements: str
serves:
  description: By sender the transfer that it serves in this round.
  returned: success
  type: dict
receives:
  description: By receiver the transfer that it gets in this round.
  returned: success
  type: dict
addresses:
  description: By sender the address on which it serves.
  returned: success
  type: dict
ports:
  description: First and last of the ports that servers use.
  returned: success
  type: list
  elements: int
useless:
  description: By host the servers whose transfers failed, which may still wait.
  returned: success
  type: dict
report:
  description: What the last step has brought, line by line.
  returned: success
  type: list
  elements: str
results:
  description: By host C(present), or C(msg) with the reason where an image is still missing.
  returned: success
  type: dict
plan:
  description: The plan of the launch with the images, by id, that its references mean.
  returned: success
  type: dict
"""
