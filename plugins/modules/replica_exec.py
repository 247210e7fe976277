#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: replica_exec
short_description: Run a command in a replica
version_added: 1.0.0
description:
  - Runs one command, without a shell, in a running replica of a session on this host, as the image's user.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: none
    details: In check mode the command is skipped.
  diff_mode:
    support: none
options:
  session_name:
    description:
      - Name of the session.
    type: str
    required: true
  replica:
    description:
      - Name of the replica.
    type: str
    default: main1
  command:
    description:
      - Program and arguments.
    type: list
    elements: str
    required: true
  user:
    description:
      - User to run as. The default is the user of the image.
    type: str
    default: ""
  asker:
    description:
      - Who makes the request. A session that belongs to another user and is not shared is rejected.
      - The action plugin sets it to the AWX user, or else to the login name on the controller, if
        C(cluster_compute_admins) does not list that user.
    type: str
"""

EXAMPLES = r"""
- name: Connect from main1 to sub1
  cluster_compute.session.replica_exec:
    session_name: train
    command: [ssh, sub1, hostname]
"""

RETURN = r"""
rc:
  description: Exit code of the command.
  returned: when the command ran
  type: int
stdout:
  description: Its standard output.
  returned: when the command ran
  type: str
stderr:
  description: Its standard error.
  returned: when the command ran
  type: str
"""
