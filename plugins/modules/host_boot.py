#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_boot
short_description: Install the program that brings sessions back after a reboot
version_added: 1.0.0
description:
  - Puts one file on the host, a program for the host's Python. It does what
    M(cluster_compute.session.session_repair) does, from what the host itself knows, without a controller.
  - The file holds the part of this collection that the program needs, and nothing that changes from run to run, so a
    second run of the same release changes nothing.
  - What starts the program, and when, is not this module's concern. The role
    P(cluster_compute.session.prepare_hosts#role) sees to it.
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
    support: full
options:
  state:
    description:
      - V(present) installs the program or brings it to this release, V(absent) removes it.
    type: str
    choices: [present, absent]
    default: present
  path:
    description:
      - Where the program lies.
      - It is for root to change and for everybody to read; it holds no secret.
    type: path
    default: /usr/local/lib/cluster-compute/host.pyz
  output_size:
    description:
      - Most bytes that are kept of what each replica wrote of a session that the host ends by itself, the newest ones,
        as a number or with a unit. V(0) keeps nothing.
    type: str
    default: 16m
  output_days:
    description:
      - Days for which it is kept.
    type: int
    default: 7
  output_sessions:
    description:
      - Sessions that have ended of which it is kept at most, the newest ones.
    type: int
    default: 50
  share_half_life:
    description:
      - After how long what an owner's sessions have used on this host counts half, such as V(7d). Without it that is
        not counted.
    type: str
  metrics_directory:
    description:
      - Folder in which node_exporter of this host looks for text files; figures of sessions are written there, by the
        timer and after each call that may have changed something. Without it none are.
    type: path
  job_mapping_directory:
    description:
      - Folder of dcgm-exporter's C(--hpc-job-mapping-dir), in which a file for each NVIDIA card names the session that
        holds it. Files whose names are numbers are this collection's there. Without it nothing is written.
    type: path
seealso:
  - module: cluster_compute.session.session_repair
"""

EXAMPLES = r"""
- name: Install the program that brings sessions back
  cluster_compute.session.host_boot:

- name: Remove it
  cluster_compute.session.host_boot:
    state: absent
"""

RETURN = r"""
path:
  description: Where the program lies, or lay.
  returned: success
  type: str
  sample: /usr/local/lib/cluster-compute/host.pyz
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import host_boot
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["host_boot"])
    module.exit_json(**answer(host_boot.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
