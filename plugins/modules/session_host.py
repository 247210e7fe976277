#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_host
short_description: Remove the part of a session on one host
version_added: 1.0.0
description:
  - Removes all parts of the session on this host, however much of it is left. They are found by labels, link aliases
    and stored state. Data directories and named volumes are kept. The output of the replicas is kept for some days.
  - The calls by which a session is created, started, changed and verified have the same name and other values of
    O(state). M(cluster_compute.session.session_step) makes them, and the classes in
    C(plugins/module_utils/_internal/core/model/call/session_host.py) document them.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
  - cluster_compute.session.attributes.state_directory
options:
  state:
    description: The only state that a task requests.
    type: str
    choices: [absent]
    required: true
  session_name:
    description: Name of the session. This or O(session_id) is required.
    type: str
  session_id:
    description: Removes only the session with this identifier.
    type: str
  asker:
    description:
      - With O(session_name), who makes the request. A session that belongs to another user, has not ended and is not
        shared is not changed.
      - The action plugin sets it to the AWX user, or else to the login name on the controller, if
        C(cluster_compute_admins) does not list that user.
    type: str
  scope:
    description:
      - With O(session_name), which sessions belong to the run. C(group) is its resource group, and C(elsewhere) are the
        hosts that the inventory has outside it. Any other session with the name is not changed, and is returned in
        RV(elsewhere).
      - The action plugin sets it.
    type: dict
  lease_owner:
    description: The run that makes the request.
    type: str
  unless_reserved:
    description: With O(session_id), changes nothing while a launch holds resources for the session.
    type: bool
    default: false
  judged_revision:
    description: With O(session_id), changes nothing if this host now has a newer record than this revision.
    type: int
  change_id:
    description:
      - The identifier of the change with which the host leaves the session. The module then fails if another change is
        in progress, and what is held for that change stays held.
    type: str
  keep_record:
    description: Keeps the session's record.
    type: bool
    default: false
  record:
    description: With O(keep_record), the new record of the session, which is stored before any part of it is removed.
    type: dict
  undo:
    description:
      - Also removes the data objects that the launch of the session created - volumes and empty directories.
    type: bool
    default: false
  keep_data:
    description:
      - With O(undo), keeps volumes that contain data, because they may not have been created by this launch.
    type: bool
    default: false
  recorded:
    description:
      - Identifiers of the sessions of which this host had records when its facts were collected. If a record no longer
        exists, the session was torn down in the meantime.
    type: list
    elements: str
    default: []
  output_size:
    description:
      - How many bytes of output to keep for each replica that is removed, as a number or with a unit. The newest output
        is kept. V(0) keeps nothing, and so does O(undo).
    type: str
    default: 16m
  output_days:
    description: For how many days to keep this output.
    type: int
    default: 7
  output_sessions:
    description: For how many ended sessions to keep output. The newest ones are kept.
    type: int
    default: 50
requirements:
  - cryptography
  - iproute2, iputils-ping, util-linux
seealso:
  - module: cluster_compute.session.session_step
"""

EXAMPLES = r"""
- name: Remove all parts of the session on this host
  cluster_compute.session.session_host:
    state: absent
    session_name: train
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in order.
  returned: success
  type: list
  elements: str
  sample:
    - remove container train-main1
    - remove network cc-3614fdf3
sick:
  description:
    - Whether the call failed because of a fault of this host, such as a full disk or an engine that does not answer.
  returned: failure, if that is so
  type: bool
elsewhere:
  description:
    - The sessions with this name that were not changed because of O(scope), each with its hosts, and with its resource
      group if the record has it. A session with containers but without a record has no C(status).
  returned: success
  type: list
  elements: dict
sessions:
  description: Identifier and name of each session of which this host had any part, with the hosts in its record.
  returned: success
  type: list
  elements: dict
tombstones:
  description: The tombstones of sessions with this name.
  returned: success
  type: list
  elements: dict
"""
