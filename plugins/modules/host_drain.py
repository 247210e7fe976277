#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_drain
short_description: Drain a host, or accept new sessions on it again
version_added: 1.0.0
description:
  - A drained host accepts no new sessions. Sessions that run there continue and are still repaired. The host stores
    this state itself, so it applies to all controllers, whatever name they use for the host.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
  - cluster_compute.session.attributes.state_directory
options:
  state:
    description:
      - V(drained) for a host that accepts no new sessions, V(undrained) for one that does.
    type: str
    choices: [drained, undrained]
    default: drained
  reason:
    description:
      - Why the host is drained, as text for people.
    type: str
    default: ""
  by:
    description:
      - Who drains the host.
    type: str
    default: ""
  wait_seconds:
    description:
      - With O(state=drained), for how many seconds to wait until no session holds resources on this host. Check mode
        does not wait.
    type: int
    default: 0
seealso:
  - module: cluster_compute.session.host_info
"""

EXAMPLES = r"""
- name: Accept no new sessions while the memory is replaced
  cluster_compute.session.host_drain:
    reason: new memory on Friday
    by: alice
"""

RETURN = r"""
actions:
  description: What was, or in check mode would be, done.
  returned: success
  type: list
  elements: str
  sample: ["create drain new memory on Friday"]
sessions:
  description: The names of the sessions that hold resources on the host.
  returned: success
  type: list
  elements: str
  sample: [train]
"""
