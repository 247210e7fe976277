#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_runtime
short_description: Build the SSH server and client that replicas of any image get
version_added: 1.0.0
description:
  - Makes a folder on the host that holds the distribution's OpenSSH - server, C(ssh), C(scp), C(sftp) - with its
    loader, its libraries and its licences, relocated to the place where replicas find it. Their images need none of it.
  - A server that is not installed on the host is taken from the distribution's packages without being installed.
  - Run again after OpenSSH or a library of it was updated, it brings the folder to the new state.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
requirements:
  - dpkg, apt
  - patchelf
"""

EXAMPLES = r"""
- name: Build the SSH runtime of replicas
  cluster_compute.session.ssh_runtime:
"""

RETURN = r"""
path:
  description: Where the folder lies on the host.
  returned: success
  type: str
  sample: /usr/local/lib/cluster-compute/ssh-runtime
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import ssh_runtime
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["ssh_runtime"])
    module.exit_json(**answer(ssh_runtime.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
