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
  - With O(state=open) starts an app in main1 as a job, on a port of main1's own loopback address, and waits until it
    listens. One that runs already is left as it is.
  - With O(state=closed) ends it, or all apps of the session.
  - The app's token is made on the host. It is returned to nobody; the action writes it, with what the owner has to run
    and open, to O(answer_file) on the controller.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.internal
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
      - Name of the app. Required with O(state=open); without it all are closed.
    type: str
    default: ""
  ways:
    description:
      - The ways to start it, of which the first is taken whose program the image has, as
        M(cluster_compute.session.session_apps) returns them. Required with O(state=open).
    type: list
    elements: dict
    default: []
  directory:
    description:
      - The folder in main1 that it begins in; the image's own by default.
    type: str
    default: ""
  seconds:
    description:
      - For how long it may take to listen.
    type: int
    default: 60
  output_size:
    description:
      - Most bytes that are kept of what it writes.
    type: str
    default: 16m
  asker:
    description:
      - Who asks. A session of somebody else that is not shared with them is refused.
      - The action sets it, to the user of AWX or else the login name on the controller, where the site's
        C(cluster_compute_admins) do not name them.
    type: str
  answer_file:
    description:
      - File of the controller for the owner's two lines, which the owner alone reads. Used with O(state=open).
    type: str
    default: ""
  configuration:
    description:
      - The owner's SSH client configuration, which the first of them names. Used with O(state=open).
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
  description: The command that brings the app's port to its owner's machine.
  returned: with O(state=open), outside of check mode
  type: str
url:
  description: Where the browser finds the app then, without its token.
  returned: with O(state=open), outside of check mode
  type: str
answer_file:
  description: The file of the controller that holds both, with the token.
  returned: with O(state=open), outside of check mode
  type: str
port:
  description: The app's port in main1.
  returned: with O(state=open), outside of check mode
  type: int
job:
  description: The job that the app is.
  returned: with O(state=open), outside of check mode
  type: str
command:
  description: What starts it, with its placeholders.
  returned: with O(state=open)
  type: list
  elements: str
without_token:
  description: Whether the app lets in whoever reaches its port.
  returned: with O(state=open)
  type: bool
lines:
  description: What to tell the owner.
  returned: with O(state=open)
  type: list
  elements: str
closed:
  description: The apps that were open.
  returned: with O(state=closed)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import session_app
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["session_app"])
    module.exit_json(**answer(session_app.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
