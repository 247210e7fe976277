#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: session_app
short_description: Open an app in main1 of a session on this host, or close it
version_added: 1.0.0
description:
  - With O(state=open), starts an app in main1 as a job, on a port of main1's own loopback address, and waits until it
    listens. An app that already runs is not changed.
  - With O(state=closed), ends one app or all apps of the session.
  - The app's token is created on the host and is not in the result. The action plugin writes it to O(answer_file) on
    the controller, together with the command that the owner runs and the address that the owner opens.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
  - cluster_compute.session.attributes.state_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  state:
    description:
      - What to do.
    type: str
    choices: [open, closed]
    default: open
  session_name:
    description:
      - Name of the session.
    type: str
    required: true
  session_id:
    description:
      - Identifier of the session. Required with O(state=open).
    type: str
  host:
    description:
      - Name of this host. Required with O(state=open).
    type: str
  app:
    description:
      - Name of the app. Required with O(state=open). With O(state=closed), all apps are closed if it is empty.
    type: str
    default: ""
  ways:
    description:
      - The ways to start the app, as M(cluster_compute.session.session_apps) returns them. The first one whose program
        is in the image is used. Required with O(state=open).
    type: list
    elements: dict
    default: []
  directory:
    description:
      - The working directory of the app in main1. The default is that of the image.
    type: str
    default: ""
  seconds:
    description:
      - How many seconds the app may take until it listens.
    type: int
    default: 60
  output_size:
    description:
      - Maximum number of bytes to keep of the app's output.
    type: str
    default: 16m
  asker:
    description:
      - Who makes the request. A session that belongs to another user and is not shared is rejected.
      - The action plugin sets it to the AWX user, or else to the login name on the controller, if
        C(cluster_compute_admins) does not list that user.
    type: str
  answer_file:
    description:
      - File on the controller for the command and the address, which only the owner can read. Used with O(state=open).
    type: str
    default: ""
  configuration:
    description:
      - The owner's SSH client configuration, which the command uses. Used with O(state=open).
    type: str
    default: ""
seealso:
  - module: cluster_compute.session.session_apps
  - module: cluster_compute.session.session_login
"""

EXAMPLES = r"""
- name: Open a notebook
  cluster_compute.session.session_app:
    session_name: train
    session_id: "{{ login_written.session_id }}"
    host: "{{ inventory_hostname }}"
    app: jupyter
    ways: "{{ cluster_compute_app.request.ways }}"
    answer_file: ~/.ssh/cluster-compute/train/app-jupyter
    configuration: ~/.ssh/cluster-compute/train/config
  when: inventory_hostname == login_written.main_host
  no_log: true
"""

RETURN = r"""
ssh:
  description: The command that forwards the app's port to its owner's machine.
  returned: with O(state=open), outside of check mode
  type: str
url:
  description: The address of the app in the browser after that, without its token.
  returned: with O(state=open), outside of check mode
  type: str
answer_file:
  description: The file on the controller that contains both, with the token.
  returned: with O(state=open), outside of check mode
  type: str
port:
  description: The app's port in main1.
  returned: with O(state=open), outside of check mode
  type: int
job:
  description: Identifier of the app's job.
  returned: with O(state=open), outside of check mode
  type: str
command:
  description: The command that starts the app, with its placeholders.
  returned: with O(state=open)
  type: list
  elements: str
without_token:
  description: Whether the app has no token, so that any process that reaches its port can use it.
  returned: with O(state=open)
  type: bool
lines:
  description: Messages for the owner.
  returned: with O(state=open)
  type: list
  elements: str
closed:
  description: The apps that were open.
  returned: with O(state=closed)
  type: list
  elements: str
"""
