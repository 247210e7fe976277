#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_runtime
short_description: Build the SSH server and client that replicas of any image get
version_added: 0.1.0
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
from ansible_collections.cluster_compute.session.plugins.module_utils.core.environment import RUNTIME_ON_HOST
from ansible_collections.cluster_compute.session.plugins.module_utils.core.errors import SessionError, message_of
from ansible_collections.cluster_compute.session.plugins.module_utils.host import ssh_runtime


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    try:
        done = ssh_runtime.install(module.check_mode)
    except (SessionError, OSError) as error:
        module.fail_json(msg=message_of(error))
    module.exit_json(changed=done.changed, path=RUNTIME_ON_HOST, diff={"before": done.before, "after": done.after})


if __name__ == "__main__":
    main()
