#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_runtime
short_description: Build the SSH server and client for replicas of any image
version_added: 1.0.0
description:
  - Creates a directory on the host with the distribution's OpenSSH - server, C(ssh), C(scp) and C(sftp) - and its
    loader, libraries and licences. The files are relocated to the path at which replicas see them, so images do not
    need to contain OpenSSH.
  - If the server is not installed on a host of Debian's family, its files are taken from the distribution's package
    without installing it.
  - The role C(prepare_hosts) runs it. Run that role again after an update of OpenSSH or one of its libraries, to update
    the directory.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.private
requirements:
  - dpkg and apt, or rpm, or pacman
  - patchelf
"""

EXAMPLES = r"""
- name: Build the SSH runtime of replicas
  cluster_compute.session.ssh_runtime:
"""

RETURN = r"""
path:
  description: Path of the directory on the host.
  returned: success
  type: str
  sample: /usr/local/lib/cluster-compute/ssh-runtime
"""
