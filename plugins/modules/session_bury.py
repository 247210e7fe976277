#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_bury
short_description: Tell what a teardown has to remember of hosts that did not take part in it
version_added: 0.1.0
description:
  - Looks at what every host answered to the removal of a session, and returns the tombstones that the others have to
    keep for hosts that could not be reached.
  - Runs on the controller and changes nothing.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.info
options:
  results:
    description:
      - For each host the registered result of M(cluster_compute.session.session_host) in its state V(absent).
    type: dict
    required: true
seealso:
  - module: cluster_compute.session.session_record
"""

EXAMPLES = r"""
- name: See which hosts have to be cleaned later
  cluster_compute.session.session_bury:
    results:
      h1: "{{ hostvars['h1']['teardown_removed'] }}"
      h2: "{{ hostvars['h2']['teardown_removed'] }}"
  register: teardown_burial
  run_once: true
"""

RETURN = r"""
tombstones:
  description: Tombstones to set, each with C(id), C(name) and C(hosts).
  returned: success
  type: list
  elements: dict
forget:
  description: Identifiers of sessions whose tombstones have done their work.
  returned: success
  type: list
  elements: str
report:
  description: What could not be removed, for people; empty where all of it was.
  returned: success
  type: list
  elements: str
"""
