#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_runtime
short_description: Have replicas start with the address of their session first
version_added: 1.0.0
description:
  - Gives the engine of a host a runtime entry, C(cluster-compute), by which replicas of sessions with a network are
    started. It is the engine's own runtime, called by a script that puts the address of the session first in the
    replica's network before the program of the image begins, whoever starts the container.
  - The entry stands in the file that the engine has its settings from (C(/etc/docker/daemon.json), or the one of its
    C(--config-file)), beside what the site has there. The engine reads it while it runs; where it refuses, the file is
    as before.
  - Containers of others are not touched. They go on to use the engine's default runtime.
author:
  - The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - cluster_compute.session.attributes
  - cluster_compute.session.attributes.internal
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  state:
    description:
      - V(present) makes the entry, V(absent) takes it away, which is refused while containers were made with it.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: cluster_compute.session.host_preflight
"""

EXAMPLES = r"""
- name: Have replicas start with the address of their session first
  cluster_compute.session.host_runtime:

- name: Take the entry away
  cluster_compute.session.host_runtime:
    state: absent
"""

RETURN = r"""
actions:
  description: What was, or in check mode would be, done.
  returned: success
  type: list
  elements: str
  sample:
    - create file /usr/local/lib/cluster-compute/runtime
    - set engine setting runtime cluster-compute in /etc/docker/daemon.json
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.cluster_compute.session.plugins.module_utils.host.arguments import ARGUMENTS
from ansible_collections.cluster_compute.session.plugins.module_utils.host.calls import host_runtime
from ansible_collections.cluster_compute.session.plugins.module_utils.host.program import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**ARGUMENTS["host_runtime"])
    module.exit_json(**answer(host_runtime.call, module.params, module.check_mode))


if __name__ == "__main__":
    main()
