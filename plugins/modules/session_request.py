#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_request
short_description: Check what a user asks for before any host is touched
version_added: 1.0.0
description:
  - Reads the request from the variables whose names begin with C(session_), from wherever Ansible has them, checks it,
    and reports everything that is wrong with it at once.
  - Runs on the controller and changes nothing.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
options:
  only:
    description:
      - V(launch) checks the whole request; V(name) only the session's name and its resource group, which is all that
        a playbook for an existing session needs; V(group) only the resource group, and the name where one is given.
    type: str
    choices: [launch, name, group]
    default: launch
  own:
    description:
      - Variables of the request of a playbook that has a session of its own. Of the user's variables count besides
        C(session_resource_group), C(session_image), C(session_image_pull), C(session_image_archive), C(session_owner)
        and C(session_encrypted), which may be the same for all sessions of a site.
    type: dict
seealso:
  - module: cluster_compute.session.session_decide
"""

EXAMPLES = r"""
- name: Check the request
  cluster_compute.session.session_request:
  register: cluster_compute_request
"""

RETURN = r"""
session_name:
  description: Name of the session; empty where O(only=group) and none is given.
  returned: success
  type: str
resource_group:
  description: Inventory group whose hosts the session may use.
  returned: success
  type: str
images:
  description: Images that the session needs.
  returned: when O(only=launch)
  type: list
  elements: str
paths:
  description: Host paths that the session mounts.
  returned: when O(only=launch)
  type: list
  elements: str
only_hosts:
  description: Hosts that the session may use, all of the group where there are none.
  returned: when O(only=launch)
  type: list
  elements: str
excluded_hosts:
  description: Hosts that the session leaves out.
  returned: when O(only=launch)
  type: list
  elements: str
request:
  description: The request in the form that records carry.
  returned: when O(only=launch)
  type: dict
owner:
  description: Whose session it is - C(session_owner), or the user of AWX, or the user who runs Ansible.
  returned: when O(only=launch)
  type: str
shared_with:
  description: Who else may change, enter and read the session.
  returned: when O(only=launch)
  type: list
  elements: str
recreate:
  description: Whether a session of the same name that was asked for differently is replaced.
  returned: when O(only=launch)
  type: bool
wait:
  description: Whether the launch waits until there is room.
  returned: when O(only=launch)
  type: bool
wait_seconds:
  description: For how long it waits at most.
  returned: when O(only=launch)
  type: int
"""
