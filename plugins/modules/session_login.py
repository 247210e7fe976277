#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_login
short_description: Return the SSH client configuration for the owner of a session
version_added: 1.0.0
description:
  - Returns an SSH client configuration and the host keys for it. With them, the owner of a session logs in to its main
    replica and, through it, to every other replica.
  - Fails if the session does not exist, waits, has ended, or was launched without C(session_authorized_keys).
  - Runs on the controller and changes nothing.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes.info
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
options:
  hosts:
    description:
      - A mapping from the hosts of the resource group to the registered results of
        M(cluster_compute.session.host_info), each with its option O(cluster_compute.session.host_info#module:ways_in).
    type: dict
    required: true
  session_name:
    description:
      - Name of the session.
    type: str
    required: true
  resource_group:
    description:
      - Name of the resource group.
    type: str
    required: true
  directory:
    description:
      - The directory on the controller for the files.
    type: str
    required: true
  identity_file:
    description:
      - The owner's private key. Needed only if SSH does not try this key by default. The file is not read.
    type: str
    default: ""
seealso:
  - module: cluster_compute.session.host_info
"""

EXAMPLES = r"""
- name: Get the owner's SSH client configuration
  cluster_compute.session.session_login:
    hosts: "{{ dict(ansible_play_hosts_all | zip(ansible_play_hosts_all | map('extract', hostvars, 'login_host'))) }}"
    session_name: train
    resource_group: cluster_compute_hosts
    directory: ~/.ssh/cluster-compute/train
  register: login_written
  run_once: true
"""

RETURN = r"""
directory:
  description: The directory, as an absolute path.
  returned: success
  type: str
files:
  description: The files by name, V(config) and V(known_hosts).
  returned: success
  type: dict
session_id:
  description: Identifier of the session.
  returned: success
  type: str
main_host:
  description: The host of its main replica.
  returned: success
  type: str
lines:
  description: How to log in to each replica.
  returned: success
  type: list
  elements: str
  sample:
    - ssh -F /home/alice/.ssh/cluster-compute/train/config main1
"""
