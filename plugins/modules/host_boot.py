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
  - Installs one file on the host, a program that the host's Python runs. It repairs
    the sessions of the host, as P(cluster_compute.session.repair#role) does, with the state that is stored on the host,
    so it needs no controller.
  - The file contains the part of this collection that the program needs, and nothing that changes from run to run. A
    second run of the same release therefore changes nothing.
  - This module does not start the program. The role P(cluster_compute.session.prepare_hosts#role) installs the services
    that do.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
  - cluster_compute.session.attributes.state_directory
options:
  state:
    description:
      - V(present) installs the program or updates it to this release. V(absent) removes it.
    type: str
    choices: [present, absent]
    default: present
  path:
    description:
      - Path of the program.
      - Only root can change the file, and every user can read it. It contains no secrets.
    type: path
    default: /usr/local/lib/cluster-compute/host.pyz
  output_size:
    description:
      - How many bytes of output to keep for each replica when the host itself ends a session, as a number or with a
        unit. The newest output is kept. V(0) keeps nothing.
    type: str
    default: 16m
  output_days:
    description:
      - How many days to keep this output.
    type: int
    default: 7
  output_sessions:
    description:
      - For how many ended sessions to keep output. The newest ones are kept.
    type: int
    default: 50
  share_half_life:
    description:
      - Half-life of the recorded use of this host by each owner's sessions, such as V(7d). After that time, past use
        counts half. Without this option, use is not recorded.
    type: str
  metrics_directory:
    description:
      - Directory from which this host's node_exporter reads text files. The timer writes metrics of sessions there, and
        so does each call that may have changed something. Without this option, no metrics are written.
    type: path
  job_mapping_directory:
    description:
      - Directory of dcgm-exporter's C(--hpc-job-mapping-dir). A file for each NVIDIA GPU there names the session that
        holds the GPU. This collection owns all files in it whose names are numbers. Without this option, nothing is
        written.
    type: path
"""

EXAMPLES = r"""
- name: Install the program that restores sessions after a reboot
  cluster_compute.session.host_boot:

- name: Remove the program
  cluster_compute.session.host_boot:
    state: absent
"""

RETURN = r"""
path:
  description: Path of the program, also after its removal.
  returned: success
  type: str
  sample: /usr/local/lib/cluster-compute/host.pyz
"""
