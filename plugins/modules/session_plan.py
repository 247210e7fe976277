#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_plan
short_description: Decide where each replica of a session runs and what it is given
version_added: 0.1.0
description:
  - Computes the plan of a session from the request and the facts of the hosts, or takes the recorded plan of a session
    that exists. Sessions that wait in the queue have the first right to what is free.
  - Runs on the controller and changes nothing.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  hosts:
    description:
      - For each host of the resource group the registered result of M(cluster_compute.session.host_info).
      - A host that could not be reached is left out with a warning.
    type: dict
    required: true
  request:
    description:
      - What M(cluster_compute.session.session_request) returned.
    type: dict
    required: true
  tidy:
    description:
      - Whether what nobody owns any more has been removed from the hosts already.
    type: bool
    default: false
  waits:
    description:
      - The record of the session as it was last seen, where it waits in the queue already. One that has left the queue
        meanwhile is not launched.
    type: dict
    default: {}
  queued:
    description:
      - Whether the session comes from the queue. One that cannot be launched is no failure then, but leaves the queue.
    type: bool
    default: false
seealso:
  - module: cluster_compute.session.host_info
  - module: cluster_compute.session.session_host
"""

EXAMPLES = r"""
- name: Plan the session
  cluster_compute.session.session_plan:
    hosts:
      h1: "{{ hostvars['h1']['launch_host'] }}"
      h2: "{{ hostvars['h2']['launch_host'] }}"
    request: "{{ cluster_compute_request }}"
  register: launch_plan
  run_once: true
"""

RETURN = r"""
status:
  description: V(SCHEDULED) if the session has a place, V(PENDING) if there is none, V(WAITING) if one may be free in a
    moment, V(UNTIDY) if there is something to remove first, V(REFUSED) if one from the queue cannot be launched,
    V(CANCELLED) if it has left the queue meanwhile.
  returned: success
  type: str
holder:
  description: A new identifier for the reservations of this run of the launch.
  returned: success
  type: str
reachable:
  description: Hosts that answered, in the order of the inventory.
  returned: success
  type: list
  elements: str
session_name:
  description: Name of the session.
  returned: success
  type: str
fresh:
  description: Whether the session is a new one, so that a failed launch may remove all of it.
  returned: success
  type: bool
replaces:
  description: Whether a session of the same name has to be removed first.
  returned: success
  type: bool
hosts:
  description: Hosts that run replicas, in the order of the inventory.
  returned: success
  type: list
  elements: str
fetches:
  description: Those of the hosts that lack an image, or may, as far as is known before the registry was asked.
  returned: success
  type: list
  elements: str
images:
  description: For each image reference of the session what it means, who has it and how the others get it, for
    M(cluster_compute.session.session_distribution).
  returned: success
  type: list
  elements: dict
archive:
  description: Ids of the images that the archive on the controller holds, where there is one.
  returned: success
  type: list
  elements: str
claims:
  description: For each of the hosts the C(claim) of the session, and the C(room) that sessions have there in all.
  returned: success
  type: dict
record:
  description: The record of the session, as its hosts are to have it; null while it is pending.
  returned: success
  type: dict
pending:
  description: The record that says that the session waits; null where it shall not.
  returned: success
  type: dict
chores:
  description: What has to be written and removed where it is V(UNTIDY), for the role cleanup.
  returned: success
  type: dict
report:
  description: The outcome for people, line by line.
  returned: success
  type: list
  elements: str
"""
