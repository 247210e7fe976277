#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_request
short_description: Check the request of a user before any host is contacted
version_added: 1.0.0
description:
  - Reads the request from all Ansible variables whose names begin with C(session_), checks it, and reports everything
    that is wrong with it at once.
  - Runs on the controller and changes nothing.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes
options:
  only:
    description:
      - V(launch) checks the whole request.
      - V(name) checks only the session's name and its resource group, which is all that a playbook for an existing
        session needs.
      - V(group) checks only the resource group, and the name if one is given.
    type: str
    choices: [launch, name, group]
    default: launch
  own:
    description:
      - Request variables of a playbook that has its own session. The user's C(session_resource_group),
        C(session_image), C(session_image_pull), C(session_image_archive), C(session_image_from), C(session_owner) and
        C(session_encrypted) also apply, because they may be the same for all sessions of a site. Other variables of the
        user are ignored.
    type: dict
  queries:
    description: JMESPath expressions to check, by the names of the variables whose values they are. Empty ones are left
      out.
    type: dict
    default: {}
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
  description: Name of the session. Empty with O(only=group) if none is given.
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
  description: Hosts that the session may use. If empty, all hosts of the group.
  returned: when O(only=launch)
  type: list
  elements: str
excluded_hosts:
  description: Hosts that the session does not use.
  returned: when O(only=launch)
  type: list
  elements: str
request:
  description: The request in the form in which records store it.
  returned: when O(only=launch)
  type: dict
owner:
  description: The owner of the session - C(session_owner), or the AWX user, or the user who runs Ansible.
  returned: when O(only=launch)
  type: str
shared_with:
  description: Other users who may change, enter and read the session.
  returned: when O(only=launch)
  type: list
  elements: str
recreate:
  description: Whether to replace a session of the same name that was requested with a different specification.
  returned: when O(only=launch)
  type: bool
wait:
  description: Whether the launch waits until there is capacity.
  returned: when O(only=launch)
  type: bool
wait_seconds:
  description: For how many seconds it waits at most.
  returned: when O(only=launch)
  type: int
"""
